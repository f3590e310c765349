"""Parser of the command line and text of --help: flags of the run, arguments of the algorithm and of its network."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfbaselines.config.algorithm import Algorithm, named
from tfbaselines.config.argument import Argument, accepted
from tfbaselines.config.config import Declared, arg
from tfbaselines.config.groups import Network, network_named
from tfbaselines.config.options import EXCHANGES, ON_NAN, PRECISIONS, ROWS
from tfbaselines.config.stable_baselines3 import name_here
from tfbaselines.envs import ENV_TYPES, env_type_of
from tfbaselines.envs.normalize import NORMALIZE
from tfbaselines.envs.parameters import read_parameters
from tfbaselines.envs.workers import WORKERS, check_worker
from tfbaselines.errors import UsageError, bad_argument, nearest
from tfbaselines.limits import SEED, TIMESTEPS
from tfbaselines.parallel.mpi import usable_cores
from tfbaselines.words import literal, value_of


@dataclass(kw_only=True)
class Flags(Declared):
    """Flags of the command, checked."""

    env: str = arg("CartPole-v1", "environment id; 'module:id' imports the module first")
    env_type: str | None = arg(None, "type of environment, if the registry does not have it", choices=ENV_TYPES)
    env_kwargs: dict[str, Any] | None = arg(None, "arguments of the environment, each as --env_kwargs.NAME=VALUE")
    env_parameters: str | None = arg(
        None,
        "file of samplers or of a curriculum for the environment's parameters, as ML-Agents has; several with commas",
    )
    wrapper: str | None = arg(
        None,
        "'module:Wrapper' around each environment, or 'module:Wrapper(NAME=VALUE, ...)'; several with commas, or "
        "--wrapper several times, the innermost first",
    )
    monitor_keys: str | None = arg(
        None, "entries of the info at an episode's end, with commas, for monitor files and the columns episode/NAME"
    )
    seed: int | None = arg(None, "random seed; None draws one and stores it in config.json", at_least=0, limit=SEED)
    alg: str = arg("ppo2", "algorithm; 'module:learn' imports the module first")
    tuned: bool | str = arg(
        False,
        "use the tuned hyper-parameters for the environment, unless others are given; or a named set, such as rainbow",
    )
    config: str | None = arg(
        None,
        "YAML file of arguments: a section 'default', and sections of types of environments and of environments; or "
        "the log directory of a run, whose arguments count unless others are typed",
    )
    print_config: bool = arg(False, "print every argument and the source of its value, without training")
    num_timesteps: float = arg(1e6, "environment steps of training; 0 trains nothing", at_least=0, limit=TIMESTEPS)
    network: str | None = arg(None, "network; 'module:name' imports the module first; None for the algorithm's default")
    gamestate: str | None = arg(None, "game state to load (retro only)")
    num_env: int | None = arg(
        None, "parallel environments; None for one a core (atari), 2 (her) or 1", at_least=1, limit=10**4
    )
    reward_scale: float = arg(1.0, "factor of the rewards")
    normalize: str | None = arg(
        None,
        "running normalization around the environments (VecNormalize); None for both around MuJoCo, except for sac, "
        "td3 and Spinning Up's algorithms",
        choices=tuple(NORMALIZE),
    )
    save_path: str | None = arg(None, "file for the trained model")
    save_video_interval: int = arg(0, "steps between videos; 0 for none", at_least=0)
    save_video_length: int = arg(200, "steps in a video", at_least=1)
    log_path: str | None = arg(None, "directory of logs and checkpoints")
    log_format: str | None = arg(
        None,
        "log formats, separated by commas: stdout, log, csv, json, tensorboard, wandb, mlflow; None for the variable "
        "OPENAI_LOG_FORMAT, else stdout,log,csv",
    )
    log_level: str | None = arg(
        None, "rows on standard output; None for short ones on a terminal and tables elsewhere", choices=ROWS
    )
    play: bool = arg(False, "run the trained policy afterwards, in a window if there is a display")
    resume: str | None = arg(
        None,
        "log directory of a run to continue, with its arguments; 'auto' continues the run in log_path or starts it",
    )
    trust: bool = arg(False, "import the modules named in the config.json of a resumed run, which runs their code")
    keep_checkpoints: int = arg(5, "number of latest checkpoints to keep", at_least=1)
    save_minutes: float | None = arg(
        10.0, "minutes between checkpoints; None for the algorithm's own interval alone", above=0, limit=TIMESTEPS
    )
    save_every: float | None = arg(
        None, "environment steps between checkpoints, in addition to save_minutes", at_least=1, limit=TIMESTEPS
    )
    stop_at: float | None = arg(
        None,
        "mean return that ends the run: of the latest evaluation, or without evaluations of the latest 100 episodes "
        "(gail: 40)",
    )
    stop_without_gain: float | None = arg(
        None, "early stopping: environment steps without improvement of the mean return", at_least=1, limit=TIMESTEPS
    )
    evaluate_every: float | None = arg(
        None,
        "environment steps between evaluations of the deterministic policy, for every algorithm",
        at_least=1,
        limit=TIMESTEPS,
    )
    evaluate_episodes: int = arg(10, "episodes of each of these evaluations", at_least=1)
    overwrite: bool = arg(False, "delete the files of an earlier run in log_path")
    precision: str = arg("float32", "precision of convolutions and matrix products", choices=PRECISIONS)
    on_nan: str = arg("stop", "if a number is not finite: end the run, or drop the update ('skip')", choices=ON_NAN)
    cpu: int | None = arg(None, "number of MPI ranks; the command starts itself under mpirun", at_least=1)
    timers: bool = arg(False, "log the seconds and shares of each phase: collect, act, environment, update, save")
    doctor: bool | str = arg(
        False,
        "warn once of each sign that surely keeps the run from learning; --doctor=stop ends the run there",
        choices=("stop",),
    )
    mpi_exchange: str = arg(
        "auto",
        "exchange between ranks: batches at once, or gradients at each step; the results are the same",
        choices=EXCHANGES,
    )
    worker: str | None = arg(
        None,
        "where environments run: in this process, natively in its threads, in processes of their own, or in EnvPool's "
        "threads; None for the fastest of the first two",
        choices=WORKERS,
    )
    env_threads: int | None = arg(
        None,
        "threads that step native MuJoCo environments or EnvPool's; None for the cores of this rank",
        at_least=1,
        limit=10**3,
    )
    in_series: int = arg(1, "environments in each process, with --worker=subproc or shmem", at_least=1)
    step_timeout: float | None = arg(None, "seconds for an environment's step, with --worker=subproc or shmem", above=0)
    restart_workers: int = arg(
        0, "crashed or hung workers to replace at most, with their episodes truncated", at_least=0
    )

    def check(self) -> None:
        for name in ("log_path", "save_path", "resume", "config"):
            path = getattr(self, name)
            if path is not None and not path.strip():
                raise bad_argument(name, path, "a path, not an empty text")
        check_worker(self.worker, self.step_timeout, self.restart_workers, self.env_threads, self.in_series)
        if self.env_parameters is not None:
            # The content stays with the run, not the files' names.
            self.env_parameters = read_parameters(self.env_parameters).as_text()


FLAGS = Flags.arguments()

# Arguments of learn that the command sets from its flags.
OF_THE_RUN = ("total_timesteps", "seed", "eval_env", "run")

# Spinning Up's command line, on which a flag may have several values.
EXPERIMENTS = "python -m tfbaselines.run ALG"

# Flags of the originals' commands without a counterpart of the same name.
ELSEWHERE = {
    "env_name": "did you mean --env?",
    "num_cpu": "did you mean --cpu?",
    "sampler": "it is --env_parameters=FILE here",
    "curriculum": "it is --env_parameters=FILE here",
    "extra_import": "the module comes before the id: --env=module:id",
} | {name: f"it belongs to {EXPERIMENTS} --{name} VALUE ..." for name in ("exp_name", "data_dir", "hid", "act")}

# Flags that may be given several times.
REPEATABLE = ("wrapper",)
# Prefix of the environment's arguments.
ENV_KWARGS = "env_kwargs."
# Largest number of algorithms that the error for an unknown argument lists.
MOST_NAMED = 4


@dataclass
class Arguments:
    """A checked command line.

    Attributes:
        learn: arguments for learn(), with the algorithm's defaults for this type of environment.
        total_timesteps: argument of learn(); None if another argument sets the length of training.
        given: arguments given by the user, by name, as text or True, from which the command can be repeated.
        env_id: id of the environment without a module.
    """

    algorithm: Algorithm
    flags: dict[str, Any]
    learn: dict[str, Any]
    total_timesteps: float | None = None
    given: dict[str, str | bool] = field(default_factory=dict)
    env_type: str = ""
    env_id: str = ""

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__.get("flags", ()):
            raise AttributeError(name)
        return self.flags[name]


def split(argv: list[str]) -> dict[str, str | bool]:
    """Split '--key=value', '--key value' and '--key' (True) into a dictionary; the last of a repeated key counts.

    Values of REPEATABLE keys are joined by commas.
    """
    given: dict[str, str | bool] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            several = f" (several values of one argument, with an algorithm of Spinning Up: {EXPERIMENTS} --seed 0 10)"
            several = several if given else ""
            raise UsageError(f"'{word}' is not an argument: write --name=value{several}")
        key, equals, value = word[2:].partition("=")
        key = key.replace("-", "_")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else True
        before = given.get(key) if key in REPEATABLE else None
        given[key] = f"{before},{value}" if isinstance(before, str) and isinstance(value, str) else value
    return given


def parse(
    given: dict[str, str | bool], algorithms: Mapping[str, Algorithm], origins: Mapping[str, str] | None = None
) -> Arguments:
    """Check a split command line against the flags, the algorithm and the network.

    Errors name the `origins` of arguments that are not typed.
    """
    origins = origins or {}
    typed: dict[str, Any] = {"env_kwargs": own_arguments(given)}
    for name in given.keys() & FLAGS.keys():
        with _from(origins.get(name)):
            typed[name] = parse_value(FLAGS[name], given[name])
    flags = vars(Flags(**typed)).copy()
    # A file of --print_config has the default too.
    if flags["evaluate_every"] is None and flags["evaluate_episodes"] != FLAGS["evaluate_episodes"].default:
        raise bad_argument("evaluate_episodes", flags["evaluate_episodes"], "needs evaluate_every")
    algorithm = named(algorithms, flags["alg"])
    env_type, env_id = env_type_of(flags["env"], flags["env_type"])
    if flags["network"] is None:
        flags["network"] = algorithm.default_network(env_type)
    network = network_named(flags["network"])
    # Defaults for another network do not count.
    known = (algorithm.config.arguments().keys() | network.arguments.keys()) - {"network"}
    learn = {name: value for name, value in algorithm.config.defaults_for(env_type).items() if name in known}
    for name, text in given.items():
        if name not in FLAGS and not name.startswith(ENV_KWARGS):
            with _from(origins.get(name)):
                learn[name] = parse_value(argument_of(name, algorithm, network, algorithms), text)
    if flags["num_env"] is None:
        usual = learn.get("rollout_batch_size") or algorithm.num_env
        flags["num_env"] = len(usable_cores()) if env_type == "atari" else usual
    by_length = "num_timesteps" not in given and not learn.keys().isdisjoint(algorithm.config.length_arguments)
    total_timesteps = None if by_length else flags["num_timesteps"]
    check_arguments(learn | {"seed": flags["seed"], "total_timesteps": total_timesteps}, algorithm, network)
    content = {"env_parameters": flags["env_parameters"]} if flags["env_parameters"] is not None else {}
    return Arguments(algorithm, flags, learn, total_timesteps, {**given, **content}, env_type, env_id)


@contextlib.contextmanager
def _from(origin: str | None) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{origin}: {error}" if origin else str(error)) from None


def own_arguments(given: Mapping[str, str | bool]) -> dict[str, Any] | None:
    """Parse the environment's arguments: numbers, lists, true, false and None where possible, else text."""
    kwargs = {}
    for name, text in given.items():
        if name == ENV_KWARGS[:-1] or name == ENV_KWARGS:
            raise UsageError("an environment's argument has its name behind a dot: write --env_kwargs.NAME=VALUE")
        if name.startswith(ENV_KWARGS):
            kwargs[name.removeprefix(ENV_KWARGS)] = True if text is True else value_of(text)
    return kwargs or None


