"""Numpy's products take one thread while a run trains or acts, and as many as before afterwards."""

import pytest
from gymnasium import spaces
from helpers import Guess, vec
from threadpoolctl import threadpool_info, threadpool_limits

from tfbaselines.algs.ppo2 import learn
from tfbaselines.config.options import RunOptions
from tfbaselines.parallel.mpi import one_blas_thread
from tfbaselines.training.testing import even_episodes


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(limits=2, user_api="blas"):
        assert threads() == {2}
        yield
        assert threads() == {2}


def threads():
    """Of each library that multiplies numpy's matrices."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_a_context_has_one_thread():
    with one_blas_thread():
        assert threads() == {1}
    assert threads() == {2}


def test_contexts_may_lie_in_one_another():
    with one_blas_thread():
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_trains_with_one_thread(fails):
    seen = []

    def callback(run):
        seen.append(threads())
        if fails:
            raise KeyError("broken")

    def train():
        learn(
            "mlp",
            vec(lambda: Guess(spaces.Discrete(2))),
            nsteps=8,
            total_timesteps=16,
            run=RunOptions(callback=callback),
        )

    if fails:
        with pytest.raises(KeyError, match="broken"):
            train()
    else:
        train()
    assert seen == [{1}] * (1 if fails else 2) and threads() == {2}


class Model:
    """Acts without a policy."""

    def __init__(self):
        self.seen = []

    def initial_states(self, count):
        return None

    def act(self, obs, state, deterministic, dones):
        self.seen.append(threads())
        return [0] * len(obs), None


class Short(Guess):
    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, True, False, info


def test_episodes_are_played_with_one_thread():
    model = Model()
    assert len(even_episodes(model, vec(lambda: Short(spaces.Discrete(2))), 3)) == 3
    assert model.seen == [{1}] * 3
