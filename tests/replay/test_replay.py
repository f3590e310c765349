"""What is drawn from the replay is what happened, told by a plain list of steps."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines import files as memory
from tfbaselines.envs.vec import VecEnvWrapper, VecFrameStack
from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.envs.vec.packed import MASK, VecActionMask
from tfbaselines.errors import UsageError
from tfbaselines.replay import Replay

GAMMA = 0.5
BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)


def environment(count=3, obs=BOX, action=BOX):
    return SimpleNamespace(num_envs=count, observation_space=obs, action_space=action)


class History:
    """Steps of several environments whose observations all differ, in a replay and in a list."""

    def __init__(self, replay, count, steps, seed=0, chance=0.2, start=0):
        self.replay, self.steps = replay, {}
        rng = np.random.default_rng(seed)
        obs = (start + 1000.0 * np.arange(count, dtype=np.float32))[:, None]
        for t in range(steps):
            dones, cut = rng.random(count) < chance, rng.random(count) < 0.5
            following, final = obs + 1, obs + 0.5
            infos = [
                {"TimeLimit.truncated": bool(cut[i]), "final_observation": final[i]} if dones[i] else {}
                for i in range(count)
            ]
            replay.put(obs, obs + 7, obs[:, 0], following, dones, infos, states=np.full((count, 2), t, np.float32))
            for i in range(count):
                after = float(final[i, 0] if dones[i] else following[i, 0])
                self.steps[float(obs[i, 0])] = (after, bool(dones[i]), bool(dones[i] and cut[i]))
            obs = following

    def expected(self, obs, n_step):
        """Return, weight and observation after up to n_step steps from one."""
        total, weight = 0.0, 1.0
        for _ in range(n_step):
            after, done, cut = self.steps[obs]
            total += weight * obs
            weight = 0.0 if done and not cut else weight * GAMMA
            if done or after not in self.steps:
                break
            obs = after
        return total, weight, after


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


class Pictures(VecEnvWrapper):
    """Two environments whose single frames count up."""

    def __init__(self, size=2):
        space = spaces.Box(0, 255, (size, size, 1), np.uint8)
        self.venv, self.num_envs, self.observation_space, self.action_space = None, 2, space, spaces.Discrete(3)
        self._clock = np.array([0, 100])

    def reset(self):
        return self._frames()

    def step_wait(self):
        self._clock += 1
        dones = self._clock % 7 == 3
        infos = [{"TimeLimit.truncated": True, "final_observation": frame + 50} for frame in self._frames()]
        return self._frames(), np.zeros(2, np.float32), dones, infos

    def step_async(self, actions):
        pass

    def _frames(self):
        return np.broadcast_to(self._clock[:, None, None, None], (2, *self.observation_space.shape)).astype(np.uint8)


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


def drawn(replay):
    batch = replay.sample(np.random.default_rng(3), 1, 50)
    # Row numbers are counted anew after loading.
    return {name: array.tolist() for name, array in batch.items() if name != "rows"}


@pytest.mark.parametrize("steps", [4, 57])
def test_saved_and_loaded_it_is_the_same(steps, tmp_path):
    replay, other = (Replay(environment(), 30, GAMMA, n_step=2) for _ in range(2))
    History(replay, 3, steps)
    replay.save(tmp_path / "replay")
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay")
    assert len(other) == len(replay) and drawn(other) == drawn(replay)
    assert [path.name for path in tmp_path.iterdir()] == ["replay"]
    History(other, 3, 40, seed=1)
    assert len(other) == 30


def test_row_numbers_lead_to_their_transitions_again():
    replay = Replay(environment(3), 30, GAMMA, n_step=2)
    History(replay, 3, 57)
    batch = replay.sample(np.random.default_rng(0), 4, 5)
    again = replay.gather(batch["rows"].ravel())
    for name, array in again.items():
        np.testing.assert_array_equal(batch[name].reshape(array.shape), array)
    np.testing.assert_array_equal(batch["rows"] // 3 + 1000 * (batch["rows"] % 3), batch["obs"][..., 0])
    History(replay, 3, 1, start=7000)
    assert replay.sample(np.random.default_rng(0), 4, 500)["rows"].min() == 48 * 3


@pytest.mark.parametrize("names", [("camera", "speed"), ("front camera", "arm/speed"), (ONLY,)])
def test_dictionaries_of_any_names_are_saved_and_loaded(names, tmp_path):
    env = environment(1, spaces.Dict(dict.fromkeys(names, BOX)))
    replay, other = Replay(env, 5), Replay(env, 5)
    obs, following, final = ({name: np.full((1, 1), t, np.float32) for name in names} for t in range(3))
    infos = [{"TimeLimit.truncated": True, "final_observation": {name: part[0] for name, part in final.items()}}]
    replay.put(obs, np.zeros((1, 1)), np.ones(1), following, np.array([True]), infos)
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay")
    for one in (replay, other):
        batch = one.sample(np.random.default_rng(0), 1, 3)
        assert {name: part.ravel().tolist() for name, part in batch["obs"].items()} == dict.fromkeys(names, [0] * 3)
        assert {name: part.ravel().tolist() for name, part in batch["next_obs"].items()} == dict.fromkeys(
            names, [2] * 3
        )


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_after_loading_the_environments_begin_anew(chance, tmp_path):
    replay, other = (Replay(environment(2), 60, GAMMA, n_step=3) for _ in range(2))
    history = History(replay, 2, 20, chance=chance)
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay")
    history.steps |= History(other, 2, 6, chance=0.0, start=5000).steps
    batch = other.sample(np.random.default_rng(0), 1, 400)
    seen = {name: batch[name].reshape(400, -1)[:, 0] for name in ("obs", "rewards", "discount", "next_obs")}
    assert {19.0, 1019.0, 5000.0, 6005.0} < set(seen["obs"])
    for obs, total, discount, after in zip(*seen.values(), strict=True):
        # What was going on is cut: the last observation is known, and that of the next episode does not follow it.
        expected, weight, then = history.expected(float(obs), 3)
        assert (total, discount) == (expected, weight) and (not discount or after == then)
    batch = other.sample_sequences(np.random.default_rng(0), 1, 400, 3)
    obs, masks, weights = (batch[name].reshape(400, 4) for name in ("obs", "episode_start", "valid"))
    assert np.all(masks[np.isin(obs, [0, 1000, 5000, 6000])] == 1)
    assert chance or not masks[~np.isin(obs, [0, 1000, 5000, 6000])].any()
    assert chance or not weights[np.isin(obs, [19, 1019])].any()


def test_after_loading_stacked_frames_begin_anew(tmp_path):
    env = VecFrameStack(Pictures(), 4)
    replay, other = Replay(env, 400), Replay(env, 400)
    for each in (replay, other):
        obs = env.reset()
        for _ in range(5):
            following, rewards, dones, infos = env.step(np.zeros(2, int))
            each.put(obs, np.zeros(2, int), rewards, following, dones, infos)
            obs = following
        if each is replay:
            last = following
            replay.save(tmp_path / "replay")
            other.load(tmp_path / "replay")
    batch = other.sample(np.random.default_rng(0), 1, 300)
    shown, then = (batch[name][0] for name in ("obs", "next_obs"))
    for i in range(2):
        before = shown[..., -1] == last[i, ..., -1] - 1
        np.testing.assert_array_equal(then[before[:, 0, 0]][0], last[i])
    begun = shown[..., 0, 0, -1] == last[0, 0, 0, -1]
    np.testing.assert_array_equal(shown[begun][0], np.concatenate([0 * last[0, ..., :3], last[0, ..., 3:]], -1))


def test_a_smaller_one_takes_the_latest_and_others_are_refused(tmp_path):
    replay, smaller = Replay(environment(), 30, GAMMA), Replay(environment(), 12, GAMMA)
    history = History(replay, 3, 57)
    replay.save(tmp_path / "replay")
    smaller.load(tmp_path / "replay")
    batch = smaller.sample(np.random.default_rng(0), 1, 200)
    assert len(smaller) == 12 and batch["obs"].min() >= 53
    for obs, weight, after in zip(batch["obs"][0, :, 0], batch["discount"][0], batch["next_obs"][0, :, 0], strict=True):
        _, expected, then = history.expected(float(obs), 1)
        assert weight == expected and (weight == 0 or after == then)
    with pytest.raises(ValueError, match="of other environments"):
        Replay(environment(2), 30).load(tmp_path / "replay")
    with pytest.raises(ValueError, match="not a saved replay"):
        replay.load(tmp_path / "nothing")


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
