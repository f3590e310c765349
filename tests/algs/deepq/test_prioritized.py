"""Rows are drawn as often as their priorities demand, and weights correct for it."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.algs.deepq.prioritized import PrioritizedReplay
from tfbaselines.envs.vec import VecFrameStack
from tfbaselines.replay import Replay

BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)
ALPHA, EPSILON = 0.7, 0.01


def make(count=2, size=20, **kwargs):
    env = SimpleNamespace(num_envs=count, observation_space=BOX, action_space=BOX)
    return PrioritizedReplay(env, size, **{"alpha": ALPHA, "epsilon": EPSILON} | kwargs)


def fill(replay, steps):
    """Further steps of one episode, whose observations count the steps, environment i's from 1000 i."""
    count = replay.num_envs
    obs = (replay.steps + 1000.0 * np.arange(count, dtype=np.float32))[:, None]
    for _ in range(steps):
        replay.put(obs, obs, obs[:, 0], obs + 1, np.zeros(count, bool), [{}] * count)
        obs = obs + 1


def drawn(replay, draws=400, size=50, seed=0):
    return replay.sample(np.random.default_rng(seed), draws, size)


def rank_errors(replay):
    """Give every row an error of its own; by observation."""
    batch = drawn(replay, 40)
    obs, first = np.unique(batch["obs"], return_index=True)
    errors = np.linspace(0.1, 4.0, len(obs)) * np.where(np.arange(len(obs)) % 2, 1, -1)
    replay.update_priorities(batch["rows"].ravel()[first], errors)
    return dict(zip(obs.tolist(), np.abs(errors) + EPSILON, strict=True))


@pytest.mark.parametrize("steps", [7, 37])
def test_rows_are_drawn_in_proportion_to_their_priorities(steps):
    replay = make()
    fill(replay, steps)
    priorities = rank_errors(replay)
    assert len(priorities) == len(replay) == min(2 * steps, 20)
    obs, counts = np.unique(drawn(replay, 1000)["obs"], return_counts=True)
    chances = np.array([priorities[one] for one in obs.tolist()]) ** ALPHA
    expected = counts.sum() * chances / chances.sum()
    # Strata leave less variance than independent draws: far below the 99.9th percentile of 19 degrees of freedom.
    assert ((counts - expected) ** 2 / expected).sum() < 43.8 and len(obs) == len(replay)


def test_without_strata_the_frequencies_have_their_variance():
    """Batches of one row are independent draws."""
    replay = make()
    fill(replay, 37)
    priorities = rank_errors(replay)
    obs, counts = np.unique(drawn(replay, 20_000, 1)["obs"], return_counts=True)
    chances = np.array([priorities[one] for one in obs.tolist()]) ** ALPHA
    expected = counts.sum() * chances / chances.sum()
    assert 4 < ((counts - expected) ** 2 / expected).sum() < 43.8


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights(beta):
    replay = make(beta=0.9)
    fill(replay, 37)
    priorities = rank_errors(replay)
    replay.anneal(beta)
    batch = drawn(replay)
    chances = {obs: priority**ALPHA for obs, priority in priorities.items()}
    total = sum(chances.values())
    weights = {obs: (len(replay) * chance / total) ** -beta for obs, chance in chances.items()}
    expected = [weights[obs] / max(weights.values()) for obs in batch["obs"].ravel().tolist()]
    np.testing.assert_allclose(batch["weights"].ravel(), expected, rtol=1e-6)
    assert batch["weights"].dtype == np.float32 and batch["weights"].shape == (400, 50)


def test_new_rows_have_the_largest_priority_so_far():
    replay = make()
    fill(replay, 4)
    batch = drawn(replay, 1)
    replay.update_priorities(batch["rows"], np.full(batch["rows"].shape, 5.0))
    fill(replay, 1)
    batch = drawn(replay, 4)
    replay.update_priorities(batch["rows"], np.zeros(batch["rows"].shape))
    fill(replay, 1)
    obs, counts = np.unique(drawn(replay)["obs"], return_counts=True)
    shares = dict(zip(obs.tolist(), counts / counts.sum(), strict=True))
    largest, least = (5.0 + EPSILON) ** ALPHA, EPSILON**ALPHA
    assert shares[5] == pytest.approx(largest / (2 * largest + 10 * least), rel=0.02)


