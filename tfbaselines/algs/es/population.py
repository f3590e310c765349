"""A population: many members with different parameters, each acting on one observation, in one call per step.

Policies of dense layers act in numpy: each layer is one product of all members' activations [M, 1, inputs] with all
members' kernels [M, inputs, outputs]. Other policies act through one compiled function of all members' parameters.

Trials evaluates members: they run as many episodes at once as there are environments.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.vec.observations import parts_of_obs
from tfbaselines.envs.vec.packed import unpacked
from tfbaselines.envs.wrappers import require_end
from tfbaselines.files import require_memory
from tfbaselines.policy.actor import NumpyActor, acts_in_numpy
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.copies import NumpyCopies
from tfbaselines.policy.encoding import observation_dtype, observation_spec

FLOAT_BYTES = 4


class StackedCopies(NumpyCopies):
    """Views of the members' parameters [M, P], all variables one after the other: an array [M, ...] for each."""

    def __init__(self, parameters: np.ndarray, variables: list[keras.Variable]) -> None:
        super().__init__()
        ends = np.cumsum([int(np.prod(variable.shape)) for variable in variables]).tolist()
        begins = [0, *ends[:-1]]
        self._views = {
            id(variable): parameters[:, begin:end].reshape(len(parameters), *variable.shape)
            for variable, begin, end in zip(variables, begins, ends, strict=True)
        }

    def of(self, variable: keras.Variable) -> np.ndarray:
        return self._views[id(variable)]

    @staticmethod
    def _product(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        return np.matmul(x[:, None], kernel)[:, 0]


class NumpyPopulation:
    """M members that act in numpy, each with a copy of a policy's dense networks."""

    def __init__(self, policy: BasePolicy, members: int) -> None:
        self._parameters = _allocated(policy, members)
        self._actor = NumpyActor(policy, StackedCopies(self._parameters, policy.trainable_variables))

    def place(self, member: int, parameters: np.ndarray) -> None:
        """Set the parameters [P] of a member."""
        self._parameters[member] = parameters

    def ready(self) -> None:
        """Read the policy's present statistics of observations."""
        self._actor.refresh()

    def choose(self, obs: np.ndarray, states: Any, episode_start: Any) -> tuple[np.ndarray, None]:
        """Choose actions [M, ...] for observations [M, ...]; return them and no states."""
        return self._actor.act(obs, None), None


class GraphPopulation:
    """M members that act through one compiled function: convolutional, recurrent and unusual networks."""

    def __init__(self, policy: BasePolicy, members: int) -> None:
        variables = policy.trainable_variables
        self._parameters = tf.Variable(_allocated(policy, members), trainable=False)
        self._states = policy.initial_state(members)
        signature = [observation_spec(policy.observation_space, members)]
        if policy.recurrent:
            signature += [tf.TensorSpec((members,), tf.float32), tf.TensorSpec(self._states.shape, tf.float32)]

        def one(inputs: tuple) -> tuple:
            """Run the policy with one member's parameters [P], on its observation, episode_start and state."""
            parameters, obs, *memory = inputs
            parts = tf.split(parameters, [int(np.prod(variable.shape)) for variable in variables])
            mapping = [(v, tf.reshape(part, v.shape)) for v, part in zip(variables, parts, strict=True)]
            with keras.StatelessScope(state_mapping=mapping):
                outputs = policy.forward(obs[None], *(part[None] for part in memory))
            return (outputs.flat[0], *(() if outputs.states is None else (outputs.states[0],)))

        def choose(obs: tf.Tensor, *memory: tf.Tensor) -> tuple:
            flat, *states = tf.vectorized_map(one, (self._parameters.value(), obs, *memory))
            actions = policy.head.distribution(flat).mode()
            return (tf.cast(actions, policy.head.action_dtype), *states)

        # Trace once even if functions run eagerly: eager calls would rebuild the map in every step.
        self._choose = compiled(choose).get_concrete_function(*signature)

    def place(self, member: int, parameters: np.ndarray) -> None:
        """Set the parameters [P] of a member."""
        self._parameters[member].assign(parameters)

    def ready(self) -> None:
        """Do nothing: the compiled function reads the policy's statistics of observations."""

    def choose(
        self, obs: np.ndarray, states: np.ndarray | None, episode_start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Choose actions [M, ...] for observations [M, ...]; return them and new states [M, S] or None."""
        memory = () if states is None else (np.asarray(episode_start, np.float32), states)
        actions, *new_states = self._choose(*tf.nest.map_structure(tf.convert_to_tensor, (obs, *memory)))
        return actions.numpy(), new_states[0].numpy() if new_states else None


Population = NumpyPopulation | GraphPopulation


def make_population(policy: BasePolicy, members: int) -> Population:
    """Make the fastest population of members that act at once, each with networks like the policy's."""
    return (NumpyPopulation if acts_in_numpy(policy) else GraphPopulation)(policy, members)


def flat_parameters(policy: BasePolicy) -> np.ndarray:
    """Return the policy's parameters [P], all variables one after the other."""
    return np.concatenate([variable.numpy().ravel() for variable in policy.trainable_variables])


def _allocated(policy: BasePolicy, members: int) -> np.ndarray:
    size = sum(int(np.prod(variable.shape)) for variable in policy.trainable_variables)
    require_memory(members * size * FLOAT_BYTES, "num_env", "the population's parameters")
    return np.zeros((members, size), np.float32)


class Sums(NamedTuple):
    """Sums of observations and of their squares, by part, and the number of observations."""

    total: dict[str, np.ndarray]
    squares: dict[str, np.ndarray]
    count: int


class Trial(NamedTuple):
    """A member's episode: the sum of its rewards, and the observations' sums if the policy normalizes them."""

    score: float
    sums: Sums | None


class Trials:
    """Runs an episode of each member.

    Args:
        env: the environments.
        policy: policy of the members; with a normalizer, observations are summed up.
        population: as many members as environments.

    Attributes:
        steps: environment steps of the latest run; environments without a member rest at its end, if they can.
        episodes: the infos' 'episode' entries of the latest run's members.
    """

    def __init__(self, env: VecEnv, policy: BasePolicy, population: Population) -> None:
        self._env = env
        self._policy = policy
        self._population = population
        self._dtype = observation_dtype(env.observation_space)
        self.steps = 0
        self.episodes = []

    def run(self, members: Sequence[int], parameters: Callable[[int], np.ndarray]) -> list[Trial]:
        """Run the members' episodes and return their trials, in their order.

        An environment takes the next waiting member when its member is done. `parameters` is a function of a member's
        number that returns its parameters [P].
        """
        env, population, waiting = self._env, self._population, iter(members)
        rows = env.num_envs
        trials: dict[int, Trial] = {}
        scores, lengths = np.zeros(rows), np.zeros(rows, int)
        self.episodes = []
        self.steps = 0
        observed = _Observed(rows, self._policy)
        # The present member of each environment, and the number of environments that are stepped.
        present: list[int | None] = [None] * rows
        stepped = rows
        place = partial(self._place, present=present, waiting=waiting, parameters=parameters)
        # Every iteration starts with new episodes, so that a resumed run needs nothing of the iteration before.
        obs = env.reset()
        for row in range(rows):
            stepped -= place(row)
        population.ready()
        states, episode_start = self._policy.initial_state(rows), np.ones(rows, bool)
        while len(trials) < len(members):
            obs = np.asarray(obs, self._dtype)
            observed.add(obs)
            actions, states = population.choose(obs, states, episode_start)
            obs, rewards, episode_start, infos = env.step(actions)
            scores += rewards
            self.steps += stepped
            for row in np.flatnonzero(episode_start).tolist() if episode_start.any() else ():
                sums, score = observed.take(row), float(scores[row])
                scores[row] = 0.0
                if present[row] is not None:
                    trials[present[row]] = Trial(score, sums)
                    self.episodes += [infos[row]["episode"]] if "episode" in infos[row] else []
                    stepped -= place(row)
            # An environment without a member rests no longer than the last episode of another.
            lengths = np.where(episode_start, 0, lengths + 1)
            require_end(int(lengths.max()))
        return [trials[member] for member in members]

    def _place(
        self,
        row: int,
        present: list[int | None],
        waiting: Iterator[int],
        parameters: Callable[[int], np.ndarray],
    ) -> int:
        """Give an environment the next member; return the number of environments that rest from now on."""
        present[row] = next(waiting, None)
        if present[row] is None:
            return int(self._env.rest(row))
        self._population.place(row, parameters(present[row]))
        return 0


class _Observed:
    """Sums up the observations of each environment's present member, for policies that normalize observations."""

    def __init__(self, rows: int, policy: BasePolicy) -> None:
        self._policy = policy
        self._shapes = {} if policy.normalizer is None else policy.normalizer.shapes
        self._total = {name: np.zeros((rows, *shape)) for name, shape in self._shapes.items()}
        self._squares = {name: np.zeros((rows, *shape)) for name, shape in self._shapes.items()}
        self._count = np.zeros(rows, int)

    def add(self, obs: np.ndarray) -> None:
        parts = parts_of_obs(unpacked(obs, self._policy.observation_space)) if self._shapes else {}
        for name in self._shapes:
            numbers = np.asarray(parts[name], np.float64)
            self._total[name] += numbers
            self._squares[name] += np.square(numbers)
        self._count += 1

    def take(self, row: int) -> Sums | None:
        """Return the sums of one environment and reset them; None without a normalizer."""
        if not self._shapes:
            return None
        total, squares = ({name: part[row].copy() for name, part in s.items()} for s in (self._total, self._squares))
        taken = Sums(total, squares, int(self._count[row]))
        for part in (*self._total.values(), *self._squares.values(), self._count):
            part[row] = 0
        return taken
