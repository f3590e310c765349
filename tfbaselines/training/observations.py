"""The road from an environment's own observations to a network: parts, VecNormalize, types and checks.

Models do this in numpy; exported policies do it in their graph (export/served.py).
"""

import copy
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs.normalize import scaled
from tfbaselines.envs.vec import VecEnv, VecFrameStack
from tfbaselines.envs.vec.base import find_wrapper
from tfbaselines.envs.vec.observations import (
    MASK,
    ONLY,
    DiscreteParts,
    flattened,
    named_parts,
    parts_of,
    parts_of_obs,
)
from tfbaselines.envs.vec.packed import PackedSpace, check_masks, opened
from tfbaselines.errors import NotFiniteError, UsageError, bad_argument
from tfbaselines.policy.encoding import observation_dtype

# Advice for Dict and Tuple observations, if the network gets them as one vector of unknown parts.
FLATTEN = "those of several parts were flattened: gymnasium.spaces.flatten(env.observation_space, obs)"

# Most elements of a space in a saved file.
LARGEST_SPACE = 2**26


class Observations:
    """Turn observations, raw or of wrapped environments, into batches for a policy.

    Attributes:
        raw_space: Dict or Tuple space of observations that training flattened; None for others.
        frames: number of frames that VecFrameStack put together in training; None without it.
        scales: training normalized observations, which the present environments do not.

    Args:
        space: observation space of the policy.
        action_space: action space of the policy, for action masks.
    """

    def __init__(self, space: spaces.Space, action_space: spaces.Space) -> None:
        self._space = space
        self._action_space = action_space
        self.raw_space: spaces.Space | None = None
        self.frames: int | None = None
        # Statistics of VecNormalize in a saved model.
        self._saved: dict[str, Any] = {}
        self._env: VecEnv | None = None
        self.scales = False

    def attach(self, env: VecEnv) -> None:
        """Take the observations of these environments, which take over the normalization of those before."""
        self._saved = self.normalization
        self._env = env
        if self._saved:
            env.restore_normalization(self._saved)
        self.raw_space = raw_space_of(env) or self.raw_space
        stack = find_wrapper(env, VecFrameStack)
        self.frames = self.frames if stack is None else stack.nstack
        self._compare()

    def alone(self) -> "Observations":
        """Return a copy without environments: it takes raw observations, and scales them as training did."""
        one = copy.copy(self)
        one._saved = self.normalization
        one._env = None
        one._compare()
        return one

    def _compare(self) -> None:
        present = {} if self._env is None else self._env.normalization()
        self.scales = bool(self._saved.get("ob") and not present.get("ob"))

    @property
    def normalization(self) -> dict[str, Any]:
        """Statistics that scale raw observations for the policy; empty without VecNormalize."""
        present = {} if self._env is None else self._env.normalization()
        return self._saved if self.scales else present or self._saved

    def state(self) -> dict[str, Any]:
        """Return the spaces and what is known of the environments of training."""
        packed = isinstance(self._space, PackedSpace)
        raw = None if self.raw_space is None else space_tree(self.raw_space)
        spaces_of = {"observation": space_tree(opened(self._space)), "action": space_tree(self._action_space)}
        return spaces_of | {"packed": packed, "raw": raw, "frames": self.frames}

    def restore(self, state: dict[str, Any], normalization: dict[str, Any]) -> None:
        """Take over what `state` and `normalization` returned."""
        self._saved = normalization
        self.frames = state["frames"]
        if state["raw"] is not None:
            self.raw_space = space_of(state["raw"])
        if self._env is not None and normalization:
            self._env.restore_normalization(normalization)
        self._compare()

    def named(self, obs: Any) -> Any:
        """Convert observations to arrays; parts get the names of the policy's space, or become one vector."""
        of_parts = opened(self._space)
        if isinstance(of_parts, spaces.Dict) and isinstance(obs, Mapping | tuple):
            obs = named_parts(obs)
            missing = of_parts.spaces.keys() - obs.keys()
            if missing:
                raise UsageError(f"obs lacks {', '.join(sorted(missing))}: it has {', '.join(obs) or 'nothing'}")
            return {name: self._scaled_array(obs[name], name) for name in of_parts.spaces}
        if isinstance(self._space, spaces.Dict):
            raise bad_argument("obs", obs, f"a dictionary of {', '.join(self._space.spaces)}")
        if self.raw_space is not None and isinstance(obs, Mapping | tuple):
            try:
                obs = flat(obs, self.raw_space)
            except (LookupError, TypeError, ValueError, AttributeError):
                raise bad_argument("obs", obs, f"one observation of {self.raw_space}, or a batch") from None
        if isinstance(obs, Mapping):
            accepted = f"observations have the shape {self._space.shape}, and no parts; {FLATTEN}"
            raise bad_argument("obs", obs, accepted)
        if isinstance(self._space, PackedSpace):
            # Rows that the run's environments packed.
            return _as_array(obs, self._space, self._space.dtype)
        return self._scaled_array(obs, ONLY)

    def is_single(self, obs: Any) -> bool:
        """Return whether the result of `named` is one observation, not a batch."""
        space = opened(self._space) if isinstance(obs, Mapping) else self._space
        name, part = next(iter(parts_of(space).items()))
        return np.ndim(parts_of_obs(obs)[name]) == len(part.shape)

    def batch(self, obs: Any, acted_on: bool = True) -> Any:
        """Return the result of `named`, a batch, in the policy's form; what is `acted_on` has valid action masks."""
        if not isinstance(obs, Mapping):
            return self._checked(obs, self._space)
        parts = {name: self._checked(obs[name], part) for name, part in opened(self._space).spaces.items()}
        if MASK in parts and acted_on:
            check_masks(parts[MASK], self._action_space)
        return self._space.pack(parts) if isinstance(self._space, PackedSpace) else parts

    def _scaled_array(self, obs: Any, name: str) -> np.ndarray:
        space = parts_of(opened(self._space)).get(name, self._space)
        if self.scales and name == ONLY:
            statistics = self._saved["ob"]
            limits = self._saved["epsilon"], self._saved["clipob"]
            obs = scaled(_as_array(obs, space, np.float64), statistics["mean"], statistics["var"], *limits)
        return _as_array(obs, space, observation_dtype(space))

    def _checked(self, obs: np.ndarray, space: spaces.Space) -> np.ndarray:
        if obs.shape[1:] != space.shape:
            accepted = f"a batch of observations has the shape {('N', *space.shape)}"
            if self.frames is not None:
                accepted += f": {self.frames} frames together, as make_vec_env and VecFrameStack({self.frames}) give"
            raise bad_argument("obs.shape", obs.shape, accepted)
        if obs.dtype.kind == "f" and not np.isfinite(obs).all():
            # The action would be arbitrary, and a recurrent state would stay NaN.
            raise NotFiniteError(f"obs has a number that is not finite: {obs[~np.isfinite(obs)][0]}")
        return obs


