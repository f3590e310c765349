"""Q-learning: its steps against plain arithmetic, exploration, bounds, ranks, and what it learns."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from commands import run_on_ranks
from gymnasium import spaces
from helpers import vec
from small_runs import learn, rows, stop_after, table, train

from tfbaselines.algs import get, qlearning
from tfbaselines.algs.qlearning import Learner, learn_from, merge_tables
from tfbaselines.algs.qlearning.table import Cells, TablePolicy
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.envs.make import make_vec_env
from tfbaselines.logs import logger
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.training.checkpoint import load_tree
from tfbaselines.training.testing import even_episodes

DISCOUNT, LR = 0.9, 0.5


class Chain(gymnasium.Env):
    """Five places; 1 goes right, 0 goes back to the start; the last place pays and ends the episode, or a limit does.

    Args:
        limit: steps after which the episode is cut; None for none.
        choices: actions that there are; all others go back to the start.
    """

    observation_space = spaces.Discrete(5, start=10)

    def __init__(self, limit=None, choices=2):
        self.limit, self.action_space = limit, spaces.Discrete(choices, start=3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.time = 0
        return 10, {}

    def step(self, action):
        self.time += 1
        self.place = self.place + 1 if action == 4 else 0
        over = self.place == 4
        cut = not over and self.time == self.limit
        return 10 + self.place, float(over) - 0.1, over, cut, {}


def learner(env, seed=0):
    policy = TablePolicy(env.observation_space, env.action_space, Cells(env.observation_space))
    return Learner(env, policy, np.random.default_rng(seed), DISCOUNT)


@pytest.mark.parametrize("limit", [None, 3])
def test_every_step_is_that_of_the_formula(limit):
    """Repeated with numbers of Python, from what the environment itself saw."""
    taken = []

    class Recorded(Chain):
        def step(self, action):
            before = self.place
            step = super().step(action)
            taken.append((before, int(action) - 3, step[1], self.place, step[2]))
            return step

    env = vec(lambda: Recorded(limit))
    subject, values = learner(env), [[0.0, 0.0] for _ in range(5)]
    for _ in range(20):
        subject.run(0.5, LR)
    for place, action, reward, after, over in taken:
        target = reward + (0.0 if over else DISCOUNT * max(values[after]))
        values[place][action] += LR * (target - values[place][action])
    np.testing.assert_allclose(subject.policy.table.array, values, rtol=1e-4, atol=1e-6)
    assert {one[4] for one in taken} == ({False, True} if limit is None else {False})
    assert np.abs(values).max() > 0.1


def test_steps_episodes_and_errors_are_reported():
    subject = learner(vec(lambda: Chain(6)))
    # The first action, which stays at the start, looks best all the time.
    subject.policy.table.array[:, 0] = 1.0
    steps, episodes, error = subject.run(0.0, LR)
    assert steps == 6 and [episode["l"] for episode in episodes] == [6]
    value, sizes = 1.0, []
    for _ in range(6):
        change = -0.1 + DISCOUNT * value - value
        sizes.append(abs(change))
        value += LR * change
    assert error == pytest.approx(np.mean(sizes), rel=1e-5)


def test_only_an_episode_that_ends_now_is_told():
    env = vec(lambda: Chain(limit=3), 2)
    learning, step = learner(env), env.step

    def stale(actions):
        obs, rewards, dones, infos = step(actions)
        dones[1] = False
        return obs, rewards, dones, infos

    env.step = stale
    assert len(learning.run(0.0, LR)[1]) == 1


@pytest.mark.parametrize(("epsilon", "share"), [(0.0, 0.0), (0.25, 0.25), (1.0, 1.0)])
@pytest.mark.parametrize("allowed", [None, [1, 0, 1, 1, 0, 0, 1]])
def test_exploration_takes_every_allowed_action_equally_often(epsilon, share, allowed):
    subject = learner(vec(lambda: Chain(choices=7)))
    forbidden = None if allowed is None else np.tile(-1e9 * (1 - np.float32(allowed)), (100, 1))
    actions = np.concatenate([subject._explored(np.full(100, -1), epsilon, forbidden) for _ in range(200)])
    random = actions[actions >= 0]
    assert len(random) / len(actions) == pytest.approx(share, abs=0.02)
    if len(random):
        shares = np.float64(allowed or [1] * 7)
        assert np.bincount(random, minlength=7) / len(random) == pytest.approx(shares / shares.sum(), abs=0.02)


class Doors(gymnasium.Env):
    """Three doors, of which that of the number shown is locked; the first of the others pays, the last one costs.

    Args:
        told: where the mask is: in the infos, or in the observations beside the number of the locked door.
    """

    action_space = spaces.Discrete(3, start=2)

    def __init__(self, told="infos"):
        self.told = told
        parts = {"locked": spaces.Discrete(3), "action_mask": spaces.MultiBinary(3)}
        self.observation_space = spaces.Discrete(3) if told == "infos" else spaces.Dict(parts)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._shown()

    def step(self, action):
        assert self.mask[action - 2], "locked"
        reward, self.time = 1.0 if action - 2 == self.mask.argmax() else -1.0, self.time + 1
        obs, info = self._shown()
        return obs, reward, self.time == 10, False, info

    def _shown(self):
        locked = int(self.np_random.integers(3))
        self.mask = np.ones(3, np.int8)
        self.mask[locked] = 0
        if self.told == "infos":
            return locked, {"action_mask": self.mask}
        return {"locked": locked, "action_mask": self.mask}, {}


@pytest.mark.parametrize("told", ["infos", "observations"])
def test_forbidden_actions_are_never_taken_and_never_what_comes_after(told, tmp_path):
    own = {"num_iterations": 150, "lr": 0.2, "discount": 0.5, "initial_value": 5.0, "num_test_episodes": 2}
    env = vec(lambda: Doors(told), 2)
    model = learn("qlearning", env, total_timesteps=None, eval_env=vec(lambda: Doors(told), 2), **own)
    episodes = even_episodes(model, get("qlearning").wrap(env), 4, deterministic=True)
    assert [episode["r"] for episode in episodes] == [10.0] * 4
    # Locked doors keep their first value, 5; the others have 1 + 0.5 * 2 and -1 + 0.5 * 2 at most.
    table = model.policy.table.array
    np.testing.assert_array_equal(table[np.eye(3, dtype=bool)], 5.0)
    assert (table[~np.eye(3, dtype=bool)] < 4.0).all()
    model.export(tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    obs = {"all" if told == "infos" else "locked": np.arange(3), "action_mask": 1 - np.eye(3, dtype=np.int8)}
    answers = served(**{f"observations_{name}": part for name, part in obs.items()})
    assert (answers["actions"].numpy() - 2).tolist() == [1, 0, 0]


class Sum(gymnasium.Env):
    """Shows two numbers and pays for their sum."""

    observation_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2, start=4)])
    action_space = spaces.Discrete(3, start=4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._shown(), {}

    def step(self, action):
        reward, self.time = float(action == sum(self.numbers)), self.time + 1
        return self._shown(), reward, self.time == 10, False, {}

    def _shown(self):
        self.numbers = int(self.np_random.integers(2)), int(self.np_random.integers(4, 6))
        return self.numbers


def test_of_several_discrete_parts_every_pair_of_values_is_a_cell():
    model = qlearning.learn("table", Sum(), num_iterations=100, lr=0.5, discount=0.0, epsilon_greedy=1.0, seed=0)
    assert model.policy.table.shape == (4, 3)
    assert model.act(np.array([[0, 4], [0, 5], [1, 4], [1, 5]]), deterministic=True)[0].tolist() == [4, 5, 5, 6]


def test_several_environments_learn_as_one_after_the_other_from_equal_targets():
    one, several = np.zeros((3, 2), np.float32), np.zeros((3, 2), np.float32)
    for _ in range(3):
        learn_from(one, np.array([4]), np.array([8.0 - one[2, 0]]), 0.25)
    learn_from(one, np.array([1]), np.array([-2.0]), 0.25)
    learn_from(several, np.array([4, 1, 4, 4]), np.array([8.0, -2.0, 8.0, 8.0]), 0.25)
    np.testing.assert_allclose(several, one, rtol=1e-6)
    assert several[2, 0] == pytest.approx(8 * (1 - 0.75**3))


def test_many_environments_in_one_pair_never_overshoot():
    values = np.zeros((1, 1), np.float32)
    learn_from(values, np.zeros(50, int), np.linspace(0.0, 2.0, 50), 0.9)
    assert values[0, 0] == pytest.approx(1.0)


def test_epsilon_falls_with_every_episode(tmp_path):
    own = {"epsilon_greedy": 0.8, "epsilon_decay": 0.5, "epsilon_min": 0.15}
    train(tmp_path, "qlearning", vec(lambda: Chain(4)), num_iterations=5, total_timesteps=None, **own)
    assert table(tmp_path)["epsilon"].tolist() == pytest.approx([0.8, 0.4, 0.2, 0.15, 0.15])


def test_bounds_come_from_random_steps_and_are_said(tmp_path):
    logger.configure(str(tmp_path), ["csv", "log"])
    env = make_vec_env("CartPole-v1", "classic_control", 2, 0)
    model = learn("qlearning", env, num_iterations=2, total_timesteps=None, bounds_steps=300)
    cells = model.policy.cells
    assert cells.low[0] == pytest.approx(-4.8) and -5 < cells.low[1] < -0.1 and 0.1 < cells.high[3] < 5
    said = (tmp_path / "log.txt").read_text()
    assert f"{cells.low[1]:.3g} to {cells.high[1]:.3g} in dimension 1" in said and "dimension 0" not in said
    assert table(tmp_path)["total_timesteps"].iloc[0] > 600
    model.save(tmp_path / "model")
    again = learn("qlearning", env, total_timesteps=0, load_path=tmp_path / "model")
    np.testing.assert_array_equal(again.policy.cells.low, cells.low)


def test_bounds_given_need_no_random_steps(tmp_path):
    env = make_vec_env("CartPole-v1", "classic_control", 1, 0)
    own = {"low": [-4.8, -3, -0.42, -3], "high": [4.8, 3, 0.42, 3], "grid_size": [4, 5, 6, 7]}
    model = train(tmp_path, "qlearning", env, num_iterations=1, total_timesteps=None, **own)
    assert model.policy.table.shape == (4 * 5 * 6 * 7, 2)
    first = table(tmp_path).iloc[0]
    assert first["total_timesteps"] == first["eplenmean"]


def test_a_resumed_run_keeps_the_bounds(tmp_path):
    def go(**kwargs):
        env = make_vec_env("CartPole-v1", "classic_control", 1, 0)
        return train(tmp_path, "qlearning", env, num_iterations=6, total_timesteps=None, grid_size=5, **kwargs)

    bounds = go(run=stop_after(3)).policy.cells.state()
    seen = go(run=RunOptions(resume=str(tmp_path))).policy.cells.state()
    np.testing.assert_equal(seen, bounds)
    assert rows(tmp_path)["iterations"].tolist() == [1, 2, 3, 4, 5, 6]


def test_the_initial_value_makes_every_action_be_tried():
    env = vec(lambda: Chain(30))
    own = {"epsilon_greedy": 0.0, "epsilon_min": 0.0, "num_iterations": 40, "total_timesteps": None, "lr": 0.5}
    hopeful, plain = (learn("qlearning", env, initial_value=value, **own).policy.table.array for value in (1.0, -20.0))
    assert hopeful[:4].argmax(1).tolist() == [1, 1, 1, 1]
    assert hopeful[3, 1] == pytest.approx(0.9, abs=0.02)
    assert plain[3].tolist() == [-20.0, -20.0]


@pytest.mark.parametrize("network", ["mlp", "lstm", "cnn"])
def test_networks_are_refused(network):
    with pytest.raises(ValueError, match=f"network='{network}' is not valid: .*only 'table'"):
        qlearning.learn(network, vec(Chain))


def test_a_table_is_refused_by_the_others(tmp_path):
    with pytest.raises(ValueError, match="a table is for --alg=qlearning"):
        learn("ppo2", vec(lambda: tiny.DiscreteIdentityEnv(3)), network="table")


class Other(Communicator):
    """Of two ranks; the other one has these arrays."""

    size = 2

    def __init__(self, table, before, tried):
        self.theirs = np.stack([(table - before) * tried, tried])

    def sum(self, array):
        return np.asarray(array) + self.theirs


def test_ranks_put_their_tables_together():
    before = np.float32([[1.0, 1.0, 1.0, 1.0]])
    mine, tried = np.float32([[2.0, 1.0, 3.0, 1.0]]), np.float32([[1, 0, 3, 0]])
    theirs, too = np.float32([[1.0, 5.0, 7.0, 1.0]]), np.float32([[0, 2, 1, 0]])
    merge_tables(mine, before, tried, Other(theirs, before, too))
    # Alone, the other alone, three parts to one, and neither.
    assert mine.tolist() == [[2.0, 5.0, 4.0, 1.0]]


@pytest.mark.slow
def test_two_ranks_share_one_table(tmp_path):
    """Each sees one half of the kinds, and both know all."""
    (tmp_path / "script.py").write_text(RANKS)
    status, _, err = run_on_ranks("script", cwd=tmp_path)
    assert status == 0, err
    one, other = (np.load(tmp_path / f"{rank}.npy") for rank in (0, 1))
    np.testing.assert_array_equal(one, other)
    assert one.argmax(axis=1).tolist() == [0, 1, 2, 3]


RANKS = """
import gymnasium
import numpy as np
from tfbaselines.algs import qlearning
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv
from tfbaselines.parallel import mpi

