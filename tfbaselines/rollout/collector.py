"""The off-policy collector: acts in environments and stores the experience in a replay."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import ended_episodes
from tfbaselines.envs.vec.observations import MASK as ACTION_MASK
from tfbaselines.envs.vec.observations import parts_of, parts_of_obs
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.replay import Replay
from tfbaselines.rollout.rollout import continues

# Takes observations [N, ...], states [N, S] and episode_start [N]; returns actions [N, ...] and new states.
Behave = Callable[[Any, np.ndarray | None, np.ndarray], tuple[np.ndarray, np.ndarray | None]]


class Collector:
    """Steps environments and puts every step into a replay.

    Args:
        env: the environments.
        policy: has the shape of recurrent states.
        replay: stores every step.
        rng: generator of random actions.
        behave: chooses actions.
        start_steps: steps of each environment with random actions.
        on_end: callback after each step that ended an episode, with a mask [N] of these environments.
        reward_scale: factor of the rewards that are stored.
        render: show the environments after each step.
    """

    def __init__(
        self,
        env: VecEnv,
        policy: BasePolicy,
        replay: Replay,
        rng: np.random.Generator,
        behave: Behave,
        start_steps: int = 0,
        on_end: Callable[[np.ndarray], None] | None = None,
        reward_scale: float = 1.0,
        render: bool = False,
    ) -> None:
        self._env = env
        self._policy = policy
        self._replay = replay
        self._rng = rng
        self._behave = behave
        self._start_steps = start_steps
        self._on_end = on_end
        self._reward_scale = reward_scale
        self._render = render
        self._dtypes = {name: observation_dtype(space) for name, space in parts_of(env.observation_space).items()}
        self._has_valid = getattr(env, "valid", None) is not None
        self._obs: Any = None

    def run(self, steps: int, before: int) -> list[dict[str, Any]]:
        """Take `steps` steps of each environment after `before` ones; return 'episode' entries of ended episodes."""
        if self._obs is None:
            self._obs = self._stored(self._env.reset())
            self._states = self._policy.initial_state(self._env.num_envs)
            self._episode_start = np.ones(self._env.num_envs, bool)
        episodes = []
        for step in range(before, before + steps):
            actions, states = self._act(random=step < self._start_steps)
            # Environments in this process may change what they get.
            valid = {"valid": self._env.valid.copy()} if self._has_valid else {}
            obs, rewards, dones, infos = self._env.step(actions.copy())
            obs = self._stored(obs)
            if self._render:
                self._env.render()
            scaled = self._reward_scale * rewards
            self._replay.put(self._obs, actions, scaled, obs, dones, infos, self._states, **valid)
            self._obs = obs
            self._states = states
            self._episode_start = dones
            if np.count_nonzero(dones):
                episodes += ended_episodes(infos, dones)
                if self._on_end is not None:
                    self._on_end(dones)
        return episodes

    def state(self) -> dict[str, Any]:
        """Save the next step's observations and recurrent states; empty before the first run."""
        if self._obs is None:
            return {}
        states = None if self._states is None else np.array(self._states)
        return {"obs": self._obs, "episode_start": np.array(self._episode_start), "states": states}

    def restore(self, state: dict[str, Any]) -> None:
        """Load a state if the environments continue their episodes; restore the environments first."""
        if continues(self._env, state):
            self._obs = self._stored(state["obs"])
            self._episode_start = np.array(state["episode_start"], bool)
            self._states = None if state["states"] is None else np.array(state["states"])

    def _act(self, random: bool) -> tuple[np.ndarray, np.ndarray | None]:
        if not random:
            return self._behave(self._obs, self._states, self._episode_start)
        states = None
        if self._policy.recurrent:
            # States are stored for random steps too.
            _, states = self._behave(self._obs, self._states, self._episode_start)
        action_masks = parts_of_obs(self._obs).get(ACTION_MASK)
        actions = random_actions(self._env.action_space, self._rng, self._env.num_envs, action_masks)
        return actions, None if states is None else self._policy.after_other_action(states, actions)

    def _stored(self, obs: Any) -> Any:
        if isinstance(obs, dict):
            return {name: np.asarray(part, self._dtypes[name]) for name, part in obs.items()}
        return np.asarray(obs, *self._dtypes.values())


def random_actions(
    space: spaces.Space, rng: np.random.Generator, count: int, action_masks: np.ndarray | None = None
) -> np.ndarray:
    """Draw uniform actions [count, ...] from a bounded Box, Discrete or MultiDiscrete space.

    `action_masks` [count, choices] has 1 where a discrete choice is allowed; None allows all.
    """
    if isinstance(space, spaces.Box):
        return rng.uniform(space.low, space.high, (count, *space.shape)).astype(space.dtype)
    discrete = isinstance(space, spaces.Discrete)
    widths = np.array([space.n]) if discrete else space.nvec.ravel()
    scores = rng.random((count, widths.sum()))
    if action_masks is not None:
        scores -= 2.0 * (1.0 - action_masks)
    columns = [part.argmax(axis=1) for part in np.split(scores, np.cumsum(widths)[:-1], axis=1)]
    actions = np.stack(columns, axis=1).reshape(count, *space.shape)
    return actions + np.asarray(space.start, actions.dtype)
