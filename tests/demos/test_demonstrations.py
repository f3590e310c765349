"""Demonstrations: whole through a file, read from others' files, and refused in one line when they do not fit."""

import json
import pickle
import zipfile

import numpy as np
import pytest
from gymnasium import spaces
from small_runs import samples

from tfbaselines.demos import ARRAYS, load_demonstrations, save_demonstrations

BOX, DISCRETE = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(3, start=5)
ACTIONS = [
    DISCRETE,
    spaces.MultiDiscrete([3, 2], start=[1, -4]),
    spaces.MultiBinary(3),
    spaces.Box(-1.0, 3.0, (2, 2), np.float32),
]
OBSERVATIONS = [
    BOX,
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([3, 2]),
    spaces.Box(0, 255, (6, 6, 1), np.uint8),
]


def assert_equal(one, other, names=ARRAYS):
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("observations", OBSERVATIONS)
def test_a_file_holds_what_was_recorded(observations, actions, tmp_path):
    given = samples(observations, actions)
    save_demonstrations(tmp_path / "demo.npz", given, observations, actions)
    read = load_demonstrations(tmp_path / "demo.npz", observations, actions)
    assert_equal(read, given)
    assert read.obs.dtype == given.obs.dtype and read.about == given.about


def test_parts_of_episodes():
    demonstrations = samples(BOX, DISCRETE, (4, 1, 5))
    assert demonstrations.rows(3).tolist() == [0, 3, 4, 5, 8]
    assert np.flatnonzero(demonstrations.episode_start).tolist() == [0, 4, 5]
    assert demonstrations.returns.tolist() == [6.0, 4.0, 35.0]
    first = demonstrations.first(2)
    assert len(first) == 5 and first.lengths.tolist() == [4, 1] and len(first.last_obs) == 2
    assert demonstrations.first(None) is demonstrations.first(7) is demonstrations


def arrays_of(given, observations=BOX, actions=DISCRETE, tmp=None):
    """What is in the file of some demonstrations."""
    save_demonstrations(tmp, given, observations, actions)
    with np.load(tmp) as file:
        return dict(file)


def change(name, value):
    return lambda arrays: arrays | {name: value(arrays[name])}


def spoilt(array, value):
    array = array.astype(np.float32)
    array.flat[1] = value
    return array


def about(**changed):
    return change("about", lambda text: np.array(json.dumps(json.loads(str(text)) | changed)))


MALFORMED = {
    "obs of another shape": (change("obs", lambda x: x[:, :2]), r"obs has the shape \(12, 2\), expected is \(12, 3\)"),
    "fewer actions": (change("actions", lambda x: x[1:]), r"actions has the shape \(11,\), expected is \(12,\)"),
    "last obs": (change("last_obs", lambda x: x[1:]), r"last_obs has the shape \(2, 3\), expected is \(3, 3\)"),
    "NaN": (change("obs", lambda x: spoilt(x, np.nan)), "obs has numbers that are not finite"),
    "infinite": (change("rewards", lambda x: spoilt(x, np.inf)), "rewards has numbers that are not finite"),
    "broken actions": (
        change("actions", lambda x: x + 0.5),
        "actions has the type float64, expected are whole numbers",
    ),
    "unknown action": (change("actions", lambda x: x + 1), r"the action 8 is not in Discrete\(3, start=5\)"),
    "text": (change("rewards", lambda x: x.astype(str)), "rewards has the type <U32, expected are numbers"),
    "no episode": (change("lengths", lambda x: x[:0]), "there is no episode"),
    "an empty episode": (change("lengths", lambda x: x * [1, 0, 2]), "an episode without steps"),
    "an array is missing": (lambda arrays: {k: v for k, v in arrays.items() if k != "rewards"}, "no array 'rewards'"),
    "pickled": (change("obs", lambda x: np.array([None, {}])), "an array of type object is not accepted"),
    "another format": (about(format="other"), "does not name the format tfbaselines-demonstrations-1"),
    "no space": (about(action_space=3), "has no action_space"),
    "of a Box": (about(action_space={"type": "Box"}), r"for another action space: Box\(\) was saved"),
    "neither": (lambda arrays: {"obs": arrays["obs"]}, "neither this format nor baselines'"),
}


def refused(path, observations=BOX, actions=DISCRETE):
    with pytest.raises(ValueError) as error:
        load_demonstrations(path, observations, actions)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("fault", MALFORMED)
def test_malformed_files_are_refused_in_one_line(fault, tmp_path):
    spoil, words = MALFORMED[fault]
    path = tmp_path / "demo.npz"
    arrays = spoil(arrays_of(samples(BOX, DISCRETE), tmp=path))
    np.savez(path, **arrays)
    error = refused(path)
    assert error.startswith(f"cannot read demonstrations '{path}': ")
    with pytest.raises(ValueError, match=words):
        raise ValueError(error)


