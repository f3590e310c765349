"""Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495).

The strategy is 'future': the new goal is one that the same episode achieved after this step or a later one.
"""

from typing import Any

import numpy as np

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import last_observation
from tfbaselines.envs.wrappers import ACHIEVED, DESIRED, ComputeReward, check_goals
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.replay import Batch, Replay, reshaped

# Stands for the last step of an unfinished episode.
OPEN = np.iinfo(np.int64).max


class HindsightReplay(Replay):
    """A replay of Dict observations with the keys observation, achieved_goal and desired_goal.

    Unfinished episodes count as far as they are stored. Rewards and goals of sampled rows change, terminations do not:
    the replay is meant for environments with episodes that end by their time limit.

    Args:
        env: see Storage, as for size, gamma and keep_ends.
        compute_reward: function of achieved and desired goals that returns rewards, on the scale of the stored ones.
        replay_k: number of rows with a new goal for each row with its original goal.
    """

    def __init__(
        self,
        env: VecEnv,
        size: int,
        gamma: float = 0.99,
        *,
        compute_reward: ComputeReward,
        replay_k: float = 4,
        keep_ends: bool = False,
        reward_clip: float | None = None,
    ) -> None:
        check_goals(env)
        space = env.observation_space[ACHIEVED]
        # The goal achieved after each step, at the end of an episode included.
        extra = {"achieved_after": (space.shape, observation_dtype(space))}
        super().__init__(env, size, gamma, extra=extra, keep_ends=keep_ends, reward_clip=reward_clip)
        self._compute_reward = compute_reward
        self._probability = 1.0 - 1.0 / (1.0 + replay_k)
        self._episode_end = np.full((self._slots, self.num_envs), OPEN)
        self._episode_begin = np.zeros(self.num_envs, np.int64)

    def put(
        self,
        obs: Any,
        actions: np.ndarray,
        rewards: np.ndarray,
        next_obs: Any,
        dones: np.ndarray,
        infos: list[dict[str, Any]],
        states: np.ndarray | None = None,
    ) -> None:
        step, t = self.steps, self._head
        super().put(obs, actions, rewards, next_obs, dones, infos, states)
        achieved = self._arrays["achieved_after"]
        achieved[t], self._episode_end[t] = next_obs[ACHIEVED], OPEN
        for i in np.flatnonzero(dones):
            achieved[t, i] = last_observation(infos[i])[ACHIEVED]
            begin = max(self._episode_begin[i], self.steps - len(self) // self.num_envs)
            self._episode_end[np.arange(begin, step + 1) % self._slots, i] = step
            self._episode_begin[i] = step + 1

    def sample(self, rng: np.random.Generator, batches: int, batch_size: int) -> Batch:
        """Draw transitions; replay_k / (1 + replay_k) of the rows get a new goal."""
        return reshaped(self._in_hindsight(rng, self._draw(rng, batches * batch_size)), (batches, batch_size))

    def sample_latest(self, rng: np.random.Generator, steps: int) -> Batch:
        """Draw as many transitions [steps * N, ...] as the latest steps have, among these, in the way of `sample`."""
        count, steps = steps * self.num_envs, min(steps, self.reach)
        age = rng.integers(1, steps + 1, size=count)
        return self._in_hindsight(rng, (self.steps - age) * self.num_envs + rng.integers(self.num_envs, size=count))

    def _in_hindsight(self, rng: np.random.Generator, rows: np.ndarray) -> Batch:
        """Gather transitions by their row numbers [B], most with a new goal."""
        batch = self.gather(rows)
        slots, envs, age = self._locate(batch["rows"])
        step, end = self.steps - age, np.minimum(self._episode_end[slots, envs], self.steps - 1)
        chosen = rng.random(len(slots)) < self._probability
        later = step + (rng.random(len(slots)) * (end - step + 1)).astype(np.int64)
        goals = self._arrays["achieved_after"][later % self._slots, envs][chosen]
        for name in {"obs", "next_obs", "following"} & batch.keys():
            batch[name][DESIRED][chosen] = goals
        achieved = self._arrays["achieved_after"][slots, envs][chosen]
        batch["rewards"][chosen] = self._clipped(self._compute_reward(achieved, goals, {}))
        return batch

    def _restore_about(self, about: dict[str, Any]) -> None:
        steps = np.arange(*self.span())
        slots = steps % self._slots
        over = self._arrays["terminated"][slots] | self._arrays["truncated"][slots]
        for i in range(self.num_envs):
            ends = steps[over[:, i]]
            # Steps after the last end belong to an open episode.
            self._episode_end[slots, i] = np.append(ends, OPEN)[np.searchsorted(ends, steps)]
            self._episode_begin[i] = ends[-1] + 1 if len(ends) else 0