def test_errors_of_rows_that_were_overwritten_since_are_not_used():
    replay = make()
    fill(replay, 10)
    old = drawn(replay, 4)["rows"]
    fill(replay, 10)
    replay.update_priorities(old, np.full(old.shape, 9.0))
    assert set(replay._arrays["priorities"].ravel()) == {0.0, 1.0} and replay._largest == 1.0
    assert set(drawn(replay)["obs"].ravel() % 1000) == set(range(10, 20))


def test_rows_are_those_that_uniform_replays_have():
    """The same transitions whichever way they are chosen; only the weights are added."""
    env = SimpleNamespace(num_envs=2, observation_space=BOX, action_space=BOX)
    replay, uniform = make(n_step=3), Replay(env, 20, n_step=3)
    for each in (replay, uniform):
        fill(each, 33)
    batch = drawn(replay)
    expected = uniform.gather(batch["rows"].ravel())
    assert batch.keys() == expected.keys() | {"weights"}
    for name, array in expected.items():
        np.testing.assert_array_equal(batch[name].reshape(array.shape), array, err_msg=name)


def test_stacks_of_frames_that_are_no_longer_stored_are_not_drawn():
    pixels = object.__new__(VecFrameStack)
    pixels.num_envs, pixels.nstack, pixels.action_space = 1, 4, spaces.Discrete(2)
    pixels.observation_space = spaces.Box(0, 255, (1, 1, 4), np.uint8)
    replay, frames = PrioritizedReplay(pixels, 10), np.zeros((1, 1, 1, 4), np.uint8)
    for t in range(1, 60):
        following = np.concatenate([frames[..., 1:], np.full((1, 1, 1, 1), t, np.uint8)], -1)
        replay.put(frames, np.zeros(1), np.zeros(1), following, np.array([False]), [{}])
        frames = following
        if t % 3 == 0 and t > 20:
            shown = drawn(replay, 20)["obs"].reshape(-1, 4).astype(int)
            assert set(shown[:, -1]) == set(range(t - 7, t)) and (np.diff(shown) == 1).all()


def priorities_of(replay):
    """By observation, of rows that are drawn."""
    batch = drawn(replay, 1000)
    slots, envs, _ = replay._locate(batch["rows"].ravel())
    found = replay._arrays["priorities"][slots, envs]
    return dict(zip(batch["obs"].ravel().tolist(), found.tolist(), strict=True))


@pytest.mark.parametrize(("steps", "size"), [(4, 20), (37, 20), (37, 8), (37, 40)])
def test_saved_and_loaded_it_has_the_same_priorities(steps, size, tmp_path):
    replay, other = make(), make(size=size)
    fill(replay, steps)
    rank_errors(replay)
    fill(replay, 1)
    fill(other, 9)
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay")
    expected, found = priorities_of(replay), priorities_of(other)
    assert len(found) == len(other) == min(len(replay), size) and {steps, 1000.0 + steps} <= set(found)
    assert found == {obs: expected[obs] for obs in found}
    assert other._largest == replay._largest > 4


@pytest.mark.parametrize("steps", [7, 11, 37])
def test_saved_and_loaded_it_draws_the_same_rows(steps, tmp_path):
    """Wherever the ring stood: the loaded one begins with the oldest row."""
    replay, other = make(), make()
    fill(replay, steps)
    rank_errors(replay)
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay", episodes_continue=True)
    for further in range(25):
        batches = [drawn(one, 3, 8, further) for one in (replay, other)]
        for name in ("obs", "weights"):
            np.testing.assert_array_equal(batches[0][name], batches[1][name])
        errors = 1.0 + np.arange(24.0).reshape(3, 8)
        obs = (steps + further + 1000.0 * np.arange(2, dtype=np.float32))[:, None]
        for one, batch in zip((replay, other), batches, strict=True):
            one.update_priorities(batch["rows"], errors)
            one.put(obs, obs, obs[:, 0], obs + 1, np.zeros(2, bool), [{}] * 2)
