"""Segment trees and the replay buffers of deepq against the original's numbers."""

import random

import numpy as np
import pytest
from cases import cases, load
from weights import assert_close

from tfbaselines.algs.deepq.buffers import MinSegmentTree, PrioritizedReplayBuffer, ReplayBuffer, SumSegmentTree

COLUMNS = ("obs_t", "actions", "rewards", "obs_tp1", "dones")


@pytest.mark.parametrize("case", cases("segment_tree"))
def test_segment_trees(case):
    a, _ = load(case)
    sums, minima = SumSegmentTree(int(a["capacity"])), MinSegmentTree(int(a["capacity"]))
    for k, (index, value) in enumerate(zip(a["set_idx"], a["set_val"], strict=True)):
        sums[index] = minima[index] = value
        start, end = a["ranges"][k].tolist()
        assert sums.sum(start, end) == pytest.approx(a["sums"][k])
        assert minima.min(start, end) == a["mins"][k]
        assert sums.sum() == pytest.approx(a["total_sum"][k]) and minima.min() == a["total_min"][k]
        assert sums.find_prefixsum_idx(a["prefix"][k]) == a["prefix_idx"][k]
    np.testing.assert_array_equal(sums[np.arange(len(a["leaves"]))], a["leaves"])
    for row, (start, end) in zip(a["negative_end"], ((0, -1), (1, -2), (0, None)), strict=True):
        assert_close([sums.sum(start, end), minima.min(start, end)], row, tolerance=1e-12)


def filled(buffer, a):
    for k, (action, reward, done) in enumerate(zip(a["add_actions"], a["add_rewards"], a["add_dones"], strict=True)):
        buffer.add(a["add_obs"][k], int(action), float(reward), a["add_obs"][k + 1], float(done))
    return buffer


@pytest.mark.parametrize("case", cases("replay_buffers"))
def test_uniform_buffer(case):
    a, hyper = load(case)
    buffer = filled(ReplayBuffer(hyper["size"]), a)
    random.seed(int(a["uniform_seed"]))
    for name, column in zip(COLUMNS, buffer.sample(8), strict=True):
        np.testing.assert_array_equal(column, a[f"uniform_{name}"], err_msg=name)
        assert column.dtype == a[f"uniform_{name}"].dtype


@pytest.mark.parametrize("case", cases("replay_buffers"))
def test_prioritised_buffer(case):
    a, hyper = load(case)
    buffer = filled(PrioritizedReplayBuffer(hyper["size"], hyper["alpha"]), a)
    random.seed(hyper["python_random_seed"])
    for k, beta in enumerate(hyper["betas"]):
        expected = {name.split("/")[1]: array for name, array in a.items() if name.startswith(f"round{k}/")}
        state = random.getstate()
        assert [random.random() for _ in range(8)] == a["uniform_draws"][k].tolist()
        random.setstate(state)
        *columns, weights, idxes = buffer.sample(8, beta)
        np.testing.assert_array_equal(idxes, expected["idxes"])
        assert_close(weights, expected["weights"], tolerance=1e-12)
        for name, column in zip(COLUMNS, columns, strict=True):
            np.testing.assert_array_equal(column, expected[name], err_msg=name)
        buffer.update_priorities(idxes, expected["new_priorities"])
        assert_close(buffer._it_sum.leaves, expected["leaves_sum"], tolerance=1e-12)
        assert buffer._max_priority == expected["max_priority"]
