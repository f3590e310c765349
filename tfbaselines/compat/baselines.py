"""Parts of baselines for scripts that use them: its run and cmd_util, runners, policies, demonstrations."""

import argparse
import functools
import importlib
import os
import runpy
import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfbaselines.algs import get
from tfbaselines.cli import Parser
from tfbaselines.cli.command_line import FLAGS, split
from tfbaselines.compat.helpers import literal
from tfbaselines.envs import make
from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.files import check_array, read_archive
from tfbaselines.loading import load_tensorflow
from tfbaselines.logs import logger
from tfbaselines.parallel import mpi

# Distance between the seeds of ranks.
SEEDS_APART = 1000

# Flags of baselines' command.
COMMON_FLAGS = (
    *("env", "env_type", "seed", "alg", "num_timesteps", "network", "gamestate", "num_env", "reward_scale"),
    *("save_path", "save_video_interval", "save_video_length", "log_path", "play"),
)

TYPES = {"int": int, "float": float, "str": str}

# Arrays of an expert file: E episodes of L steps.
SHAPES = {"acs": ("E", "L", ...), "ep_rets": ("E",), "rews": ("E", "L"), "obs": ("E", "L", ...)}
OUR_SHAPES = {"actions": ("T", ...), "lengths": ("E",), "rewards": ("T",), "obs": ("T", ...)}


class AbstractEnvRunner(ABC):
    """Base of a script's own runner; `run` collects nsteps steps of each environment.

    Attributes:
        obs: [N, ...] latest observations.
        states: [N, S] recurrent states, or None.
        dones: [N] True where an observation is the first of its episode.
        batch_ob_shape: shape of the observations of a batch.
    """

    def __init__(self, *, env: Any, model: Any, nsteps: int) -> None:
        self.env = env
        self.model = model
        self.nsteps = nsteps
        self.nenv = getattr(env, "num_envs", 1)
        space = env.observation_space
        self.batch_ob_shape = (self.nenv * nsteps, *space.shape)
        self.obs = np.zeros((self.nenv, *space.shape), space.dtype)
        first = env.reset()
        # Gymnasium's environments return an info too.
        self.obs[:] = first[0] if isinstance(first, tuple) else first
        self.states = model.initial_states(self.nenv)
        self.dones = [False] * self.nenv

    @abstractmethod
    def run(self) -> Any:
        """Collect a batch."""


class AlreadySteppingError(Exception):
    """A script's vector environment got step_async() twice in a row."""


class NotSteppingError(Exception):
    """A script's vector environment got step_wait() without step_async()."""


# Take over the signature without the documentation.
@functools.wraps(make.make_vec_env, assigned=())
def make_vec_env(*args: Any, **kwargs: Any) -> Any:
    """Call make_vec_env of tfbaselines.envs.make, with monitor files in the directory of the script's logger.

    Without logger.configure(), or with logger_dir=None, there are no monitor files. Ranks number their files and seeds.
    """
    return make.make_vec_env(*args, **{"logger_dir": logger.configured_dir(), "mpi_rank": mpi.world().rank} | kwargs)


def wrap_atari_dqn(env: Any) -> Any:
    """Wrap the result of make_atari with the preprocessing of deepq, with four frames stacked."""
    from tfbaselines.envs.atari import wrap_deepmind

    return wrap_deepmind(env, frame_stack=True)


def set_global_seeds(i: int | None) -> None:
    """Seed the global generators of Python, NumPy and TensorFlow; rank r gets `i` + 1,000 r, and None seeds nothing.

    `learn(..., seed=i)` has generators of its own.
    """
    if i is None:
        return
    load_tensorflow()
    import keras

    keras.utils.set_random_seed(i + SEEDS_APART * mpi.world().rank)


def boolean_flag(parser: argparse.ArgumentParser, name: str, default: bool = False, help: str | None = None) -> None:
    """Add the flags --name and --no-name."""
    parser.add_argument(f"--{name}", action="store_true", default=default, help=help)
    parser.add_argument(f"--no-{name}", action="store_false", dest=name.replace("-", "_"))


