"""Evolution strategies: the step of the formula, ranks that take the step of one, and what is learnt."""

import os
from pathlib import Path

import numpy as np
import pytest
from commands import SUPPORT, TWO_RANKS, finish, start
from gymnasium import spaces
from helpers import Guess, reward_per_step, vec
from small_environments import Seeing, identity
from small_runs import learn, train

from tfbaselines.algs import es
from tfbaselines.algs.es.es import centered_ranks, noise, standardized
from tfbaselines.algs.es.population import Trial, Trials, flat_parameters
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.envs.make import make_vec_env
from tfbaselines.training.testing import even_episodes

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


@pytest.fixture
def paid(monkeypatch):
    """Members' returns that depend on their parameters alone; what each run tried."""
    seen = []

    def run(trials, members, parameters):
        tried = [parameters(member) for member in members]
        seen.append(np.array(tried))
        return [Trial(float(np.tanh(own).sum()), None) for own in tried]

    monkeypatch.setattr(Trials, "run", run)
    return seen


def small(updates=1, seed=4, **kwargs):
    own = {"num_iterations": updates, "num_agents": 6, "num_layers": 1, "num_hidden": 3}
    return es.learn("mlp", vec(lambda: Guess(BOX)), seed=seed, **own | kwargs)


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize(("returns", "shape"), [("standardised", standardized), ("ranks", centered_ranks)])
def test_a_plain_step_is_that_of_the_formula(returns, shape, mirrored, paid):
    own = {"returns": returns, "mirrored": mirrored, "sigma": 0.2, "lr": 0.5, "weight_decay": 0.1}
    theta = flat_parameters(small(0, **own).policy)
    after = flat_parameters(small(1, **own).policy)
    (tried,) = paid
    directions = (tried - theta) / 0.2
    weights = shape(np.tanh(tried).sum(axis=1))
    wanted = theta + 0.5 * (weights @ directions / (6 * 0.2) - 0.1 * theta)
    np.testing.assert_allclose(after, wanted, rtol=1e-4, atol=1e-5)
    same = np.allclose(directions[1], -directions[0], atol=1e-5)
    assert same == mirrored and np.abs(directions[2] - directions[0]).max() > 0.1


def test_members_of_the_next_iteration_have_other_noise(paid):
    small(2)
    thetas = [tried.mean(axis=0) for tried in paid]
    one, other = (tried[0] - theta for tried, theta in zip(paid, thetas, strict=True))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.9


def test_adam_moves_every_parameter_by_its_rate(paid):
    before, after = (flat_parameters(small(updates, optimizer="adam", lr=0.01).policy) for updates in (0, 1))
    np.testing.assert_allclose(np.abs(after - before), 0.01, rtol=1e-2)


def test_the_rate_falls_as_its_schedule_says(paid):
    weights = [flat_parameters(small(updates, lr="linear_0.5").policy) for updates in (0, 1)]
    # In an iteration of one the rate is that of the beginning.
    np.testing.assert_allclose(weights[1], flat_parameters(small(1, lr=0.5).policy), rtol=1e-5)
    half, whole = (flat_parameters(small(2, lr=lr).policy) for lr in ("linear_0.5", 0.5))
    assert 0 < np.linalg.norm(half - weights[1]) < np.linalg.norm(whole - weights[1])


def test_equal_returns_change_nothing():
    before, after = (flat_parameters(learn("es", identity(dim=1), updates).policy) for updates in (0, 3))
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_any_number_of_environments_takes_the_same_step(count):
    """What is shown does not depend on the environment, nor on what it showed before."""
    own = {"num_iterations": 3, "total_timesteps": None}
    many, one = (flat_parameters(learn("es", vec(Choosing, n), **own).policy) for n in (count, 1))
    np.testing.assert_array_equal(many, one)


class Choosing(Guess):
    """Pays for actions near to (0.3, -0.2), three steps long."""

    def __init__(self):
        super().__init__(BOX)

    def reset(self, **kwargs):
        self.time = 0
        return np.float32([0.5, -0.5]), {}

    def step(self, action):
        self.time += 1
        return np.float32([0.5, -0.5]), -float(np.abs(action - [0.3, -0.2]).sum()), self.time >= 3, False, {}


def test_odd_populations_are_not_mirrored():
    with pytest.raises(ValueError, match="num_agents=5 is not valid: an even number, or give mirrored=False"):
        small(num_agents=5)
    assert small(0, num_agents=5, mirrored=False) is not None


