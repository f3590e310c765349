"""Evaluation of HER: success rates, values in tests, and the best model."""

from typing import Any

import numpy as np

from tfbaselines.envs.wrappers import DESIRED, OBSERVATION
from tfbaselines.logs.statistics import mean_over_ranks, safe_mean
from tfbaselines.training.model import Part, PolicyModel
from tfbaselines.training.off_policy import OffPolicyRun

# Statistics of gradient steps in the logs, if there are any.
LOSSES = ("Q_loss", "pi_loss", "cloning_loss")


class BestModel(Part):
    """Save the model whenever its success rate is the best so far.

    Args:
        path: file of the model; None to save nothing.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._best = -np.inf

    def state(self) -> dict[str, Any]:
        return {"best": self._best if np.isfinite(self._best) else None}

    def restore(self, state: dict[str, Any]) -> None:
        self._best = -np.inf if state["best"] is None else state["best"]

    def consider(self, model: PolicyModel, rate: float, is_root: bool) -> None:
        """Save the model if its success rate is not below the best, or if no rate is known."""
        if self._path is not None and is_root and not rate < self._best:
            model.save(self._path)
        self._best = max(self._best, rate) if np.isfinite(rate) else self._best


class ValuedModel:
    """Act as a model does, and keep the critic's mean value of each batch of observations.

    Attributes:
        values: mean values so far.

    Args:
        model: model that acts; its actor is brought up to date.
    """

    def __init__(self, model: Any) -> None:
        model.actor.refresh()
        self._model = model
        self.initial_states = model.initial_states
        self.values: list[float] = []

    def act(self, obs: Any, *rest: Any) -> tuple[np.ndarray, Any]:
        """Choose actions; see PolicyModel."""
        self.values.append(float(np.mean(self._model.value(obs))))
        return self._model.act(obs, *rest)


def successes(episodes: list[dict[str, Any]]) -> list[float]:
    """Return 1 for each episode that ended at its goal, else 0; episodes that do not report success are left out."""
    return [episode["is_success"] for episode in episodes if "is_success" in episode]


def epoch_row(run: OffPolicyRun, tested: PolicyModel) -> dict[str, Any]:
    """End an epoch: test, and return its row under baselines' names; means over ranks.

    Args:
        run: the run.
        tested: model that tests run: the trained one, or its target network.
    """
    table = run.table
    row = {"train/success_rate": table.mean("success")}
    row |= {f"train/{name}": table.mean(name) for name in LOSSES if table.count(name)}
    if run.eval_env is not None:
        valued = ValuedModel(tested)
        row["test/success_rate"] = safe_mean(successes(run.test(valued)))
        row["test/mean_Q"] = safe_mean(valued.values)
    table.forget()
    counters = {
        "epoch": run.epoch - 1,
        "train/episode": run.episodes.count,
        "total_timesteps": run.timesteps,
        "time_elapsed": run.elapsed,
        "fps": run.fps,
    }
    tests = {} if run.eval_env is None else {"test/episode": run.eval_episodes.count}
    return tests | counters | _normalization(run.model) | mean_over_ranks(row, run.comm)


def _normalization(model: PolicyModel) -> dict[str, float]:
    """Return the means over the numbers of an observation and of a goal."""
    normalizer = model.policy.normalizer
    named = {"stats_o": OBSERVATION, "stats_g": DESIRED}
    return {
        f"{short}/{kind}": float(np.mean(getattr(normalizer[name], kind)))
        for short, name in named.items()
        if name in normalizer
        for kind in ("mean", "std")
    }
