"""A replay of a data set: its transitions, ends of episodes, and what is left out."""

import dataclasses

import numpy as np
import pytest
from gymnasium import spaces
from small_runs import samples

from tfbaselines.demos import DataSetReplay, Demonstrations

SEEN, ACTIONS = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32)


class Spaces:
    observation_space, action_space = SEEN, ACTIONS


def steps_of(data):
    """Each step as a loop over the episodes finds it: row, next observation (None where unknown), terminated."""
    found, row = [], 0
    for episode, length in enumerate(data.lengths):
        for step in range(length):
            last = step == length - 1
            over = bool(last and data.terminated[episode])
            after = None if data.last_obs is None else data.last_obs[episode]
            found.append((row, after if last else data.obs[row + 1], over))
            row += 1
    return found


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("lengths", [(4, 1, 5), (1, 1, 3), (6,)])
def test_every_transition_is_there(lengths, known):
    data = samples(SEEN, ACTIONS, lengths)
    data = data if known else dataclasses.replace(data, last_obs=None)
    if not known:
        data = dataclasses.replace(data, terminated=~data.terminated)
    expected = [(row, after, over) for row, after, over in steps_of(data) if over or after is not None]
    replay = DataSetReplay(data, Spaces, gamma=0.9)
    assert len(replay) == replay.size == len(expected) == replay.reach
    batch = replay.gather(np.arange(len(expected)))
    for k, (row, after, over) in enumerate(expected):
        for name in ("obs", "actions", "rewards"):
            np.testing.assert_array_equal(batch[name][k], getattr(data, name)[row])
        assert batch["discount"][k] == (0 if over else np.float32(0.9))
        if not over:
            np.testing.assert_array_equal(batch["next_obs"][k], after)
    np.testing.assert_array_equal(replay.observations, [data.obs[row] for row, _, _ in expected])


def test_rows_are_drawn_from_all_of_it():
    replay = DataSetReplay(samples(SEEN, ACTIONS, (4, 3, 5)), Spaces)
    batch = replay.sample(np.random.default_rng(0), 10, 30)
    assert batch["obs"].shape == (10, 30, 3) and set(batch["rows"].ravel()) == set(range(12))


def test_returns_of_several_steps_stay_in_their_episode():
    data = dataclasses.replace(samples(SEEN, ACTIONS, (3, 2)), terminated=np.array([False, True]))
    batch = DataSetReplay(data, Spaces, gamma=0.5, n_step=2).gather(np.arange(5))
    np.testing.assert_allclose(batch["rewards"], [0 + 0.5 * 1, 1 + 0.5 * 2, 2, 3 + 0.5 * 4, 4])
    np.testing.assert_allclose(batch["discount"], [0.25, 0.25, 0.5, 0, 0])
    for row in (1, 2):
        np.testing.assert_array_equal(batch["next_obs"][row], data.last_obs[0])


def test_rewards_of_a_data_set_are_clipped():
    data = samples(SEEN, ACTIONS, (3, 2))
    batch = DataSetReplay(data, Spaces, reward_clip=1.5).gather(np.arange(5))
    assert batch["rewards"].tolist() == [0, 1, 1.5, 1.5, 1.5] and data.rewards.max() > 1.5


def test_sequences_begin_without_memory():
    data = samples(SEEN, ACTIONS, (4, 4, 4))
    batch = DataSetReplay(data, Spaces, state_size=2).sample_sequences(np.random.default_rng(0), 2, 3, 4)
    assert batch["states"].shape == (2, 3, 2) and not batch["states"].any()
    assert batch["obs"].shape == (2, 15, 3) and batch["episode_start"].any()


def test_episodes_without_a_known_step_vanish():
    data = dataclasses.replace(samples(SEEN, ACTIONS, (1, 3)), terminated=np.array([False, False]), last_obs=None)
    kept = data.with_next_obs()
    assert isinstance(kept, Demonstrations) and kept.lengths.tolist() == [2] and len(kept) == 2
    np.testing.assert_array_equal(kept.last_obs, data.obs[3:])
    whole = samples(SEEN, ACTIONS)
    assert whole.with_next_obs() is whole
