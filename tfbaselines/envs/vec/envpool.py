"""EnvPool: environments in C++ that a pool of threads steps, by their ids or as a user made them."""

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from tfbaselines.envs.monitor import ResultsWriter
from tfbaselines.envs.vec.gymnasium_vec import GymnasiumVecEnv, OneOf, separate
from tfbaselines.envs.vec.observations import is_image
from tfbaselines.errors import UsageError, bad_argument, nearest
from tfbaselines.parallel.mpi import own_cores

MISSING = (
    "worker='envpool' is not valid: it needs the package envpool, which is for Python 3.11 and later: "
    'pip install "tfbaselines[envpool]"'
)

# Types of environments by EnvPool's modules; others have the module's name.
TYPES = {"mujoco.gym": "mujoco", "mujoco.dmc": "mujoco", "mujoco.robotics": "robotics"}
GAME = "NoFrameskip-v4"

# The part of EnvPool's infos that describes the pool, not an environment.
OF_POOL = ("env_id", "players", "elapsed_step")
# The limit of environments without a time limit.
ENDLESS = 2**31 - 1
# EnvPool bounds some observations by the smallest and the largest number of their type in place of infinity.
SMALLEST, LARGEST = 1e-30, 1e30


def envpool_type(env_id: str) -> str | None:
    """Return the type of an environment that EnvPool has; None if it has none of this id or is not installed."""
    registry = _registry()
    if registry is None or _name_in_pool(env_id) not in registry.specs:
        return None
    module = registry.specs[_name_in_pool(env_id)][0].removeprefix("envpool.")
    return TYPES.get(module, module.split(".")[-1])


def is_envpool(env: Any) -> bool:
    """Return whether an object was made by envpool.make."""
    return all(hasattr(env, name) for name in ("all_env_ids", "async_reset", "recv"))


def make_envpool(
    env_id: str,
    num_envs: int,
    seed: int | None,
    env_kwargs: dict[str, Any] | None = None,
    threads: int | None = None,
    flatten: bool = True,
    writers: Sequence[ResultsWriter] | None = None,
) -> "EnvPoolVecEnv":
    """Make environments of EnvPool; UsageError if it is missing, or has no such environment or argument.

    Args:
        env_id: EnvPool's id, or an Atari game's id as in baselines, such as 'PongNoFrameskip-v4'.
        num_envs: number of environments.
        seed: seed of the first environment; environment i adds i. None for any.
        env_kwargs: further arguments of envpool.make.
        threads: threads that step the environments; None for this rank's cores.
        flatten: flatten Dict and Tuple observations to one Box.
        writers: see GymnasiumVecEnv.
    """
    env_type = envpool_type(env_id)
    if env_type is None:
        raise _unknown(env_id)
    seed = int(np.random.default_rng().integers(2**30)) if seed is None else seed
    arguments: dict[str, Any] = {"num_envs": num_envs, "seed": [seed + i for i in range(num_envs)]}
    arguments["num_threads"] = min(num_envs, threads or own_cores())
    if env_type == "atari":
        # The wrappers of baselines, but for the stack of frames.
        arguments |= {
            "stack_num": 1,
            "episodic_life": True,
            "reward_clip": True,
            "use_fire_reset": True,
            "noop_max": 30,
        }
    try:
        made = importlib.import_module("envpool").make(
            _name_in_pool(env_id), env_type="gymnasium", **arguments | (env_kwargs or {})
        )
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        why = f"use arguments of EnvPool's {env_id} ({' '.join(str(error).split()):.200})"
        raise bad_argument("env_kwargs", env_kwargs, why) from None
    return EnvPoolVecEnv(made, flatten, env_id, writers)


