"""Models: learn() returns a policy that acts, and that is saved, loaded and exported with its statistics."""

import contextlib
import copy
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.base import find_wrapper
from tfbaselines.envs.vec.packed import unpacked
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.learn.optimizers import AveragedPolicy, Optimizer, restore_slots, slots
from tfbaselines.logs import logger
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.base import BasePolicy
from tfbaselines.training.checkpoint import DamagedError, load_tree, save_tree, saved_file
from tfbaselines.training.observations import Observations, alone, length

FORMAT = "tfbaselines-model-1"


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

    Attributes:
        config: description of the run.
        failures: what failed at the end of the run, when training was over.

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
        self.failures: list[str] = []
        self.observations = Observations(policy.observation_space, policy.action_space)

    def attach(self, env: Any, config: dict[str, Any] | None = None, rng: np.random.Generator | None = None) -> None:
        """Attach the model to environments, for their observations.

        A saved file then includes the environments' normalization; the environments take over the normalization of a
        loaded file, or of the environments that were attached before. Observations of environments without
        VecNormalize are scaled by the model, if training normalized them.

        Args:
            env: the environments.
            config: description of the run, which saved files include; None keeps the model's own.
            rng: random generator of the run; None keeps the model's own.
        """
        self.rng = self.rng if rng is None else rng
        self.config = self.config if config is None else dict(config)
        self.observations.attach(env)

    @contextlib.contextmanager
    def acting_in(self, env: VecEnv, rng: np.random.Generator) -> Iterator[None]:
        """Act in other environments for a while; the statistics of observations stay as they are."""
        before = self.observations, self.rng
        self.observations = copy.copy(self.observations)
        normalized = find_wrapper(env, VecNormalize)
        trained = normalized is not None and normalized.training
        try:
            self.attach(env, rng=rng)
            if trained:
                normalized.training = False
            yield
        finally:
            self.observations, self.rng = before
            if trained:
                normalized.training = True

    @contextlib.contextmanager
    def acting_alone(self, rng: np.random.Generator) -> Iterator[None]:
        """Act on raw observations of any environments for a while, as an exported policy does."""
        before = self.observations, self.rng
        self.observations = self.observations.alone()
        self.rng = rng
        try:
            yield
        finally:
            self.observations, self.rng = before

    def add_parts(self, *parts: Any) -> None:
        """Save further objects with the model, which they needed when they were made; see Part."""
        self.parts.extend(parts)

    @property
    def initial_state(self) -> np.ndarray | None:
        """Recurrent state at the start of episodes [1, S], for any number of them; None for a feed-forward policy."""
        return self.policy.initial_state(1)

    def step(
        self, obs: np.ndarray, S: np.ndarray | None = None, M: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
        """Sample actions for a batch, as the originals' models do.

        Args:
            obs: observations [N, ...] of the (wrapped) environments, or one observation, which is a batch of one.
            S: recurrent states [N, S]; None starts from zeros.
            M: 1 for each first observation of an episode [N]; None for no first observations.

        Returns:
            actions [N, ...], values [N], new states or None, negative log probabilities [N].
        """
        obs, _ = self._batch(obs)
        count = length(obs)
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
        batch, single = self._batch(obs)
        count = length(batch)
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
        """Return the values [N] of a batch of observations, or of one."""
        obs, _ = self._batch(obs, acted_on=False)
        return self.actor.value(obs, *self._memory(length(obs), S, M))

    def _batch(self, obs: Any, acted_on: bool = True) -> tuple[Any, bool]:
        """Return observations as a batch for the policy, and whether there was a single one."""
        obs = self.observations.named(obs)
        single = self.observations.is_single(obs)
        return self.observations.batch(alone(obs) if single else obs, acted_on=acted_on), single

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
        observations = self.observations
        tree = {"format": FORMAT, "config": self.config, "model": self.state()}
        return tree | {"normalization": observations.normalization, "spaces": observations.state()}

    def take(self, tree: dict[str, Any], path: str | os.PathLike, only_acts: bool = False) -> None:
        """Take over the content of a saved model; raise ValueError with the file's name if it does not fit.

        A model that `only_acts` needs no optimizers and other parts that fit.
        """
        # A damaged file may hold an array.
        if not isinstance(tree.get("format"), str) or tree["format"] != FORMAT:
            raise UsageError(f"'{path}' is not a model saved by tfbaselines")
        try:
            try:
                self.restore(tree["model"])
            except UsageError as error:
                if not only_acts:
                    raise
                self.policy.restore(tree["model"]["policy"])
                self.ready()
                logger.warn(f"only the policy of '{path}' is taken: {error}")
            self.observations.restore(tree["spaces"], tree["normalization"] or {})
        except ValueError as error:
            raise UsageError(f"cannot load '{path}': {' '.join(str(error).split())[:500]}") from None
        except Exception as error:  # For a stranger's file numpy, Keras and TensorFlow raise almost anything.
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            raise DamagedError(f"cannot load '{path}': it is damaged ({reason})") from None

    def save(self, path: str | os.PathLike) -> None:
        """Write model, optimizer and the environments' normalization to one file, whole or not at all."""
        save_tree(os.path.expanduser(path), self.tree())

    def load(self, path: str | os.PathLike, only_acts: bool = False) -> None:
        """Read a saved model, a checkpoint, or the last checkpoint of a run's log directory; see `take`."""
        found = saved_file(path)
        if os.path.isdir(os.path.expanduser(path)):
            # In a notebook no logger is configured.
            (print if logger.Logger.CURRENT is None else logger.info)(f"loading {found}")
        self.take(load_tree(found), found, only_acts)

    def export(
        self,
        directory: str | os.PathLike,
        to: str = "savedmodel",
        *,
        sampled: bool = False,
        precision: str = "float32",
        episodes: int = 20,
    ) -> None:
        """Write the policy for use without this package; it takes raw observations.

        Args:
            directory: path of the export; it must not exist, or be an earlier export.
            to: 'savedmodel', 'litert', 'onnx', 'js', 'c' or 'numpy'.
            sampled: sample actions from noise, which is an input, instead of taking the most likely ones.
            precision: type of the weights, 'float32'; litert also has 'float16' and 'int8'.
            episodes: episodes of the score in the export's card; 0 for none.
        """
        # Exports evaluate the model, so their room stands above this one.
        exporting = importlib.import_module("tfbaselines.export")
        exporting.export(self, directory, to, sampled=sampled, precision=precision, episodes=episodes)

    def _memory(self, count: int, states: Any, episode_start: Any) -> tuple[Any, Any]:
        if not self.policy.recurrent:
            return None, None
        first = self.policy.initial_state(count)
        states = first if states is None else np.asarray(states, np.float32)
        if states.shape != first.shape:
            # An initial state is that of any number of environments.
            if states.ndim != 2 or not np.array_equal(states, self.policy.initial_state(len(states))):
                accepted = f"that of {count} observations is {first.shape}; give what the call before returned, or None"
                raise bad_argument("state.shape", states.shape, accepted)
            states = first
        return states, np.zeros(count, bool) if episode_start is None else np.atleast_1d(episode_start)
