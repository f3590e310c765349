"""The latest episodes of a run."""

import numpy as np
import pytest

from tfbaselines.logs.statistics import Episodes, safe_mean


def test_means_are_of_the_last_hundred_episodes():
    episodes = Episodes()
    assert all(np.isnan([episodes.mean_reward, episodes.std_reward, episodes.mean_length]))
    episodes.extend([{"r": float(k), "l": 2 * k} for k in range(150)])
    assert episodes.mean_reward == pytest.approx(np.mean(np.arange(50, 150)))
    assert episodes.std_reward == pytest.approx(np.std(np.arange(50, 150)))
    assert episodes.mean_length == pytest.approx(2 * episodes.mean_reward)
    assert episodes.count == 150


def test_a_restored_object_goes_on_where_it_was():
    episodes, copy = Episodes(), Episodes()
    episodes.extend([{"r": float(k), "l": k} for k in range(150)])
    copy.extend([{"r": -9.0, "l": 1}])
    copy.restore(episodes.state())
    for one in (episodes, copy):
        one.extend([{"r": 7.0, "l": 3}])
    assert (copy.mean_reward, copy.mean_length, copy.count) == (episodes.mean_reward, episodes.mean_length, 151)


def test_without_episodes_a_state_is_empty():
    copy = Episodes()
    copy.restore(Episodes().state())
    assert np.isnan(copy.mean_reward) and copy.count == 0


def test_the_mean_of_nothing_is_not_a_number():
    assert np.isnan(safe_mean([])) and safe_mean([1, 2]) == 1.5
