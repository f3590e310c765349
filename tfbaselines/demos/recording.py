"""Recording of episodes as demonstrations."""

from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.demos import Demonstrations
from tfbaselines.envs.vec.base import StepResult, VecEnv, VecEnvWrapper, find_wrapper, last_observation
from tfbaselines.envs.wrappers import VecNormalize
from tfbaselines.policy.encoding import observation_dtype


def record_below_normalization(env: VecEnv) -> tuple[VecEnv, "Recorder"]:
    """Put a Recorder below VecNormalize, or around the environments if there is none; return both."""
    normalize = find_wrapper(env, VecNormalize)
    if normalize is None:
        recorder = Recorder(env)
        return recorder, recorder
    recorder = normalize.venv = Recorder(normalize.venv)
    return env, recorder


class Recorder(VecEnvWrapper):
    """Records every finished episode; Dict observations are flattened.

    Attributes:
        recorded_space: of recorded observations.
    """

    keeps_observations = True

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self._flatten = isinstance(venv.observation_space, spaces.Dict)
        space = venv.observation_space
        self.recorded_space = spaces.flatten_space(space) if self._flatten else space
        self._dtype = observation_dtype(self.recorded_space)
        self._steps: list[list[tuple[np.ndarray, np.ndarray, float]]] = [[] for _ in range(self.num_envs)]
        self._ended: list[tuple[list[tuple[np.ndarray, np.ndarray, float]], bool, np.ndarray]] = []
        self._obs: list[np.ndarray] = []
        self._actions: np.ndarray | None = None

    def reset(self) -> Any:
        obs = self.venv.reset()
        self._steps = [[] for _ in range(self.num_envs)]
        self._obs = self._rows(obs)
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        space = self.action_space
        bounded = np.clip(actions, space.low, space.high) if isinstance(space, spaces.Box) else actions
        self._actions = np.array(bounded, np.float32 if isinstance(space, spaces.Box) else space.dtype)
        self.venv.step_async(actions)

    def step_wait(self) -> StepResult:
        obs, rewards, dones, infos = self.venv.step_wait()
        for i in range(self.num_envs):
            self._steps[i].append((self._obs[i], self._actions[i], float(rewards[i])))
        self._obs = self._rows(obs)
        for i in np.flatnonzero(dones):
            last = self._row(last_observation(infos[i]))
            self._ended.append((self._steps[i], not infos[i].get("TimeLimit.truncated"), last))
            self._steps[i] = []
        return obs, rewards, dones, infos

    def demonstrations(self, about: dict[str, Any]) -> Demonstrations:
        """Collect the finished episodes, in the order of their ends; `about` is their origin."""
        steps = [step for episode, _, _ in self._ended for step in episode]
        obs, actions, rewards = zip(*steps, strict=True)
        return Demonstrations(
            obs=np.stack(obs),
            actions=np.stack(actions),
            rewards=np.array(rewards, np.float32),
            lengths=np.array([len(episode) for episode, _, _ in self._ended]),
            terminated=np.array([terminated for _, terminated, _ in self._ended]),
            last_obs=np.stack([last for _, _, last in self._ended]),
            about=about,
        )

    def _rows(self, obs: Any) -> list[np.ndarray]:
        if self._flatten:
            return [self._row({name: part[i] for name, part in obs.items()}) for i in range(self.num_envs)]
        return [self._row(row) for row in obs]

    def _row(self, obs: Any) -> np.ndarray:
        flat = spaces.flatten(self.venv.observation_space, obs) if self._flatten else obs
        return np.array(flat, self._dtype)