def arg_parser() -> argparse.ArgumentParser:
    """Make an empty parser with errors of one line."""
    return Parser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)


def common_arg_parser() -> argparse.ArgumentParser:
    """Make a parser of baselines' flags, with this package's defaults; dashes are accepted for underscores."""
    parser = arg_parser()
    for name in COMMON_FLAGS:
        flag = FLAGS[name]
        spellings = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        if "bool" in flag.kinds:
            parser.add_argument(*spellings, action="store_true", default=flag.default, help=flag.meaning)
        else:
            kind = next(TYPES[one] for one in flag.kinds if one in TYPES)
            parser.add_argument(*spellings, type=kind, default=flag.default, help=flag.meaning)
    return parser


atari_arg_parser = mujoco_arg_parser = common_arg_parser


def robotics_arg_parser() -> argparse.ArgumentParser:
    """Make the parser of common_arg_parser for goal environments."""
    parser = common_arg_parser()
    parser.set_defaults(env="FetchReach-v4")
    return parser


def make_mujoco_env(env_id: str, seed: int | None, reward_scale: float = 1.0) -> Any:
    """Make a MuJoCo environment with a monitor file of this rank, and seed the global generators."""
    set_global_seeds(seed)
    env_type, env_id = make.env_type_of(env_id)
    given = {"seed": seed, "reward_scale": reward_scale, "logger_dir": logger.configured_dir()}
    return make.make_env(env_id, env_type, mpi.world().rank, **given)


def make_robotics_env(env_id: str, seed: int | None, rank: int = 0) -> Any:
    """Make a goal environment of flat observations with a monitor file, and seed the global generators."""
    set_global_seeds(seed)
    env_type, env_id = make.env_type_of(env_id)
    return make.make_env(env_id, env_type, rank, seed=seed, logger_dir=logger.configured_dir())


def parse_unknown_args(args: Sequence[str]) -> dict[str, str]:
    """Parse the words left by argparse, '--key=value' and '--key value', into a dictionary."""
    given = split(list(args))
    bare = next((name for name, value in given.items() if value is True), None)
    if bare is not None:
        raise bad_argument("args", f"--{bare}", f"write --{bare}=value")
    return given


def get_env_type(args: Any) -> tuple[str, str]:
    """Return the type and the id of an environment, of the parsed arguments or of the id."""
    if isinstance(args, str):
        return make.env_type_of(args)
    return make.env_type_of(args.env, getattr(args, "env_type", None))


def get_alg_module(alg: str, submodule: str | None = None) -> Any:
    """Return the module with an algorithm's learn, or another module of baselines' package of the same name."""
    get(alg)
    return importlib.import_module(f"tfbaselines.{alg}.{submodule}" if submodule else f"tfbaselines.algs.{alg}.{alg}")


def get_learn_function(alg: str) -> Callable[..., Any]:
    """Return an algorithm's learn."""
    return get(alg).learn


def get_learn_function_defaults(alg: str, env_type: str) -> dict[str, Any]:
    """Return an algorithm's defaults for a type of environments."""
    return get(alg).config.defaults_for(env_type)


def get_default_network(env_type: str) -> str:
    """Return baselines' network for a type of environments."""
    return "cnn" if env_type in ("atari", "retro") else "mlp"


def parse_cmdline_kwargs(args: Sequence[str]) -> dict[str, Any]:
    """Parse '--key=value' words into Python's literals, and text where they are none."""
    return {name: literal(text) for name, text in parse_unknown_args(args).items()}


def configure_logger(log_path: str | None, **kwargs: Any) -> None:
    """Log to a directory, or as logger.configure(**kwargs) does without one."""
    logger.configure(log_path, **kwargs)


def build_env(args: Any) -> Any:
    """Make the environments for the arguments of common_arg_parser, as the command does."""
    algorithm = get(args.alg)
    config = {name: getattr(args, name, None) for name in ("env", "env_type", "num_env", "seed", "gamestate")}
    config |= {"reward_scale": args.reward_scale, "normalize": algorithm.normalized_environments}
    config["flatten"] = not algorithm.dict_observations
    return make.build_env(config, logger_dir=logger.configured_dir(), mpi_rank=mpi.world().rank)


