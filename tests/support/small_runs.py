"""Small runs of every algorithm: their arguments under common names."""

import copy
import gc
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from helpers import vec
from small_environments import CYCLE, Goals, box, identity

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.config.bases import BatchConfig, EpochConfig, PolicyConfig, ReplayConfig, SearchConfig
from tfbaselines.config.options import RunOptions
from tfbaselines.demos import Demonstrations, save_demonstrations
from tfbaselines.envs import tiny
from tfbaselines.learn.engine import Engine
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.parallel import mpi

# Environment steps of an epoch; of an update, or a cycle, they are CYCLE.
EPOCH = 20

# Of every algorithm built on a base, where it has the argument.
BY_BASE = {
    PolicyConfig: {
        "nsteps": CYCLE,
        "log_interval": 1,
        "nminibatches": 2,
        "noptepochs": 2,
        "buffer_size": 8 * CYCLE,
        "replay_start": 2 * CYCLE,
        "replay_ratio": 2,
    },
    BatchConfig: {
        "timesteps_per_batch": CYCLE,
        "timesteps_per_actorbatch": CYCLE,
        "optim_epochs": 2,
        "optim_batchsize": CYCLE // 2,
        "cg_iters": 2,
        "vf_iters": 2,
    },
    EpochConfig: {"steps_per_epoch": CYCLE, "train_pi_iters": 2, "train_v_iters": 2, "cg_iters": 2},
    ReplayConfig: {
        "replay_size": 200,
        "batch_size": 8,
        "start_steps": 10,
        "update_after": 10,
        "num_test_episodes": 0,
        "steps_per_epoch": EPOCH,
        "update_every": CYCLE,
        "num_update": 2,
    },
    SearchConfig: {
        "num_agents": 4,
        "test_every": 2,
        "num_test_episodes": 0,
        "log_interval": 1,
        "epsilon_decay": 0.95,
        "bounds_steps": CYCLE,
        "batch_size": CYCLE // 2,
        "held_out": 0.2,
        "patience": 0,
    },
}
# Of one algorithm, over those of its base; None leaves an argument out.
BY_NAME = {
    # When decompositions in the background are done, nobody knows.
    "acktr": {"is_async": False},
    # Long enough for an episode to end.
    "ppo1": {"timesteps_per_actorbatch": 2 * CYCLE},
    # The value function learns from batches of 64 alone.
    "trpo_mpi": {"timesteps_per_batch": 7 * CYCLE},
    # And of 128; it begins with behaviour cloning.
    "gail": {"timesteps_per_batch": 13 * CYCLE, "g_step": 1, "d_step": 2, "pretrained": True, "BC_max_iter": 2},
    "deepq": {
        "buffer_size": 200,
        "learning_starts": 10,
        "train_freq": CYCLE,
        "target_network_update_freq": EPOCH,
        "print_freq": 1,
        "hiddens": [8],
    },
    # A cycle is an episode.
    "her": {"buffer_size": 200, "n_cycles": 2, "n_batches": 2, "n_test_rollouts": 0, "max_ep_len": 15},
    "ddpg": {"nb_epoch_cycles": EPOCH // CYCLE, "nb_rollout_steps": CYCLE, "nb_train_steps": 2, "update_every": None},
}
NETWORKS = {
    "mlp": {"num_layers": 1, "num_hidden": 8},
    "dense": {"hidden_sizes": [8]},
    "lstm": {"nlstm": 4},
    "cnn_small": {},
    "table": {},
}
# Of recurrent policies: minibatches are groups of environments, and sequences are replayed; unrolling them is dear.
RECURRENT = {"nminibatches": 1, "noptepochs": 1, "sequence_length": 5, "num_update": 1, "replay_ratio": 1}
RECURRENT |= {"nb_rollout_steps": 4 * CYCLE, "nb_train_steps": 1}
# Columns that depend on time.
TIMES = ["Time", "TimeElapsed", "fps", "total/duration", "total/steps_per_second", "misc/time_elapsed", "time_elapsed"]

EVERY = pytest.mark.parametrize("alg", ALGORITHMS)
WITH_NETWORKS = pytest.mark.parametrize("alg", [name for name, one in ALGORITHMS.items() if not one.tabular])
# With its own network, and with memory where it takes it.
BOTH_NETWORKS = [(name, network) for name, one in ALGORITHMS.items() for network in (None, "lstm")[: 1 + one.recurrent]]
PLAIN_AND_WITH_MEMORY = pytest.mark.parametrize(("alg", "network"), BOTH_NETWORKS)
WITH_MEMORY = pytest.mark.parametrize("alg", [name for name, one in ALGORITHMS.items() if one.recurrent])

ACTIONS = {
    "Discrete": spaces.Discrete(3, start=5),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2], start=[1, -4]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "bounded Box": spaces.Box(np.array([[-1.0, 2.0]], np.float32), np.array([[3.0, 2.5]], np.float32)),
}
# Demonstrations that are written here; it is removed when the process ends.
WRITTEN = tempfile.TemporaryDirectory(prefix="tfbaselines-tests-")
DEMONSTRATIONS = Path(__file__).parents[2] / "data" / "demos"
# What the command line trains on.
ENVIRONMENTS = {"Discrete": "CartPole-v1", "Box": "Pendulum-v1", "bounded Box": "Pendulum-v1"}