def test_files_of_other_kinds_are_refused_in_one_line(tmp_path):
    path = tmp_path / "demo.npz"
    arrays = arrays_of(samples(BOX, DISCRETE), tmp=path)
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 10):
        path.write_bytes(whole[:size])
        assert "it is damaged" in refused(path)
    path.write_bytes(pickle.dumps(arrays))
    assert "it is damaged, pickled or no .npz file" in refused(path)
    np.savez_compressed(path, **arrays)
    assert "its members are compressed" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("evil.txt", "nothing")
    assert "an array's header is damaged" in refused(path)
    assert "there is no such file" in refused(tmp_path / "nowhere.npz")
    assert "demo_path=None is not valid: a file of demonstrations" in refused(None)


def test_demonstrations_of_another_environment_are_refused(tmp_path):
    path = tmp_path / "demo.npz"
    save_demonstrations(path, samples(BOX, DISCRETE), BOX, DISCRETE)
    wide = spaces.Box(-1.0, 1.0, (4,), np.float32)
    assert "for another observation space: Box(shape=[3], dtype=float32) was saved" in refused(path, wide)
    assert "for another action space" in refused(path, BOX, spaces.Discrete(3))


def expert(path, count=2, length=5, actions=(2,), **changed):
    rng = np.random.default_rng(0)
    arrays = {
        "obs": rng.normal(size=(count, length, 3)),
        "acs": rng.normal(size=(count, length, *actions)),
        "rews": rng.normal(size=(count, length)),
        "ep_rets": np.zeros(count),
    }
    np.savez(path, **arrays | changed)
    return arrays


@pytest.mark.parametrize(("width", "shape"), [(2, (2,)), (1, (1,)), (1, ())])
def test_experts_of_baselines(width, shape, tmp_path):
    arrays = expert(tmp_path / "expert.npz", actions=shape)
    read = load_demonstrations(tmp_path / "expert.npz", BOX, spaces.Box(-1.0, 1.0, (width,), np.float32))
    np.testing.assert_allclose(read.obs, arrays["obs"].reshape(10, 3), rtol=1e-6)
    np.testing.assert_allclose(read.actions, arrays["acs"].reshape(10, width).clip(-1, 1), rtol=1e-6)
    np.testing.assert_allclose(read.rewards, arrays["rews"].ravel(), rtol=1e-6)
    assert read.lengths.tolist() == [5, 5] and read.last_obs is None and not read.terminated.any()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"obs": np.zeros((2, 5, 4))}, "obs has the shape (2, 5, 4), expected is ('E', 'L', 3)"),
        ({"acs": np.zeros((2, 4, 2))}, "acs has the shape (2, 4, 2), expected is (2, 5, 2)"),
        ({"rews": np.zeros(2)}, "rews has the shape (2,), expected is (2, 5)"),
        ({"obs": np.array([[1], None], object)}, "an array of type object is not accepted"),
        ({"acs": np.full((2, 5, 2), np.nan)}, "actions has numbers that are not finite"),
    ],
)
def test_malformed_experts_of_baselines(changed, words, tmp_path):
    expert(tmp_path / "expert.npz", **changed)
    assert words in refused(tmp_path / "expert.npz", BOX, spaces.Box(-1.0, 1.0, (2,), np.float32))


@pytest.mark.parametrize("shown", [BOX, spaces.Tuple((spaces.Discrete(3), spaces.Box(0.0, 1.0, (2,), np.float32)))])
def test_minari_datasets(shown, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    buffers, wanted, rng = [], [], np.random.default_rng(0)
    for number, steps in enumerate((4, 6)):
        seen = [shown.sample() for _ in range(steps + 1)]
        wanted.append(np.stack([spaces.flatten(shown, one) for one in seen]))
        observations = tuple(map(np.array, zip(*seen, strict=True))) if isinstance(shown, spaces.Tuple) else seen
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=number,
                observations=observations,
                actions=rng.integers(5, 8, steps),
                rewards=rng.normal(size=steps),
                terminations=[False] * (steps - 1) + [number == 1],
                truncations=[False] * (steps - 1) + [number == 0],
            )
        )
    name, own = "own/test-v0", {"action_space": DISCRETE, "observation_space": shown}
    minari.create_dataset_from_buffers(name, buffers, **own)
    flat = spaces.flatten_space(shown)
    read = load_demonstrations(f"minari:{name}", flat, DISCRETE)
    assert read.lengths.tolist() == [4, 6] and read.terminated.tolist() == [False, True]
    np.testing.assert_allclose(read.obs, np.concatenate([obs[:-1] for obs in wanted]), rtol=1e-6)
    np.testing.assert_allclose(read.last_obs, np.stack([obs[-1] for obs in wanted]), rtol=1e-6)
    np.testing.assert_allclose(read.rewards, np.concatenate([one.rewards for one in buffers]), rtol=1e-6)
    np.testing.assert_array_equal(read.actions, np.concatenate([one.actions for one in buffers]))
    assert "Minari cannot load it" in refused("minari:own/nothing-v0", flat)
    assert "write minari:ID" in refused("minari:", flat)
    assert "expected is" in refused(f"minari:{name}", spaces.Box(-1.0, 1.0, (9,), np.float32))
