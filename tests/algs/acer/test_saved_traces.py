"""Saved replays of sequences from strangers: every change is refused in one line, or leaves what can be learnt from."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces
from trace_replays import restore, saved

from tfbaselines.algs.acer.replay import FENCES, FramePacker, RolloutReplay
from tfbaselines.algs.acer.traces import TraceReplay
from tfbaselines.training.checkpoint import load_tree, save_tree

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)


def environment(action=None):
    return SimpleNamespace(num_envs=2, observation_space=BOX, action_space=action or spaces.Discrete(3))


def rollout(rng):
    length = {
        name: 5 if name in FENCES else 4 for name in (*FENCES, "actions", "rewards", "terminated", "truncated", "mus")
    }
    batch = {name: rng.random((2, steps)).astype(np.float32) for name, steps in length.items()}
    batch["obs"], batch["mus"] = rng.random((2, 5, 2)).astype(np.float32), rng.random((2, 4, 3)).astype(np.float32)
    batch["actions"] = rng.integers(3, size=(2, 4))
    for name in ("episode_start", "truncated", "terminated"):
        batch[name] = (batch[name] > 0.7).astype(np.float32)
    batch["terminated"][:, -1] = 1.0
    return batch


def filled(kind):
    replay = RolloutReplay(environment(), 40, 4) if kind == "rollouts" else TraceReplay(environment(), 9, 4)
    rng = np.random.default_rng(0)
    for _ in range(4):
        replay.put(rollout(rng))
    return replay


def with_part(tree, path, value):
    if not path:
        return value
    return {key: with_part(item, path[1:], value) if key == path[0] else item for key, item in tree.items()}


def paths(tree, path=()):
    for key, value in tree.items() if isinstance(tree, dict) else ():
        yield (*path, key)
        yield from paths(value, (*path, key))


WRONG = [None, 3, -1, "x", True, [], {}, np.zeros(3), np.zeros(()), np.array(["a"]), np.full(8, 2**62), np.full(8, -1)]
WRONG += [np.zeros((3, 2), np.float32), np.zeros(10**6, np.int64), np.full(32, 7), {"rewards": np.zeros(3)}]


@pytest.mark.parametrize("kind", ["rollouts", "episodes"])
def test_wrong_parts_are_refused_and_leave_the_replay_as_it_was(kind, tmp_path):
    state, refused = saved(filled(kind)), 0
    other, rng = filled(kind), lambda: np.random.default_rng(1)
    before = other.sample(rng())
    for path in paths(state):
        for wrong in WRONG:
            save_tree(tmp_path / "replay", with_part(state, path, wrong))
            try:
                restore(other, load_tree(tmp_path / "replay"))
            except ValueError as error:
                refused += 1
                assert len(str(error).splitlines()) == 1
                np.testing.assert_equal(other.sample(rng()), before)
            else:
                assert other.sample(rng()).keys() == before.keys()
                restore(other, state)
    assert refused > 200


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("actions", lambda array: array + 3),
        ("actions", lambda array: array - 1),
        ("actions", lambda array: array.astype(float)),
        ("obs", lambda array: array[:, :1]),
        ("obs", lambda array: array.astype(complex)),
        ("rewards", lambda array: array[:, None]),
        ("rewards", lambda array: array[:-1]),
        ("mus", lambda array: array[:, 0]),
    ],
)
def test_arrays_of_other_environments_are_refused(name, change):
    state = saved(filled("episodes"))
    arrays = state["items"]["arrays"]
    arrays[name] = change(arrays[name])
    with pytest.raises(ValueError, match="the saved replay is damaged"):
        restore(filled("episodes"), state)


@pytest.mark.parametrize("nstack", [1, 4])
def test_a_bomb_in_the_place_of_frames_is_refused_before_it_is_decompressed(nstack):
    import zlib

    packer = FramePacker((4, 4, 4), nstack)
    whole = packer.pack(np.zeros((3, 4, 4, 4), np.uint8))
    assert packer.unpack(whole, np.zeros(3)).shape == (3, 4, 4, 4)
    bomb = np.frombuffer(zlib.compress(bytes(2**27), 9), np.uint8)
    for damaged in (bomb, whole[:-8], whole[:0], np.zeros(20, np.uint8)):
        with pytest.raises(ValueError, match="packed frames are damaged"):
            packer.unpack(damaged, np.zeros(3))
