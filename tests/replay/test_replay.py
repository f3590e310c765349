"""What is drawn from the replay is what happened, told by a plain list of steps."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from replayed import BOX, GAMMA, History, Pictures, environment

from tfbaselines import files as memory
from tfbaselines.envs.vec import VecFrameStack
from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.envs.vec.packed import MASK, VecActionMask
from tfbaselines.errors import UsageError
from tfbaselines.replay import Replay


@given(st.integers(1, 4), st.integers(2, 30), st.integers(1, 80), st.integers(1, 4), st.integers(0, 99))
def test_transitions_are_those_that_happened(count, size, steps, n_step, seed):
    replay = Replay(environment(count), size, GAMMA, n_step)
    history = History(replay, count, steps, seed)
    batch = replay.sample(np.random.default_rng(seed), 2, 20)
    assert batch["obs"].shape == (2, 20, 1)
    rows = (batch[name].reshape(40, -1)[:, 0] for name in ("obs", "actions", "rewards", "discount", "next_obs"))
    for obs, action, reward, weight, after in zip(*rows, strict=True):
        total, expected_weight, expected_after = history.expected(float(obs), n_step)
        assert action == obs + 7
        assert reward == pytest.approx(total) and weight == pytest.approx(expected_weight)
        # After a true end the next observation counts for nothing.
        assert weight == 0 or after == expected_after


def test_each_reward_of_a_return_is_clipped():
    replay = Replay(environment(1), 40, GAMMA, n_step=2, reward_clip=8.0)
    History(replay, 1, 30, chance=0.0, start=-15)
    clipped = np.clip(np.arange(-15.0, 15.0), -8, 8)
    np.testing.assert_allclose(replay.gather(np.arange(29))["rewards"], clipped[:29] + GAMMA * clipped[1:])


def test_what_ended_an_episode_and_what_follows_are_both_kept(tmp_path):
    """After loading too; a replay that did not keep what ended episodes is refused."""
    replay = Replay(environment(2), 40, GAMMA, keep_ends=True)
    history = History(replay, 2, 50, chance=0.4)
    replay.save(tmp_path / "replay")
    loaded = Replay(environment(2), 40, GAMMA, keep_ends=True)
    loaded.load(tmp_path / "replay")
    for one in (replay, loaded):
        batch = one.sample(np.random.default_rng(0), 1, 200)
        obs, after, following = (batch[name].ravel() for name in ("obs", "next_obs", "following"))
        assert [history.steps[float(number)][0] for number in obs] == after.tolist()
        np.testing.assert_array_equal(following[obs < obs.max()], obs[obs < obs.max()] + 1)
        assert ((batch["discount"].ravel() == 0) & (after != following)).any()
    plain = Replay(environment(2), 40, GAMMA)
    History(plain, 2, 50, chance=0.4)
    plain.save(tmp_path / "plain")
    with pytest.raises(ValueError, match="last observations do not fit the ends of its episodes"):
        loaded.load(tmp_path / "plain")


def test_the_latest_transitions_are_those_of_the_last_steps():
    replay = Replay(environment(2), 40, GAMMA)
    History(replay, 2, 30)
    batch = replay.gather_latest(3)
    assert batch["obs"].ravel().tolist() == [27, 1027, 28, 1028, 29, 1029]
    assert batch["actions"].ravel().tolist() == [34, 1034, 35, 1035, 36, 1036]
    assert len(replay.gather_latest(100)["obs"]) == 40


def test_only_the_latest_are_kept():
    replay = Replay(environment(2), 10, GAMMA)
    History(replay, 2, 50)
    assert len(replay) == 10
    drawn = replay.sample(np.random.default_rng(0), 1, 500)["obs"]
    assert set(drawn.ravel().tolist()) == {*range(45, 50), *range(1045, 1050)}


@pytest.mark.parametrize(("size", "steps"), [(40, 100), (400, 20)])
@pytest.mark.parametrize("n_step", [1, 3])
def test_sequences_are_successive_steps_with_the_memory_before_the_first(size, steps, n_step):
    replay = Replay(environment(2), size, GAMMA, n_step, state_size=2)
    history = History(replay, 2, steps)
    batch = replay.sample_sequences(np.random.default_rng(0), 3, 10, 5)
    assert batch["obs"].shape == (3, 60, 1) and batch["next_rows"].shape == (3, 10, 6)
    assert batch["states"].shape == (3, 10, 2)
    batch = {name: array.reshape(30, -1) for name, array in batch.items()}
    assert (np.diff(batch["obs"], axis=1) == 1).all()
    np.testing.assert_array_equal(batch["states"][:, 0], batch["obs"][:, 0] % 1000)
    np.testing.assert_array_equal(batch["actions"][:, :5], batch["obs"][:, :5] + 7)
    assert set(batch["valid"].ravel()) == {0.0, 1.0} and not batch["valid"][:, 5].any()
    for row in range(30):
        before = history.steps.get(float(batch["obs"][row, 0]) - 1)
        assert batch["episode_start"][row, 0] == (before is None or before[1])
        for t in range(5):
            obs = float(batch["obs"][row, t])
            assert batch["episode_start"][row, t + 1] == history.steps[obs][1]
            total, discount, after = history.expected(obs, min(n_step, 5 - t))
            assert batch["rewards"][row, t] == total and batch["discount"][row, t] == discount
            # Where a time limit cut the return off, what it goes on from is not in the sequence.
            cut = discount > 0 and after % 1 == 0.5
            assert batch["valid"][row, t] == (not cut)
            assert cut or not discount or batch["obs"][row, batch["next_rows"][row, t]] == after


def test_a_sequence_is_no_longer_than_what_there_is():
    replay = Replay(environment(2), 40, GAMMA)
    History(replay, 2, 100)
    assert set(replay.sample_sequences(np.random.default_rng(0), 1, 20, 20)["obs"][0, ::21, 0]) == {80, 1080}
    with pytest.raises(ValueError, match="50 steps cannot be drawn from 20"):
        replay.sample_sequences(np.random.default_rng(0), 1, 1, 50)


def test_the_latest_are_of_the_last_steps_in_their_order():
    replay = Replay(environment(2), 10, GAMMA)

    def latest(steps):
        obs, actions = replay.latest(steps)
        np.testing.assert_array_equal(actions, obs + 7)
        return obs.ravel().tolist()

    History(replay, 2, 3)
    assert latest(2) == [1, 1001, 2, 1002]
    assert latest(9) == [0, 1000, 1, 1001, 2, 1002]
    History(replay, 2, 50)
    assert latest(2) == [48, 1048, 49, 1049]
    assert latest(9) == [time + place for time in range(45, 50) for place in (0, 1000)]


@pytest.mark.parametrize(("count", "wanted", "size"), [(3, 30, 30), (3, 31, 33), (4, 1, 8)])
def test_every_environment_has_equal_room(count, wanted, size):
    replay = Replay(environment(count), wanted, GAMMA)
    assert replay.size == size and len(replay) == 0
    History(replay, count, 50)
    assert len(replay) == size


@pytest.mark.parametrize("size", [20, 400])
def test_stacked_frames_are_kept_once_and_put_together_again(size):
    env = VecFrameStack(Pictures(), 4)
    replay = Replay(env, size)
    obs, seen, after = env.reset(), {}, {}
    for _ in range(60):
        following, rewards, dones, infos = env.step(np.zeros(2, int))
        replay.put(obs, np.zeros(2, int), rewards, following, dones, infos)
        for i in range(2):
            key = int(obs[i, 0, 0, -1])
            seen[key], after[key] = obs[i].copy(), infos[i]["final_observation"] if dones[i] else following[i].copy()
        obs = following
    batch = replay.sample(np.random.default_rng(0), 1, 300)
    for now, then in zip(batch["obs"][0], batch["next_obs"][0], strict=True):
        key = int(now[0, 0, -1])
        np.testing.assert_array_equal(now, seen[key])
        np.testing.assert_array_equal(then, after[key])
    frames = sum(array.nbytes for name, array in replay._arrays.items() if name.startswith("obs"))
    assert frames == (size // 2 + 1) * 2 * 4


def test_dictionaries_of_observations():
    space = spaces.Dict({"camera": spaces.Box(0, 255, (4, 4, 3), np.uint8), "speed": BOX})
    replay = Replay(environment(1, space), 5)
    first = {"camera": np.full((1, 4, 4, 3), 9, np.uint8), "speed": np.ones((1, 1), np.float32)}
    second = {"camera": np.full((1, 4, 4, 3), 8, np.uint8), "speed": np.zeros((1, 1), np.float32)}
    replay.put(first, np.zeros((1, 1)), np.ones(1), second, np.array([False]), [{}])
    batch = replay.sample(np.random.default_rng(0), 1, 2)
    assert batch["obs"]["camera"].dtype == np.uint8 and (batch["obs"]["camera"] == 9).all()
    assert (batch["next_obs"]["speed"] == 0).all() and batch["obs"]["speed"].shape == (1, 2, 1)


class Masked(Pictures):
    """Pictures whose infos tell the time in bits, as a mask of actions."""

    @property
    def reset_infos(self):
        return [{"action_mask": mask_at(clock)} for clock in self._clock]

    def step_wait(self):
        obs, rewards, dones, infos = super().step_wait()
        for i, clock in enumerate(self._clock):
            # Of the last observation of an episode, which shows another time, and of the next one's first.
            infos[i] |= {"action_mask": mask_at(clock + 50 * dones[i]), "reset_info": {"action_mask": mask_at(clock)}}
        return obs, rewards, dones, infos


def mask_at(clock):
    # Something is allowed at any time.
    return np.unpackbits(np.uint8(clock % 7 + 1))[-3:].astype(np.int8)


@pytest.mark.parametrize("stack", [1, 4])
def test_masks_of_actions_are_kept_beside_what_is_shown(stack):
    inner = Masked()
    env = VecActionMask(VecFrameStack(inner, stack) if stack > 1 else inner)
    replay, obs, shown = Replay(env, 400), env.reset(), {}
    for _ in range(40):
        following, rewards, dones, infos = env.step(np.zeros(2, int))
        replay.put(obs, np.zeros(2, int), rewards, following, dones, infos)
        for i in range(2):
            shown[int(obs[ONLY][i, 0, 0, -1])] = obs[ONLY][i]
        obs = following
    batch = replay.sample(np.random.default_rng(0), 1, 200)
    for name in ("obs", "next_obs"):
        pictures, masks = batch[name][ONLY][0], batch[name][MASK][0]
        assert pictures.shape == (200, 2, 2, stack) and masks.shape == (200, 3)
        np.testing.assert_array_equal(masks, [mask_at(picture[0, 0, -1]) for picture in pictures])
    for picture in batch["obs"][ONLY][0]:
        np.testing.assert_array_equal(picture, shown[int(picture[0, 0, -1])])
    assert replay.latest(3)[0][MASK].shape == (6, 3)


def test_a_million_atari_frames_fit_and_what_does_not_fit_is_refused(monkeypatch):
    env = VecFrameStack(Pictures(), 4)
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    with pytest.raises(ValueError, match="lower replay_size"):
        Replay(env, 10_000)
    assert "0.00 GiB for 100 transitions" in Replay(env, 100).describe()
    monkeypatch.undo()
    thousand = Replay(VecFrameStack(Pictures(84), 4), 1000)
    assert thousand.nbytes * 1000 < 7.2e9


@pytest.mark.parametrize("continues", [True, False])
@pytest.mark.parametrize("count", [1, 6, 7, 8, 12, 13, 14, 15, 20])
def test_a_rebuilt_replay_has_the_same_steps_in_the_same_places(count, continues):
    """Seven slots; open episodes end where the environments begin anew."""
    replay, other, again = (Replay(environment(2), 12, GAMMA, n_step=2) for _ in range(3))
    History(replay, 2, count)
    first, last = replay.span()
    middle = (first + last) // 2
    pieces = [(begin, replay.items(begin, end)) for begin, end in ((first, middle), (middle, last)) if begin < end]
    other.rebuild(replay.state(), pieces, continues)
    # All that is there once more, from a place before the oldest step.
    again.rebuild(other.state(), [(first, other.items(first, last))], True)
    rows = np.arange(2 * first, 2 * last)
    found = replay.gather(rows)
    for one in (other, again):
        assert one.span() == replay.span() and one.steps == replay.steps
        np.testing.assert_equal(one.gather(rows), found)
        with pytest.raises(UsageError, match="its files"):
            one.rebuild(replay.state(), pieces[1:] if len(pieces) > 1 else [], continues)
        assert len(one) == 0
        one.put(np.full((2, 1), 5.0), np.zeros((2, 1)), np.ones(2), np.zeros((2, 1)), np.array([False] * 2), [{}, {}])
        assert (one.gather(np.arange(2))["obs"] == 5).all() and one._arrays["episode_start"][0].all()
