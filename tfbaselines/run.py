"""The command ``python -m tfbaselines.run``: parse, build environments, learn, save, play."""

import contextlib
import faulthandler
import itertools
import os
import random
import shlex
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from tfbaselines import LEFT_OUT
from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli import exit_status, leave
from tfbaselines.cli.command_line import ENV_KWARGS, FLAGS, Arguments, parse, split
from tfbaselines.cli.help import config_text, given_again_flags, help_text, next_commands
from tfbaselines.cli.sections import below
from tfbaselines.cli.stored import NOT_KEPT, READ_AGAIN, given_again, make_config, read_config
from tfbaselines.compat import names_of
from tfbaselines.config.algorithm import EVAL_SEEDS_APART
from tfbaselines.config.options import write_config
from tfbaselines.errors import UsageError, bad_argument, complain, printable
from tfbaselines.files import check_can_be_written
from tfbaselines.loading import load_tensorflow
from tfbaselines.logs.directory import forget, has_checkpoint, holds_checkpoints, locked, make_room, other_owner
from tfbaselines.logs.formats import check_format
from tfbaselines.parallel import mpi

# Arguments that shape the networks beside the networks' own.
OF_NETWORKS = (
    *("network", "value_network", "normalize_observations", "memory_size", "vis_encode_type", "hiddens", "noisy"),
    *("dueling", "layer_norm", "critics", "critic_layer_norm", "distributional", "num_atoms", "v_min", "v_max"),
    *("reward_signals", "popart"),
)

# Flags that learn takes as they are, in its RunOptions.
OF_RUN_OPTIONS = ("resume", "keep_checkpoints", "save_minutes", "precision", "on_nan", "mpi_exchange", "timers")
# Number of episodes of --play without a display.
EPISODES_WITHOUT_DISPLAY = 10

# Functions of baselines' run.
__getattr__ = names_of("run")


class Ended(NamedTuple):
    """The exit status of a command, and the model that it trained, if any."""

    status: int
    model: Any = None


def main(argv: list[str] | None = None) -> Any:
    """Run the command line as baselines' main does: return the model, None where nothing is trained; raise errors."""
    mpi.abort_on_exception()
    ended = _main(_words(argv))
    if ended.status and ended.model is None:
        raise SystemExit(ended.status)
    return ended.model


def command(argv: list[str] | None = None) -> int:
    """Run the command line: words after the command, sys.argv as in baselines, or None for the words of the process.

    The exit status is 0, 2 for a user's mistake (one line on standard error), 3 for a number that is not finite, and
    128 + the number of a signal that ended the run.
    """
    mpi.abort_on_exception()
    agreed: list[int] = []

    def run() -> int:
        agreed.append(_main(_words(argv)).status)
        return agreed[0]

    name = f"tfbaselines: rank {mpi.launched_rank()}" if mpi.launched() else "tfbaselines"
    status = exit_status(name, run)
    if not agreed:
        # If only this rank failed, the others must not wait for it.
        mpi.abort_job(status)
    return status


def _words(argv: list[str] | None) -> list[str]:
    words = sys.argv if argv is None else argv
    return words[1:] if words[:1] == sys.argv[:1] else words


def _main(argv: list[str]) -> Ended:
    if argv and argv[0].isidentifier() and argv[0] != "help":
        from tfbaselines.compat import experiment_command

        if argv[0] not in ALGORITHMS or argv[0] in experiment_command.SPINNING_UP:
            return Ended(experiment_command.main(argv))
        argv = [f"--alg={argv[0]}", *argv[1:]]
    typed = {"help": True} if argv in (["-h"], ["help"]) else _expanded(split(argv))
    if "help" in typed:
        alg, network = (typed[name] if isinstance(typed.get(name), str) else None for name in ("alg", "network"))
        sys.stdout.write(help_text(ALGORITHMS, alg, network))
        return Ended(0)
    # Keep the output of the environment's module out of the printed file.
    with contextlib.redirect_stdout(sys.stderr) if "print_config" in typed else contextlib.nullcontext():
        typed, stored = _resumed(typed)
        stored |= _network_of(typed)
        added, origins = below(typed, stored)
        given = _expanded({**stored, **added, **typed})
        args = parse(given, ALGORITHMS, {name: origins[name] for name in origins.keys() - typed})
    if args.print_config:
        origins = dict.fromkeys(stored, "config.json") | origins | dict.fromkeys(typed, "command line")
        sys.stdout.write(config_text(args, origins))
        return Ended(0)
    if args.save_path is not None:
        check_can_be_written("save_path", args.save_path)
    _check_files(args)
    if args.log_format is not None:
        # Without a format a run would leave no trace.
        for name in list(filter(None, args.log_format.split(","))) or [""]:
            check_format(name.strip(), "--log_format")
    if args.cpu is not None and args.cpu > 1 and not mpi.launched():
        return Ended(mpi.start_ranks(args.cpu, ["-m", "tfbaselines.run", *argv]))
    return _run(args)


