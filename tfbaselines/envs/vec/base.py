"""The vector environment of baselines: several environments stepped together, each begun anew in the step it ends in.

    obs = env.reset()
    obs, rewards, dones, infos = env.step(actions)

When dones[i] is true, obs[i] is already the first observation of the next episode; the real last one is
``infos[i]["final_observation"]`` and ``infos[i]["TimeLimit.truncated"]`` says whether a time limit ended it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.errors import ObservationError, UsageError

# Where the infos have the real last observation of an episode.
LAST = "final_observation"

StepResult = tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]


class VecEnv(ABC):
    """Several environments.

    Args:
        num_envs: how many.
        observation_space: of one of them.
        action_space: of one of them.

    Attributes:
        restored: `restore` took over the episodes under way: step goes on with them, without a reset.
    """

    closed = False
    restored = False

    def __init__(self, num_envs: int, observation_space: spaces.Space, action_space: spaces.Space) -> None:
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self._viewer: Any = None

    @abstractmethod
    def reset(self) -> np.ndarray:
        """Begin an episode in every environment; the first observations [N, ...]."""

    @abstractmethod
    def step_async(self, actions: np.ndarray) -> None:
        """Tell the environments to take a step with actions [N, ...]."""

    @abstractmethod
    def step_wait(self) -> StepResult:
        """Observations [N, ...], rewards [N] float32, dones [N] bool and an info per environment of that step."""

    def step(self, actions: np.ndarray) -> StepResult:
        """step_async and step_wait in one."""
        self.step_async(actions)
        return self.step_wait()

    def check_actions(self, actions: np.ndarray) -> None:
        """ValueError unless there is an action for each environment."""
        if len(actions) != self.num_envs:
            raise UsageError(f"actions for {len(actions)} environments were given, there are {self.num_envs}")

    def close(self) -> None:
        """End the environments; a second call does nothing."""
        if not self.closed:
            if self._viewer is not None:
                self._viewer.close()
            self.close_extras()
            self.closed = True

    def close_extras(self) -> None:
        """What a kind of vector environment has to end."""

    def get_images(self) -> list[np.ndarray]:
        """A picture [rows, columns, 3] of each environment."""
        raise RuntimeError(f"{type(self).__name__} has no pictures")

    def render(self, mode: str = "human") -> np.ndarray | None:
        """Show all environments as tiles in a window, or return the picture (mode 'rgb_array')."""
        from tfbaselines.envs.vec.video import Viewer, tile_images

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
        """The infos of the latest reset() of all environments; a single one's is in its step's `reset_info`."""
        return [{} for _ in range(self.num_envs)]

    def example(self) -> gymnasium.Env:
        """One of the environments, or another like them, in this process; only asked, never stepped."""
        raise UsageError(f"{type(self).__name__} has no Gymnasium environments in this process")

    def limit_episodes(self, steps: int) -> None:
        """Cut episodes off after `steps` steps."""
        raise UsageError(f"max_ep_len={steps}: {type(self).__name__} cannot cut episodes, give None")

    def rest(self, number: int) -> bool:
        """Leave an environment out of the steps until the next reset(); whether that can be done.

        It then takes no actions and ends no episode, and its observation stays the same.
        """
        return False

    def state(self) -> dict[str, Any]:
        """What must be saved for a run to go on: random generators, episodes under way, the wrappers' memory.

        Arrays and JSON; see envs/state.py for the environments whose episodes are in it.
        """
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave, and set `restored`."""

    def normalization(self) -> dict[str, Any]:
        """The statistics that a trained policy cannot do without; empty for none."""
        return {}

    def restore_normalization(self, statistics: dict[str, Any]) -> None:
        """Take over what `normalization` gave."""

    def merge_statistics(self, comm: Any) -> None:
        """Give every MPI rank the statistics of all ranks; called between updates."""