WITH_GOALS = "tfbaselines.envs.tiny:tfbaselines/PointReach-v0"


def small(alg, network=None):
    """The arguments of a small run: an algorithm's network by default, or another one."""
    declared = get(alg).config.arguments()
    values = {"seed": 0}
    for base, own in BY_BASE.items():
        values |= own if issubclass(get(alg).config, base) else {}
    values |= BY_NAME.get(alg, {}) | (RECURRENT if network == "lstm" else {})
    if "demo_path" in declared:
        values["demo_path"] = demonstrations_for(own_identity(alg))
    values = {name: value for name, value in values.items() if name in declared and value is not None}
    return values | NETWORKS[network or network_of(alg)]


def demonstrations_for(env):
    """The path of a file with three episodes of samples of an environment's spaces: a pass learns from CYCLE steps."""
    name = hashlib.sha256(f"{env.observation_space} {env.action_space}".encode()).hexdigest()
    path = Path(WRITTEN.name) / f"{name}.npz"
    if not path.exists():
        spaces_of = env.observation_space, env.action_space
        save_demonstrations(path, samples(*spaces_of), *spaces_of)
    return str(path)


def samples(observation_space, action_space, lengths=(4, 4, 4)):
    """Demonstrations that are samples of both spaces; sampling leaves the spaces' own generators as they were."""
    observation_space, action_space = copy.deepcopy((observation_space, action_space))
    observation_space.seed(0)
    action_space.seed(0)
    steps, episodes = sum(lengths), len(lengths)
    obs = np.array([observation_space.sample() for _ in range(steps + episodes)])
    return Demonstrations(
        obs=obs[:steps],
        actions=np.array([action_space.sample() for _ in range(steps)]),
        rewards=np.arange(steps, dtype=np.float32),
        lengths=np.array(lengths),
        terminated=np.arange(episodes) % 2 == 0,
        last_obs=obs[steps:],
    )


def network_of(alg):
    """A small network of the kind that the algorithm's family has."""
    if get(alg).tabular:
        return "table"
    return "dense" if issubclass(get(alg).config, ReplayConfig) else "mlp"


def takes(alg, kind):
    """Whether an algorithm declares a kind of action spaces; any Box may have bounds."""
    return {kind, kind.removeprefix("bounded ")} & set(get(alg).actions)


def suited(alg, make):
    """A function that makes an environment, with goals where the algorithm needs them."""
    return (lambda: Goals(make())) if get(alg).goals else make


def first_kind(alg):
    """The kind of actions that the algorithm's declaration begins with."""
    return get(alg).actions[0]


