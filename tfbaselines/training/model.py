"""Models: learn() returns a policy that acts, and that is saved, loaded and exported with its statistics."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK, named_parts, parts_of, parts_of_obs
from tfbaselines.envs.vec.packed import PackedSpace, check_masks, opened, unpacked
from tfbaselines.envs.wrappers import scaled
from tfbaselines.errors import NotFiniteError, UsageError, bad_argument
from tfbaselines.learn.optimizers import AveragedPolicy, Optimizer, restore_slots, slots
from tfbaselines.logs import logger
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.training.checkpoint import load_tree, save_tree, saved_file

FORMAT = "tfbaselines-model-1"
# Advice for Dict and Tuple observations, if the network gets them as one vector.
FLATTEN = "those of several parts were flattened: gymnasium.spaces.flatten(env.observation_space, obs)"


class Part:
    """Save further state with a model; a part that learns also has trainable_variables."""

    def state(self) -> dict[str, Any]:
        """Return the state under names of this part's own."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state of the whole model."""

    def ready(self) -> None:
        """Bring copies up to date with the parameters."""

    def observed(self) -> None:
        """Bring copies up to date with the policy's statistics of observations."""


class PolicyModel:
    """Act with a policy, and save, load and export it.

    Args:
        policy: the policy.
        optimizer: optimizer of the policy; its slots are saved with the weights.
        rng: random generator of `step` and `act`.
        averaged: average of the policy, such as target networks; saved with the weights.
        optimizers: further optimizers by the name under which their slots are saved.
        parts: further objects that are saved with the model; see Part.
    """

    def __init__(
        self,
        policy: BasePolicy,
        optimizer: Optimizer | None = None,
        rng: np.random.Generator | None = None,
        averaged: AveragedPolicy | None = None,
        *,
        optimizers: Mapping[str, Optimizer] | None = None,
        parts: Sequence[Any] = (),
    ) -> None:
        self.policy = policy
        self.optimizer = optimizer
        self.averaged = averaged
        self.optimizers = dict(optimizers or {})
        self.parts = list(parts)
        self.actor = make_actor(policy)
        self.rng = rng if rng is not None else np.random.default_rng()
        self.config: dict[str, Any] = {}
        self._env: Any = None
        self._env_state: dict[str, Any] = {}
        self._takes_raw = False

    def take_raw(self) -> None:
        """Take raw observations from now on, and scale them as the environments of training did."""
        self._takes_raw = True

    def attach(self, env: Any, config: dict[str, Any] | None = None, rng: np.random.Generator | None = None) -> None:
        """Attach the model to a run.

        A saved file then includes the environments' normalization; the environments take over the normalization of a
        loaded file, or of the environments that were attached before.

        Args:
            env: the environments.
            config: arguments of the run, which saved files include.
            rng: random generator of the run; None keeps the model's own.
        """
        self.rng = self.rng if rng is None else rng
        if self._env is not None:
            self._env_state = self._env.normalization() or self._env_state
        self._env = env
        if self._env_state:
            env.restore_normalization(self._env_state)
        self.config = dict(config or {})

    def add_parts(self, *parts: Any) -> None:
        """Save further objects with the model, which they needed when they were made; see Part."""
        self.parts.extend(parts)

    @property
    def initial_state(self) -> np.ndarray | None:
        """Recurrent state at the start of an episode [1, S]; None for a feed-forward policy."""
        return self.policy.initial_state(1)

    def step(
        self, obs: np.ndarray, S: np.ndarray | None = None, M: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
        """Sample actions for a batch, as the originals' models do.

        Args:
            obs: observations [N, ...] of the (wrapped) environments.
            S: recurrent states [N, S]; None starts from zeros.
            M: 1 for each first observation of an episode [N]; None for no first observations.

        Returns:
            actions [N, ...], values [N], new states or None, negative log probabilities [N].
        """
        obs = self._batch(obs)
        count = _length(obs)
        noise = self.policy.head.draw_noise(self.rng, (count,))
        return tuple(self.actor.step(obs, *self._memory(count, S, M), noise))

    def act(
        self,
        obs: np.ndarray,
        state: np.ndarray | None = None,
        deterministic: bool = False,
        mask: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Choose actions: samples, or the most likely ones; Box actions are clipped to their bounds.

        Args:
            obs: one observation, or a batch.
            state: recurrent state of the call before; None at the start of an episode.
            deterministic: take the mode of the distribution.
            mask: 1 for each first observation of an episode [N]; None for no first observations.

        Returns:
            The action, or a batch, and the new recurrent state (None for a feed-forward policy).
        """
        obs = self._named(obs)
        single = self._is_single(obs)
        batch = self._batch(_alone(obs) if single else obs)
        count = _length(batch)
        noise = None if deterministic else self.policy.head.draw_noise(self.rng, (count,))
        actions, states = self.actor.choose(batch, *self._memory(count, state, mask), noise)
        space = self.policy.action_space
        if isinstance(space, spaces.Box):
            # Gaussians have no bounds, but environments may require them.
            actions = np.clip(actions, space.low, space.high)
            if space.dtype.kind != "f":
                actions = np.rint(actions).astype(space.dtype)
        return (actions[0] if single else actions), states

    def predict(
        self,
        obs: np.ndarray,
        state: np.ndarray | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Call `act` with the arguments of Stable-Baselines3.

        Args:
            obs: one observation, or a batch.
            state: recurrent state of the call before; None at the start of an episode.
            episode_start: 1 for each first observation of an episode [N]; None for no first observations.
            deterministic: take the mode of the distribution.

        Returns:
            The action, or a batch, and the new recurrent state (None for a feed-forward policy).
        """
        return self.act(obs, state, deterministic, episode_start)

    def value(self, obs: np.ndarray, S: np.ndarray | None = None, M: np.ndarray | None = None) -> np.ndarray:
        """Return the values [N] of a batch of observations."""
        obs = self._batch(obs, acted_on=False)
        return self.actor.value(obs, *self._memory(_length(obs), S, M))

    def initial_states(self, count: int) -> np.ndarray | None:
        """Return the recurrent states [count, S] at the start of episodes; None for a feed-forward policy."""
        return self.policy.initial_state(count)

    def variables(self) -> list[Any]:
        """Return all parameters, equal on every rank: Keras variables, or numpy arrays that change in place."""
        policies = [self.policy, *([] if self.averaged is None else [self.averaged.policy])]
        learners = [*policies, *self.parts]
        return [variable for one in learners for variable in getattr(one, "trainable_variables", ())]

    def observe(self, observations: Callable[[], Any]) -> None:
        """Update the policy's running mean of observations, if it has one.

        Args:
            observations: returns observations [B, ...]; called only if there is a running mean, since it may copy.
        """
        if self.policy.normalizer:
            self.policy.normalizer.update(unpacked(observations(), self.policy.observation_space))
            self.observed()

    def observed(self) -> None:
        """Bring copies up to date with the policy's running mean of observations."""
        self.actor.refresh()
        for part in self.parts:
            part.observed()

    def ready(self) -> None:
        """Bring copies up to date with parameters that were just loaded or broadcast."""
        self.actor.refresh()
        for part in self.parts:
            part.ready()

    def state(self) -> dict[str, Any]:
        """Return the state of the model."""
        state = {
            "policy": self.policy.state(),
            "optimizer": {} if self.optimizer is None else slots(self.optimizer),
        }
        if self.averaged is not None:
            state["averaged"] = self.averaged.policy.state()
        state |= {name: slots(optimizer) for name, optimizer in self.optimizers.items()}
        for part in self.parts:
            state |= part.state()
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state of `state`."""
        self.policy.restore(state["policy"])
        self.actor.refresh()
        if self.optimizer is not None:
            restore_slots(self.optimizer, state["optimizer"])
        if self.averaged is not None:
            self.averaged.policy.restore(state["averaged"])
        for name, optimizer in self.optimizers.items():
            restore_slots(optimizer, state[name])
        for part in self.parts:
            part.restore(state)

    def tree(self) -> dict[str, Any]:
        """Return the content of a saved model."""
        return {"format": FORMAT, "config": self.config, "model": self.state(), "normalization": self._normalization}

    def take(self, tree: dict[str, Any], path: str | os.PathLike) -> None:
        """Take over the content of a saved model; raise ValueError with the file's name if it does not fit."""
        # A damaged file may hold an array.
        if not isinstance(tree.get("format"), str) or tree["format"] != FORMAT:
            raise UsageError(f"'{path}' is not a model saved by tfbaselines")
        try:
            self.restore(tree["model"])
            self._env_state = tree["normalization"] or {}
            if self._env is not None and self._env_state:
                self._env.restore_normalization(self._env_state)
        except ValueError as error:
            raise UsageError(f"cannot load '{path}': {' '.join(str(error).split())[:500]}") from None
        except Exception as error:  # For a stranger's file numpy, Keras and TensorFlow raise almost anything.
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise UsageError(f"cannot load '{path}': it is damaged ({reason})") from None

    def save(self, path: str | os.PathLike) -> None:
        """Write model, optimizer and the environments' normalization to one file, whole or not at all."""
        save_tree(os.path.expanduser(path), self.tree())

    def load(self, path: str | os.PathLike) -> None:
        """Read a saved model, a checkpoint, or the last checkpoint of a run's log directory."""
        found = saved_file(path)
        if os.path.isdir(os.path.expanduser(path)):
            # In a notebook no logger is configured.
            (print if logger.Logger.CURRENT is None else logger.info)(f"loading {found}")
        self.take(load_tree(found), found)

    def export(self, directory: str | os.PathLike) -> None:
        """Write a TensorFlow SavedModel that serves raw observations; see training/build.py."""
        from tfbaselines.training.build import export_saved_model

        export_saved_model(self.policy, self._normalization, os.path.expanduser(directory))

    def _named(self, obs: Any) -> Any:
        """Convert observations to arrays; parts of Tuple and nested ones get the names of the policy's space."""
        space = self.policy.observation_space
        of_parts = opened(space)
        if isinstance(of_parts, spaces.Dict) and isinstance(obs, Mapping | tuple):
            obs = named_parts(obs)
            missing = of_parts.spaces.keys() - obs.keys()
            if missing:
                raise UsageError(f"obs lacks {', '.join(sorted(missing))}: it has {', '.join(obs) or 'nothing'}")
            return {name: _as_array(obs[name], part) for name, part in of_parts.spaces.items()}
        if isinstance(space, spaces.Dict):
            raise bad_argument("obs", obs, f"a dictionary of {', '.join(space.spaces)}")
        if isinstance(obs, Mapping):
            raise bad_argument("obs", obs, f"observations have the shape {space.shape}, and no parts; {FLATTEN}")
        return _as_array(obs, space)

    def _is_single(self, obs: Any) -> bool:
        """Return whether `obs` is one observation, not a batch."""
        space = self.policy.observation_space
        name, part = next(iter(parts_of(opened(space) if isinstance(obs, Mapping) else space).items()))
        return np.ndim(parts_of_obs(obs)[name]) == len(part.shape)

    def _batch(self, obs: Any, acted_on: bool = True) -> Any:
        space, obs = self.policy.observation_space, self._named(obs)
        if not isinstance(obs, Mapping):
            return _checked(_as_array(self._scaled(obs), space) if self._takes_raw else obs, space)
        parts = {name: _checked(obs[name], part) for name, part in opened(space).spaces.items()}
        if MASK in parts and acted_on:
            check_masks(parts[MASK], self.policy.action_space)
        return space.pack(parts) if isinstance(space, PackedSpace) else parts

    @property
    def _normalization(self) -> dict[str, Any]:
        """The statistics that scale raw observations for the policy."""
        return self._env_state if self._env is None or self._takes_raw else self._env.normalization()

    def _scaled(self, obs: np.ndarray) -> np.ndarray:
        statistics = self._env_state.get("ob")
        if statistics is None:
            return obs
        epsilon, clipob = self._env_state["epsilon"], self._env_state["clipob"]
        return scaled(obs, statistics["mean"], statistics["var"], epsilon, clipob)

    def _memory(self, count: int, states: Any, episode_start: Any) -> tuple[Any, Any]:
        if not self.policy.recurrent:
            return None, None
        first = self.policy.initial_state(count)
        states = first if states is None else np.asarray(states, np.float32)
        if states.shape != first.shape:
            accepted = f"that of {count} observations is {first.shape}; give what the call before returned, or None"
            raise bad_argument("state.shape", states.shape, accepted)
        return states, np.zeros(count, bool) if episode_start is None else np.atleast_1d(episode_start)


def _as_array(obs: Any, space: spaces.Space) -> np.ndarray:
    try:
        return np.asarray(obs, observation_dtype(space))
    except (TypeError, ValueError):
        accepted = f"one observation of shape {space.shape} or a batch of them; of reset() and step() the first value"
        if isinstance(obs, tuple):
            accepted += f"; {FLATTEN}"
        raise bad_argument("obs", obs, accepted) from None


def _checked(obs: np.ndarray, space: spaces.Space) -> np.ndarray:
    if obs.shape[1:] != space.shape:
        raise bad_argument("obs.shape", obs.shape, f"a batch of observations has the shape {('N', *space.shape)}")
    if obs.dtype.kind == "f" and not np.isfinite(obs).all():
        # The action would be arbitrary, and a recurrent state would stay NaN.
        raise NotFiniteError(f"obs has a number that is not finite: {obs[~np.isfinite(obs)][0]}")
    return obs


def _alone(obs: Any) -> Any:
    """Return one observation as a batch of one."""
    if isinstance(obs, Mapping):
        return {name: part[None] for name, part in obs.items()}
    return obs[None]


def _length(obs: Any) -> int:
    """Return the number of observations in a batch."""
    return len(next(iter(parts_of_obs(obs).values())))
