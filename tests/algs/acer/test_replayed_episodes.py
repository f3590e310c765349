"""The replay of whole episodes."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_replays import (
    NUMBERS,
    PIXELS,
    Diary,
    bytes_of,
    episodes_of,
    filled,
    make,
    recorded,
    restore,
    rollout,
    rollouts_of,
    run_of,
    runs,
    samples,
    saved,
    saved_and_loaded,
    spaces_of,
)

from tfbaselines.algs.acer import traces
from tfbaselines.algs.acer.replay import FENCES, part_of, stack
from tfbaselines.algs.acer.traces import TraceReplay, between
from tfbaselines.parallel.mpi import Communicator


def assert_padded(trace, length):
    """Steps after the first `length` are truncated, and equal the last of them in all else."""
    for name, array in trace.items():
        end = length + (name in FENCES)
        last = np.ones_like(array[0]) if name == "truncated" else array[end - 1]
        for row in array[end:]:
            np.testing.assert_array_equal(row, last, err_msg=name)


def start_of(trace, episodes):
    """The episode that a trace was taken from, and where in it the trace begins: rewards are all different."""
    for episode in episodes:
        (found,) = np.nonzero(episode["rewards"] == trace["rewards"][0])
        if len(found):
            return episode, int(found[0])
    raise AssertionError("a trace begins with a step that is part of no whole episode")


@settings(max_examples=60)
@given(runs(), st.none() | st.integers(1, 6))
def test_replayed_traces_are_the_steps_that_happened(run, length):
    nsteps, over = run
    batch = recorded(over)
    replay, episodes = TraceReplay(spaces_of(count=len(over)), 100, 16, length), episodes_of(batch)
    for one in rollouts_of(batch, nsteps):
        replay.put(one)
    assert len(saved(replay)["items"]["counts"]) == len(episodes)
    assert replay.has_atleast(0) == replay.has_atleast(over.shape[1]) == bool(episodes)
    assert not replay.has_atleast(over.shape[1] + 1)
    if not episodes:
        return
    sample = replay.sample(np.random.default_rng(0))
    assert len(sample["rewards"]) == 16
    for i in range(16):
        trace = part_of(sample, i)
        episode, start = start_of(trace, episodes)
        total = len(episode["rewards"])
        taken = min(total, length or total)
        assert start <= total - taken and (length or start == 0)
        expected = between(episode, start, start + taken)
        np.testing.assert_equal(between(trace, 0, taken), expected)
        assert len(expected["obs"]) == len(expected["episode_start"]) == taken + 1
        assert_padded(trace, taken)


@pytest.mark.parametrize(
    ("lengths", "length"), [((1,), 1), ((2,), 2), ((3,), 4), ((5, 2), 8), ((4, 4), 4), ((17,), 32)]
)
def test_whole_episodes_are_padded_to_a_power_of_two(lengths, length):
    sample = run_of(lengths)[0].sample(np.random.default_rng(0))
    assert sample["rewards"].shape == (200, length) and sample["obs"].shape == (200, length + 1, 2)
    np.testing.assert_array_equal(np.unique((sample["truncated"] == 0).sum(1)), np.unique(lengths))


def test_what_is_refused_leaves_a_replay_as_it_was():
    rollouts, (episodes, _) = filled(), run_of((3, 4))
    for replay, other in ((rollouts, episodes), (episodes, rollouts)):
        before = samples(replay, 3)
        with pytest.raises(ValueError, match="the saved replay holds"):
            restore(replay, saved(other))
        np.testing.assert_equal(samples(replay, 3), before)


@pytest.mark.parametrize("length", [1, 3, 11, 12, 20])
def test_traces_begin_anywhere_in_an_episode_where_they_fit(length):
    """An episode of 12 steps in pieces of 5, 5 and 2: every start is about as frequent."""
    replay, (episode,) = run_of((12,), length=length, batch_size=1000)
    sample = replay.sample(np.random.default_rng(0))
    assert sample["rewards"].shape == (1000, length)
    starts = np.bincount(sample["rewards"][:, 0].astype(int), minlength=12)
    possible = max(1, 12 - length + 1)
    assert (starts[:possible] > 500 / possible).all() and starts[possible:].sum() == 0
    np.testing.assert_array_equal(sample["obs"][:, 0], episode["obs"][sample["rewards"][:, 0].astype(int)])


def test_episodes_are_drawn_evenly_whatever_their_length():
    replay, episodes = run_of((1, 9, 2), batch_size=900)
    first = replay.sample(np.random.default_rng(0))["rewards"][:, 0]
    counts = [np.sum(first == episode["rewards"][0]) for episode in episodes]
    assert sum(counts) == 900 and min(counts) > 230


def test_the_latest_episodes_are_kept():
    replay, episodes = run_of((3, 4, 1, 2), capacity=2)
    first = set(replay.sample(np.random.default_rng(0))["rewards"][:, 0])
    assert first == {episode["rewards"][0] for episode in episodes[2:]}


def test_sampling_changes_nothing_that_is_kept():
    replay, _ = run_of((3, 8, 5), length=4)
    before = samples(replay, 2)
    for sample in samples(replay, 2):
        for array in sample.values():
            array += 1
    np.testing.assert_equal(samples(replay, 2), before)


def test_the_memory_of_so_many_episodes_like_the_first_is_announced_once(monkeypatch):
    checked = []
    monkeypatch.setattr(traces, "require_memory", lambda nbytes, *_: checked.append(nbytes))
    replay, lines, counts = TraceReplay(spaces_of(count=1), 3, 2), [], []
    monkeypatch.setattr(traces.logger, "info", lines.append)
    over = np.zeros((1, 18), np.int8)
    over[0, 5::6] = 1
    for one in rollouts_of(recorded(over), 3):
        replay.put(one)
        counts.append(len(lines))
    expected = r"replay: about 0\.\d+ MiB when full of episodes like the first, 3; a batch of 2 is 0\.018 MiB"
    assert counts == [0, 1, 1, 1, 1, 1] and re.fullmatch(expected, lines[0])
    assert checked[0] == bytes_of(replay)


def test_traces_may_begin_with_their_episodes():
    for random_start in (True, False):
        replay, episodes = run_of((8, 9), nsteps=10, length=3, random_start=random_start)
        batch = replay.sample(np.random.default_rng(0))
        starts = {start_of(part_of(batch, i), episodes)[1] for i in range(len(batch["rewards"]))}
        assert starts == (set(range(7)) if random_start else {0}) and batch["rewards"].shape[1] == 3


def test_a_restored_replay_of_episodes_draws_the_same(tmp_path):
    replay, _ = run_of((3, 12, 1, 5, 4), nsteps=10, length=3)
    other = TraceReplay(spaces_of(count=1), 100, 200, 3)
    restore(other, saved_and_loaded(replay, tmp_path / "replay"))
    np.testing.assert_equal(samples(other, 3), samples(replay, 3))
    assert other.has_atleast(30) and not other.has_atleast(31)


def test_a_replay_of_episodes_restored_into_another_size_keeps_the_latest():
    replay, episodes = run_of((3, 12, 1, 5, 4), nsteps=10)
    other = TraceReplay(spaces_of(count=1), 2, 200)
    restore(other, saved(replay))
    first = set(other.sample(np.random.default_rng(0))["rewards"][:, 0])
    assert first == {episode["rewards"][0] for episode in episodes[3:]}


def rest_of_an_episode():
    """A rollout of two steps, the last of an episode."""
    batch = rollout(5, count=1, nsteps=2, states=True)
    batch["terminated"][:, 1] = 1.0
    return batch


@pytest.mark.parametrize(("continues", "wanted"), [(True, {3, 4, 5}), (False, {3, 4, 2})])
def test_episodes_under_way_are_kept_where_they_go_on(continues, wanted, tmp_path):
    """Three steps of one are saved, and two follow."""
    replay, _ = run_of((3, 4), nsteps=5)
    other = TraceReplay(spaces_of(count=1), 10, 200)
    restore(other, saved_and_loaded(replay, tmp_path / "replay"), continues)
    other.put(rest_of_an_episode())
    lengths = {(row == 0).sum() for row in other.sample(np.random.default_rng(0))["truncated"]}
    assert lengths == wanted


def test_replays_without_episodes_under_way_load():
    """Replays of another number of environments."""
    replay, _ = run_of((3, 4), nsteps=7)
    other = TraceReplay(spaces_of(count=1), 10, 200)
    tree = saved(replay)
    tree["state"]["open"] = {"arrays": {}, "lengths": {}, "counts": np.zeros(3, np.int64)}
    restore(other, tree)
    np.testing.assert_equal(samples(other, 3), samples(replay, 3))
    other.put(rest_of_an_episode())
    assert saved(other)["items"]["counts"].tolist() == [1, 1, 1]


class LongerElsewhere(Communicator):
    """Of two ranks, of which the other has drawn an episode of 64 steps."""

    size = 2

    def max(self, array):
        return np.maximum(array, 64)


def test_ranks_agree_on_the_length_of_whole_episodes():
    """They may send each other their batches, which have to be of one shape."""
    replay, _ = run_of((3, 4), batch_size=2, comm=LongerElsewhere())
    sample = replay.sample(np.random.default_rng(0))
    assert sample["rewards"].shape == (2, 64)
    for i in range(2):
        trace = part_of(sample, i)
        assert_padded(trace, int((trace["truncated"] == 0).sum()))


def test_all_ranks_learn_in_parts_or_none_does(monkeypatch):
    """An update in parts sends other messages than one at once."""
    replay, _ = run_of((3, 4), batch_size=2, comm=LongerElsewhere())
    monkeypatch.setattr(traces, "PART_BYTES", 2 * replay._nbytes(64) - 1)
    (part,) = replay.sample(np.random.default_rng(0))
    assert part["rewards"].shape == (2, 4)


def shown_by(diary, number, nstack):
    """An episode's observations and the one after it, as a stack of frames shows them."""
    frames = [*diary.episodes[number]["obs"][:-1], diary.episodes[number + 1]["obs"][0]]
    stacks, borders = [], {0, len(frames) - 1}
    for t, frame in enumerate(frames):
        empty = t in borders
        before = np.zeros((*frame.shape[:-1], frame.shape[-1] * nstack), frame.dtype) if empty else stacks[-1]
        stacks.append(np.concatenate([before[..., frame.shape[-1] :], frame], axis=-1))
    return np.stack(stacks)


