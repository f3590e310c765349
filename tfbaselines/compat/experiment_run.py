"""The process of one of Spinning Up's experiments, which a worker starts with the words of its cell.

`python -m tfbaselines.compat.experiment_run --alg=ppo --exp_name=e --env=CartPole-v1 --seed=0 --log_path=data/e/e_s0`
"""

import shlex
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tfbaselines.cli import exit_status, leave
from tfbaselines.compat import spinup
from tfbaselines.compat.experiment_cells import arguments_of, function_named
from tfbaselines.compat.spinup import SPINNING_UP
from tfbaselines.config.options import RunOptions
from tfbaselines.errors import bad_argument
from tfbaselines.loading import load_tensorflow
from tfbaselines.parallel import mpi
from tfbaselines.parallel.mpi import usable_cores
from tfbaselines.study.cells import EXPERIMENT
from tfbaselines.training.guards import Interrupted


def make_env(env_name: str) -> Any:
    """Make an environment by its id, or by module:id."""
    import gymnasium

    from tfbaselines.envs import env_type_of

    return gymnasium.make(env_type_of(env_name)[1])


def ranks_of(num_cpu: int | str) -> int:
    """Return a number of ranks, with 'auto' for the number of usable cores; UsageError for other values."""
    ranks = len(usable_cores()) if num_cpu == "auto" else num_cpu
    if not isinstance(ranks, int) or ranks < 1:
        raise bad_argument("num_cpu", num_cpu, "at least 1, or 'auto'")
    return ranks


def in_own_process(name: str, function: Callable[..., Any], **kwargs: Any) -> None:
    """Call a function, with errors of one line as in other commands, and end this process."""
    mpi.abort_on_exception()

    def command() -> int:
        try:
            function(**kwargs)
        except Interrupted as stop:
            if mpi.world().rank == 0:
                directory = shlex.quote(kwargs["logger_kwargs"]["output_dir"])
                print(f"\n{stop}\nto continue: python -m tfbaselines.run --resume={directory}", flush=True)
            return 128 + stop.signal
        return 0

    status = exit_status(f"tfbaselines {name}", command)
    if 0 < status < 128:
        # If only this rank failed, the others must not wait for it.
        mpi.abort_job(status)
    leave(status, mpi.finalize)


def run(words: Mapping[str, str]) -> None:
    """Run the experiment of a cell's words; one of Spinning Up's algorithms continues its run in --log_path."""
    arguments = arguments_of(words) | {"seed": int(words["seed"])}
    arguments["logger_kwargs"] = {"output_dir": words["log_path"], "exp_name": words[EXPERIMENT]}
    if "env" in words:
        arguments["env_fn"] = partial(make_env, words["env"])
    name = words["alg"]
    if name not in SPINNING_UP:
        in_own_process(name, function_named(name), **arguments)
    load_tensorflow()
    in_own_process(name, getattr(spinup, name), run=RunOptions(resume=spinup.AUTO), **arguments)


def main(argv: list[str]) -> int:
    """Run the command; return its exit status, unless the process is replaced by mpirun or ends with its run."""
    words = dict(word.removeprefix("--").split("=", 1) for word in argv)

    def command() -> int:
        num_cpu = words.get("num_cpu", "1")
        if num_cpu != "1" and not mpi.launched():
            ranks = ranks_of(int(num_cpu) if num_cpu.isdigit() else num_cpu)
            return mpi.start_ranks(ranks, ["-m", "tfbaselines.compat.experiment_run", *argv])
        run(words)
        return 0

    return exit_status("tfbaselines", command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