def check_arguments(learn: dict[str, Any], algorithm: Algorithm, network: Network) -> None:
    """Raise a UsageError for values out of bounds, contradictory arguments, and unknown arguments of the network."""
    config = algorithm.config.of(learn)
    config.check_network(network.name, network.arguments, network.open_ended)
    for name in sorted(config.network_kwargs.keys() & network.arguments.keys()):
        network.arguments[name].checked(config.network_kwargs[name])


def argument_of(name: str, algorithm: Algorithm, network: Network, algorithms: Mapping[str, Algorithm]) -> Argument:
    """Return an argument of the algorithm or its network that text can express; UsageError for any other name."""
    arguments = {key: value for key, value in algorithm.config.arguments().items() if key not in OF_THE_RUN}
    argument = arguments.get(name) or network.arguments.get(name)
    if argument is None:
        hint = algorithm.config.instead.get(name) or ELSEWHERE.get(name) or name_here(name, arguments, "--{}")
        having = [other for other, one in algorithms.items() if name in one.config.arguments()]
        if hint is None and 0 < len(having) <= MOST_NAMED:
            hint = f"only {', '.join(having)} {'has' if len(having) == 1 else 'have'} it"
        if hint is None:
            guess = nearest(name, [*FLAGS, *arguments, *network.arguments])
            hint = f"did you mean --{guess}?" if guess else f"--alg={algorithm.name} --help lists what there is"
        raise UsageError(f"unknown argument --{name} of {algorithm.name} with network {network.name}: {hint}")
    if not argument.settable:
        where = f"tfbaselines.{algorithm.name}.learn"
        raise UsageError(f"--{name} takes a Python object: give it to {where}, not on the command line")
    return argument


def parse_value(argument: Argument, text: str | bool) -> Any:
    """Parse text (True for a bare --name) as a value of one of the argument's types, without evaluating it."""
    kinds = argument.kinds
    if text is True:
        if "bool" not in kinds:
            raise UsageError(f"--{argument.name} needs a value: --{argument.name}=...")
        return True
    if "None" in kinds and text in ("None", "none"):
        return None
    words = ("true", "false") if "schedule" in kinds else ("true", "false", "1", "0")
    if "bool" in kinds and text.lower() in words:
        return text.lower() in ("true", "1")
    value = literal(text)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "int" in kinds and value == int(value):
            return int(value)
        if "float" in kinds or "schedule" in kinds:
            return float(value)
        if "list" in kinds:
            # A number is a list of one.
            return [value]
    if isinstance(value, list | tuple) and "list" in kinds:
        return value
    if "str" in kinds or "schedule" in kinds:
        return text
    raise bad_argument(argument.name, text, accepted(kinds))
