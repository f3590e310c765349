"""The registry entry of an algorithm, and the signature and documentation of `learn` that follow from its Config."""

import dataclasses
import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from types import ModuleType
from typing import Annotated, Any, Union, get_args, get_origin

from tfbaselines.config.config import Config
from tfbaselines.config.options import RunOptions
from tfbaselines.errors import UsageError, bad_argument, unknown
from tfbaselines.loading import check_eager, import_named, load_tensorflow

EVERY_KIND = ("Discrete", "MultiDiscrete", "MultiBinary", "Box")


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of algs/.

    Its package algs/NAME has a class Config and `learn`. An algorithm with a policy of its own also has
    `make_policy(network, env, config, comm=None)`; the others use the policy that training/build.py makes.

    Attributes:
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
        imported_as: 'module:function' of a user's algorithm; empty for the algorithms of algs/.
    """

    config: type[Config]
    summary: str
    actions: tuple[str, ...]
    _: KW_ONLY
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
    imported_as: str = ""

    @property
    def name(self) -> str:
        """Name of the package, and the value of --alg."""
        return self.imported_as or self.config.__module__.rpartition(".")[2]

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
        return importlib.import_module(self.imported_as.partition(":")[0] or self.config.__module__)

    @property
    def learn(self) -> Callable[..., Any]:
        """The function ``learn(network, env, **arguments)``, which trains a policy and returns a Model."""
        return getattr(self.module, self.imported_as.partition(":")[2] or "learn")

    def wrap(self, env: Any) -> Any:
        """Wrap environments as the algorithm needs them."""
        if not self.takes_masks:
            return env
        from tfbaselines.envs.vec import packed

        return packed.with_packed_observations(env) if self.packed_observations else packed.with_action_masks(env)

    def default_network(self, env_type: str) -> str:
        """Return the default network for a type of environment."""
        usual = "cnn" if env_type in ("atari", "retro") else "mlp"
        return self.config.defaults_for(env_type).get("network", usual)


def named(algorithms: Mapping[str, Algorithm], name: str) -> Algorithm:
    """Return the algorithm of this name; the error for an unknown name suggests the nearest."""
    if ":" in name:
        return imported(name)
    if name in algorithms:
        return algorithms[name]
    raise unknown("algorithm", name, algorithms)


def imported(name: str) -> Algorithm:
    """Import the algorithm 'module:function' of a user: its module has ALGORITHM, as docs/architecture.md describes."""
    module, _, function = name.partition(":")
    load_tensorflow()
    try:
        found = import_named(module)
    except (ImportError, TypeError, ValueError) as error:
        raise bad_argument("alg", name, f"module '{module:.80}' cannot be imported ({error!s:.200})") from None
    algorithm = getattr(found, "ALGORITHM", None)
    if not isinstance(algorithm, Algorithm) or not callable(getattr(found, function, None)):
        accepted = f"{module:.80} needs ALGORITHM = Algorithm(Config, ...) and a function with @takes(ALGORITHM)"
        raise bad_argument("alg", name, accepted)
    return dataclasses.replace(algorithm, imported_as=name)


WIDTH = 100
ENV = "the environments: a VecEnv, a Gymnasium environment, an id, a function that makes one, or a list of functions"
# Distance of the seeds for evaluation from the seeds for training.
EVAL_SEEDS_APART = 5_000
SCHEDULE = """A schedule is a number, a text SHAPE_NUMBER such as 'linear_3e-4', which falls from 3e-4 to 0 over
training, or a function of the fraction of training left, from 1 down to 0."""


def takes(algorithm: Algorithm, env: str = ENV) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate ``def learn(network, env, **kwargs)``: name, document and sort its arguments.

    The Config's order gives names to arguments after network and env that are given by position; the function gets
    all of them by name. `inspect.signature` and `help` of the function list every argument. An environment's id gets
    what it gets on the command line: the wrappers and the arguments' defaults for its type.

    Args:
        algorithm: declares the arguments.
        env: meaning of `env` for the documentation.
    """
    config = algorithm.config

    def decorate(learn: Callable[..., Any]) -> Callable[..., Any]:
        names = ("network", "env", *config.arguments())

        @functools.wraps(learn)
        def with_names(*positional: Any, **named: Any) -> Any:
            check_eager()
            if positional and "network" in named and "env" not in named:
                # The form of baselines' deepq is learn(env, network="mlp").
                positional = (named.pop("network"), *positional)
            arguments = _by_name(names, positional, named)
            network, env = arguments.pop("network"), arguments.pop("env")
            if hasattr(network, "action_space") or (_is_id(network) and _may_be_network(env)):
                # The form of baselines' deepq is learn(env, "mlp").
                network, env = env, network
            made = _environments(algorithm, env, arguments)
            defaults = _defaults_for(env, network, config) if isinstance(env, str) else {}
            options = arguments.get("run") or RunOptions()
            if isinstance(options, RunOptions):
                arguments["run"] = dataclasses.replace(options, network=network)
            return learn(network, **defaults | arguments | made)

        with_names.__signature__ = _signature(learn, config)
        with_names.__doc__ = _documentation(learn, config, env)
        return with_names

    return decorate


