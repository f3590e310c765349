"""A replay that is saved and loaded has the same steps."""

import numpy as np
import pytest
from gymnasium import spaces
from replayed import BOX, GAMMA, History, Pictures, environment

from tfbaselines.envs.vec import VecFrameStack
from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.replay import Replay


def drawn(replay):
    batch = replay.sample(np.random.default_rng(3), 1, 50)
    # Row numbers are counted anew after loading.
    return {name: array.tolist() for name, array in batch.items() if name != "rows"}


@pytest.mark.parametrize("steps", [4, 57])
def test_saved_and_loaded_it_is_the_same(steps, tmp_path):
    replay, other = (Replay(environment(), 30, GAMMA, n_step=2) for _ in range(2))
    History(replay, 3, steps)
    replay.save(tmp_path / "replay")
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay")
    assert len(other) == len(replay) and drawn(other) == drawn(replay)
    assert [path.name for path in tmp_path.iterdir()] == ["replay"]
    History(other, 3, 40, seed=1)
    assert len(other) == 30


def test_row_numbers_lead_to_their_transitions_again():
    replay = Replay(environment(3), 30, GAMMA, n_step=2)
    History(replay, 3, 57)
    batch = replay.sample(np.random.default_rng(0), 4, 5)
    again = replay.gather(batch["rows"].ravel())
    for name, array in again.items():
        np.testing.assert_array_equal(batch[name].reshape(array.shape), array)
    np.testing.assert_array_equal(batch["rows"] // 3 + 1000 * (batch["rows"] % 3), batch["obs"][..., 0])
    History(replay, 3, 1, start=7000)
    assert replay.sample(np.random.default_rng(0), 4, 500)["rows"].min() == 48 * 3


@pytest.mark.parametrize("names", [("camera", "speed"), ("front camera", "arm/speed"), (ONLY,)])
def test_dictionaries_of_any_names_are_saved_and_loaded(names, tmp_path):
    env = environment(1, spaces.Dict(dict.fromkeys(names, BOX)))
    replay, other = Replay(env, 5), Replay(env, 5)
    obs, following, final = ({name: np.full((1, 1), t, np.float32) for name in names} for t in range(3))
    infos = [{"TimeLimit.truncated": True, "final_observation": {name: part[0] for name, part in final.items()}}]
    replay.put(obs, np.zeros((1, 1)), np.ones(1), following, np.array([True]), infos)
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay")
    for one in (replay, other):
        batch = one.sample(np.random.default_rng(0), 1, 3)
        assert {name: part.ravel().tolist() for name, part in batch["obs"].items()} == dict.fromkeys(names, [0] * 3)
        assert {name: part.ravel().tolist() for name, part in batch["next_obs"].items()} == dict.fromkeys(
            names, [2] * 3
        )


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_after_loading_the_environments_begin_anew(chance, tmp_path):
    replay, other = (Replay(environment(2), 60, GAMMA, n_step=3) for _ in range(2))
    history = History(replay, 2, 20, chance=chance)
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay")
    history.steps |= History(other, 2, 6, chance=0.0, start=5000).steps
    batch = other.sample(np.random.default_rng(0), 1, 400)
    seen = {name: batch[name].reshape(400, -1)[:, 0] for name in ("obs", "rewards", "discount", "next_obs")}
    assert {19.0, 1019.0, 5000.0, 6005.0} < set(seen["obs"])
    for obs, total, discount, after in zip(*seen.values(), strict=True):
        # What was going on is cut: the last observation is known, and that of the next episode does not follow it.
        expected, weight, then = history.expected(float(obs), 3)
        assert (total, discount) == (expected, weight) and (not discount or after == then)
    batch = other.sample_sequences(np.random.default_rng(0), 1, 400, 3)
    obs, masks, weights = (batch[name].reshape(400, 4) for name in ("obs", "episode_start", "valid"))
    assert np.all(masks[np.isin(obs, [0, 1000, 5000, 6000])] == 1)
    assert chance or not masks[~np.isin(obs, [0, 1000, 5000, 6000])].any()
    assert chance or not weights[np.isin(obs, [19, 1019])].any()


def test_after_loading_stacked_frames_begin_anew(tmp_path):
    env = VecFrameStack(Pictures(), 4)
    replay, other = Replay(env, 400), Replay(env, 400)
    for each in (replay, other):
        obs = env.reset()
        for _ in range(5):
            following, rewards, dones, infos = env.step(np.zeros(2, int))
            each.put(obs, np.zeros(2, int), rewards, following, dones, infos)
            obs = following
        if each is replay:
            last = following
            replay.save(tmp_path / "replay")
            other.load(tmp_path / "replay")
    batch = other.sample(np.random.default_rng(0), 1, 300)
    shown, then = (batch[name][0] for name in ("obs", "next_obs"))
    for i in range(2):
        before = shown[..., -1] == last[i, ..., -1] - 1
        np.testing.assert_array_equal(then[before[:, 0, 0]][0], last[i])
    begun = shown[..., 0, 0, -1] == last[0, 0, 0, -1]
    np.testing.assert_array_equal(shown[begun][0], np.concatenate([0 * last[0, ..., :3], last[0, ..., 3:]], -1))


def test_a_smaller_one_takes_the_latest_and_others_are_refused(tmp_path):
    replay, smaller = Replay(environment(), 30, GAMMA), Replay(environment(), 12, GAMMA)
    history = History(replay, 3, 57)
    replay.save(tmp_path / "replay")
    smaller.load(tmp_path / "replay")
    batch = smaller.sample(np.random.default_rng(0), 1, 200)
    assert len(smaller) == 12 and batch["obs"].min() >= 53
    for obs, weight, after in zip(batch["obs"][0, :, 0], batch["discount"][0], batch["next_obs"][0, :, 0], strict=True):
        _, expected, then = history.expected(float(obs), 1)
        assert weight == expected and (weight == 0 or after == then)
    with pytest.raises(ValueError, match="of other environments"):
        Replay(environment(2), 30).load(tmp_path / "replay")
    with pytest.raises(ValueError, match="not a saved replay"):
        replay.load(tmp_path / "nothing")
