"""A run under examination: its configuration, its environment and its model, made once each."""

import functools
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.algs import get
from tfbaselines.cli.stored import check_run, read_config, require_trust
from tfbaselines.envs.vec import VecEnv
from tfbaselines.evaluate import environments, find_run, load_model
from tfbaselines.probes.walks import Walk, at_random, maker, walk
from tfbaselines.training.build import saved_model
from tfbaselines.training.testing import limit_as_trained

# Random steps of an environment, and seconds that they may take.
STEPS, SECONDS = 4000, 12.0
# Observations at which policies are compared.
COMPARED = 256


class Patient:
    """A saved run.

    Attributes:
        config: content of config.json.
        algorithm: algorithm of the run.
        culprit: argument that alone makes a probe environment fail; empty if none is known.

    Args:
        path: log directory of the run.
        trust: import the modules named in config.json.
    """

    def __init__(self, path: str, trust: bool = False) -> None:
        self._path = path
        self._trust = trust
        # A run that ended before its first checkpoint has no more than this.
        self.config = read_config(path)
        require_trust({"alg": self.config["alg"]}, trust)
        check_run(self.config, get(self.config["alg"]), trust)
        self.algorithm = get(self.config["alg"])
        self.culprit = ""

    @functools.cached_property
    def arguments(self) -> Any:
        """Arguments of learn, with the algorithm's defaults."""
        known = self.algorithm.config.arguments()
        return self.algorithm.config.of({n: v for n, v in self.config["learn"].items() if n in known})

    @functools.cached_property
    def make(self) -> Callable[..., gymnasium.Env]:
        """Function that makes one environment, see `maker`."""
        return maker(self.config)

    @functools.cached_property
    def spec(self) -> Any:
        """Entry of the environment in Gymnasium's registry; None if it has none."""
        env = self.make()
        try:
            return env.spec
        finally:
            env.close()

    @functools.cached_property
    def limit(self) -> int | None:
        """Most steps of an episode, by the registry or by the run's arguments."""
        limits = [getattr(self.spec, "max_episode_steps", None), getattr(self.arguments, "max_ep_len", None)]
        return min((limit for limit in limits if limit), default=None)

    @functools.cached_property
    def random_walk(self) -> Walk:
        """Random steps."""
        env = self.make()
        try:
            return walk(env, at_random(env.action_space), STEPS, until=timer(SECONDS))
        finally:
            env.close()

    def vector(self) -> VecEnv:
        """Make one environment of the run as the trained model gets it."""
        env = environments(self.config, 1, 0)
        limit_as_trained(env, self.algorithm, self.config["learn"])
        return env

    def model(self, env: VecEnv) -> Any:
        """Load the trained model for environments that `vector` made."""
        return load_model(find_run(self._path, "last", self._trust), env)

    def fresh(self, env: VecEnv) -> Any:
        """Make the model with the weights of a run that begins."""
        import keras

        keras.utils.set_random_seed(0)
        known = self.config["learn"].items()
        kept = {name: value for name, value in known if name not in ("total_timesteps", "load_path")}
        return saved_model(self.algorithm, self.config["network"], env, kept)


def timer(seconds: float) -> Callable[[], bool]:
    """Return a function that becomes True after `seconds` of processor time."""
    end = time.process_time() + seconds
    return lambda: time.process_time() > end


def acted(
    model: Any, env: VecEnv, steps: int, until: Callable[[], bool]
) -> tuple[Any, np.ndarray, list[dict[str, Any]]]:
    """Act with a model in one environment; return its observations, likely actions and the infos of episodes."""
    obs, state, done = env.reset(), model.initial_states(env.num_envs), np.zeros(env.num_envs, bool)
    seen, likely, episodes = [], [], []
    for _ in range(steps):
        batch = model.observations.batch(model.observations.named(obs), acted_on=True)
        seen.append(batch)
        likely.append(model.act(obs, state, True, done)[0])
        actions, state = model.act(obs, state, False, done)
        obs, _, done, infos = env.step(actions)
        episodes += [infos[i]["episode"] for i in np.flatnonzero(done) if "episode" in infos[i]]
        if until():
            break
    return np.concatenate(seen) if isinstance(seen[0], np.ndarray) else seen, np.concatenate(likely), episodes
