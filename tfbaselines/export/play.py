"""Play a model on raw observations: test vectors and the score of an export."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.algs import get
from tfbaselines.envs.vec.observations import MASK, ONLY, parts_of, parts_of_obs
from tfbaselines.envs.vec.packed import opened, unpacked
from tfbaselines.envs.wrappers import require_end
from tfbaselines.errors import UsageError
from tfbaselines.evaluate import environments
from tfbaselines.export.interface import ACTIONS, MASKS, NEW_STATES, NOISE, STATES, Interface, Options
from tfbaselines.export.joined import joined_of
from tfbaselines.training.observations import flat
from tfbaselines.training.testing import limit_as_trained

ENVIRONMENT = "the environment, seed {seed}"


class Played(NamedTuple):
    """Observations that a model acted on, in the order of the steps.

    Attributes:
        observations: [count, ...] parts of raw observations by name.
        states: [count, S] memory before each step; None for a feed-forward policy.
        masks: [count] 1 where an episode began.
        returns: returns of the episodes.
        source: origin of the observations.
    """

    observations: dict[str, np.ndarray]
    states: np.ndarray | None
    masks: np.ndarray
    returns: list[float]
    source: str


def play(model: Any, count: int, episodes: int, seed: int, deterministic: bool = True) -> Played:
    """Act for at least `count` steps and as many episodes; without environments, on samples of their space."""
    with _environment(model, seed) as (env, source), model.acting_alone(np.random.default_rng(seed)):
        if isinstance(env, _Samples):
            episodes = 0
        return _played(model, env, count, episodes, deterministic, source)


class Exported:
    """Act by the function of an exported policy, as a model does.

    Args:
        run: function from a batch of inputs to outputs, by their names.
        interface: inputs and outputs.
        policy: policy of the model that was exported, for its noise and its memory's size.
        rng: generator of the noise.
    """

    def __init__(self, run: Any, interface: Interface, policy: Any, rng: np.random.Generator) -> None:
        self._run = run
        self._interface = interface
        self._policy = policy
        self._rng = rng

    def initial_states(self, count: int) -> np.ndarray | None:
        return self._policy.initial_state(count)

    def act(
        self, obs: Any, state: np.ndarray | None, deterministic: bool, mask: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute actions and new states; noise is drawn if the export takes it."""
        parts = parts_of_obs(unpacked(obs, self._policy.observation_space))
        if self._interface.joined is not None:
            parts = self._interface.joined.split(parts[ONLY])
        given = {port.name: parts[part] for part, port in self._interface.observations.items()}
        given |= {STATES: state, MASKS: mask}
        if not deterministic:
            given[NOISE] = self._policy.head.draw_noise(self._rng, (len(mask),))
        inputs = {port.name: np.asarray(given[port.name], port.dtype) for port in self._interface.inputs}
        answers = self._run(inputs)
        return answers[ACTIONS], answers.get(NEW_STATES)


def returns_of_export(model: Any, run: Any, options: Options, seed: int) -> list[float]:
    """Play the function of an exported policy for as many episodes as the model was played."""
    exported = Exported(run, options.interface, model.policy, np.random.default_rng(seed))
    with _environment(model, seed) as (env, source):
        return _played(exported, env, 1, len(options.returns), not options.sampled, source).returns


def _played(model: Any, env: Any, count: int, episodes: int, deterministic: bool, source: str) -> Played:
    obs, state, begun, length = env.reset(), model.initial_states(1), np.ones(1, bool), 0
    rows, states, masks, returns = [], [], [], []
    while len(rows) < count or len(returns) < episodes:
        if len(rows) < count:
            parts = parts_of_obs(unpacked(obs, env.observation_space))
            rows.append({name: np.array(part[0]) for name, part in parts.items()})
            states.append(None if state is None else np.array(state[0]))
            masks.append(float(begun[0]))
        actions, state = model.act(obs, state, deterministic, begun)
        obs, _, begun, infos = env.step(actions)
        length = 0 if begun[0] else length + 1
        require_end(length)
        if "episode" in infos[0]:
            returns.append(float(infos[0]["episode"]["r"]))
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    memory = None if state is None else np.stack(states)
    return Played(stacked, memory, np.array(masks, np.float32), returns[:episodes], source)


@contextlib.contextmanager
def _environment(model: Any, seed: int) -> Iterator[tuple[Any, str]]:
    """Make one environment of the model's run, without normalization; samples of its space if there is none."""
    config = model.config
    try:
        if not config.get("env"):
            raise UsageError("the environments were not made from an id")
        env = environments(config | {"env": config["env"] | {"normalize": False}}, 1, seed)
    except (UsageError, ImportError, gymnasium.error.Error) as error:
        yield _Samples(model, seed), f"random samples of the observation space: {' '.join(str(error).split())[:200]}"
        return
    try:
        if "learn" in config:
            limit_as_trained(env, get(config["alg"]), config["learn"])
        yield env, ENVIRONMENT.format(seed=seed)
    finally:
        env.close()


class _Samples:
    """Give samples of an observation space in place of an environment; masks allow everything."""

    def __init__(self, model: Any, seed: int) -> None:
        self._joined = joined_of(model)
        space = opened(model.policy.observation_space) if self._joined is None else self._joined.raw
        self.observation_space = copy.deepcopy(space)
        self.observation_space.seed(seed)

    def reset(self) -> Any:
        """Return a batch of one observation."""
        sample = self.observation_space.sample()
        if self._joined is not None:
            return flat(sample, self._joined.raw)[None]
        sample = parts_of_obs(sample)
        batch = {name: np.asarray(part)[None] for name, part in sample.items()}
        if MASK in parts_of(self.observation_space):
            batch[MASK] = np.ones_like(batch[MASK])
        return batch if isinstance(self.observation_space, spaces.Dict) else batch[ONLY]

    def step(self, actions: np.ndarray) -> tuple[Any, None, np.ndarray, list[dict[str, Any]]]:
        """Return another sample; no episode ends."""
        return self.reset(), None, np.zeros(1, bool), [{}]
