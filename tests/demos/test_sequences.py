"""Demonstrations as rows and as sequences, with the memory before each sequence."""

import numpy as np
from gymnasium import spaces
from small_runs import samples

from tfbaselines.demos.cloning import Sequences, as_rows

LENGTHS = (4, 1, 7)


def demonstrations():
    return samples(spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3), LENGTHS)


def test_rows_are_every_so_many_steps():
    given = demonstrations()
    rows = as_rows(given, 3)
    np.testing.assert_array_equal(rows["obs"], given.obs[[0, 3, 4, 5, 8, 11]])
    np.testing.assert_array_equal(rows["actions"], given.actions[[0, 3, 4, 5, 8, 11]])
    assert rows["valid"].tolist() == [1.0] * 6


def test_sequences_hold_every_step_once():
    given = demonstrations()
    data = Sequences(given, 3, 2).data
    valid = data["valid"] > 0
    assert valid.sum(axis=1).tolist() == [3, 1, 1, 3, 3, 1]
    np.testing.assert_array_equal(data["obs"][valid], given.obs)
    np.testing.assert_array_equal(data["actions"][valid], given.actions)
    np.testing.assert_array_equal(data["episode_start"][valid], given.episode_start)
    assert data["states"].shape == (6, 2)
    assert Sequences(given, 3, 2, every=2).data["valid"].sum(axis=1).tolist() == [2, 0, 1, 2, 1, 1]


def test_memory_is_that_of_the_steps_before():
    """A memory that counts steps, and begins anew with each episode."""
    sequences = Sequences(demonstrations(), 3, 1)

    def memory(obs, episode_start, states, actions):
        for t in range(obs.shape[1]):
            states = states * (1 - episode_start[:, t, None]) + 1
        return states

    sequences.refresh(memory)
    assert sequences.data["states"].ravel().tolist() == [0, 3, 0, 0, 3, 6]
