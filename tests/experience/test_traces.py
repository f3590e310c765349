"""What happened in the environments is what the collected, kept and replayed sequences hold."""

import re
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfbaselines import memory
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv, VecFrameStack
from tfbaselines.experience import traces
from tfbaselines.experience.frames import FramePacker, PlainPacker
from tfbaselines.experience.traces import FENCES, RolloutReplay, TraceReplay, TraceRunner, between, part_of, stack
from tfbaselines.policy.actor import GraphActor, NumpyActor, make_actor
from tfbaselines.policy.policy import build_policy
from tfbaselines.running.checkpoint import load_tree, save_tree

DISCRETE, BOX = spaces.Discrete(3, start=2), spaces.Box(-np.inf, np.inf, (2,), np.float32)
NUMBERS = spaces.Box(-np.inf, np.inf, (3,), np.float64)
PIXELS = spaces.Box(0, 255, (1, 3, 1), np.uint8)


class Diary(gymnasium.Env):
    """Shows (its number, the episode's, the step's) plus one, and keeps every episode's observations, actions, rewards.

    Its episodes have the given lengths in turn.
    """

    def __init__(self, number=0, lengths=(4,), timeout=False, observation_space=NUMBERS, action_space=DISCRETE):
        self.number, self.lengths, self.timeout = number, lengths, timeout
        self.observation_space, self.action_space = observation_space, action_space
        self.episodes = []

    def reset(self, *, seed=None, options=None):
        self.t = 0
        self.episodes.append({"obs": [], "actions": [], "rewards": []})
        return self._show(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        episode, self.t = len(self.episodes) - 1, self.t + 1
        reward = 100 * self.number + 10 * episode + self.t
        self.episodes[-1]["actions"].append(action)
        self.episodes[-1]["rewards"].append(reward)
        over = self.t == self.lengths[episode % len(self.lengths)]
        return self._show(), reward, over and not self.timeout, over and self.timeout, {}

    def _show(self):
        numbers = np.array([self.number, len(self.episodes) - 1, self.t]) + 1
        obs = numbers.reshape(self.observation_space.shape).astype(self.observation_space.dtype)
        self.episodes[-1]["obs"].append(obs)
        return obs


def make(network="mlp", nsteps=6, diaries=None, nstack=1, maker=make_actor, seed=0, **kwargs):
    """A runner over environments, the first of which ends its episodes; time limits cut the second one's."""
    diaries = diaries or [Diary(0, (4,)), Diary(1, (3,), timeout=True)]
    env = DummyVecEnv([lambda diary=diary: Monitor(diary, None) for diary in diaries])
    env = VecFrameStack(env, nstack) if nstack > 1 else env
    policy = build_policy(env, network, **({"num_hidden": 8} if network == "mlp" else {"nlstm": 4}), **kwargs)
    actor = maker(policy)
    runner = TraceRunner(env, policy, actor, nsteps, np.random.default_rng(seed))
    return SimpleNamespace(runner=runner, env=env, policy=policy, actor=actor, diaries=diaries)


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


def spaces_of(space=BOX, count=2):
    """As much of an environment as a replay of plain observations looks at."""
    return SimpleNamespace(num_envs=count, observation_space=space, action_space=spaces.Discrete(3))


def rollout(number, count=2, nsteps=4, states=False):
    """A batch each of whose rewards tells the rollout, the environment and the step."""
    rewards = 1000.0 * number + 100 * np.arange(count)[:, None] + np.arange(nsteps)
    obs = np.repeat(np.concatenate([rewards, rewards[:, -1:] + 1], 1)[..., None], 2, axis=-1)
    zeros = np.zeros((count, nsteps), np.float32)
    batch = {
        "obs": obs.astype(np.float32),
        "episode_start": np.zeros((count, nsteps + 1), np.float32),
        "actions": rewards.astype(np.int64) % 3,
        "rewards": rewards.astype(np.float32),
        "terminated": zeros,
        "truncated": zeros.copy(),
        "mus": np.repeat(rewards[..., None], 3, axis=-1).astype(np.float32),
    }
    if states:
        batch["states"] = np.repeat(rewards[..., None], 8, axis=-1).astype(np.float32)
    return batch


def filled(size=12, rollouts=3, **kwargs):
    replay = RolloutReplay(spaces_of(), size, 4)
    for number in range(rollouts):
        replay.put(rollout(number, **kwargs))
    return replay


def numbers_drawn(replay, draws=200):
    """The rollouts that were drawn, for each environment."""
    rng = np.random.default_rng(0)
    return np.array([replay.sample(rng)["rewards"][:, 0] // 1000 for _ in range(draws)])


def samples(replay, count=20):
    rng = np.random.default_rng(3)
    return [replay.sample(rng) for _ in range(count)]


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


def bytes_of(replay):
    return sum(array.nbytes for array in replay.state()["arrays"].values())


def test_the_memory_of_a_full_replay_is_announced_once(monkeypatch):
    checked = []
    monkeypatch.setattr(traces, "require_memory", lambda nbytes, *_: checked.append(nbytes))
    replay = RolloutReplay(spaces_of(), 13, 4)
    words = [replay.put(rollout(number)) for number in range(4)]
    assert words[1:] == [None] * 3
    assert re.fullmatch(r"replay: about 0\.\d+ MiB when full, 12 steps of each environment", words[0])
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


def saved_and_loaded(replay, path):
    save_tree(path, {"update": 3, **replay.state()})
    return load_tree(path)


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("rollouts", [1, 2, 5])
def test_a_restored_replay_draws_the_same(tmp_path, rollouts, states):
    replay, other = filled(rollouts=rollouts, states=states), RolloutReplay(spaces_of(), 12, 4)
    other.restore(saved_and_loaded(replay, tmp_path / "replay"))
    np.testing.assert_equal(samples(other), samples(replay))
    for one in (replay, other):
        one.put(rollout(9, states=states))
    np.testing.assert_equal(samples(other), samples(replay))


OLD = {"episode_start": "masks", "terminated": "ended", "truncated": "cut"}


def of_an_older_version(state):
    """What older versions saved: the same under their names."""
    parts = {
        part: {OLD.get(name, name): array for name, array in state[part].items()} for part in ("arrays", "lengths")
    }
    return state | parts


def test_replays_of_older_versions_load(tmp_path):
    episodes, _ = run_of((3, 4))
    for replay, other in ((filled(), RolloutReplay(spaces_of(), 12, 4)), (episodes, run_of((2,))[0])):
        old = of_an_older_version(saved_and_loaded(replay, tmp_path / "replay"))
        assert {"masks", "ended", "cut"} < old["arrays"].keys() == old["lengths"].keys()
        other.restore(old)
        np.testing.assert_equal(samples(other, 3), samples(replay, 3))


@pytest.mark.parametrize(("size", "kept"), [(4, {2}), (8, {1, 2}), (40, {0, 1, 2})])
def test_a_replay_restored_into_another_size_keeps_the_latest(size, kept):
    other = RolloutReplay(spaces_of(), size, 4)
    other.restore(filled().state())
    assert set(numbers_drawn(other).ravel()) == kept


@pytest.mark.parametrize("full", [False, True])
def test_restoring_an_empty_replay_empties(tmp_path, full):
    replay = filled(rollouts=3 if full else 0)
    replay.restore(saved_and_loaded(RolloutReplay(spaces_of(), 12, 4), tmp_path / "replay"))
    assert not replay.has_atleast(0)
    episodes = TraceReplay(spaces_of(), 4, 2)
    episodes.restore(saved_and_loaded(TraceReplay(spaces_of(), 4, 2), tmp_path / "episodes"))
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
        other.restore(filled(rollouts=2).state())


@pytest.mark.parametrize(("space", "nstack"), [(PIXELS, 1), (PIXELS, 3), (NUMBERS, 1)])
def test_a_replay_of_a_real_run_gives_what_was_collected(tmp_path, space, nstack):
    diaries = [Diary(k, (4, 2, 5), k == 1, space) for k in range(2)]
    made = make(nsteps=5, diaries=diaries, nstack=nstack)
    replay, batches = RolloutReplay(made.env, 20, 5), [made.runner.run() for _ in range(4)]
    for batch in batches:
        replay.put(batch)
    other = RolloutReplay(made.env, 20, 5)
    other.restore(saved_and_loaded(replay, tmp_path / "replay"))
    collected = [part_of(batch, i) for batch in batches for i in range(2)]
    for sample in samples(other):
        for i in range(2):
            source = next(one for one in collected if np.array_equal(one["rewards"], sample["rewards"][i]))
            np.testing.assert_equal(part_of(sample, i), source)
            assert sample["obs"].dtype == source["obs"].dtype


def test_a_packer_fits_the_environments_observations():
    def packer_of(space, nstack=1):
        env = DummyVecEnv([lambda: Diary(observation_space=space)])
        return traces.make_packer(VecFrameStack(env, nstack) if nstack > 1 else env)

    assert isinstance(packer_of(NUMBERS), PlainPacker) and isinstance(packer_of(NUMBERS, 4), PlainPacker)
    assert isinstance(packer_of(PIXELS), FramePacker) and isinstance(packer_of(PIXELS, 4), FramePacker)
    small, whole = packer_of(PIXELS, 3), packer_of(spaces.Box(0, 255, (1, 1, 3), np.uint8), 3)
    np.testing.assert_array_equal(small.unpack(small.pack(np.ones((9, 1, 3, 3), np.uint8)), np.ones(9))[1:, ..., :2], 0)
    colours = np.ones((9, 1, 1, 9), np.uint8)
    np.testing.assert_array_equal(whole.unpack(whole.pack(colours), np.ones(9)), colours)


def recorded(over):
    """The batch of a long run: steps are terminated where `over` is 1 and truncated where it is 2."""
    count, steps = over.shape
    batch = rollout(0, count, steps, states=True)
    batch["terminated"], batch["truncated"] = (over == 1).astype(np.float32), (over == 2).astype(np.float32)
    batch["episode_start"][:, 1:] = over > 0
    return batch


def rollouts_of(batch, nsteps):
    """The same in rollouts of nsteps."""
    steps = batch["rewards"].shape[1]
    for start in range(0, steps, nsteps):
        yield {name: array[:, start : start + nsteps + (name in FENCES)] for name, array in batch.items()}


def episodes_of(batch):
    """The whole episodes of each environment."""
    episodes = []
    for i in range(len(batch["rewards"])):
        sequence, start = part_of(batch, i), 0
        for end in np.flatnonzero(sequence["terminated"] + sequence["truncated"]) + 1:
            episodes.append(between(sequence, start, end))
            start = end
    return episodes


@st.composite
def runs(draw):
    nsteps, rollouts = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    shape = (draw(st.integers(1, 3)), nsteps * rollouts)
    return nsteps, draw(hnp.arrays(np.int8, shape, elements=st.sampled_from([0, 0, 0, 1, 2])))


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
    assert len(replay.state()["pieces"]) == len(episodes)
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


def run_of(lengths, nsteps=5, **kwargs):
    """One environment's episodes of these lengths in a replay, and the episodes."""
    over = np.zeros((1, -(-sum(lengths) // nsteps) * nsteps), np.int8)
    over[0, np.cumsum(lengths) - 1] = 1
    batch = recorded(over)
    replay = TraceReplay(spaces_of(count=1), **{"capacity": 100, "batch_size": 200, **kwargs})
    for one in rollouts_of(batch, nsteps):
        replay.put(one)
    return replay, episodes_of(batch)


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
        with pytest.raises(ValueError, match="the saved replay is of"):
            replay.restore(other.state())
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
    replay, words = TraceReplay(spaces_of(count=1), 3, 2), []
    over = np.zeros((1, 18), np.int8)
    over[0, 5::6] = 1
    for one in rollouts_of(recorded(over), 3):
        words.append(replay.put(one))
    expected = r"replay: about 0\.\d+ MiB when full of episodes like the first, 3; a batch of 2 is 0\.018 MiB"
    assert [word and bool(re.fullmatch(expected, word)) for word in words] == [None, True, None, None, None, None]
    assert checked[0] == bytes_of(replay)


def test_a_restored_replay_of_episodes_draws_the_same(tmp_path):
    replay, _ = run_of((3, 12, 1, 5, 4), nsteps=10, length=3)
    other = TraceReplay(spaces_of(count=1), 100, 200, 3)
    other.restore(saved_and_loaded(replay, tmp_path / "replay"))
    np.testing.assert_equal(samples(other, 3), samples(replay, 3))
    assert other.has_atleast(30) and not other.has_atleast(31)


def test_a_replay_of_episodes_restored_into_another_size_keeps_the_latest():
    replay, episodes = run_of((3, 12, 1, 5, 4), nsteps=10)
    other = TraceReplay(spaces_of(count=1), 2, 200)
    other.restore(replay.state())
    first = set(other.sample(np.random.default_rng(0))["rewards"][:, 0])
    assert first == {episode["rewards"][0] for episode in episodes[3:]}


def test_episodes_still_going_on_are_not_saved():
    replay, _ = run_of((3, 4), nsteps=5)
    assert sum(replay.state()["lengths"]["rewards"]) == 7
    other = TraceReplay(spaces_of(count=1), 10, 4)
    other.restore(replay.state())
    batch = rollout(5, count=1, nsteps=2, states=True)
    batch["terminated"][:, 1] = 1.0
    other.put(batch)
    lengths = {(row == 0).sum() for row in other.sample(np.random.default_rng(0))["truncated"]}
    assert lengths <= {2, 3, 4} and len(other.state()["pieces"]) == 3


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
    replay.restore(saved_and_loaded(collected, tmp_path / "replay"))
    assert len(replay.state()["pieces"]) == sum(len(diary.episodes) - 1 for diary in diaries)
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