def steps_of_update(alg, num_envs, arguments):
    """Environment steps of one update of this rank, or one cycle."""
    if get(alg).goals:
        return arguments["max_ep_len"] * num_envs
    if "update_every" in arguments or "train_freq" in arguments:
        # Rounded to whole steps of all environments by the run.
        return CYCLE
    if issubclass(get(alg).config, SearchConfig) and "demo_path" in arguments:
        # A pass over the demonstrations.
        return CYCLE
    if "num_agents" in arguments:
        # An episode of each member.
        return arguments["num_agents"] // mpi.world().size * CYCLE
    batch = ("timesteps_per_batch", "timesteps_per_actorbatch", "steps_per_epoch")
    # Epochs are shared out over ranks.
    ranks = mpi.world().size if issubclass(get(alg).config, EpochConfig) else 1
    for steps in (arguments[name] // ranks for name in batch if name in arguments):
        return -(-steps // num_envs) * num_envs * arguments.get("g_step", 1)
    return arguments.get("nsteps", arguments.get("nb_rollout_steps", CYCLE)) * num_envs


def learn(alg, env, updates=4, network=None, **kwargs):
    """A small run of so many updates, or cycles; env may be a list of several workers' environments."""
    arguments = small(alg, network if network in NETWORKS or network is None else None)
    if network is not None and network not in NETWORKS:
        arguments = {name: value for name, value in arguments.items() if name not in NETWORKS[network_of(alg)]}
    one = env[0] if isinstance(env, list) else env
    if "demo_path" in arguments:
        arguments["demo_path"] = demonstrations_for(one)
    arguments |= kwargs
    num_envs = one.num_envs
    steps = updates * steps_of_update(alg, num_envs, arguments)
    return get(alg).learn(network or network_of(alg), env, **{"total_timesteps": steps} | arguments)


def learn_eagerly(*args, **kwargs):
    """The same with operations one by one, in fixtures of modules, which cannot take the fixture `eager`."""
    tf.config.run_functions_eagerly(True)
    try:
        return learn(*args, **kwargs)
    finally:
        tf.config.run_functions_eagerly(False)


def train(directory, alg, env, *args, **kwargs):
    """The same with its files in a directory."""
    resume = bool(kwargs.get("run") and kwargs["run"].resume)
    logger.configure(str(directory), ["csv", "log"], resume=resume)
    return learn(alg, env, *args, **kwargs)


def flags(alg, *more, **changed):
    """The small run on the command line; None leaves an argument out."""
    env = WITH_GOALS if get(alg).goals else ENVIRONMENTS[first_kind(alg)]
    values = {"alg": alg, "env": env, "num_env": 1, "network": network_of(alg)} | small(alg)
    declared = get(alg).config.arguments()
    values |= {name: value for name, value in {"max_ep_len": 15, "num_test_episodes": 2}.items() if name in declared}
    if "demo_path" in declared:
        values["demo_path"] = DEMONSTRATIONS / f"{values['env'].split('-')[0].lower()}.npz"
        # Of which a pass learns from CYCLE steps.
        values["subsample"] = 200
    values |= changed
    return [*(f"--{name}={value}" for name, value in values.items() if value is not None), *more]


def length(alg, updates):
    """The argument on the command line for so many updates."""
    if issubclass(get(alg).config, SearchConfig):
        return {"num_iterations": updates}
    return {"num_timesteps": updates * steps_of_update(alg, 1, small(alg))}


def stop_after(updates):
    """Options of a run that its callback ends."""
    return RunOptions(callback=lambda run: run.update < updates)


# What runs leave.


def table(directory):
    return read_csv(directory / "progress.csv")


def rows(directory):
    """progress.csv without what depends on time."""
    found = table(directory)
    return found.drop(columns=[name for name in TIMES if name in found])


def weights(policy):
    return np.concatenate([variable.numpy().ravel() for variable in policy.trainable_variables])


def resident_bytes():
    """Memory that this process takes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Steady:
    """A callback that looks whether anything is traced again, or memory grows, from one update of a run to another.

    Args:
        warm: the update after which everything has been compiled.
        last: a later one.
    """

    MOST_GROWTH = 2**23

    def __init__(self, warm, last):
        self.updates, self.seen = (warm, last), {}

    def __call__(self, run):
        if run.update in self.updates:
            gc.collect()
            kind = type(tf.function(lambda: 0))
            functions = [one for one in gc.get_objects() if isinstance(one, kind)]
            self.seen[run.update] = sum(one.experimental_get_tracing_count() for one in functions), resident_bytes()

    def traces(self):
        """How often functions were traced, all together."""
        (traces, size), (later_traces, later_size) = (self.seen[update] for update in self.updates)
        assert later_traces == traces
        assert later_size - size < self.MOST_GROWTH
        return traces


def own_identity(alg, count=1, seed=0):
    """An identity environment with actions that the algorithm takes."""
    if get(alg).goals:
        return vec(lambda: Goals(tiny.BoxIdentityEnv((2,), episode_len=10)), count, seed)
    return (identity if takes(alg, "Discrete") else box)(count, seed)


# Losing a saved replay.


def keep(path):
    """Lose nothing of a saved replay; the others return what a resumed run says."""
    return


def remove(path):
    shutil.rmtree(path)
    return "there is no file"


def damage(path):
    for file in path.iterdir():
        file.write_bytes(file.read_bytes()[:200])
    return "cannot be read"


# Off-policy algorithms without learning.


class Zeros(dict):
    """Statistics of so many gradient steps: 0 under any name."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def __missing__(self, name):
        return np.zeros(self.count)


def recorded(monkeypatch):
    """Every block of batches with its coefficients, in place of learning; statistics are 0."""
    seen = []

    def recording(update, block, **coefficients):
        count = len(block["rewards"])
        update.step += count
        seen.append(SimpleNamespace(block=block, count=count, coefficients=coefficients))
        return Zeros(count)

    monkeypatch.setattr(Engine, "block", recording)
    return seen


def joined(seen, name):
    """One part of all batches, row by row."""
    return np.concatenate([one.block[name].ravel() for one in seen])