def _check_files(args: Arguments) -> None:
    """Raise a UsageError for files to read that are not there, before anything is loaded or written."""
    if args.learn.get("load_path") and not os.path.exists(os.path.expanduser(args.learn["load_path"])):
        raise UsageError(f"there is no file {args.learn['load_path']!r:.300}")
    for name in READ_AGAIN:
        path = args.learn.get(name)
        if path and not path.startswith("minari:") and not os.path.exists(os.path.expanduser(path)):
            raise bad_argument(name, path, "there is no such file")


def _expanded(given: dict[str, str | bool]) -> dict[str, str | bool]:
    """Expand the ~ of directories, which shells do not expand after `--log_path=`."""
    paths = {name: given[name] for name in ("log_path", "resume") if isinstance(given.get(name), str)}
    return given | {name: os.path.expanduser(path) for name, path in paths.items()}


def _resumed(typed: dict[str, str | bool]) -> tuple[dict[str, str | bool], dict[str, str | bool]]:
    resume = typed.get("resume")
    if resume is None:
        return typed, {}
    if resume is True:
        raise UsageError("--resume needs a value: the log directory of the run to continue")
    if resume == "auto":
        resume = typed.get("log_path")
        if not isinstance(resume, str):
            raise UsageError("--resume=auto needs --log_path: the directory in which there may be a run to continue")
        if not has_checkpoint(resume):
            if holds_checkpoints(resume) and "overwrite" not in typed:
                raise UsageError(f"'{resume}' has checkpoints, but no config.json: put it back, or give --overwrite")
            return {name: value for name, value in typed.items() if name != "resume"} | {"overwrite": True}, {}
    config = read_config(resume)
    if owner := other_owner(resume):
        complain(f"tfbaselines: the run in '{resume}' belongs to the user {owner}, not to you")
    log_path = typed.get("log_path")
    if isinstance(log_path, str) and os.path.realpath(log_path) != os.path.realpath(resume):
        raise UsageError(f"--log_path={log_path}: a resumed run goes on in its own directory, '{resume}': leave it out")
    if typed.get("alg", config["alg"]) != config["alg"]:
        raise UsageError(f"--alg={typed['alg']}: a run's algorithm cannot change, '{resume}' is one of {config['alg']}")
    # Keep a drawn seed, and a number of games that was the number of cores; her's batches number its environments.
    chosen = ("seed",) if "rollout_batch_size" in config["learn"] else ("seed", "num_env")
    values = {name: config["env"].get(name) for name in chosen}
    stored = config["given"] | {name: str(value) for name, value in values.items() if value is not None}
    for name in ("save_path", "checkpoint_path"):
        if name in stored and name not in typed:
            path = stored[name]
            complain(f"tfbaselines: the run's {name} is not kept: give --{name}={path!r:.200} again")
    return typed | {"log_path": resume, "resume": resume}, given_again(stored, typed)


def _network_of(typed: dict[str, str | bool]) -> dict[str, str | bool]:
    """Return the arguments of the network in --load_path, if its run is known (else loading says what is wrong)."""
    path = typed.get("load_path")
    if not isinstance(path, str) or "network" in typed:
        return {}
    from tfbaselines.evaluate import find_run

    try:
        config = find_run(path, trust="trust" in typed).config
    except (OSError, ValueError):
        return {}
    own = get(config["alg"]).config.arguments()
    given = config["given"] if typed.get("alg", FLAGS["alg"].default) == config["alg"] else {}
    shaping = {name: value for name, value in given.items() if name in OF_NETWORKS or name not in {*own, *FLAGS}}
    return {name: value for name, value in shaping.items() if not name.startswith(ENV_KWARGS) and name not in typed}


