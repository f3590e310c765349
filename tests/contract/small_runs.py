"""Small runs of every algorithm: their arguments under common names, and environments that count or stand still."""

import copy
import hashlib
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec

from tfbaselines.algs.registry import ALGORITHMS, get
from tfbaselines.envs import tiny
from tfbaselines.experience.demonstrations import Demonstrations, save_demonstrations
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.optim.blocks import BlockUpdate
from tfbaselines.parallel import mpi
from tfbaselines.settings.bases import BatchConfig, EpochConfig, PolicyConfig, ReplayConfig, SearchConfig
from tfbaselines.settings.options import RunOptions

# Environment steps of an update, or of a cycle, and of an epoch.
CYCLE, EPOCH = 10, 20

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
    },
    EpochConfig: {"steps_per_epoch": CYCLE, "train_pi_iters": 2, "train_v_iters": 2},
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
    "gail": {"timesteps_per_batch": 13 * CYCLE, "g_step": 2, "d_step": 2, "pretrained": True, "BC_max_iter": 2},
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


# Environments.


class Counting(gymnasium.Env):
    """Shows how many steps were taken since it was made, and pays as much; the first of an episode as less than zero.

    Args:
        length: steps in an episode; None for no end.
        first: where counting begins.
        timeout: a time limit ends the episodes.
        actions: what it takes.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, length=5, first=0, timeout=False, actions=None):
        self.length, self.first, self.count, self.timeout = length, first, first, timeout
        self.action_space = actions or spaces.Box(-1.0, 3.0, (2,), np.float32)
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([-self.count], np.float32), {}

    def step(self, action):
        self.taken.append(np.array(action))
        self.count += 1
        over = self.length is not None and (self.count - self.first) % self.length == 0
        shown = np.array([self.count], np.float32)
        return shown, float(self.count - 1), over and not self.timeout, over and self.timeout, {}


class Still(gymnasium.Env):
    """Always the same is shown and nothing is random, so that a run can be stopped and resumed without a trace.

    Args:
        actions: what it takes.
        length: steps in an episode.
    """

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, actions=None, length=CYCLE):
        self.action_space = actions or spaces.Box(-2.0, 2.0, (2,), np.float32)
        self.length, self.time, self.taken = length, 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.full(2, 0.5, np.float32), {}

    def step(self, action):
        self.taken.append(np.array(action))
        self.time += 1
        return np.full(2, 0.5, np.float32), float(np.sum(action)), self.time >= self.length, False, {}


class Seeing(gymnasium.Env):
    """Shows samples of a space and refuses actions that are not in its own; episodes of three steps.

    Args:
        observation_space: what it draws from.
        action_space: what it takes.
    """

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.time += 1
        # What is done counts a little: a search learns nothing from equal returns.
        return self.observation_space.sample(), 1.0 + 0.1 * float(np.sum(action)), self.time >= 3, False, {}


class Goals(gymnasium.Wrapper):
    """What an environment shows, and as goals the first numbers of the last action, and those it is to have.

    Args:
        env: the environment.
    """

    DESIRED = np.array([0.5, 0.25], np.float32)

    def __init__(self, env):
        super().__init__(env)
        goal = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = spaces.Dict(observation=env.observation_space, achieved_goal=goal, desired_goal=goal)

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        return self._shown(obs, np.zeros(2)), info

    def step(self, action):
        obs, _, terminated, truncated, info = self.env.step(action)
        obs = self._shown(obs, np.ravel(action))
        reward = self.compute_reward(obs["achieved_goal"], self.DESIRED, {})
        return obs, reward, terminated, truncated, info | {"is_success": reward == 0}

    def compute_reward(self, achieved, desired, info):
        return -np.any(np.abs(achieved - desired) > 0.5, axis=-1).astype(np.float32)

    def _shown(self, obs, action):
        achieved = np.resize(action, 2).astype(np.float32)
        return {"observation": obs, "achieved_goal": achieved, "desired_goal": self.DESIRED}


class Masked(Seeing):
    """Tells which of its choices are allowed, at least one of each kind, and refuses the others."""

    def _told(self):
        space = self.action_space
        widths = [space.n] if isinstance(space, spaces.Discrete) else space.nvec
        self.masks = [self.np_random.integers(0, 2, width, dtype=np.int8) for width in widths]
        for mask in self.masks:
            mask[self.np_random.integers(len(mask))] = 1
        return {"action_mask": self.masks[0] if len(self.masks) == 1 else tuple(self.masks)}

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self._told()

    def step(self, action):
        choices = np.ravel(action) - np.ravel(self.action_space.start)
        assert all(mask[choice] for mask, choice in zip(self.masks, choices, strict=True)), (action, self.masks)
        *step, _ = super().step(action)
        return *step, self._told()


def counting(count=1, **kwargs):
    return vec(lambda: Counting(**kwargs), count)


def still(count=1, **kwargs):
    return vec(lambda: Still(**kwargs), count)


def box(count=1, seed=0):
    return vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=10), count, seed)


def identity(count=1, seed=0, dim=4):
    return vec(lambda: tiny.DiscreteIdentityEnv(dim, episode_len=10), count, seed)


def own_identity(alg, count=1, seed=0):
    """An identity environment with actions that the algorithm takes."""
    if get(alg).goals:
        return vec(lambda: Goals(tiny.BoxIdentityEnv((2,), episode_len=10)), count, seed)
    return (identity if takes(alg, "Discrete") else box)(count, seed)


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

    monkeypatch.setattr(BlockUpdate, "__call__", recording)
    return seen


def joined(seen, name):
    """One part of all batches, row by row."""
    return np.concatenate([one.block[name].ravel() for one in seen])
