"""The flags of the command: what a run is, besides the arguments of its algorithm and its network."""

from dataclasses import dataclass
from typing import Any

from tfbaselines.envs.ids import ENV_TYPES
from tfbaselines.envs.make import WORKERS, check_worker
from tfbaselines.errors import bad_argument
from tfbaselines.settings.config import Declared, arg
from tfbaselines.settings.options import EXCHANGES, ON_NAN, PRECISIONS


@dataclass(frozen=True, kw_only=True)
class Flags(Declared):
    """The flags, checked."""

    env: str = arg("CartPole-v1", "environment id; 'module:id' imports the module first")
    env_type: str | None = arg(None, "type of environment, where the registry does not have it", choices=ENV_TYPES)
    env_kwargs: dict[str, Any] | None = arg(None, "arguments of the environment, each as --env_kwargs.NAME=VALUE")
    seed: int | None = arg(None, "seed of everything random; None draws one and keeps it in config.json", at_least=0)
    alg: str = arg("ppo2", "algorithm")
    tuned: bool | str = arg(
        False,
        "take the settings known to solve the environment, where nothing else is given; or those of a name: rainbow",
    )
    config: str | None = arg(
        None, "YAML file of arguments: a section 'default', and sections of types of environments and of environments"
    )
    print_config: bool = arg(False, "print every argument and where its value comes from, and train nothing")
    num_timesteps: float = arg(1e6, "environment steps to train for; 0 trains nothing", at_least=0)
    network: str | None = arg(None, "network; 'module:name' imports the module first; None for the algorithm's default")
    gamestate: str | None = arg(None, "game state to load (retro only)")
    num_env: int | None = arg(
        None, "copies of the environment; None for the number of cores for atari, for her 2, else 1", at_least=1
    )
    reward_scale: float = arg(1.0, "rewards are multiplied by this")
    save_path: str | None = arg(None, "file for the trained model")
    save_video_interval: int = arg(0, "steps between videos; 0 for none", at_least=0)
    save_video_length: int = arg(200, "steps in a video", at_least=1)
    log_path: str | None = arg(None, "directory of logs and checkpoints")
    log_format: str | None = arg(
        None,
        "what is logged to, with commas between: stdout, log, csv, json, tensorboard, wandb, mlflow; None for the "
        "variable OPENAI_LOG_FORMAT, else stdout,log,csv",
    )
    play: bool = arg(False, "run the trained policy afterwards, in a window where there is a display")
    resume: str | None = arg(
        None,
        "log directory of an earlier run to continue; its arguments are kept. 'auto' continues the run in log_path if "
        "there is one, and else starts it",
    )
    trust: bool = arg(False, "import the modules that the config.json of a resumed run names, which runs their code")
    keep_checkpoints: int = arg(5, "number of latest checkpoints to keep", at_least=1)
    save_minutes: float | None = arg(
        10.0, "minutes between checkpoints; None for only those of the algorithm's own interval", above=0
    )
    save_every: float | None = arg(None, "environment steps between checkpoints, beside the above", at_least=1)
    stop_at: float | None = arg(
        None,
        "mean return that ends the run: of the latest test, or without tests of the latest 100 episodes (gail: 40)",
    )
    stop_without_gain: float | None = arg(
        None, "environment steps without a better mean return after which the run ends", at_least=1
    )
    evaluate_every: float | None = arg(
        None,
        "environment steps between tests of the deterministic policy, for algorithms without tests too",
        at_least=1,
    )
    evaluate_episodes: int = arg(10, "episodes of each of these tests", at_least=1)
    overwrite: bool = arg(False, "remove what an earlier run left in log_path")
    precision: str = arg("float32", "of convolutions and matrix products", choices=PRECISIONS)
    on_nan: str = arg(
        "stop", "what numbers that are not finite do: end the run, or drop the update ('skip')", choices=ON_NAN
    )
    cpu: int | None = arg(None, "ranks that train together: starts itself under mpirun", at_least=1)
    mpi_exchange: str = arg(
        "auto",
        "what ranks exchange: batches at once or gradients at each step, which give the same steps",
        choices=EXCHANGES,
    )
    worker: str | None = arg(None, "where environments run: in this process or in their own", choices=tuple(WORKERS))
    step_timeout: float | None = arg(
        None, "seconds after which an environment's step counts as hung, with --worker=subproc or shmem", above=0
    )
    restart_workers: int = arg(
        0, "workers that crash or hang and are replaced, their episodes truncated, before the run ends", at_least=0
    )

    def check(self) -> None:
        """See Declared."""
        for name in ("log_path", "save_path", "resume", "config"):
            path = getattr(self, name)
            if path is not None and not path.strip():
                raise bad_argument(name, path, "a path, not an empty text")
        check_worker(self.worker, self.step_timeout, self.restart_workers)


FLAGS = Flags.arguments()
