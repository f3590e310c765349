"""What is drawn from the replay is what happened, told by a plain list of steps."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.envs.vec import VecEnvWrapper, VecFrameStack
from tfbaselines.experience import memory
from tfbaselines.experience.replay import Replay

GAMMA = 0.5
BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)


def environment(count=3, obs=BOX, action=BOX):
    return SimpleNamespace(num_envs=count, observation_space=obs, action_space=action)


class History:
    """Steps of several environments whose observations all differ, in a replay and in a list."""

    def __init__(self, replay, count, steps, seed=0, chance=0.2):
        self.replay, self.steps = replay, {}
        rng = np.random.default_rng(seed)
        obs = (1000.0 * np.arange(count, dtype=np.float32))[:, None]
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
    rows = (batch[name].reshape(40, -1)[:, 0] for name in ("obs", "actions", "rewards", "discounts", "next_obs"))
    for obs, action, reward, weight, after in zip(*rows, strict=True):
        total, expected_weight, expected_after = history.expected(float(obs), n_step)
        assert action == obs + 7
        assert reward == pytest.approx(total) and weight == pytest.approx(expected_weight)
        # After a true end the next observation counts for nothing.
        assert weight == 0 or after == expected_after


def test_only_the_latest_are_kept():
    replay = Replay(environment(2), 10, GAMMA)
    History(replay, 2, 50)
    assert len(replay) == 10
    drawn = replay.sample(np.random.default_rng(0), 1, 500)["obs"]
    assert set(drawn.ravel().tolist()) == {*range(45, 50), *range(1045, 1050)}


def test_sequences_are_successive_steps_with_the_memory_before_the_first():
    replay = Replay(environment(2), 40, GAMMA, state_size=2)
    history = History(replay, 2, 100)
    batch = replay.sample_sequences(np.random.default_rng(0), 1, 30, 5)
    obs = batch["obs"][0, :, :, 0]
    assert obs.shape == (30, 6) and (np.diff(obs, axis=1) == 1).all()
    np.testing.assert_array_equal(batch["states"][0, :, 0], obs[:, 0] % 1000)
    for row in range(30):
        for t in range(5):
            _, done, cut = history.steps[float(obs[row, t])]
            assert (batch["ended"][0, row, t], batch["cut"][0, row, t]) == (done and not cut, cut)
            assert batch["first"][0, row, t + 1] == done
    with pytest.raises(ValueError, match="50 steps cannot be drawn from 20"):
        replay.sample_sequences(np.random.default_rng(0), 1, 1, 50)


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


def drawn(replay):
    batch = replay.sample(np.random.default_rng(3), 1, 50)
    return {name: array.tolist() for name, array in batch.items()}


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


def test_a_smaller_one_takes_the_latest_and_others_are_refused(tmp_path):
    replay, smaller = Replay(environment(), 30, GAMMA), Replay(environment(), 12, GAMMA)
    history = History(replay, 3, 57)
    replay.save(tmp_path / "replay")
    smaller.load(tmp_path / "replay")
    batch = smaller.sample(np.random.default_rng(0), 1, 200)
    assert len(smaller) == 12 and batch["obs"].min() >= 53
    for obs, weight, after in zip(
        batch["obs"][0, :, 0], batch["discounts"][0], batch["next_obs"][0, :, 0], strict=True
    ):
        _, expected, then = history.expected(float(obs), 1)
        assert weight == expected and (weight == 0 or after == then)
    with pytest.raises(ValueError, match="of other environments"):
        Replay(environment(2), 30).load(tmp_path / "replay")
    with pytest.raises(ValueError, match="not a saved replay"):
        replay.load(tmp_path / "nothing")


def test_a_million_atari_frames_fit_and_what_does_not_fit_is_refused(monkeypatch):
    env = VecFrameStack(Pictures(), 4)
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    with pytest.raises(ValueError, match="lower buffer_size"):
        Replay(env, 10_000)
    assert "0.00 GiB for 100 transitions" in Replay(env, 100).describe()
    monkeypatch.undo()
    thousand = Replay(VecFrameStack(Pictures(84), 4), 1000)
    assert thousand.nbytes * 1000 < 7.2e9
