"""baselines' expert data set."""

import os
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from tfbaselines.gail.dataset.mujoco_dset import Mujoco_Dset

from tfbaselines.demos import load_demonstrations
from tfbaselines.errors import UsageError

EPISODES, LENGTH = 4, 5


@pytest.fixture
def path(tmp_path):
    obs = np.arange(EPISODES * LENGTH * 3, dtype=np.float32).reshape(EPISODES, LENGTH, 3)
    acs = np.linspace(-1, 1, EPISODES * LENGTH, dtype=np.float32).reshape(EPISODES, LENGTH, 1)
    rews = np.ones((EPISODES, LENGTH), np.float32) * np.arange(EPISODES)[:, None]
    np.savez(tmp_path / "expert.npz", obs=obs, acs=acs, rews=rews, ep_rets=rews.sum(1))
    return tmp_path / "expert.npz"


def test_rows_and_returns(path):
    data = Mujoco_Dset(path, randomize=False)
    assert (data.num_traj, data.num_transition, data.avg_ret) == (4, 20, 7.5)
    assert data.obs.shape == (20, 3) and data.acs.shape == (20,)
    obs, acs = data.get_next_batch(6)
    np.testing.assert_array_equal(obs, data.obs[:6])
    np.testing.assert_array_equal(acs, data.acs[:6])
    assert Mujoco_Dset(path, traj_limitation=2).num_transition == 10


def test_batches_are_of_their_part_and_every_row_comes(path):
    data = Mujoco_Dset(path, train_fraction=0.5)
    train = {int(row[0]) // 3 for _ in range(30) for row in data.get_next_batch(3, "train")[0]}
    held_out = {int(row[0]) // 3 for row in data.get_next_batch(-1, "val")[0]}
    assert train == set(range(10)) and held_out == set(range(10, 20))


def test_it_stands_for_its_file(path):
    space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    actions = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    data = Mujoco_Dset(path)
    assert os.fspath(data) == str(path)
    assert len(load_demonstrations(data, space, actions)) == 20


def test_recorded_files_are_read_too():
    """Episodes of any length."""
    path = Path(__file__).parents[2] / "data/demos/cartpole.npz"
    arrays, data = np.load(path), Mujoco_Dset(path, traj_limitation=3, randomize=False)
    first = arrays["lengths"][:3]
    assert (data.num_traj, data.num_transition) == (3, first.sum())
    np.testing.assert_array_equal(data.obs, arrays["obs"][: first.sum()])
    np.testing.assert_array_equal(data.acs, arrays["actions"][: first.sum()])
    ends = first.cumsum()
    assert data.rets.tolist() == [arrays["rewards"][end - n : end].sum() for n, end in zip(first, ends, strict=True)]
    assert Mujoco_Dset(path.with_name("hopper.npz")).num_traj == 10


def test_files_that_need_pickle_are_named_with_a_way_out(tmp_path):
    np.savez(tmp_path / "old.npz", obs=np.array([np.zeros((2, 3)), np.zeros((5, 3))], object))
    words = r"expert_path='.*old.npz' .* an array of type object is not accepted, since .* numpy.load"
    with pytest.raises(UsageError, match=words):
        Mujoco_Dset(tmp_path / "old.npz")


def test_mistakes_are_one_line(path, tmp_path):
    with pytest.raises(UsageError, match=r"expert_path=.* is not valid: a file"):
        Mujoco_Dset(tmp_path / "nowhere.npz")
    np.savez(tmp_path / "other.npz", obs=np.zeros(3))
    with pytest.raises(UsageError, match="it has no array 'acs'"):
        Mujoco_Dset(tmp_path / "other.npz")
    with pytest.raises(UsageError, match="split='test' is not valid"):
        Mujoco_Dset(path).get_next_batch(2, "test")
