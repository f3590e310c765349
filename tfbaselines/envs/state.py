"""Save and restore an environment in the middle of an episode, with its wrappers, as arrays and JSON.

A user's environment or wrapper supports this by two methods: `get_state()` returns a dict of arrays and JSON values,
and `set_state(state)` restores it. Random generators are saved in any case. Some environments have other methods by
these names: if they fail, the episode is not saved and the run continues.
"""

import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.envs import layers_of
from tfbaselines.errors import warn

# Attributes that change in an episode, by package, module or class. Wrappers without state have none.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "gymnasium.envs.classic_control": ("state", "steps_beyond_terminated", "last_u"),
    "gymnasium.envs.toy_text": ("s", "lastaction", "fickle_step", "taxi_orientation", "player", "dealer"),
    "gymnasium.wrappers.common.TimeLimit": ("_elapsed_steps",),
    "gymnasium.wrappers.common.OrderEnforcing": ("_has_reset",),
    "gymnasium.wrappers.common.PassiveEnvChecker": ("checked_reset", "checked_step"),
    "gymnasium.wrappers.transform_action": (),
    "gymnasium.wrappers.transform_observation": (),
    "gymnasium.wrappers.transform_reward": (),
    "tfbaselines.envs.tiny": ("_time", "_wanted", "_cue", "_goal", "_position", "_room", "_shown"),
    "tfbaselines.envs.monitor.Monitor": ("_reward", "_length", "_needs_reset", "_finished_steps", "_of_reset"),
    "tfbaselines.envs.wrappers": ("_elapsed_steps",),
    "tfbaselines.envs.episode_limits": ("_return",),
    "tfbaselines.envs.vec.observations": (),
    "tfbaselines.envs.atari": ("lives", "was_real_done", "_frames"),
}

Take = Callable[[Any], dict[str, Any]]
Give = Callable[[Any, dict[str, Any]], None]
# Called with the method that failed and the reason.
Failed = Callable[[str, str], None]

# Methods with a warning so far.
_WARNED: set[str] = set()


def warn_once(what: str, why: str) -> None:
    """Warn once of a method that cannot save or restore an episode."""
    if what not in _WARNED:
        _WARNED.add(what)
        warn(in_words(what, why))


def in_words(what: str, why: str) -> str:
    """Explain that the method `what` cannot save or restore an episode."""
    return f"{what} failed ({why}): a resumed run begins another episode"


def episode_state(env: gymnasium.Env, failed: Failed = warn_once) -> dict[str, Any] | None:
    """Return the state of an environment and of its wrappers; None if one of them cannot be saved.

    `failed` is called with a method that raised, or returned other values than arrays and JSON, and the reason.
    """
    saved = []
    for layer in layers_of(env):
        ways = _ways(type(layer))
        if ways is None:
            return None
        try:
            saved.append([type(layer).__name__, _encoded(ways[0](layer))])
        except Exception as error:
            failed(*_failure("get_state", layer, error))
            return None
    return {"layers": saved}


def restore_episode(env: gymnasium.Env, state: dict[str, Any], failed: Failed = warn_once) -> bool:
    """Restore the result of `episode_state`; return False if it is damaged or of another environment."""
    try:
        names = [name for name, _ in state["layers"]]
    except (KeyError, TypeError, ValueError):
        return False
    if names != [type(layer).__name__ for layer in layers_of(env)]:
        return False
    # One layer after the other: ParameterizedEnv makes the layers inside of it anew.
    for layer, (_, saved) in zip(layers_of(env), state["layers"], strict=True):
        ways = _ways(type(layer))
        if ways is None:
            return False
        try:
            ways[1](layer, _decoded(saved))
        except Exception as error:
            failed(*_failure("set_state", layer, error))
            return False
    return True


def random_state(env: gymnasium.Env) -> dict[str, Any]:
    """Return the states of the random generators of an environment and of its action space."""
    inner = env.unwrapped
    # Some environments have a generator of their own behind `np_random`, also one of numpy's older class.
    rng = inner._np_random if type(inner).np_random is gymnasium.Env.np_random else inner.np_random
    generators = {"env": rng, "actions": env.action_space._np_random}
    states = {name: _state_of(rng) for name, rng in generators.items()}
    return {name: state for name, state in states.items() if state is not None}


def _state_of(rng: Any) -> dict[str, Any] | None:
    if isinstance(rng, np.random.RandomState):
        return rng.get_state(legacy=False)
    return rng.bit_generator.state if isinstance(rng, np.random.Generator) else None


def _give_state(rng: Any, state: dict[str, Any]) -> None:
    if isinstance(rng, np.random.RandomState):
        rng.set_state(state)
    elif isinstance(rng, np.random.Generator):
        rng.bit_generator.state = state


def restore_random_state(env: gymnasium.Env, state: dict[str, Any]) -> None:
    """Restore the result of `random_state`."""
    if "env" in state:
        _give_state(env.unwrapped.np_random, state["env"])
    if "actions" in state:
        _give_state(env.action_space.np_random, state["actions"])


def full_state(env: gymnasium.Env) -> dict[str, Any]:
    """Return the random generators and the current episode of an environment; an episode without state is None."""
    return {"random": random_state(env), "episode": episode_state(env)}


def restore_full_state(env: gymnasium.Env, state: dict[str, Any]) -> bool:
    """Restore the result of `full_state`; return whether the episode continues."""
    restore_random_state(env, state.get("random", {}))
    return state.get("episode") is not None and restore_episode(env, state["episode"])


def joined_states(states: list[dict[str, Any]], steps: int) -> dict[str, Any]:
    """Return the state of a vector environment from its environments' states and the number of steps taken."""
    return {"random": [one["random"] for one in states], "episodes": [one["episode"] for one in states], "steps": steps}


