"""The rows of HER's logs under the names of baselines."""

from typing import Any

import numpy as np

from tfbaselines.envs.wrappers import DESIRED, OBSERVATION
from tfbaselines.logs import logger
from tfbaselines.logs.rows import safe_mean


class HerRows:
    """Collects the numbers of an epoch's row; means over ranks.

    Args:
        run: the OffPolicyRun whose rows they are.
        tested: the model that tests are of: the trained one, or that of its targets.
    """

    def __init__(self, run: Any, tested: Any) -> None:
        self._run, self._tested = run, tested
        self._successes: list[float] = []
        self._losses: dict[str, list[np.ndarray]] = {}
        self._best = -np.inf
        self._warned = False

    def ready(self) -> None:
        """Nothing follows the parameters."""

    def observed(self) -> None:
        """Nothing depends on the statistics of observations."""

    def state(self) -> dict[str, Any]:
        """The best success rate, and the epoch so far."""
        return {
            "rows": {
                "best": self._best if np.isfinite(self._best) else None,
                "successes": np.array(self._successes, np.float64),
                "losses": {name: np.concatenate(arrays) for name, arrays in self._losses.items()},
            }
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        own = state["rows"]
        self._best = -np.inf if own["best"] is None else own["best"]
        self._successes = own["successes"].tolist()
        self._losses = {name: [array] for name, array in own["losses"].items()}

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """Remember how a cycle's episodes ended."""
        self._successes += _successes(episodes)

    def learnt(self, statistics: dict[str, np.ndarray]) -> None:
        """Remember the statistics of gradient steps."""
        for name, values in statistics.items():
            self._losses.setdefault(name, []).append(values)

    def warn_of_rewards(self, rewards: np.ndarray) -> None:
        """Warn, once, of rewards above 0, which targets of at most 0 do not show."""
        if not self._warned and rewards.max() > 0:
            self._warned = True
            logger.warn("there are rewards above 0, and targets are at most 0: give clip_pos_returns=False")

    def __call__(self) -> dict[str, Any]:
        """End the epoch: test, and give its row."""
        run = self._run
        row = {"train/success_rate": safe_mean(self._successes)}
        row |= {f"train/{name}": safe_mean(np.concatenate(arrays)) for name, arrays in self._losses.items()}
        if run.eval_env is not None:
            judge = _Judge(self._tested)
            row["test/success_rate"] = safe_mean(_successes(run.test(judge)))
            row["test/mean_Q"] = safe_mean(judge.values)
        means = run.comm.sum(np.array(list(row.values()), np.float64)) / run.comm.size
        row = dict(zip(row, means.tolist(), strict=True))
        self._save_best(row.get("test/success_rate", row["train/success_rate"]))
        self._successes, self._losses = [], {}
        return self._counters() | self._statistics() | row

    def _counters(self) -> dict[str, Any]:
        run = self._run
        tests = {} if run.eval_env is None else {"test/episode": run.eval_episodes.count}
        return tests | {
            "epoch": -(-run.update // run.course.cycles_per_epoch) - 1,
            "train/episode": run.episodes.count,
            "total_timesteps": run.timesteps,
            "time_elapsed": run.elapsed,
            "fps": run.fps,
        }

    def _statistics(self) -> dict[str, float]:
        """Means over the numbers of an observation and of a goal."""
        normalizer = self._run.model.policy.normalizer
        named = {"stats_o": OBSERVATION, "stats_g": DESIRED}
        return {
            f"{short}/{kind}": float(np.mean(getattr(normalizer[name], kind)))
            for short, name in named.items()
            if name in normalizer
            for kind in ("mean", "std")
        }

    def _save_best(self, rate: float) -> None:
        run = self._run
        # Where success is not known, the latest model.
        if run.config.save_path is not None and run.is_root and not rate < self._best:
            run.model.save(run.config.save_path)
        self._best = max(self._best, rate) if np.isfinite(rate) else self._best


class _Judge:
    """A model in a test, and the critic's values of what it does."""

    def __init__(self, model: Any) -> None:
        model.actor.refresh()
        self._model, self.initial_states = model, model.initial_states
        self.values: list[float] = []

    def act(self, obs: Any, *rest: Any) -> tuple[np.ndarray, Any]:
        """See PolicyModel."""
        self.values.append(float(np.mean(self._model.value(obs))))
        return self._model.act(obs, *rest)


def _successes(episodes: list[dict[str, Any]]) -> list[float]:
    """Of the episodes that say how they ended, 1 for each that ended at its goal."""
    return [episode["is_success"] for episode in episodes if "is_success" in episode]