def _run(args: Arguments) -> Ended:
    comm = mpi.world()
    drawn = random.SystemRandom().getrandbits(31)
    args.flags["seed"] = comm.broadcast_object(drawn if args.seed is None else args.seed)
    # The logger chooses the same directory, and warns of a blank variable.
    directory = args.log_path or os.getenv("OPENAI_LOGDIR", "").strip() or None
    directory = directory and os.path.abspath(os.path.expanduser(directory))
    with contextlib.ExitStack() as stack:
        if directory and comm.rank == 0:
            stack.enter_context(locked(directory))
            if args.resume is None:
                make_room(directory, args.overwrite)
        comm.barrier()
        return _logged(args, comm, directory)


def _logged(args: Arguments, comm: mpi.Communicator, directory: str | None) -> Ended:
    from tfbaselines.logs import logger

    formats = args.log_format if comm.rank == 0 else None
    logger.configure(directory, formats, comm if comm.size > 1 else None, resume=args.resume is not None)
    terminal = sys.stdout is not None and sys.stdout.isatty()
    logger.get_current().show_rows(args.log_level or ("short" if terminal else "table"))
    # Only rank 0 logs, and logged values are means over its own episodes, as in the original.
    logger.get_current().set_comm(None)
    config = make_config(args, comm.size)
    if args.resume is not None:
        # A script that calls Spinning Up's ddpg does not normalize environments that the command normalizes.
        config["env"]["normalize"] = read_config(args.resume)["env"].get("normalize", config["env"]["normalize"])
    if comm.rank == 0:
        if args.resume is None:
            # A resumed run replaces its config.json once the checkpoint is loaded.
            write_config(logger.get_dir(), config)
        own = {name: value for name, value in args.flags.items() if name not in NOT_KEPT}
        logger.get_current().describe(own | args.learn)
    _start_tensorflow(comm)
    # An environment may change the working directory.
    save_path = args.save_path and os.path.abspath(os.path.expanduser(args.save_path))

    from tfbaselines.training.guards import Interrupted

    try:
        model = _learn(args, config, logger.get_dir())
    except Interrupted as stop:
        if comm.rank == 0:
            again = f"python -m tfbaselines.run --resume={shlex.quote(logger.get_dir())}{given_again_flags(args)}"
            with contextlib.suppress(OSError):
                print(printable(f"\n{stop}\nto continue: {again}"), flush=True)
        return Ended(128 + stop.signal)
    except ValueError:
        if args.resume is None and comm.rank == 0:
            forget(logger.get_dir(), whole=directory is None)
        raise
    logger.get_current().flush()
    if save_path is not None and comm.rank == 0:
        model.save(save_path)
    return _finished(model, args, comm, config, args.log_path or directory or logger.get_dir())


def _finished(model: Any, args: Arguments, comm: mpi.Communicator, config: dict[str, Any], place: str) -> Ended:
    """Name the next commands, play, and report failures of the end of a run."""
    trained = args.total_timesteps != 0
    # A warning has named the checkpoint that could not be written. Only the model in save_path is left.
    lost = comm.broadcast_object(trained and not has_checkpoint(place))
    if trained and not lost and comm.rank == 0:
        with contextlib.suppress(OSError):
            print(printable(next_commands(args, place)), flush=True)
    if args.play and comm.rank == 0:
        _play(model, args, config)
    for failure in model.failures:
        complain(f"tfbaselines: error: {' '.join(failure.split())}")
    return Ended(1 if lost or model.failures else 0, model)


def _start_tensorflow(comm: mpi.Communicator) -> None:
    load_tensorflow()
    # Ranks on one machine share its cores.
    if comm.size > 1:
        import tensorflow as tf

        threads = mpi.threads_for_rank(comm)
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)


def _learn(args: Arguments, config: dict[str, Any], directory: str) -> Any:
    from tfbaselines.config.options import RunOptions
    from tfbaselines.envs.make import listed

    if args.play and args.total_timesteps == 0 and args.learn.get("load_path") is not None:
        from tfbaselines.evaluate import find_run, load_model

        # Playing needs none of the arguments of training. If the run is not known, learn says what is missing.
        with contextlib.suppress(UsageError):
            saved = find_run(args.learn["load_path"], trust=bool(args.trust))
            if saved.config["alg"] == args.alg:
                return load_model(saved)
    env = _training_env(args, config, directory)
    options = RunOptions(
        **{name: args.flags[name] for name in OF_RUN_OPTIONS},
        callback=_callbacks(args, config),
        progress=True,
        monitor_keys=listed(args.monitor_keys),
        make_env=lambda worker: _training_env(args, config, directory, worker),
        make_eval_env=lambda count: _test_env(args, config, count),
        config=config,
    )
    given = {"network": args.network, "env": env, "total_timesteps": args.total_timesteps, "seed": args.seed}
    try:
        model = args.algorithm.learn(**given, run=options, **args.learn)
    except BaseException:
        # The exception that ended the run is the one to report.
        with contextlib.suppress(Exception):
            env.close()
        raise
    try:
        env.close()
    except Exception as error:  # An environment may raise anything, a monitor OSError where its disk is full.
        model.failures.append(f"the environments could not be closed: {type(error).__name__}: {error}")
    return model


