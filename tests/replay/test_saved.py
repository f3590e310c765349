"""Saved replays: the first format loads; whatever a stranger changed, they load whole or are refused in one line."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.algs.deepq.prioritized import PrioritizedReplay
from tfbaselines.errors import UsageError
from tfbaselines.replay import Replay

HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 3, 1), }"
GAMMA = 0.5


def environment(count=3):
    box = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    return SimpleNamespace(num_envs=count, observation_space=box, action_space=box)


def fill(replay, steps):
    """Steps, some of which end episodes by a time limit."""
    for t in range(steps):
        obs = np.full((3, 1), t, np.float32)
        dones = np.array([t % 4 == 3, False, t % 7 == 2])
        infos = [{"TimeLimit.truncated": True, "final_observation": obs[0]} if done else {} for done in dones]
        replay.put(obs, obs, np.ones(3), obs + 1, dones, infos)


@pytest.fixture
def saved(tmp_path):
    replay = Replay(environment(), 60, GAMMA)
    fill(replay, 20)
    replay.save(tmp_path / "replay")
    return tmp_path / "replay"


def refused(directory, words=None):
    """Loading it gives one line, and leaves the replay as it was."""
    replay = Replay(environment(), 60, GAMMA)
    with pytest.raises(UsageError, match=words) as caught:
        replay.load(directory)
    assert len(str(caught.value).splitlines()) == 1
    assert len(replay) == replay.steps == 0 and not replay._arrays["rewards"].any()


def npy(header):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "document",
    [
        *("", "[]", "3", "{", "{}", "[" * 10**5, " " * 2**21),
        *(f'{{"steps": {steps}}}' for steps in (-1, 1e300, "true", '"3"', 19, 21, 10**12)),
    ],
)
def test_replay_json_is_checked(saved, document):
    (saved / "replay.json").write_text(document)
    refused(saved)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("rewards", np.zeros(())),
        ("rewards", np.zeros((21, 4), np.float32)),
        ("rewards", np.zeros((20, 3), np.float32)),
        ("rewards", np.zeros((21, 3), "U4")),
        ("rewards", np.zeros((21, 3), complex)),
        ("ended", np.zeros((21, 3), np.float32)),
        ("cut", np.ones((21, 3), bool)),
        ("last", np.zeros((4, 2))),
        ("last", np.full((1, 2), -1)),
        ("last", np.full((1, 2), 21)),
        ("last", np.zeros((0, 3), int)),
        ("last", np.zeros(2, int)),
    ],
)
def test_arrays_of_another_shape_or_type(saved, name, array):
    np.save(saved / f"{name}.npy", array)
    refused(saved)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", npy(HUGE), npy(HUGE) + bytes(1000), npy(b"(" * 5000)])
@pytest.mark.parametrize("name", ["ended.npy", "rewards.npy", "last.npy"])
def test_files_that_are_no_arrays(saved, name, data):
    assert (saved / name).exists()
    (saved / name).write_bytes(data)
    refused(saved, "is not a saved replay")


def test_objects_are_refused(saved):
    np.save(saved / "rewards.npy", np.full((21, 3), None))
    refused(saved, "is not a saved replay")


def test_mutations_are_refused_or_harmless(saved, tmp_path):
    rng, files = np.random.default_rng(0), sorted(saved.iterdir())
    refusals = 0
    for _ in range(600):
        path = files[rng.integers(len(files))]
        whole = path.read_bytes()
        data = bytearray(whole)
        if rng.random() < 0.3:
            del data[int(rng.integers(len(data))) :]
        else:
            for place in rng.integers(min(len(data), 200), size=3):
                data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        replay = Replay(environment(), 60, GAMMA)
        try:
            replay.load(saved)
            replay.sample(np.random.default_rng(0), 2, 30)
        except UsageError as error:
            refusals += 1
            assert len(str(error).splitlines()) == 1
        path.write_bytes(whole)
    assert refusals > 100
    Replay(environment(), 60, GAMMA).load(saved)


@pytest.mark.parametrize("largest", [None, "1", -1.0, 0, float("nan"), float("inf")])
def test_damaged_priorities_are_replaced(tmp_path, largest):
    replay = PrioritizedReplay(environment(), 60, GAMMA)
    fill(replay, 20)
    replay.save(tmp_path / "replay")
    about = json.loads((tmp_path / "replay/replay.json").read_text()) | {"largest_priority": largest}
    (tmp_path / "replay/replay.json").write_text(json.dumps(about))
    priorities = np.load(tmp_path / "replay/priorities.npy")
    priorities[3, 1], priorities[4, 0], priorities[5, 2] = np.nan, -1.0, np.inf
    np.save(tmp_path / "replay/priorities.npy", priorities)
    other = PrioritizedReplay(environment(), 60, GAMMA)
    other.load(tmp_path / "replay")
    batch = other.sample(np.random.default_rng(0), 2, 20)
    assert np.isfinite(batch["weights"]).all()
    shutil.rmtree(tmp_path / "replay")


def test_a_directory_of_the_first_format_loads(tmp_path):
    """Three steps of one environment: the second cut by a time limit, the third a termination."""
    arrays = {
        "obs.all": np.float32([[[0]], [[1]], [[5]], [[9]]]),
        "actions": np.float32([[[7]], [[8]], [[9]], [[0]]]),
        "rewards": np.float32([[1], [2], [4], [0]]),
        "first": np.array([[True], [False], [True], [True]]),
        "ended": np.array([[False], [False], [True], [False]]),
        "cut": np.array([[False], [True], [False], [False]]),
        "last": np.array([[1, 0]]),
        "last.all": np.float32([[2]]),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "replay.json").write_text('{"format": "tfbaselines-replay-1", "steps": 3}')
    replay = Replay(environment(1), 5, GAMMA)
    replay.load(tmp_path)
    batch = replay.gather(np.arange(3))
    found = {name: array.ravel().tolist() for name, array in batch.items()}
    assert found["obs"] == [0, 1, 5] and found["actions"] == [7, 8, 9] and found["rewards"] == [1, 2, 4]
    assert found["next_obs"][:2] == [1, 2] and found["discount"] == [GAMMA, GAMMA, 0]
    replay.save(tmp_path / "again")
    assert {path.name for path in (tmp_path / "again").iterdir()} == {
        *(f"{name}.npy" for name in arrays),
        "replay.json",
    }