def _as_array(obs: Any, space: spaces.Space, dtype: Any) -> np.ndarray:
    try:
        return np.asarray(obs, dtype)
    except (TypeError, ValueError):
        accepted = f"one observation of shape {space.shape} or a batch of them; of reset() and step() the first value"
        if isinstance(obs, tuple):
            accepted += f"; {FLATTEN}"
        raise bad_argument("obs", obs, accepted) from None


def alone(obs: Any) -> Any:
    """Return one observation as a batch of one."""
    if isinstance(obs, Mapping):
        return {name: part[None] for name, part in obs.items()}
    return obs[None]


def length(obs: Any) -> int:
    """Return the number of observations in a batch."""
    return len(next(iter(parts_of_obs(obs).values())))


class _OnlySpace(gymnasium.Env):
    """An environment that has nothing but an observation space."""

    def __init__(self, space: spaces.Space) -> None:
        self.observation_space = space


def flat(obs: Any, space: spaces.Space) -> np.ndarray:
    """Flatten one observation of a Dict or Tuple space, or a batch of them, as the environments of training do."""
    flatten = flattened(_OnlySpace(space)).observation
    parts = named_parts(obs)
    name, part = next(iter(named_parts(space_leaves(space)).items()))
    if name not in parts or np.ndim(parts[name]) == len(part.shape or ()):
        return np.asarray(flatten(obs))
    return np.stack([flatten(_row(obs, row)) for row in range(len(parts[name]))])


def space_leaves(space: spaces.Space) -> Any:
    """Return a Dict or Tuple space as dictionaries and tuples of the spaces inside."""
    if isinstance(space, spaces.Dict):
        return {name: space_leaves(part) for name, part in space.spaces.items()}
    return tuple(map(space_leaves, space.spaces)) if isinstance(space, spaces.Tuple) else space


def _row(obs: Any, row: int) -> Any:
    if isinstance(obs, Mapping):
        return {name: _row(part, row) for name, part in obs.items()}
    return tuple(_row(part, row) for part in obs) if isinstance(obs, tuple) else obs[row]


def raw_space_of(env: VecEnv) -> spaces.Space | None:
    """Return the Dict or Tuple space of environments in this process that are flattened; None for others."""
    one = next(iter(getattr(env.unwrapped, "envs", ())), None)
    while isinstance(one, gymnasium.Wrapper):
        if isinstance(one, gymnasium.wrappers.FlattenObservation | DiscreteParts):
            return one.env.observation_space
        one = one.env
    return None


def space_tree(space: spaces.Space) -> dict[str, Any] | None:
    """Return a space as arrays and JSON, with its bounds; None for a space without arrays."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        trees = {str(name): space_tree(part) for name, part in named}
        return None if None in trees.values() else {"type": type(space).__name__, "spaces": trees}
    if isinstance(space, spaces.Box):
        low, high = (
            bound.ravel()[:1] if np.all(bound == bound.ravel()[:1]) else bound for bound in (space.low, space.high)
        )
        return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype), "low": low, "high": high}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": space.nvec, "start": space.start}
    return {"type": "MultiBinary", "shape": list(space.shape)} if isinstance(space, spaces.MultiBinary) else None


def space_of(tree: dict[str, Any], packed: bool = False) -> spaces.Space:
    """Return the space of a `space_tree`; a Dict may be packed into rows."""
    kind = tree["type"]
    if kind in ("Dict", "Tuple"):
        inner = {name: space_of(part) for name, part in tree["spaces"].items()}
        if kind == "Tuple":
            return spaces.Tuple(list(inner.values()))
        # An OrderedDict keeps its order.
        space = spaces.Dict(OrderedDict(inner))
        return PackedSpace(space) if packed else space
    if kind == "Discrete":
        return spaces.Discrete(tree["n"], start=tree["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(tree["nvec"], start=tree["start"])
    shape = tuple(tree["shape"])
    if not all(type(size) is int and size >= 0 for size in shape) or np.prod(shape, dtype=float) > LARGEST_SPACE:
        raise UsageError(f"a space has the shape {shape!s:.100}")
    if kind == "MultiBinary":
        return spaces.MultiBinary(shape)
    low, high = (
        np.broadcast_to(tree[bound].reshape(shape if tree[bound].size > 1 else ()), shape) for bound in ("low", "high")
    )
    return spaces.Box(low, high, shape, np.dtype(tree["dtype"]))


class Spaces:
    """Stand for environments where only their spaces are needed.

    Args:
        state: result of Observations.state.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self.observation_space = space_of(state["observation"], state["packed"])
        self.action_space = space_of(state["action"])
