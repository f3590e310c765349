"""Demonstrations of goals: every transition of the file is in the replay, and what is malformed gets one line."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from tfbaselines.algs.her.demonstrations import replay_of_demonstrations
from tfbaselines.envs import tiny

EPISODES, STEPS = 3, 5
POINT = tiny.PointReachEnv()
ENV = SimpleNamespace(num_envs=4, observation_space=POINT.observation_space, action_space=POINT.action_space)


def arrays():
    """Numbers that are all different; the goal is the first episode's last place."""
    places = np.arange(EPISODES * (STEPS + 1) * 2, dtype=np.float64).reshape(EPISODES, STEPS + 1, 2) / 100
    return {
        "acs": 1.0 - places[:, 1:],
        "obs/observation": places,
        "obs/achieved_goal": places,
        "obs/desired_goal": np.broadcast_to(places[:, -1:], places.shape),
    }


def read(path, episodes=EPISODES, replay_k=0):
    own = {"compute_reward": POINT.compute_reward, "replay_k": replay_k}
    return replay_of_demonstrations(path, episodes, ENV, 0.9, **own)


def test_every_transition_is_replayed(tmp_path):
    np.savez(tmp_path / "demo.npz", **arrays())
    replay, told = read(tmp_path / "demo.npz"), arrays()
    batch = replay.sample(np.random.default_rng(0), 1, 500)
    columns = batch["obs"]["observation"][0], batch["actions"][0], batch["next_obs"]["observation"][0]
    found = {written(row) for row in zip(*columns, strict=True)}
    places = told["obs/observation"]
    expected = {
        written([places[e, t], told["acs"][e, t], places[e, t + 1]]) for e in range(EPISODES) for t in range(STEPS)
    }
    assert found == expected
    rewards = POINT.compute_reward(batch["next_obs"]["achieved_goal"], batch["obs"]["desired_goal"], {})
    np.testing.assert_array_equal(batch["rewards"], rewards)
    assert (batch["discount"] == np.float32(0.9)).all()


def written(parts):
    return tuple(f"{number:.4f}" for number in np.concatenate(parts))


def test_fewer_episodes_than_the_file_has(tmp_path):
    np.savez(tmp_path / "demo.npz", **arrays())
    assert len(read(tmp_path / "demo.npz", 2)) == 2 * STEPS


MISTAKES = {
    "num_demo=3 is not valid: at most 2, the episodes of": lambda a: {name: part[:2] for name, part in a.items()},
    "it has no array 'obs/observation'": lambda a: {"acs": a["acs"]},
    "obs/achieved_goal has the shape (3, 5, 2), expected is (3, 6, 2)": lambda a: (
        a | {"obs/achieved_goal": a["obs/achieved_goal"][:, 1:]}
    ),
    "acs has the shape (3, 5, 1), expected is ('E', 'T', 2)": lambda a: a | {"acs": a["acs"][..., :1]},
    "acs has numbers that are not finite": lambda a: a | {"acs": a["acs"] * np.nan},
    "obs/observation has the type <U32, expected are numbers": lambda a: (
        a | {"obs/observation": a["obs/observation"].astype(str)}
    ),
    "without pickled objects": lambda a: a | {"obs/observation": np.array([[{}]], object)},
}


@pytest.mark.parametrize("words", MISTAKES)
def test_malformed_files(words, tmp_path):
    np.savez(tmp_path / "demo.npz", **MISTAKES[words](arrays()))
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        read(tmp_path / "demo.npz")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 cut off", b"no archive at all"])
def test_files_that_are_none(content, tmp_path):
    if content is not None:
        (tmp_path / "demo.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"demo_file=.*demo.npz.* is not valid") as error:
        read(tmp_path / "demo.npz")
    assert "\n" not in str(error.value)


def test_a_truncated_file(tmp_path):
    np.savez(tmp_path / "whole.npz", **arrays())
    (tmp_path / "demo.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:-300])
    with pytest.raises(ValueError, match="demo_file="):
        read(tmp_path / "demo.npz")
