"""What happened in the environments is what the collected, kept and replayed sequences hold."""

import re

import numpy as np
import pytest
from gymnasium import spaces
from trace_replays import (
    BOX,
    DISCRETE,
    NUMBERS,
    PIXELS,
    Diary,
    bytes_of,
    filled,
    make,
    numbers_drawn,
    restore,
    rollout,
    samples,
    saved,
    saved_and_loaded,
    spaces_of,
)

from tfbaselines import files as memory
from tfbaselines.algs.acer import replay as rollouts
from tfbaselines.algs.acer.replay import FramePacker, PlainPacker, RolloutReplay, make_packer, part_of
from tfbaselines.algs.acer.traces import TraceReplay
from tfbaselines.envs.vec import DummyVecEnv, VecFrameStack
from tfbaselines.policy.actor import GraphActor, NumpyActor


def test_a_batch_has_a_sequence_of_each_environment():
    made = make(estimate_q=True)
    batch = made.runner.run()
    shown = [[(1, 1 + t // 4, 1 + t % 4) for t in range(7)], [(2, 1 + t // 3, 1 + t % 3) for t in range(7)]]
    np.testing.assert_array_equal(batch["obs"], shown)
    np.testing.assert_array_equal(batch["rewards"], [[1, 2, 3, 4, 11, 12], [101, 102, 103, 111, 112, 113]])
    np.testing.assert_array_equal(batch["episode_start"], [[0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 1, 0, 0, 1]])
    np.testing.assert_array_equal(batch["terminated"], [[0, 0, 0, 1, 0, 0], [0] * 6])
    np.testing.assert_array_equal(batch["truncated"], [[0] * 6, [0, 0, 1, 0, 0, 1]])
    for i, diary in enumerate(made.diaries):
        taken = [action for episode in diary.episodes for action in episode["actions"]]
        np.testing.assert_array_equal(batch["actions"][i], taken)
    assert batch.keys() == {"obs", "episode_start", "actions", "rewards", "terminated", "truncated", "mus"}
    assert {array.dtype for name, array in batch.items() if name != "actions"} == {np.dtype(np.float32)}
    assert batch["actions"].dtype == np.int64 and batch["mus"].shape == (2, 6, 3)


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_a_run_goes_on_where_the_one_before_ended(network):
    runner = make(network, nsteps=5).runner
    one, other = runner.run(), runner.run()
    np.testing.assert_array_equal(one["obs"][:, -1], other["obs"][:, 0])
    np.testing.assert_array_equal(one["episode_start"][:, -1], other["episode_start"][:, 0])


def test_time_limits_of_one_run_do_not_stay_for_the_next():
    runner = make(nsteps=2, diaries=[Diary(lengths=(4,), timeout=True)]).runner
    np.testing.assert_array_equal([runner.run()["truncated"][0] for _ in range(4)], [[0, 0], [0, 1], [0, 0], [0, 1]])


def test_a_batch_is_not_written_again():
    runner = make("lstm").runner
    first = runner.run()
    kept = {name: array.copy() for name, array in first.items()}
    runner.run()
    np.testing.assert_equal(first, kept)


@pytest.mark.parametrize("action", [DISCRETE, BOX], ids=["discrete", "box"])
@pytest.mark.parametrize(("network", "maker"), [("mlp", NumpyActor), ("mlp", GraphActor), ("lstm", GraphActor)])
def test_mus_are_the_parameters_that_acted(network, maker, action):
    made = make(network, diaries=[Diary(k, (4 - k,), action_space=action) for k in range(2)], maker=maker)
    draws = np.random.default_rng(0)
    for _ in range(2):
        batch = made.runner.run()
        steps = slice(0, 6)
        for i in range(2):
            memory = (batch["episode_start"][i, steps], batch["states"][i, :1]) if network == "lstm" else ()
            flat = made.policy.forward(batch["obs"][i, steps], *memory).flat
            np.testing.assert_allclose(batch["mus"][i], flat, rtol=1e-4, atol=1e-5)
        noise = made.policy.head.draw_noise(draws, (6, 2))
        for t in range(6):
            actions = made.policy.head.sample_numpy(batch["mus"][:, t], noise[t])
            np.testing.assert_allclose(batch["actions"][:, t], actions, rtol=1e-5, atol=1e-6)
        for variable in made.policy.trainable_variables:
            variable.assign(variable.numpy() * 1.5 + 0.1)
        made.actor.refresh()


def test_states_are_the_memory_before_each_step():
    made = make("lstm", nsteps=5)
    states = np.zeros((2, 8), np.float32)
    for _ in range(3):
        batch = made.runner.run()
        for t in range(5):
            np.testing.assert_allclose(batch["states"][:, t], states, rtol=1e-4, atol=1e-5)
            states = made.policy.forward(batch["obs"][:, t], batch["episode_start"][:, t], states).states.numpy()
    assert np.abs(states).max() > 1e-2


def test_episodes_are_those_that_ended_in_the_run():
    runner = make(nsteps=4).runner
    ended = []
    for _ in range(3):
        runner.run()
        ended.append([episode["l"] for episode in runner.episodes])
    assert ended == [[3, 4], [3, 4], [3, 4, 3]]


def test_one_seed_gives_one_batch():
    first, again, other = (make(seed=seed) for seed in (0, 0, 1))
    for made in (again, other):
        made.policy.restore(first.policy.state())
        made.actor.refresh()
    one, two, three = (made.runner.run() for made in (first, again, other))
    np.testing.assert_equal(one, two)
    assert not np.array_equal(one["actions"], three["actions"])


def test_a_sample_is_one_whole_sequence_of_each_environment():
    replay, rng = filled(), np.random.default_rng(0)
    for _ in range(20):
        sample = replay.sample(rng)
        assert sample.keys() == rollout(0).keys()
        for i in range(2):
            number = int(sample["rewards"][i, 0] // 1000)
            np.testing.assert_equal(part_of(sample, i), part_of(rollout(number), i))


def test_environments_are_drawn_independently_and_evenly():
    drawn = numbers_drawn(filled(), 600)
    pairs = drawn[:, 0] * 3 + drawn[:, 1]
    counts = np.bincount(pairs.astype(int), minlength=9)
    assert counts.min() > 30 and counts.max() < 110


def test_the_latest_rollouts_are_kept():
    drawn = numbers_drawn(filled(size=12, rollouts=7))
    assert set(drawn.ravel()) == {4, 5, 6}


@pytest.mark.parametrize(("size", "kept"), [(1, 1), (4, 1), (7, 1), (8, 2)])
def test_a_replay_keeps_whole_rollouts_and_at_least_one(size, kept):
    assert len(set(numbers_drawn(filled(size, rollouts=5)).ravel())) == kept


def test_has_atleast_counts_steps_of_each_environment():
    replay = RolloutReplay(spaces_of(), 12, 4)
    assert not replay.has_atleast(0)
    for number, steps in enumerate((4, 8, 12, 12)):
        replay.put(rollout(number))
        assert replay.has_atleast(0) and replay.has_atleast(steps) and not replay.has_atleast(steps + 4)


def test_what_is_put_in_does_not_change_with_its_source():
    replay, batch = RolloutReplay(spaces_of(), 4, 4), rollout(0, states=True)
    replay.put(batch)
    for array in batch.values():
        array += 1
    np.testing.assert_equal(replay.sample(np.random.default_rng(0))["rewards"], rollout(0)["rewards"])


def test_of_the_states_the_first_is_kept():
    sample = filled(states=True).sample(np.random.default_rng(0))
    assert sample["states"].shape == (2, 1, 8)
    np.testing.assert_array_equal(sample["states"][:, 0, 0], sample["rewards"][:, 0])


def test_the_memory_of_a_full_replay_is_announced_once(monkeypatch):
    checked, lines = [], []
    monkeypatch.setattr(rollouts, "require_memory", lambda nbytes, *_: checked.append(nbytes))
    monkeypatch.setattr(rollouts.logger, "info", lines.append)
    replay = RolloutReplay(spaces_of(), 13, 4)
    for number in range(4):
        replay.put(rollout(number))
        assert len(lines) == 1
    assert re.fullmatch(r"replay: about 0\.\d+ MiB when full, 12 steps of each environment", lines[0])
    assert checked == [bytes_of(replay)]


def test_a_replay_larger_than_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10 * 2**30)
    memory.require_memory(10 * 2**30, "buffer_size")
    with pytest.raises(ValueError, match=r"would take 20\.5 GiB and 10\.0 GiB are free: lower buffer_size") as error:
        memory.require_memory(int(20.5 * 2**30), "buffer_size")
    assert "\n" not in str(error.value)
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    memory.require_memory(2**60, "buffer_size")
    monkeypatch.setattr(memory, "available_memory", lambda: 100)
    with pytest.raises(ValueError, match="lower buffer_size"):
        RolloutReplay(spaces_of(), 10**9, 4).put(rollout(0))


def test_too_large_a_replay_of_episodes_names_the_argument_that_helps(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 100)
    batch = rollout(0)
    batch["terminated"][:, -1] = 1.0
    with pytest.raises(ValueError, match="lower buffer_len"):
        TraceReplay(spaces_of(), 10**9, 4).put(batch)


def test_available_memory_is_a_number_or_unknown(monkeypatch):
    available = memory.available_memory()
    assert available is None or available > 2**20
    monkeypatch.setattr("builtins.open", lambda *args, **kwargs: (_ for _ in ()).throw(FileNotFoundError()))
    assert memory.available_memory() is None


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("rollouts", [1, 2, 5])
def test_a_restored_replay_draws_the_same(tmp_path, rollouts, states):
    replay, other = filled(rollouts=rollouts, states=states), RolloutReplay(spaces_of(), 12, 4)
    restore(other, saved_and_loaded(replay, tmp_path / "replay"))
    np.testing.assert_equal(samples(other), samples(replay))
    for one in (replay, other):
        one.put(rollout(9, states=states))
    np.testing.assert_equal(samples(other), samples(replay))


@pytest.mark.parametrize(("size", "kept"), [(4, {2}), (8, {1, 2}), (40, {0, 1, 2})])
def test_a_replay_restored_into_another_size_keeps_the_latest(size, kept):
    other = RolloutReplay(spaces_of(), size, 4)
    restore(other, saved(filled()))
    assert set(numbers_drawn(other).ravel()) == kept


@pytest.mark.parametrize("full", [False, True])
def test_restoring_an_empty_replay_empties(tmp_path, full):
    replay = filled(rollouts=3 if full else 0)
    restore(replay, saved_and_loaded(RolloutReplay(spaces_of(), 12, 4), tmp_path / "replay"))
    assert not replay.has_atleast(0)
    episodes = TraceReplay(spaces_of(), 4, 2)
    restore(episodes, saved_and_loaded(TraceReplay(spaces_of(), 4, 2), tmp_path / "episodes"))
    assert not episodes.has_atleast(0)


@pytest.mark.parametrize(
    "other",
    [
        RolloutReplay(spaces_of(count=2), 12, 3),
        RolloutReplay(spaces_of(count=4), 12, 4),
        TraceReplay(spaces_of(count=2), 12, 4),
    ],
    ids=["other nsteps", "other environments", "episodes"],
)
def test_what_does_not_fit_into_a_replay_is_refused(other):
    """By a ValueError, after which a resumed run starts with an empty replay."""
    with pytest.raises(ValueError):
        restore(other, saved(filled(rollouts=2)))


@pytest.mark.parametrize(("space", "nstack"), [(PIXELS, 1), (PIXELS, 3), (NUMBERS, 1)])
def test_a_replay_of_a_real_run_gives_what_was_collected(tmp_path, space, nstack):
    diaries = [Diary(k, (4, 2, 5), k == 1, space) for k in range(2)]
    made = make(nsteps=5, diaries=diaries, nstack=nstack)
    replay, batches = RolloutReplay(made.env, 20, 5), [made.runner.run() for _ in range(4)]
    for batch in batches:
        replay.put(batch)
    other = RolloutReplay(made.env, 20, 5)
    restore(other, saved_and_loaded(replay, tmp_path / "replay"))
    collected = [part_of(batch, i) for batch in batches for i in range(2)]
    for sample in samples(other):
        for i in range(2):
            source = next(one for one in collected if np.array_equal(one["rewards"], sample["rewards"][i]))
            np.testing.assert_equal(part_of(sample, i), source)
            assert sample["obs"].dtype == source["obs"].dtype


def test_a_packer_fits_the_environments_observations():
    def packer_of(space, nstack=1):
        env = DummyVecEnv([lambda: Diary(observation_space=space)])
        return make_packer(VecFrameStack(env, nstack) if nstack > 1 else env)

    assert isinstance(packer_of(NUMBERS), PlainPacker) and isinstance(packer_of(NUMBERS, 4), PlainPacker)
    assert isinstance(packer_of(PIXELS), FramePacker) and isinstance(packer_of(PIXELS, 4), FramePacker)
    small, whole = packer_of(PIXELS, 3), packer_of(spaces.Box(0, 255, (1, 1, 3), np.uint8), 3)
    np.testing.assert_array_equal(small.unpack(small.pack(np.ones((9, 1, 3, 3), np.uint8)), np.ones(9))[1:, ..., :2], 0)
    colours = np.ones((9, 1, 1, 9), np.uint8)
    np.testing.assert_array_equal(whole.unpack(whole.pack(colours), np.ones(9)), colours)