def separate_states(state: dict[str, Any], num_envs: int) -> list[dict[str, Any]]:
    """Undo `joined_states`; a state of another number of environments leaves out the episodes."""
    random, episodes = (state.get(name, []) for name in ("random", "episodes"))
    return [
        {"random": random[i] if i < len(random) else {}, "episode": episodes[i] if len(episodes) == num_envs else None}
        for i in range(num_envs)
    ]


def _failure(method: str, layer: gymnasium.Env, error: Exception) -> tuple[str, str]:
    return f"{method}() of {type(layer).__name__}", f"{type(error).__name__}: {' '.join(str(error).split())}"


def _ways(kind: type) -> tuple[Take, Give] | None:
    """Return the functions that take and restore the state of a class's instances; None without any."""
    if kind.__module__.startswith("gymnasium.envs.mujoco."):
        return _take_mujoco, _give_mujoco
    if kind.__module__.startswith("gymnasium_robotics.envs.fetch."):
        return _take_fetch, _give_fetch
    if (kind.__module__, kind.__name__) == ("ale_py.env", "AtariEnv"):
        return _take_atari, _give_atari
    for name, attributes in ATTRIBUTES.items():
        if f"{kind.__module__}.{kind.__qualname__}.".startswith(f"{name}."):
            return _attributes(attributes)
    if callable(getattr(kind, "get_state", None)) and callable(getattr(kind, "set_state", None)):
        return kind.get_state, kind.set_state
    return None


def _attributes(names: tuple[str, ...]) -> tuple[Take, Give]:
    def take(layer: Any) -> dict[str, Any]:
        present = vars(layer)
        return {name: present[name] for name in names if name in present}

    def give(layer: Any, state: dict[str, Any]) -> None:
        present = vars(layer)
        if state.get("_needs_reset") and (state.get("_length") or state.get("_finished_steps")):
            # An environment is reset in the step that ends an episode.
            raise TypeError("the episode has ended and no other has begun")
        for name in names:
            if name in state and not _alike(state[name], present.get(name)):
                raise TypeError(f"{name} is {state[name]!r:.50}")
            if name in state and isinstance(present.get(name), deque):
                present[name].clear()
                present[name].extend(state[name])
            elif name in state:
                present[name] = state[name]

    return take, give


def _alike(saved: Any, present: Any) -> bool:
    """Return whether a saved attribute may take the place of the present one, which may be None."""
    if saved is None or present is None:
        return not isinstance(present, bool | dict)
    if isinstance(present, np.ndarray) and present.ndim:
        return np.shape(saved) == present.shape and np.asarray(saved).dtype.kind == present.dtype.kind
    if isinstance(present, bool | np.bool_):
        return isinstance(saved, bool | np.bool_)
    if isinstance(present, int | float | np.number | np.ndarray):
        return np.ndim(saved) == 0 and np.asarray(saved).dtype.kind in "biuf"
    return isinstance(saved, list | tuple if isinstance(present, list | tuple | deque) else type(present))


def _encoded(value: Any) -> Any:
    """Convert to arrays and JSON; TypeError for other values. A numpy number becomes an array, to keep its type."""
    if isinstance(value, np.ndarray | np.number | np.bool_):
        array = np.array(value)
        if array.dtype.hasobject:
            raise TypeError("an array of objects cannot be saved")
        return array
    if isinstance(value, dict):
        return {str(key): _encoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple | deque):
        return [_encoded(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} cannot be saved")


def _decoded(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value[()] if value.ndim == 0 else value.copy()
    if isinstance(value, dict):
        return {key: _decoded(item) for key, item in value.items()}
    return [_decoded(item) for item in value] if isinstance(value, list) else value


def _take_mujoco(env: Any) -> dict[str, Any]:
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.zeros(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, state, kind)
    derived = _derived(env.data)
    return {
        "integration": state,
        "names": list(derived),
        "sizes": [array.size for array in derived.values()],
        "derived": np.concatenate([array.ravel() for array in derived.values()]),
    }


def _give_mujoco(env: Any, state: dict[str, Any]) -> None:
    import mujoco

    # After mj_step the results of mj_forward lag half a step behind. Environments read them, so restore them too.
    mujoco.mj_setState(env.model, env.data, state["integration"], mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(env.model, env.data)
    parts = np.split(state["derived"], np.cumsum(state["sizes"])[:-1])
    saved = dict(zip(state["names"], parts, strict=True))
    for name, array in _derived(env.data).items():
        if name in saved and saved[name].size == array.size:
            array[...] = saved[name].reshape(array.shape)


def _take_fetch(env: Any) -> dict[str, Any]:
    return _take_mujoco(env) | {"goal": env.goal}


def _give_fetch(env: Any, state: dict[str, Any]) -> None:
    _give_mujoco(env, state)
    env.goal = state["goal"]


def _derived(data: Any) -> dict[str, np.ndarray]:
    """Return MuJoCo's float64 arrays of constant size, without the integers, which are indices."""
    arrays = {name: getattr(data, name) for name in dir(data) if not name.startswith(("_", "efc_", "iefc_"))}
    return {name: a for name, a in arrays.items() if isinstance(a, np.ndarray) and a.dtype == np.float64 and a.size}


def _take_atari(env: Any) -> dict[str, Any]:
    state = env.ale.cloneState(include_rng=True).serialize()
    # The emulator plays on from other bytes too.
    return {"ale": np.frombuffer(state, np.uint8), "checksum": zlib.crc32(state)}


def _give_atari(env: Any, state: dict[str, Any]) -> None:
    from ale_py import ALEState

    saved = state["ale"].tobytes()
    if zlib.crc32(saved) != state["checksum"]:
        raise ValueError("the state has another checksum")
    env.ale.restoreState(ALEState(saved))
