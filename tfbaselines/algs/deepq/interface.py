"""Names that baselines' deepq has beside learn(): a model that can be called, replay buffers and schedules."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfbaselines.algs.deepq.buffers import MinSegmentTree, PrioritizedReplayBuffer, ReplayBuffer, SumSegmentTree
from tfbaselines.config.schedules import ConstantSchedule, LinearSchedule, PiecewiseSchedule
from tfbaselines.errors import UsageError
from tfbaselines.training.off_policy import OffPolicyModel, OffPolicyRun

__all__ = [
    "ActWrapper",
    "ConstantSchedule",
    "LinearSchedule",
    "MinSegmentTree",
    "PiecewiseSchedule",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "SumSegmentTree",
    "load_act",
]


class ActWrapper(OffPolicyModel):
    """A model that can be called as in baselines: ``act(obs[None])[0]``."""

    def __call__(self, obs: Any, stochastic: bool = True, update_eps: float = -1.0) -> np.ndarray:
        """Choose actions [N] for observations [N, ...].

        Args:
            obs: the observations.
            stochastic: take random actions with probability epsilon.
            update_eps: the new epsilon; a negative number leaves it unchanged.
        """
        if update_eps >= 0:
            self.policy.head.epsilon = update_eps
        return self.act(obs, deterministic=not stochastic)[0]


def with_callback(explore: Any, run: OffPolicyRun, callback: Callable[[dict, dict], Any] | None) -> Any:
    """Call baselines' callback before each choice of actions; training stops when it returns True.

    Args:
        explore: chooses actions, and counts the steps.
        run: the run.
        callback: function of two dictionaries, of local and global names; None returns `explore` itself.
    """
    if callback is None:
        return explore

    def act(obs: Any, states: None, episode_start: np.ndarray) -> tuple[np.ndarray, None]:
        if callback(locals_of(run, explore.steps), {}):
            run.stop()
        return explore(obs, states, episode_start)

    return act


def locals_of(run: OffPolicyRun, t: int) -> dict[str, Any]:
    """Return the local names that callbacks of baselines read; the unfinished episode counts as 0."""
    return {
        "run": run,
        "act": run.model,
        "env": run.env,
        "replay_buffer": run.replay,
        "t": t,
        "num_episodes": run.episodes.count + 1,
        "episode_rewards": [*run.episodes.rewards, 0.0],
        "mean_100ep_reward": run.episodes.mean_reward,
    }


def load_act(path: str) -> None:
    """Raise an error that names the replacement: a file holds only parameters, without the environment's spaces."""
    raise UsageError(
        f"load_act({path!r}): call learn(network, env, total_timesteps=0, load_path=path), or tfbaselines.load(path) "
        "if a run of the command line or its --save_path wrote the file"
    )
