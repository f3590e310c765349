"""The on-policy runner: steps the environments with the current policy and lays out what happened as [T, N] arrays."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfbaselines.envs.vec import VecEnv
from tfbaselines.policy.actor import GraphActor, NumpyActor
from tfbaselines.policy.policy import Policy


@dataclass
class Rollout:
    """T steps of N environments. The arrays are the runner's own and are written again by its next run.

    Attributes:
        obs: [T, N, ...] observations before each step.
        actions: [T, N, ...] actions taken.
        rewards: [T, N].
        values: [T, N] value of obs.
        neglogps: [T, N] negative log probability of actions.
        episode_start: [T, N] whether obs is the first of an episode (the originals' episode_start).
        truncated: [T, N] whether the step was the last before a time limit.
        timeout_values: [T, N] value of the real last observation where the step was cut by a time limit, else 0.
        last_values: [N] value of the observation after the last step.
        last_episode_start: [N] whether that observation is the first of an episode.
        states: [N, S] recurrent state before the first step, or None.
        episodes: the infos' 'episode' entries of the episodes that ended.
    """

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    values: np.ndarray
    neglogps: np.ndarray
    episode_start: np.ndarray
    truncated: np.ndarray
    timeout_values: np.ndarray
    last_values: np.ndarray | None = None
    last_episode_start: np.ndarray | None = None
    states: np.ndarray | None = None
    episodes: list[dict[str, Any]] = field(default_factory=list)


class Runner:
    """Collects rollouts of `nsteps` steps, going on where the one before ended.

    Args:
        env: the environments.
        policy: says the shapes of actions and noise.
        actor: acts for it.
        nsteps: T.
        rng: generator of the sampling noise.
    """

    def __init__(
        self,
        env: VecEnv,
        policy: Policy,
        actor: NumpyActor | GraphActor,
        nsteps: int,
        rng: np.random.Generator,
    ) -> None:
        self._env, self._actor, self._head, self._rng = env, actor, policy.head, rng
        self.nsteps = nsteps
        shape = (nsteps, env.num_envs)
        space = env.observation_space
        obs_dtype = np.float32 if space.dtype == np.float64 else space.dtype
        self._rollout = Rollout(
            obs=np.zeros((*shape, *space.shape), obs_dtype),
            actions=np.zeros((*shape, *self._head.action_shape), self._head.action_dtype),
            rewards=np.zeros(shape, np.float32),
            values=np.zeros(shape, np.float32),
            neglogps=np.zeros(shape, np.float32),
            episode_start=np.zeros(shape, bool),
            truncated=np.zeros(shape, bool),
            timeout_values=np.zeros(shape, np.float32),
        )
        self._obs = np.zeros(shape[1:] + space.shape, obs_dtype)
        self._obs[...] = env.reset()
        self._dones = np.zeros(env.num_envs, bool)
        self._states = policy.initial_state(env.num_envs)

    def run(self) -> Rollout:
        """Step every environment nsteps times."""
        rollout, noise = self._begin()
        if isinstance(self._actor, NumpyActor):
            self._collect_then_evaluate(rollout, noise)
        else:
            self._collect(rollout, noise)
        rollout.last_values = self._actor.value(self._obs, self._states, self._dones)
        rollout.last_episode_start = self._dones
        return rollout

    def _begin(self) -> tuple[Rollout, np.ndarray]:
        """An empty rollout, and the noise of its actions."""
        rollout = self._rollout
        rollout.states, rollout.episodes = self._states, []
        rollout.truncated.fill(False)
        rollout.timeout_values.fill(0.0)
        return rollout, self._head.draw_noise(self._rng, (self.nsteps, self._env.num_envs))

    def _collect_then_evaluate(self, rollout: Rollout, noise: np.ndarray) -> None:
        act = self._actor.act
        for t in range(self.nsteps):
            actions = act(self._obs, noise[t])
            self._record(rollout, t, actions)
        steps = self.nsteps * self._env.num_envs
        obs, actions = (array.reshape(steps, *array.shape[2:]) for array in (rollout.obs, rollout.actions))
        values, neglogps = self._actor.evaluate(obs, actions)
        rollout.values[...] = values.reshape(rollout.values.shape)
        rollout.neglogps[...] = neglogps.reshape(rollout.neglogps.shape)

    def _collect(self, rollout: Rollout, noise: np.ndarray) -> None:
        for t in range(self.nsteps):
            step = self._actor.step(self._obs, self._states, self._dones, noise[t])
            rollout.values[t], rollout.neglogps[t] = step.values, step.neglogps
            self._states = step.states
            self._record(rollout, t, step.actions)

    def _record(self, rollout: Rollout, t: int, actions: np.ndarray) -> None:
        """Take the step and write down its transition."""
        rollout.obs[t] = self._obs
        rollout.episode_start[t] = self._dones
        rollout.actions[t] = actions
        obs, rollout.rewards[t], self._dones, infos = self._env.step(actions)
        self._obs[...] = obs
        if self._dones.any():
            self._end_episodes(rollout, t, infos)

    def _end_episodes(self, rollout: Rollout, t: int, infos: list[dict[str, Any]]) -> None:
        for i in np.flatnonzero(self._dones):
            info = infos[i]
            if "episode" in info:
                rollout.episodes.append(info["episode"])
            if info.get("TimeLimit.truncated"):
                rollout.truncated[t, i] = True
                self._value_at_timeout(rollout, t, i, info["final_observation"])

    def _value_at_timeout(self, rollout: Rollout, t: int, i: int, last: np.ndarray) -> None:
        last = np.asarray(last, self._obs.dtype)[None]
        # The state here is the one after the step that ended the episode: it belongs to `last`.
        states = None if self._states is None else self._states[i : i + 1]
        rollout.timeout_values[t, i] = self._actor.value(last, states, np.zeros(1, bool))[0]


def env_major(array: np.ndarray) -> np.ndarray:
    """[T, N, ...] as rows ordered by environment, then time: [N * T, ...]."""
    return array.swapaxes(0, 1).reshape(array.shape[0] * array.shape[1], *array.shape[2:])
