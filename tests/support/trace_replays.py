"""Diaries of environments, and replays filled from them."""

from types import SimpleNamespace

import gymnasium
import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfbaselines.algs.acer.replay import FENCES, RolloutReplay, TrajectoryRunner, part_of
from tfbaselines.algs.acer.traces import TraceReplay, between
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv, VecFrameStack
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.policy import build_policy
from tfbaselines.training.checkpoint import load_tree, save_tree

DISCRETE, BOX = spaces.Discrete(3, start=2), spaces.Box(-np.inf, np.inf, (2,), np.float32)
NUMBERS = spaces.Box(-np.inf, np.inf, (3,), np.float64)
PIXELS = spaces.Box(0, 255, (1, 3, 1), np.uint8)


class Diary(gymnasium.Env):
    """Shows (its number, the episode's, the step's) plus one, and keeps every episode's observations, actions, rewards.

    Its episodes have the given lengths in turn.
    """

    def __init__(self, number=0, lengths=(4,), timeout=False, observation_space=NUMBERS, action_space=DISCRETE):
        self.number, self.lengths, self.timeout = number, lengths, timeout
        self.observation_space, self.action_space = observation_space, action_space
        self.episodes = []

    def reset(self, *, seed=None, options=None):
        self.t = 0
        self.episodes.append({"obs": [], "actions": [], "rewards": []})
        return self._show(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        episode, self.t = len(self.episodes) - 1, self.t + 1
        reward = 100 * self.number + 10 * episode + self.t
        self.episodes[-1]["actions"].append(action)
        self.episodes[-1]["rewards"].append(reward)
        over = self.t == self.lengths[episode % len(self.lengths)]
        return self._show(), reward, over and not self.timeout, over and self.timeout, {}

    def _show(self):
        numbers = np.array([self.number, len(self.episodes) - 1, self.t]) + 1
        obs = numbers.reshape(self.observation_space.shape).astype(self.observation_space.dtype)
        self.episodes[-1]["obs"].append(obs)
        return obs


def make(network="mlp", nsteps=6, diaries=None, nstack=1, maker=make_actor, seed=0, **kwargs):
    """A runner over environments, the first of which ends its episodes; time limits cut the second one's."""
    diaries = diaries or [Diary(0, (4,)), Diary(1, (3,), timeout=True)]
    env = DummyVecEnv([lambda diary=diary: Monitor(diary, None) for diary in diaries])
    env = VecFrameStack(env, nstack) if nstack > 1 else env
    policy = build_policy(env, network, **({"num_hidden": 8} if network == "mlp" else {"nlstm": 4}), **kwargs)
    actor = maker(policy)
    runner = TrajectoryRunner(env, policy, actor, nsteps, np.random.default_rng(seed))
    return SimpleNamespace(runner=runner, env=env, policy=policy, actor=actor, diaries=diaries)


def spaces_of(space=BOX, count=2):
    """As much of an environment as a replay of plain observations looks at."""
    return SimpleNamespace(num_envs=count, observation_space=space, action_space=spaces.Discrete(3))


def rollout(number, count=2, nsteps=4, states=False):
    """A batch whose rewards are all different: one for each rollout, environment and step."""
    rewards = 1000.0 * number + 100 * np.arange(count)[:, None] + np.arange(nsteps)
    obs = np.repeat(np.concatenate([rewards, rewards[:, -1:] + 1], 1)[..., None], 2, axis=-1)
    zeros = np.zeros((count, nsteps), np.float32)
    batch = {
        "obs": obs.astype(np.float32),
        "episode_start": np.zeros((count, nsteps + 1), np.float32),
        "actions": rewards.astype(np.int64) % 3,
        "rewards": rewards.astype(np.float32),
        "terminated": zeros,
        "truncated": zeros.copy(),
        "mus": np.repeat(rewards[..., None], 3, axis=-1).astype(np.float32),
    }
    if states:
        batch["states"] = np.repeat(rewards[..., None], 8, axis=-1).astype(np.float32)
    return batch


def filled(size=12, rollouts=3, **kwargs):
    replay = RolloutReplay(spaces_of(), size, 4)
    for number in range(rollouts):
        replay.put(rollout(number, **kwargs))
    return replay


def numbers_drawn(replay, draws=200):
    """The rollouts that were drawn, for each environment."""
    rng = np.random.default_rng(0)
    return np.array([replay.sample(rng)["rewards"][:, 0] // 1000 for _ in range(draws)])


def samples(replay, count=20):
    rng = np.random.default_rng(3)
    return [replay.sample(rng) for _ in range(count)]


def saved(replay):
    """Everything that is kept of a replay."""
    return {"state": replay.state(), "items": replay.items(*replay.span())}


def saved_and_loaded(replay, path):
    save_tree(path, saved(replay))
    return load_tree(path)


def restore(replay, tree, episodes_continue=True):
    """Restore what was kept of another replay."""
    replay.rebuild(tree["state"], [(0, tree["items"])], episodes_continue)


def bytes_of(replay):
    return sum(array.nbytes for array in saved(replay)["items"]["arrays"].values())


def recorded(over):
    """The batch of a long run: steps are terminated where `over` is 1 and truncated where it is 2."""
    count, steps = over.shape
    batch = rollout(0, count, steps, states=True)
    batch["terminated"], batch["truncated"] = (over == 1).astype(np.float32), (over == 2).astype(np.float32)
    batch["episode_start"][:, 1:] = over > 0
    return batch


def rollouts_of(batch, nsteps):
    """The same in rollouts of nsteps."""
    steps = batch["rewards"].shape[1]
    for start in range(0, steps, nsteps):
        yield {name: array[:, start : start + nsteps + (name in FENCES)] for name, array in batch.items()}


def episodes_of(batch):
    """The whole episodes of each environment."""
    episodes = []
    for i in range(len(batch["rewards"])):
        sequence, start = part_of(batch, i), 0
        for end in np.flatnonzero(sequence["terminated"] + sequence["truncated"]) + 1:
            episodes.append(between(sequence, start, end))
            start = end
    return episodes


@st.composite
def runs(draw):
    nsteps, rollouts = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    shape = (draw(st.integers(1, 3)), nsteps * rollouts)
    return nsteps, draw(hnp.arrays(np.int8, shape, elements=st.sampled_from([0, 0, 0, 1, 2])))


def run_of(lengths, nsteps=5, **kwargs):
    """One environment's episodes of these lengths in a replay, and the episodes."""
    over = np.zeros((1, -(-sum(lengths) // nsteps) * nsteps), np.int8)
    over[0, np.cumsum(lengths) - 1] = 1
    batch = recorded(over)
    replay = TraceReplay(spaces_of(count=1), **{"capacity": 100, "batch_size": 200, **kwargs})
    for one in rollouts_of(batch, nsteps):
        replay.put(one)
    return replay, episodes_of(batch)