def _environments(algorithm: Algorithm, env: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make learn's arguments `env` and `eval_env` of what the user gave."""
    from tfbaselines.envs.adapt import as_vec_env, check_apart

    seed = arguments.get("seed")
    # The Config refuses a seed of another type.
    seed = seed if isinstance(seed, Integral) else None
    # Environments need the seed before the Config checks the arguments.
    if seed is not None and "seed" in algorithm.config.arguments():
        algorithm.config.arguments()["seed"].checked(seed)
    wrappers = {"flatten": not algorithm.dict_observations, "normalize": algorithm.normalized_environments}
    made = {"env": as_vec_env(env, seed, **wrappers)}
    if arguments.get("eval_env") is not None:
        seed = None if seed is None else seed + EVAL_SEEDS_APART
        tests = as_vec_env(arguments["eval_env"], seed, **wrappers, name="eval_env", training=False)
        check_apart(made["env"], tests, "eval_env")
        made["eval_env"] = tests
    return made


def _defaults_for(env_id: str, network: Any, config: type[Config]) -> dict[str, Any]:
    """Return the defaults for an environment's type, without those that are for another network."""
    from tfbaselines.envs import env_type_of
    from tfbaselines.policy.networks import get_network_builder

    defaults = {name: value for name, value in config.defaults_for(env_type_of(env_id)[0]).items() if name != "network"}
    own = config.arguments().keys()
    if defaults.keys() - own:
        own = own | inspect.signature(get_network_builder(network)).parameters.keys()
    return {name: value for name, value in defaults.items() if name in own}


def _is_id(value: Any) -> bool:
    """Return True if a text is the id of an environment, also of one that a module registers later."""
    if not isinstance(value, str):
        return False
    import gymnasium

    from tfbaselines.envs import VERSION
    from tfbaselines.policy.networks import NETWORKS

    return bool(VERSION.search(value) or value in gymnasium.registry) and value not in NETWORKS


def _may_be_network(value: Any) -> bool:
    return callable(value) or (isinstance(value, str) and not _is_id(value))


def _by_name(names: tuple[str, ...], positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Name the positional arguments; refuse too many, and one that is missing or given twice."""
    if len(positional) > len(names):
        raise UsageError(
            f"learn takes at most {len(names)} arguments by position, not {len(positional)}: {names[-1]} is the last"
        )
    by_position = dict(zip(names, positional, strict=False))
    twice = sorted(by_position.keys() & named.keys())
    if twice:
        raise UsageError(f"argument '{twice[0]}' is given twice, by position and by name")
    arguments = by_position | named
    missing = [name for name in names[:2] if name not in arguments]
    if missing:
        raise TypeError(f"argument '{missing[0]}' is missing: learn(network, env, ...)")
    return arguments


def _signature(learn: Callable[..., Any], config: type[Config]) -> inspect.Signature:
    own = inspect.signature(learn)
    parameters = [own.parameters[name] for name in ("network", "env")]
    types = {field.name: _plain(field.type) for field in dataclasses.fields(config)}
    for name, argument in config.arguments().items():
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(name, kind, default=argument.default, annotation=types[name]))
    parameters.append(inspect.Parameter("network_kwargs", inspect.Parameter.VAR_KEYWORD, annotation=Any))
    return inspect.Signature(parameters, return_annotation=own.return_annotation)


def _plain(annotation: Any) -> Any:
    """Replace a Schedule in an annotation by the types that it stands for."""
    if get_origin(annotation) is Annotated:
        return annotation.__origin__
    members = get_args(annotation)
    if any(get_origin(member) is Annotated for member in members):
        return Union[tuple(_plain(member) for member in members)]  # noqa: UP007
    return annotation


def _documentation(learn: Callable[..., Any], config: type[Config], env: str) -> str:
    """Add a section Args to the function's docstring, before its section Returns."""
    text, _, returns = (inspect.getdoc(learn) or "").partition("\n\nReturns:")
    entries = ["network: name of a registered network, or a network builder.", f"env: {env}."]
    entries += [f"{one.name}: {one.meaning} ({one.notes()})." for one in config.arguments().values()]
    entries += ["network_kwargs: arguments of the network builder."]
    fill = functools.partial(textwrap.fill, width=WIDTH, break_long_words=False, break_on_hyphens=False)
    lines = [f"{text}\n\nArgs:"]
    lines += [fill(entry, initial_indent="    ", subsequent_indent="        ") for entry in entries]
    if config.schedulable():
        lines += ["", fill(SCHEDULE)]
    return "\n".join(lines) + (f"\n\nReturns:{returns}" if returns else "")