def test_the_running_mean_is_of_all_members_observations(tmp_path):
    shown = []

    class Shown(Seeing):
        def step(self, action):
            obs, *rest = super().step(action)
            shown.append(obs)
            return obs, *rest

    env = vec(lambda: Shown(spaces.Box(3.0, 5.0, (3,), np.float32), spaces.Discrete(3)), 2)
    model = train(tmp_path, "es", env, num_iterations=6, total_timesteps=None, normalize_observations=True)
    normalizer = model.policy.normalizer
    assert normalizer.mean == pytest.approx(np.mean(shown, axis=0), abs=0.1)
    # 4 members with 3 steps each in 6 iterations.
    assert normalizer.state()["count"] == pytest.approx(72, abs=0.1)


@pytest.mark.slow
def test_two_ranks_take_the_steps_of_one_bit_for_bit(tmp_path):
    """With mirrored members on different ranks, and statistics of observations."""
    (tmp_path / "script.py").write_text(RANKS)
    paths = os.pathsep.join((str(tmp_path), str(Path(__file__).parent), SUPPORT))
    for launcher in ((), TWO_RANKS):
        status, _, err = finish(start("script", cwd=tmp_path, launcher=launcher, PYTHONPATH=paths), timeout=300)
        assert status == 0, err
    alone, one, other = (np.load(tmp_path / f"{name}.npy") for name in ("1-0", "2-0", "2-1"))
    assert np.isfinite(alone).all() and alone.std() > 0
    np.testing.assert_array_equal(one, alone)
    np.testing.assert_array_equal(other, alone)


RANKS = """
import numpy as np
from test_es import Choosing
from helpers import vec
from tfbaselines.algs import es
from tfbaselines.parallel import mpi
from tfbaselines.algs.es.population import flat_parameters

own = dict(num_agents=10, num_iterations=5, optimizer="adam", num_hidden=32, weight_decay=0.01, seed=3)
policy = es.learn("mlp", vec(Choosing, 2), normalize_observations=True, **own).policy
numbers = [flat_parameters(policy), policy.normalizer.mean, policy.normalizer.std]
np.save(f"{mpi.world().size}-{mpi.world().rank}", np.concatenate(numbers))
"""


def test_more_ranks_than_members_are_refused(monkeypatch):
    from tfbaselines.parallel.mpi import Communicator

    class Many(Communicator):
        size = 8

    with pytest.raises(ValueError, match="num_agents=6 is not valid: at least one for each of 8 ranks"):
        small(comm=Many())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("maker", "bar"),
    [
        # Of the gradient algorithms' ten numbers a search often leaves one out.
        (lambda: tiny.DiscreteIdentityEnv(5, episode_len=20), 0.95),
        (lambda: tiny.MultiDiscreteIdentityEnv((3, 3), episode_len=20), 0.9),
        (lambda: tiny.BoxIdentityEnv((1,), episode_len=20), -0.1),
    ],
    ids=["discrete", "multidiscrete", "box"],
)
def test_identity(maker, bar):
    env = vec(maker, 10)
    own = {"num_agents": 40, "num_iterations": 100, "lr": 0.1, "sigma": 0.3, "optimizer": "adam", "returns": "ranks"}
    model = es.learn("mlp", env, seed=0, num_layers=1, num_hidden=16, **own)
    assert reward_per_step(model, env, 100) > bar


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "own"), [("mlp", {"num_hidden": 16}), ("lstm", {"nlstm": 4})], ids=["dense", "with memory"]
)
def test_a_pole_is_balanced(network, own):
    def poles(count):
        return make_vec_env("CartPole-v1", "classic_control", count, 0)

    own = own | {"num_iterations": 25, "stop_max_score": 200.0, "test_every": 5, "max_ep_len": 200}
    model = es.learn(network, poles(10), eval_env=poles(5), seed=1, run=RunOptions(), **own)
    assert np.mean([episode["r"] for episode in even_episodes(model, poles(5), 5, deterministic=True)]) > 150


def test_noise_is_what_the_members_get(paid):
    theta = flat_parameters(small(0).policy)
    small(1)
    seed = int(np.random.default_rng(4).integers(2**63))
    np.testing.assert_allclose(paid[0][3], theta + np.float32(0.1) * noise(seed, 3, theta.size, True), rtol=1e-5)
