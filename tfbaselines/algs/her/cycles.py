"""The cycles and epochs of HER.

A cycle is one episode of every environment, explored with noise and random actions. An epoch ends with tests: success
rates, values, and the best model.
"""

import dataclasses
from typing import Any

import numpy as np

from tfbaselines.algs.her import Config
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.wrappers import DESIRED, OBSERVATION, check_goals, episode_limit
from tfbaselines.errors import bad_argument
from tfbaselines.logs import logger
from tfbaselines.logs.statistics import mean_over_ranks, safe_mean
from tfbaselines.policy.bounded import BoundedHead
from tfbaselines.training.model import Part, PolicyModel
from tfbaselines.training.off_policy import Course, OffPolicyRun

# Statistics of gradient steps in the logs, if there are any.
LOSSES = ("Q_loss", "pi_loss", "cloning_loss")


class BestModel(Part):
    """Save the model to a file, unless it is None, whenever its success rate is the best so far."""

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
    """Act as a model does, and keep the critic's mean value of each batch of observations in `values`."""

    def __init__(self, model: Any) -> None:
        model.actor.refresh()
        self._model = model
        self.initial_states = model.initial_states
        self.values: list[float] = []

    def act(self, obs: Any, *rest: Any) -> tuple[np.ndarray, Any]:
        self.values.append(float(np.mean(self._model.value(obs))))
        return self._model.act(obs, *rest)


def successes(episodes: list[dict[str, Any]]) -> list[float]:
    """Return 1 for each episode that ended at its goal, else 0; episodes that do not report success are left out."""
    return [episode["is_success"] for episode in episodes if "is_success" in episode]


def epoch_row(run: OffPolicyRun, tested: PolicyModel) -> dict[str, Any]:
    """End an epoch: test the trained model or its target network; return the row, with means over ranks."""
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


# Cycles in an epoch, by the beginning of the environment's id.
CYCLES = {"FetchReach": 10}
USUAL_CYCLES = 50


def completed(config: Config, env: VecEnv) -> tuple[Config, int]:
    """Fill in the arguments that depend on the environments; also return the steps of an episode."""
    check_goals(env)
    if config.rollout_batch_size not in (None, env.num_envs):
        raise bad_argument("rollout_batch_size", config.rollout_batch_size, f"there are {env.num_envs} environments")
    if config.bc_loss != (config.demo_file is not None):
        raise bad_argument("bc_loss", config.bc_loss, "True with a demo_file, False without one")
    limits = [limit for limit in (config.max_ep_len, episode_limit(env)) if limit is not None]
    if not limits:
        raise bad_argument("max_ep_len", None, "give a number of steps: the environment has no time limit of its own")
    spec = env.unwrapped.example().spec
    cycles = [CYCLES[name] for name in CYCLES if spec is not None and spec.id.startswith(name)] or [USUAL_CYCLES]
    filled = {
        "rollout_batch_size": env.num_envs,
        "n_cycles": config.n_cycles or cycles[0],
        "gamma": 1.0 - 1.0 / min(limits) if config.gamma is None else config.gamma,
    }
    return dataclasses.replace(config, **filled), min(limits)


def course_of(config: Config, episode_steps: int) -> Course:
    """Return when a run collects and learns: a cycle is an episode of every environment."""
    return Course(
        steps=int(config.total_timesteps),
        collected=episode_steps,
        gradient_steps=config.n_batches,
        cycles_per_epoch=config.n_cycles,
        save_freq=config.policy_save_interval,
    )


class RewardCheck:
    """Warn once of rewards above 0 if the critic's targets are at most 0."""

    def __init__(self, clip_pos_returns: bool) -> None:
        self._needed = clip_pos_returns

    def __call__(self, rewards: np.ndarray) -> None:
        if self._needed and rewards.max() > 0:
            self._needed = False
            logger.warn("there are rewards above 0, and targets are at most 0: give clip_pos_returns=False")


def explored(
    actions: np.ndarray, head: BoundedHead, rng: np.random.Generator, noise_eps: float, random_eps: float
) -> np.ndarray:
    """Give actions [N, ...] Gaussian noise, in units of their bounds, and replace a share of them by random ones."""
    count, low, high = len(actions), head.center - head.limit, head.center + head.limit
    noisy = head.noisy(actions, noise_eps * head.limit * rng.standard_normal((count, head.width)))
    replaced = rng.binomial(1, random_eps, count).astype(bool)
    random = rng.uniform(low, high, (count, head.width)).reshape(actions.shape)
    chosen = np.where(replaced.reshape(count, *[1] * (actions.ndim - 1)), random, noisy)
    return chosen.astype(actions.dtype)