def train(args: Any, extra_args: dict[str, Any]) -> tuple[Any, Any]:
    """Train with arguments of common_arg_parser and learn; return the model and its environments."""
    algorithm, (env_type, _) = get(args.alg), get_env_type(args)
    kwargs = {"network": args.network or algorithm.default_network(env_type)} | algorithm.config.defaults_for(env_type)
    env = build_env(args)
    kwargs |= {"seed": args.seed, "total_timesteps": int(args.num_timesteps)} | extra_args
    return algorithm.learn(env=env, **kwargs), env


def run_in_place(path: str, command: str) -> None:
    """Run the command that takes the place of a script of the originals, with the words after the script's name."""
    words = [*shlex.split(command), *sys.argv[1:]]
    print(f"{path} is here: {shlex.join(words)}", file=sys.stderr, flush=True)
    sys.argv = [path, *words[3:]]
    sys.exit(runpy.run_module(words[2], run_name="__main__"))


def MlpPolicy(
    name: str,
    ob_space: Any,
    ac_space: Any,
    hid_size: int = 64,
    num_hid_layers: int = 2,
    reuse: bool = False,
    gaussian_fixed_var: bool = True,
) -> Callable[..., Any]:
    """Make a network builder for `learn` with fully connected layers.

    Args:
        name, ob_space, ac_space: ignored: networks have no scopes, and `learn` builds them for its environments.
        hid_size, num_hid_layers: units of each layer, and number of layers.
        reuse: only False, since scripts share a network by passing the model.
        gaussian_fixed_var: only True, for a standard deviation that does not depend on the observation.
    """
    if reuse:
        raise bad_argument("reuse", reuse, "False: hand on the model that learn returns")
    if not gaussian_fixed_var:
        raise bad_argument("gaussian_fixed_var", gaussian_fixed_var, "True, as every algorithm here has it")
    from tfbaselines.policy.networks import mlp

    return lambda: mlp(num_layers=num_hid_layers, num_hidden=hid_size)


def CnnPolicy(name: str, ob_space: Any, ac_space: Any, kind: str = "large") -> Callable[..., Any]:
    """Make a network builder for `learn` with convolutions.

    Args:
        name, ob_space, ac_space: ignored, as in MlpPolicy.
        kind: 'small' for cnn_small, 'large' for cnn.
    """
    if kind not in ("small", "large"):
        raise bad_argument("kind", kind, "'small' or 'large'")
    from tfbaselines.policy.networks import get_network_builder

    return get_network_builder("cnn_small" if kind == "small" else "cnn")


def build_impala_cnn(unscaled_images: Any, depths: Sequence[int] = (16, 32, 32)) -> Any:
    """Return IMPALA's features of a Keras tensor of images."""
    from tfbaselines.policy.networks import impala_cnn

    return impala_cnn(depths)(unscaled_images)


def ppo1_learn(env: Any, policy_fn: Any, **kwargs: Any) -> Any:
    """Train as ppo1.pposgd_simple.learn of baselines does.

    Args:
        env: the environments.
        policy_fn: function policy_fn(name, ob_space, ac_space) that returns a network builder such as MlpPolicy's, or
            a network for learn.
        kwargs: arguments of tfbaselines.algs.ppo1.learn.
    """
    from tfbaselines.algs.ppo1 import learn
    from tfbaselines.envs.adapt import as_vec_env

    env = as_vec_env(env, kwargs.get("seed"))
    if callable(policy_fn):
        policy_fn = policy_fn("pi", env.observation_space, env.action_space)
    # baselines' MlpPolicy normalizes observations.
    return learn(policy_fn, env, **{"normalize_observations": len(env.observation_space.shape) == 1} | kwargs)


