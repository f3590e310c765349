"""Rewards of goals, for whole batches, whatever compute_reward takes; the length of episodes."""

import gymnasium
import numpy as np
import pytest
from helpers import vec

from tfbaselines.envs import tiny
from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.vec import VecMonitor
from tfbaselines.envs.wrappers import GoalReward, RewardScaler, episode_limit, goal_reward

ID = "tfbaselines.envs.tiny:tfbaselines/PointReach-v0"
RNG = np.random.default_rng(0)
ACHIEVED, DESIRED = (RNG.uniform(-0.1, 0.1, (50, 2)).astype(np.float32) for _ in range(2))
EXPECTED = -(np.linalg.norm(ACHIEVED - DESIRED, axis=-1) > 0.05).astype(np.float32)


class Counted:
    """A compute_reward that counts its calls."""

    def __init__(self, compute):
        self.compute, self.calls = compute, 0

    def __call__(self, achieved, desired, info):
        self.calls += 1
        return self.compute(achieved, desired, info)


def whole(achieved, desired, info):
    return -(np.linalg.norm(achieved - desired, axis=-1) > 0.05).astype(np.float32)


def rows(achieved, desired, info):
    """Raises for a batch."""
    return -1.0 if np.linalg.norm(achieved - desired, axis=-1) > 0.05 else 0.0


def one_number(achieved, desired, info):
    """Makes one number of a batch."""
    return -float(np.linalg.norm(achieved - desired) > 0.05)


def wrong(achieved, desired, info):
    """Has the shape of a batch, with one number for all rows."""
    return np.full(achieved.shape[:-1], one_number(achieved, desired, info))


@pytest.mark.parametrize("compute", [whole, rows, one_number, wrong])
def test_rewards_of_a_batch_are_those_of_its_rows(compute, capsys):
    counted = Counted(compute)
    reward = GoalReward(counted, scale=2.0)
    for _ in range(2):
        found = reward(ACHIEVED, DESIRED, {})
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, 2.0 * EXPECTED)
    # Eight rows and the batch are compared, once.
    assert counted.calls == (9 + 2 if compute is whole else 9 + 2 * len(ACHIEVED))
    assert capsys.readouterr().err.count("does not support batches") == (compute is not whole)
    assert reward(ACHIEVED[:0], DESIRED[:0], {}).shape == (0,)


def test_a_single_row_is_not_what_batches_are_judged_by():
    counted = Counted(whole)
    reward = GoalReward(counted)
    assert reward(ACHIEVED[:1], DESIRED[:1], {}).tolist() == EXPECTED[:1].tolist()
    np.testing.assert_array_equal(reward(ACHIEVED, DESIRED, {}), EXPECTED)
    assert counted.calls == 1 + 9 + 1


@pytest.mark.parametrize("worker", ["dummy", "subproc"])
def test_rewards_are_scaled_as_those_of_the_environments(worker, tmp_path):
    options = {"worker": worker, "reward_scale": 3.0, "flatten_dict_observations": False, "logger_dir": str(tmp_path)}
    env = make_vec_env(ID, num_env=2, seed=0, **options)
    try:
        np.testing.assert_array_equal(goal_reward(VecMonitor(env))(ACHIEVED, DESIRED, {}), 3.0 * EXPECTED)
        assert episode_limit(env) == 15
        assert (tmp_path / "0.0.monitor.csv").read_text().count("\n") == 2
    finally:
        env.close()


def test_a_wrapper_may_have_the_reward():
    class Other(gymnasium.Wrapper):
        def compute_reward(self, achieved, desired, info):
            return np.full(len(achieved) if np.ndim(achieved) > 1 else (), 5.0)

    env = vec(lambda: RewardScaler(Other(RewardScaler(tiny.PointReachEnv(), 7.0)), 2.0))
    # What is scaled below the wrapper is not its reward.
    assert goal_reward(env)(ACHIEVED, DESIRED, {}).tolist() == [10.0] * len(ACHIEVED)


def test_environments_without_goals_are_refused():
    with pytest.raises(ValueError, match="hindsight needs Dict observations of observation, achieved_goal, desired"):
        goal_reward(vec(lambda: tiny.BoxIdentityEnv()))
    space = tiny.PointReachEnv().observation_space
    blind = gymnasium.wrappers.TransformObservation(tiny.BoxIdentityEnv(), lambda _: space.sample(), space)
    with pytest.raises(ValueError, match=r"env='BoxIdentityEnv' is not valid: .*compute_reward"):
        goal_reward(vec(lambda: blind))


def test_the_limit_of_episodes():
    assert episode_limit(vec(lambda: tiny.PointReachEnv())) is None
    limit = gymnasium.wrappers.TimeLimit
    assert episode_limit(vec(lambda: limit(limit(tiny.PointReachEnv(), 8), 9))) == 8