rank = mpi.world().rank


class Half(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.kind = 0, 2 * rank
        return self.kind, {}

    def step(self, action):
        reward, self.time = float(action == self.kind), self.time + 1
        self.kind = 2 * rank + self.time % 2
        return self.kind, reward, self.time == 10, False, {}


env = DummyVecEnv([lambda: Monitor(Half(), None, allow_early_resets=True)])
model = qlearning.learn("table", env, num_iterations=60, lr=0.3, discount=0.0, seed=0)
np.save(f"{rank}", model.policy.table.array)
"""


@pytest.mark.slow
def test_frozen_lake_is_solved():
    def lake(count):
        return make_vec_env("FrozenLake-v1", "toy_text", count, 0, env_kwargs={"is_slippery": False, "map_name": "8x8"})

    own = {"num_iterations": 600, "lr": 0.5, "initial_value": 1.0, "epsilon_greedy": 0.1, "epsilon_decay": 0.99}
    model = qlearning.learn("table", lake(1), seed=0, **own)
    assert [episode["r"] for episode in even_episodes(model, lake(2), 4, deterministic=True)] == [1.0] * 4


@pytest.mark.slow
def test_a_continuous_problem_is_learnt_on_a_grid(tmp_path):
    """The number shown is to be told from its sign."""

    class Sign(gymnasium.Env):
        observation_space, action_space = spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.time = 0
            return self._shown(), {}

        def step(self, action):
            reward, self.time = float(action == (self.number > 0)), self.time + 1
            return self._shown(), reward, False, self.time >= 20, {}

        def _shown(self):
            self.number = self.np_random.uniform(-1, 1)
            return np.float32([self.number])

    own = {"num_iterations": 200, "lr": 0.1, "discount": 0.0, "grid_size": 10}
    model = train(tmp_path, "qlearning", vec(Sign, 4), total_timesteps=None, **own)
    obs = np.linspace(-0.95, 0.95, 20, dtype=np.float32)[:, None]
    assert model.act(obs)[0].tolist() == (obs[:, 0] > 0).astype(int).tolist()
    saved = load_tree(next((tmp_path / "checkpoints").glob("0*")))
    assert saved["model"]["policy"]["cells"]["sizes"].tolist() == [10]
