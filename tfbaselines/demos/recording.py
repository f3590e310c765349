"""Recording of episodes as demonstrations."""

from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.demos import Demonstrations
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec.base import StepResult, VecEnv, VecEnvWrapper, find_wrapper, last_observation
from tfbaselines.envs.vec.observations import MASK, is_image
from tfbaselines.envs.vec.packed import PackedSpace, VecActionMask, with_action_masks
from tfbaselines.errors import UsageError
from tfbaselines.policy.encoding import observation_dtype


def record_below_normalization(env: VecEnv, masks: bool = False) -> tuple[VecEnv, "Recorder"]:
    """Put a Recorder below VecNormalize, or around the environments if there is none; return both.

    Args:
        env: the environments.
        masks: record the action masks of infos, if there are any.
    """
    normalize = find_wrapper(env, VecNormalize)
    if normalize is None:
        recorder = Recorder(with_action_masks(env) if masks else env)
        return recorder, recorder
    if masks and find_wrapper(with_action_masks(env), VecActionMask) is not None:
        raise UsageError("action masks beside normalized observations cannot be recorded: train with --normalize=none")
    recorder = normalize.venv = Recorder(normalize.venv)
    return env, recorder


class Recorder(VecEnvWrapper):
    """Records every finished episode.

    Dict observations of vectors are flattened, as algorithms take them. With an image or an action mask among them they
    are packed.

    Attributes:
        recorded_space: of recorded observations.
    """

    keeps_observations = True

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        space = venv.observation_space
        self._several = isinstance(space, spaces.Dict)
        parts = space.spaces if self._several else {}
        self._packed = PackedSpace(space) if MASK in parts or any(map(is_image, parts.values())) else None
        self.recorded_space = self._packed or (spaces.flatten_space(space) if self._several else space)
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
        if self._several:
            return [self._row({name: part[i] for name, part in obs.items()}) for i in range(self.num_envs)]
        return [self._row(row) for row in obs]

    def _row(self, obs: Any) -> np.ndarray:
        if self._packed is not None:
            return self._packed.pack({name: np.asarray(part)[None] for name, part in obs.items()})[0]
        flat = spaces.flatten(self.venv.observation_space, obs) if self._several else obs
        return np.array(flat, self._dtype)
