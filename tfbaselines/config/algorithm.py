"""The registry entry of an algorithm: its Config, its spaces and how environments are prepared for it."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tfbaselines.config.config import Config
from tfbaselines.errors import unknown
from tfbaselines.loading import load_tensorflow

EVERY_KIND = ("Discrete", "MultiDiscrete", "MultiBinary", "Box")


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One algorithm of algs/.

    Its package algs/NAME has a class Config and `learn`. An algorithm with a policy of its own also has
    `make_policy(network, env, config, comm=None)`; the others use the policy that training/build.py makes.

    Attributes:
        name: name of the package, and the value of --alg.
        config: class that declares the arguments.
        summary: one line for --help.
        actions: kinds of action spaces: Discrete, MultiDiscrete, MultiBinary, Box, bounded Box.
        recurrent: recurrent policies are supported.
        tabular: the policy is a table; the network is 'table'.
        values: the algorithm learns a value function of the environment's rewards.
        normalized_environments: MuJoCo environments are wrapped in VecNormalize.
        dict_observations: Dict observations are not flattened.
        encodes_images: Dict observations with images are not flattened; an encoder precedes the network for each image.
        goals: observations have goals (envs/wrappers.py).
        num_env: default number of environments on the command line.
        action_masks: environments are wrapped so that the infos' action masks become a part of the observations.
        packed_observations: as action_masks, and observations of several parts become one row (envs/vec/packed.py).
        length_arguments: arguments that set the length of training in place of total_timesteps.
    """

    name: str
    config: type[Config]
    summary: str
    actions: tuple[str, ...]
    recurrent: bool = True
    tabular: bool = False
    values: bool = True
    normalized_environments: bool = True
    dict_observations: bool = False
    encodes_images: bool = False
    goals: bool = False
    num_env: int = 1
    action_masks: bool = False
    packed_observations: bool = False
    length_arguments: tuple[str, ...] = ()

    @property
    def several_observations(self) -> bool:
        """True if observations of images and vectors are supported, each image through an encoder."""
        several = self.dict_observations or self.packed_observations or self.encodes_images
        return several and not (self.goals or self.tabular)

    @property
    def takes_masks(self) -> bool:
        """True if the policy respects action masks."""
        return self.action_masks or self.packed_observations

    @property
    def module(self) -> ModuleType:
        """The algorithm's package, imported on first use, and TensorFlow with it."""
        load_tensorflow()
        return importlib.import_module(f"tfbaselines.algs.{self.name}")

    @property
    def learn(self) -> Callable[..., Any]:
        """The function ``learn(network, env, **arguments)``, which trains a policy and returns a Model."""
        return self.module.learn

    def wrap(self, env: Any) -> Any:
        """Wrap environments as the algorithm needs them."""
        if self.packed_observations:
            from tfbaselines.envs.vec.packed import with_packed_observations

            return with_packed_observations(env)
        if not self.action_masks:
            return env
        from tfbaselines.envs.vec.packed import with_action_masks

        return with_action_masks(env)

    def default_network(self, env_type: str) -> str:
        """Return the default network for a type of environment."""
        usual = "cnn" if env_type in ("atari", "retro") else "mlp"
        return self.config.defaults_for(env_type).get("network", usual)


def named(algorithms: Mapping[str, Algorithm], name: str) -> Algorithm:
    """Return the algorithm of this name; the error for an unknown name suggests the nearest."""
    if name in algorithms:
        return algorithms[name]
    raise unknown("algorithm", name, algorithms)