class EnvPoolVecEnv(GymnasiumVecEnv):
    """Environments of EnvPool, reset one by one when their episodes end.

    Pictures become [rows, columns, C]. A game's monitor counts the whole game and its rewards before they are clipped,
    also where an episode ends with each lost life.

    For the arguments see GymnasiumVecEnv.
    """

    def __init__(
        self, env: VectorEnv, flatten: bool, name: str | None = None, writers: Sequence[ResultsWriter] | None = None
    ) -> None:
        if not isinstance(env, VectorEnv):
            raise bad_argument("env", type(env).__name__, "envpool.make(id, env_type='gymnasium', num_envs=N)")
        if env.is_async:
            raise bad_argument("batch_size", env.config["batch_size"], "all environments step together: leave it out")
        if env.config.get("max_num_players", 1) > 1:
            raise bad_argument("env", name or type(env).__name__, "environments of one player")
        super().__init__(env, None, flatten, name, writers)
        self._apart = True
        self._plain = self._shown is self._one and not self._one.moves

    def _stand_in(self, env: VectorEnv) -> gymnasium.Env:
        return _OneOfPool(env)

    def _notice(self, name: str) -> str:
        return f"{name}: EnvPool has its own random numbers and cannot be saved: a resumed run begins other episodes"

    def _limit(self) -> int | None:
        limit = self._env.config.get("max_episode_steps", ENDLESS)
        return None if limit >= ENDLESS else limit

    def _count(self, rewards: np.ndarray, infos: list[dict[str, Any]], late: np.ndarray) -> None:
        # A game's reward before clipping.
        super()._count(np.array([info.get("reward", rewards[i]) for i, info in enumerate(infos)]), infos, late)

    def _begin_again(self, ended: np.ndarray) -> list[tuple[int, Any, dict[str, Any]]]:
        # Alone, these environments take the step that begins an episode; after a lost life the game goes on. EnvPool's
        # reset would begin another game.
        numbers = np.flatnonzero(ended).astype(np.int32)
        obs, _, _, _, info = self._env.step(self._actions[numbers], env_id=numbers)
        infos = _without_pool(info, len(numbers))
        return list(zip(info["env_id"].tolist(), self._converted_rows(obs, len(numbers)), infos, strict=True))

    def _record(self, i: int, info: dict[str, Any]) -> None:
        goes_on = info.get("lives", 0) > 0 and not info.get("terminated", 1) and not info["TimeLimit.truncated"]
        if not goes_on:
            super()._record(i, info)

    def get_images(self) -> list[np.ndarray]:
        return list(self._env.render(env_ids=np.arange(self.num_envs)))

    def _rows(self, obs: Any) -> list[Any]:
        return self._converted_rows(obs, self.num_envs)

    def _converted_rows(self, obs: Any, count: int) -> list[Any]:
        rows = list(obs) if isinstance(obs, np.ndarray) else [_part(obs, i) for i in range(count)]
        return rows if self._plain else [self._converted(row) for row in rows]

    def _separate(self, info: dict[str, Any]) -> list[dict[str, Any]]:
        return _without_pool(info, self.num_envs)


class _OneOfPool(OneOf):
    """Stands for one environment of a pool: pictures get their channels last, and false bounds are removed."""

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env.single_observation_space, env.single_action_space)
        self.moves = _channels_first(self.observation_space)
        self.observation_space = _usual(self.observation_space)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return (np.moveaxis(self.obs, 0, -1) if self.moves else self.obs), {}


def _channels_first(space: spaces.Space) -> bool:
    """Return whether observations are pictures [C, rows, columns], as Atari games and Procgen have them."""
    return is_image(space) and space.shape[0] < min(space.shape[1:])


def _usual(space: spaces.Space) -> spaces.Space:
    """Return a space with pictures as [rows, columns, C], and with infinity where EnvPool has a type's limits."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _usual(part) for name, part in space.spaces.items()})
    if not isinstance(space, spaces.Box):
        return space
    low, high = space.low, space.high
    if space.dtype.kind == "f":
        low = np.where((np.abs(low) >= LARGEST) | ((low > 0) & (low < SMALLEST)), -np.inf, low)
        high = np.where(high >= LARGEST, np.inf, high)
    if _channels_first(space):
        low, high = np.moveaxis(low, 0, -1), np.moveaxis(high, 0, -1)
    return spaces.Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype)


def _part(obs: Any, i: int) -> Any:
    """Return environment i's row of a batch of nested observations."""
    if isinstance(obs, dict):
        return {name: _part(part, i) for name, part in obs.items()}
    return tuple(_part(part, i) for part in obs) if isinstance(obs, tuple) else obs[i]


def _without_pool(info: dict[str, Any], count: int) -> list[dict[str, Any]]:
    return separate({name: value for name, value in info.items() if name not in OF_POOL}, count)


def _name_in_pool(env_id: str) -> str:
    """Return EnvPool's id: its games have the wrappers of baselines as arguments."""
    return f"{env_id.removesuffix(GAME)}-v5" if env_id.endswith(GAME) else env_id


def _registry() -> Any:
    if importlib.util.find_spec("envpool") is None:
        return None
    importlib.import_module("envpool")
    return importlib.import_module("envpool.registration").registry


def _unknown(env_id: str) -> UsageError:
    registry = _registry()
    if registry is None:
        return UsageError(MISSING)
    guess = nearest(env_id, registry.specs)
    hint = f": did you mean '{guess}'?" if guess else ""
    return UsageError(f"EnvPool has no environment '{env_id:.80}'{hint}")