@pytest.mark.parametrize("length", [None, 4])
@pytest.mark.parametrize(("network", "space", "nstack"), [("mlp", PIXELS, 4), ("mlp", PIXELS, 1), ("lstm", NUMBERS, 1)])
def test_episodes_of_a_real_run_are_those_in_the_environments_diaries(network, space, nstack, length, tmp_path):
    diaries = [Diary(0, (4, 7, 1, 12), False, space), Diary(1, (5, 3), True, space)]
    made = make(network, nsteps=5, diaries=diaries, nstack=nstack)
    collected, seen = TraceReplay(made.env, 50, 64, length), set()
    for _ in range(8):
        collected.put(made.runner.run())
    replay = TraceReplay(made.env, 50, 64, length)
    restore(replay, saved_and_loaded(collected, tmp_path / "replay"))
    assert len(saved(replay)["items"]["counts"]) == sum(len(diary.episodes) - 1 for diary in diaries)
    sample = replay.sample(np.random.default_rng(0))
    for i in range(64):
        trace = part_of(sample, i)
        env, number, start = trace["obs"][0].reshape(3, -1)[:, -1].astype(int) - 1
        seen.add((env, number))
        diary, whole = diaries[env].episodes[number], shown_by(diaries[env], number, nstack)
        total = len(diary["rewards"])
        taken = min(total, length or total)
        for name, steps in (("obs", whole), ("actions", diary["actions"]), ("rewards", diary["rewards"])):
            expected = steps[start : start + taken + (name in FENCES)]
            np.testing.assert_array_equal(between(trace, 0, taken)[name], expected, err_msg=name)
        reaches_end = start + taken == total
        assert trace["episode_start"][taken] == reaches_end
        over = trace["truncated"] if diaries[env].timeout else trace["terminated"]
        assert over[taken - 1] == reaches_end
        assert not (trace["terminated"] if diaries[env].timeout else trace["truncated"][:taken]).any()
        if network == "lstm":
            flat = made.policy.forward(trace["obs"][:taken], trace["episode_start"][:taken], trace["states"][:1]).flat
            np.testing.assert_allclose(trace["mus"][:taken], flat, rtol=1e-4, atol=1e-5)
        assert_padded(trace, taken)
    assert len(seen) > 8


def test_stacked_sequences_keep_their_order_and_types():
    batch = rollout(2)
    np.testing.assert_equal(stack([part_of(batch, i) for i in range(2)]), batch)