def _callbacks(args: Arguments, config: dict[str, Any]) -> list[Any]:
    from tfbaselines.training.callbacks import Doctor, EvaluateEvery, SaveEvery, StopAt, StopWithoutGain

    further = {SaveEvery: args.save_every, StopAt: args.stop_at, StopWithoutGain: args.stop_without_gain}
    callbacks = [callback(value) for callback, value in further.items() if value is not None]
    callbacks += [Doctor(stop=args.doctor == "stop")] if args.doctor else []
    if args.evaluate_every is None:
        return callbacks
    count = args.evaluate_episodes
    return [EvaluateEvery(args.evaluate_every, lambda: _test_env(args, config, count), count), *callbacks]


def _test_env(args: Arguments, config: dict[str, Any], count: int) -> Any:
    """Make environments for evaluation, with other seeds than training, that write no files."""
    from tfbaselines.envs.make import build_env
    from tfbaselines.envs.workers import for_tests

    own = {"num_env": count, "seed": args.seed + EVAL_SEEDS_APART, "env_threads": None}
    own["worker"] = for_tests(args.worker)
    return build_env(config["env"] | own, training=False, mpi_rank=mpi.world().rank)


def _training_env(args: Arguments, config: dict[str, Any], directory: str, worker: int = 0) -> Any:
    """Make the environments of this rank, or of one of its workers, with separate seeds and monitor files."""
    from tfbaselines.envs.make import build_env, rendered
    from tfbaselines.envs.vec import VecVideoRecorder
    from tfbaselines.logs import logger

    rank = mpi.world().rank + worker
    films = args.save_video_interval > 0 and rank == 0
    env_config = rendered(config["env"], "rgb_array") if films else config["env"]
    env = build_env(env_config, logger_dir=directory, append=args.resume is not None, mpi_rank=rank)
    if not films:
        return env
    interval, videos = args.save_video_interval, os.path.join(directory, "videos")
    due, announce = (lambda step: step % interval == 0), (lambda path: logger.info(f"video: {path}"))
    return VecVideoRecorder(env, videos, due, args.save_video_length, announce=announce)


def _play(model: Any, args: Arguments, config: dict[str, Any]) -> None:
    from tfbaselines.envs.make import build_env, rendered
    from tfbaselines.envs.vec.wrappers import has_display
    from tfbaselines.envs.workers import for_tests
    from tfbaselines.training.testing import episodes, limit_as_trained

    shown = has_display()
    if not shown:
        films = "`python -m tfbaselines.evaluate LOGDIR --video DIR` records them"
        print(f"no display: playing {EPISODES_WITHOUT_DISPLAY} episodes unseen; {films}", flush=True)
    worker = None if shown else for_tests(args.worker)
    env_config = config["env"] | {"num_env": 1, "worker": worker, "env_threads": None}
    env = build_env(rendered(env_config, "human") if shown else env_config, training=False)
    limit_as_trained(env, args.algorithm, args.learn)
    env = args.algorithm.wrap(env)
    model.attach(env, config)
    with contextlib.closing(env), contextlib.suppress(KeyboardInterrupt):
        for episode in itertools.islice(episodes(model, env), None if shown else EPISODES_WITHOUT_DISPLAY):
            print(f"episode_rew={episode['r']}", flush=True)


def console(main: Callable[[], int] = command) -> None:
    """Run a command, by default this one, and leave the process."""
    if not LEFT_OUT and not getattr(sys.flags, "safe_path", False):
        # The installed command, like python -m, finds the module of --env=my_module:Robot-v0 in the working directory.
        LEFT_OUT.append("")
    if sys.stderr is not None:
        # Show the Python stack when a C++ library ends the process.
        faulthandler.enable()
    status = main()
    leave(status, mpi.finalize)


if __name__ == "__main__":
    console()