class VecEnvWrapper(VecEnv):
    """Something around a vector environment.

    Args:
        venv: the wrapped one.
        observation_space: when it changes.
        action_space: when it changes.
    """

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
        """See VecEnv."""
        self.venv.step_async(actions)

    def close(self) -> None:
        """See VecEnv."""
        self.venv.close()
        super().close()

    def get_images(self) -> list[np.ndarray]:
        """See VecEnv."""
        return self.venv.get_images()

    @property
    def unwrapped(self) -> VecEnv:
        """See VecEnv."""
        return self.venv.unwrapped

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        """See VecEnv."""
        return self.venv.reset_infos

    @property
    def restored(self) -> bool:
        """See VecEnv."""
        return self.venv.restored

    def limit_episodes(self, steps: int) -> None:
        """See VecEnv."""
        self.venv.limit_episodes(steps)

    def rest(self, number: int) -> bool:
        """See VecEnv."""
        return self.venv.rest(number)

    def state(self) -> dict[str, Any]:
        """See VecEnv; a wrapper with memory adds its own."""
        return self.venv.state()

    def restore(self, state: dict[str, Any]) -> None:
        """See VecEnv."""
        self.venv.restore(state)

    def normalization(self) -> dict[str, Any]:
        """See VecEnv."""
        return self.venv.normalization()

    def restore_normalization(self, statistics: dict[str, Any]) -> None:
        """See VecEnv."""
        self.venv.restore_normalization(statistics)

    def merge_statistics(self, comm: Any) -> None:
        """See VecEnv."""
        self.venv.merge_statistics(comm)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "venv":
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        return getattr(self.venv, name)


class VecEnvObservationWrapper(VecEnvWrapper):
    """A wrapper that changes observations alone: `process` for a batch, and for the real last ones in the infos."""

    @abstractmethod
    def process(self, obs: Any) -> np.ndarray:
        """Observations [N, ...] from the wrapped ones."""

    def reset(self) -> np.ndarray:
        """See VecEnv."""
        return self.process(self.venv.reset())

    def step_wait(self) -> StepResult:
        """See VecEnv."""
        obs, rewards, dones, infos = self.venv.step_wait()
        for i in np.flatnonzero(dones):
            change_last(infos[i], self._process_one)
        return self.process(obs), rewards, dones, infos

    def _process_one(self, obs: Any) -> Any:
        if isinstance(obs, dict):
            return self.process({key: np.asarray(value)[None] for key, value in obs.items()})[0]
        return self.process(np.asarray(obs)[None])[0]


def last_observation(info: dict[str, Any]) -> Any:
    """The real last observation of an episode, from the info of the step that ended it; ValueError when it has none."""
    if LAST in info:
        return info[LAST]
    raise ObservationError(
        f"the infos of a step that ends an episode have no '{LAST}': a vector environment that begins the next one at "
        f"once puts the real last observation there, infos[i]['{LAST}']"
    )


def change_last(info: dict[str, Any], process: Callable[[Any], Any]) -> None:
    """Replace an episode's last observation, in the info of its last step, by process(it); an info may have none."""
    if LAST in info:
        info[LAST] = process(info[LAST])


def share_environments(one: VecEnv, other: VecEnv) -> bool:
    """Whether some environment is in both vectors, whatever is wrapped around it."""

    def inside(env: VecEnv) -> list[Any]:
        own = getattr(env, "unwrapped", env)
        return [own, *(each.unwrapped for each in getattr(own, "envs", ()))]

    return any(mine is theirs for mine in inside(one) for theirs in inside(other))


def find_wrapper(env: VecEnv, kind: type[VecEnvWrapper]) -> Any:
    """The outermost wrapper of a kind around an environment, or None."""
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, kind):
            return env
        env = env.venv
    return None


def ended_episodes(infos: list[dict[str, Any]], dones: np.ndarray) -> list[dict[str, Any]]:
    """The 'episode' entries of one step.

    Args:
        infos: of all environments; one of them may still have the entry of an earlier episode.
        dones: [N] whose episodes ended in this step.
    """
    ended = [infos[i] for i in np.flatnonzero(dones)]
    return [info["episode"] for info in ended if "episode" in info]


class CloudpickleWrapper:
    """A function that is sent to another process by cloudpickle (lambdas and closures too).

    Args:
        x: the function.
    """

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getstate__(self) -> bytes:
        return cloudpickle.dumps(self.x)

    def __setstate__(self, data: bytes) -> None:
        self.x = cloudpickle.loads(data)
