"""The vector environment of baselines: several environments, stepped together.

    obs = env.reset()
    obs, rewards, dones, infos = env.step(actions)

An environment begins its next episode in the step that ends the last one. When dones[i] is true, obs[i] is already the
first observation of the next episode, ``infos[i]["final_observation"]`` is the real last observation, and
``infos[i]["TimeLimit.truncated"]`` is true if a time limit ended the episode.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.errors import ObservationError, UsageError

# Key of an episode's real last observation in the infos.
LAST = "final_observation"

StepResult = tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]


class VecEnv(ABC):
    """Several environments; the spaces describe one of them.

    Attributes:
        restored: `restore` restored the episodes too, so that steps continue them without a reset.
        render_fps: frame rate of an environment's metadata.
        valid: [N] whether the present observation of each row is one of an agent that acts; None if all are. Nothing is
            learned from the steps of other rows.
        parameters: samplers and curricula of the environments' parameters (envs/parameters.py); None for none.
    """

    closed = False
    restored = False
    render_fps: Any = None
    parameters: Any = None
    valid: np.ndarray | None = None

    def __init__(self, num_envs: int, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self._viewer: Any = None

    @abstractmethod
    def reset(self) -> np.ndarray:
        """Begin an episode in every environment; return the first observations [N, ...]."""

    @abstractmethod
    def step_async(self, actions: np.ndarray) -> None:
        """Start a step of the environments with actions [N, ...]."""

    @abstractmethod
    def step_wait(self) -> StepResult:
        """Finish the step; return observations [N, ...], rewards [N] float32, dones [N] bool and N infos."""

    def step(self, actions: np.ndarray) -> StepResult:
        """Take a step: step_async, then step_wait."""
        self.step_async(actions)
        return self.step_wait()

    def check_actions(self, actions: np.ndarray) -> None:
        """Raise a UsageError unless there is an action for each environment."""
        if len(actions) != self.num_envs:
            raise UsageError(f"actions for {len(actions)} environments were given, there are {self.num_envs}")

    def close(self) -> None:
        """Close the environments; a second call does nothing."""
        if not self.closed:
            if self._viewer is not None:
                self._viewer.close()
            self.close_extras()
            self.closed = True

    def close_extras(self) -> None:
        """Close the resources of a subclass."""

    def get_images(self) -> list[np.ndarray]:
        """Return a picture [rows, columns, 3] of each environment."""
        raise RuntimeError(f"{type(self).__name__} has no pictures")

    def render(self, mode: str = "human") -> np.ndarray | None:
        """Show all environments as tiles in a window, or return the picture (mode 'rgb_array')."""
        from tfbaselines.envs.vec.wrappers import Viewer, tile_images

        picture = tile_images(self.get_images())
        if mode == "rgb_array":
            return picture
        if mode != "human":
            raise UsageError(f"mode={mode!r} is not valid: 'human' or 'rgb_array'")
        if self._viewer is None:
            self._viewer = Viewer()
        self._viewer.show(picture)
        return None

    @property
    def unwrapped(self) -> "VecEnv":
        """The vector environment inside all wrappers."""
        return self

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        """The infos of the latest reset(); an episode that begins in a step has its info in the step's `reset_info`."""
        return [{} for _ in range(self.num_envs)]

    def example(self) -> gymnasium.Env:
        """Return an environment like these in this process, for its attributes; it is never stepped."""
        raise UsageError(f"{type(self).__name__} has no Gymnasium environments in this process")

    def limit_episodes(self, steps: int | None = None, reward: float | None = None) -> None:
        """Truncate episodes after `steps` steps, and when their return reaches `reward`; None for no limit."""
        given = f"max_ep_reward={reward}" if steps is None else f"max_ep_len={steps}"
        raise UsageError(f"{given}: {type(self).__name__} cannot cut episodes, give None")

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Give the environments, made with env_parameters, other numbers or samplers from their next resets on."""
        raise UsageError(f"env_parameters: {type(self).__name__} has none")

    def rest(self, number: int) -> bool:
        """Leave an environment out of the steps until the next reset(); return whether that is possible.

        The environment takes no actions and ends no episode, and its observation stays the same.
        """
        return False

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs, as arrays and JSON.

        The state has random generators, wrappers, and the current episodes of environments that envs/state.py supports.
        """
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`, and set `restored`."""

    def normalization(self) -> dict[str, Any]:
        """Return the statistics that a trained policy needs; empty without normalization."""
        return {}

    def restore_normalization(self, statistics: dict[str, Any]) -> None:
        """Restore the result of `normalization`."""

    def merge_statistics(self, comm: Any) -> None:
        """Merge the statistics of all MPI ranks; called between updates."""


class VecEnvWrapper(VecEnv):
    """A vector environment around another one, with new spaces if they change.

    Attributes:
        keeps_observations: declared as True by a class that passes Box observations on unchanged, so that replays may
            keep the frames of a VecFrameStack inside of it once. A subclass declares it anew.
    """

    keeps_observations: bool = False

    def __init__(
        self,
        venv: VecEnv,
        observation_space: spaces.Space | None = None,
        action_space: spaces.Space | None = None,
    ) -> None:
        super().__init__(
            venv.num_envs,
            observation_space if observation_space is not None else venv.observation_space,
            action_space if action_space is not None else venv.action_space,
        )
        self.venv = venv

    def step_async(self, actions: np.ndarray) -> None:
        self.venv.step_async(actions)

    def close(self) -> None:
        self.venv.close()
        super().close()

    def get_images(self) -> list[np.ndarray]:
        return self.venv.get_images()

    @property
    def unwrapped(self) -> VecEnv:
        return self.venv.unwrapped

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        return self.venv.reset_infos

    @property
    def restored(self) -> bool:
        return self.venv.restored

    @property
    def valid(self) -> np.ndarray | None:
        return getattr(self.venv, "valid", None)

    def limit_episodes(self, steps: int | None = None, reward: float | None = None) -> None:
        self.venv.limit_episodes(steps, reward)

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        self.venv.set_parameters(values)

    def rest(self, number: int) -> bool:
        return self.venv.rest(number)

    def state(self) -> dict[str, Any]:
        return self.venv.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.venv.restore(state)

    def normalization(self) -> dict[str, Any]:
        return self.venv.normalization()

    def restore_normalization(self, statistics: dict[str, Any]) -> None:
        self.venv.restore_normalization(statistics)

    def merge_statistics(self, comm: Any) -> None:
        self.venv.merge_statistics(comm)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "venv":
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        return getattr(self.venv, name)


class VecEnvObservationWrapper(VecEnvWrapper):
    """A wrapper that changes observations by `process`, also the real last observations in the infos."""

    @abstractmethod
    def process(self, obs: Any) -> np.ndarray:
        """Return the changed observations [N, ...]."""

    def reset(self) -> np.ndarray:
        return self.process(self.venv.reset())

    def step_wait(self) -> StepResult:
        obs, rewards, dones, infos = self.venv.step_wait()
        for i in np.flatnonzero(dones):
            change_last(infos[i], self._process_one)
        return self.process(obs), rewards, dones, infos

    def _process_one(self, obs: Any) -> Any:
        if isinstance(obs, dict):
            return self.process({key: np.asarray(value)[None] for key, value in obs.items()})[0]
        return self.process(np.asarray(obs)[None])[0]


def last_observation(info: dict[str, Any]) -> Any:
    """Return an episode's real last observation from its last info; ObservationError if it is missing."""
    if LAST in info:
        return info[LAST]
    raise ObservationError(
        f"the infos of a step that ends an episode have no '{LAST}': a vector environment that begins the next episode "
        f"in the same step must put the real last observation into infos[i]['{LAST}']"
    )


def change_last(info: dict[str, Any], process: Callable[[Any], Any]) -> None:
    """Apply `process` to the last observation in an info, if there is one."""
    if LAST in info:
        info[LAST] = process(info[LAST])


def share_environments(one: VecEnv, other: VecEnv) -> bool:
    """Return whether two vector environments contain the same environment, inside any wrappers."""

    def inside(env: VecEnv) -> list[Any]:
        inner = getattr(env, "unwrapped", env)
        return [inner, *(each.unwrapped for each in getattr(inner, "envs", ()))]

    return any(mine is theirs for mine in inside(one) for theirs in inside(other))


def find_wrapper(env: VecEnv, kind: type[VecEnvWrapper]) -> Any:
    """Return the outermost wrapper of a kind around an environment, or None."""
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, kind):
            return env
        env = env.venv
    return None


def ended_episodes(infos: list[dict[str, Any]], dones: np.ndarray) -> list[dict[str, Any]]:
    """Collect the 'episode' entries of one step; other infos may still have an earlier episode's entry."""
    ended = [infos[i] for i in np.flatnonzero(dones)]
    return [info["episode"] for info in ended if "episode" in info]


class CloudpickleWrapper:
    """Pickle a function with cloudpickle, which supports lambdas and closures."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getstate__(self) -> bytes:
        return cloudpickle.dumps(self.x)

    def __setstate__(self, data: bytes) -> None:
        self.x = cloudpickle.loads(data)