def gail_learn(*args: Any, **kwargs: Any) -> Any:
    """Call tfbaselines.algs.gail.learn; refuse the form of baselines' gail.trpo_mpi, which takes a discriminator."""
    of_baselines = kwargs.keys() & {"policy_func", "reward_giver", "expert_dataset"}
    if of_baselines or not all(isinstance(path, str | os.PathLike) for path in args[2:3]):
        raise UsageError(
            "gail.trpo_mpi.learn(env, policy_func, reward_giver, expert_dataset, ...) has no counterpart: write "
            "tfbaselines.gail.learn(network, env, demo_path=expert_path, ...), which makes the discriminator"
        )
    from tfbaselines.algs.gail import learn

    return learn(*args, **kwargs)


class Mujoco_Dset:
    """Episodes of an expert file, row by row: baselines' (obs, acs, rews [E, L, ...], ep_rets [E]) or record's.

    It is accepted in place of the file: ``gail.learn("mlp", env, demo_path=Mujoco_Dset("expert.npz"))``.

    Attributes:
        obs, acs: [T, ...] observations and actions of all rows.
        rets: [E] returns; `avg_ret` and `std_ret` are their mean and standard deviation.
        num_traj, num_transition: number of episodes, E, and of rows, T.

    Args:
        expert_path: the file.
        train_fraction: fraction of the rows for get_next_batch(split='train'); 'val' has the rest.
        traj_limitation: number of episodes to read, from the first; -1 for all.
        randomize: shuffle the rows.
    """

    def __init__(
        self, expert_path: str, train_fraction: float = 0.7, traj_limitation: int = -1, randomize: bool = True
    ) -> None:
        self.path = os.fspath(expert_path)
        try:
            arrays = read_archive(self.path)
            for name, shape in (OUR_SHAPES if "about" in arrays else SHAPES).items():
                check_array(name, arrays.get(name), shape)
        except OSError as error:
            raise bad_argument("expert_path", self.path, f"a file ({(error.strerror or str(error)).lower()})") from None
        except ValueError as error:
            raise bad_argument("expert_path", self.path, f"an expert file: {error}") from None
        if "about" in arrays:
            lengths = arrays["lengths"].astype(np.int64)
            obs, acs, rewards = (arrays[name] for name in ("obs", "actions", "rewards"))
        else:
            lengths = np.full(*arrays["rews"].shape)
            obs, acs, rewards = (arrays[name].reshape(-1, *arrays[name].shape[2:]) for name in ("obs", "acs", "rews"))
        self.num_traj = len(lengths) if traj_limitation < 0 else min(traj_limitation, len(lengths))
        self.num_transition = int(lengths[: self.num_traj].sum())
        ends = np.cumsum(lengths[: self.num_traj])
        self.rets = np.array([part.sum() for part in np.split(rewards, ends)[: self.num_traj]])
        self.avg_ret = float(self.rets.mean())
        self.std_ret = float(self.rets.std())
        self.obs = obs[: self.num_transition]
        self.acs = np.squeeze(acs[: self.num_transition])
        self.randomize = randomize
        cut = int(self.num_transition * train_fraction)
        self._rows = {None: np.arange(self.num_transition)}
        self._rows |= {"train": self._rows[None][:cut], "val": self._rows[None][cut:]}
        self._next = dict.fromkeys(self._rows, 0)
        for part in self._rows:
            self._shuffle(part)

    def __fspath__(self) -> str:
        return self.path

    def get_next_batch(self, batch_size: int, split: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return observations and actions of the next rows of a split; a negative size returns all of them."""
        if split not in self._rows:
            raise bad_argument("split", split, "'train', 'val' or None")
        rows = self._rows[split]
        if batch_size < 0:
            return self.obs[rows], self.acs[rows]
        if self._next[split] + batch_size >= len(rows):
            self._next[split] = 0
            self._shuffle(split)
        begin = self._next[split]
        self._next[split] = begin + batch_size
        chosen = self._rows[split][begin : begin + batch_size]
        return self.obs[chosen], self.acs[chosen]

    def _shuffle(self, split: str | None) -> None:
        if self.randomize:
            # baselines draws from NumPy's global generator, which set_global_seeds seeds.
            self._rows[split] = self._rows[split][np.random.permutation(len(self._rows[split]))]
