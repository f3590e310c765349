"""Names that baselines' deepq has beside learn(): a model that can be called, replay buffers and schedules."""

from typing import Any

import numpy as np

from tfbaselines.algs.deepq.buffers import MinSegmentTree, PrioritizedReplayBuffer, ReplayBuffer, SumSegmentTree
from tfbaselines.config.schedules import ConstantSchedule, LinearSchedule, PiecewiseSchedule
from tfbaselines.errors import UsageError
from tfbaselines.training.off_policy import OffPolicyModel

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


def load_act(path: str) -> None:
    """Raise an error that names the replacement: a file holds only parameters, without the environment's spaces."""
    raise UsageError(
        f"load_act({path!r}): call learn(network, env, total_timesteps=0, load_path=path), or tfbaselines.load(path) "
        "if a run of the command line or its --save_path wrote the file"
    )
