"""The contract of an algorithm: what the command line, evaluation and the tests know of it."""

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
    """One algorithm. Its file algs/NAME.py has a class Config and `learn`, and
    `make_policy(network, env, config, comm=None)` where its policy is not that of training/build.py.

    Attributes:
        name: of its file, and for --alg.
        config: class that declares its arguments.
        summary: one line for --help.
        actions: kinds of action spaces: Discrete, MultiDiscrete, MultiBinary, Box, bounded Box.
        recurrent: its policies may have a memory.
        tabular: its policies are tables; the network is 'table'.
        values: it learns what observations are worth in the environment's rewards.
        normalized_environments: MuJoCo environments are wrapped in VecNormalize.
        dict_observations: Dict observations are not flattened.
        encodes_images: Dict observations with images reach it as they are, and each image passes through an encoder.
        goals: observations have goals (envs/wrappers.py).
        num_env: environments on the command line, unless it says how many.
        action_masks: environments are wrapped so that infos' action masks stand beside the observations.
        packed_observations: so are they, and observations of several parts become one row each; see envs/vec/packed.py.
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
        """Whether images and vectors together reach its networks, each image through an encoder."""
        several = self.dict_observations or self.packed_observations or self.encodes_images
        return several and not (self.goals or self.tabular)

    @property
    def takes_masks(self) -> bool:
        """Whether it gives environments only the discrete actions that action masks allow."""
        return self.action_masks or self.packed_observations

    @property
    def module(self) -> ModuleType:
        """The algorithm's file, imported on use and TensorFlow with it."""
        load_tensorflow()
        return importlib.import_module(f"tfbaselines.algs.{self.name}")

    @property
    def learn(self) -> Callable[..., Any]:
        """Train a policy: ``learn(network, env, **arguments)`` returns a Model."""
        return self.module.learn

    def wrap(self, env: Any) -> Any:
        """The environments with what the algorithm puts around them."""
        if self.packed_observations:
            from tfbaselines.envs.vec.packed import with_packed_observations

            return with_packed_observations(env)
        if not self.action_masks:
            return env
        from tfbaselines.envs.vec.packed import with_action_masks

        return with_action_masks(env)

    def default_network(self, env_type: str) -> str:
        """The network for a type of environment, unless one is given."""
        usual = "cnn" if env_type in ("atari", "retro") else "mlp"
        return self.config.defaults_for(env_type).get("network", usual)


def named(algorithms: Mapping[str, Algorithm], name: str) -> Algorithm:
    """The algorithm of some name; ValueError naming the nearest when there is none."""
    if name in algorithms:
        return algorithms[name]
    raise unknown("algorithm", name, algorithms)
