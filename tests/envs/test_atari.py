import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.atari import (
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    FrameStack,
    LazyFrames,
    MaxAndSkipEnv,
    NoopResetEnv,
    ScaledFloatFrame,
    WarpFrame,
    make_atari,
    wrap_deepmind,
)
from tfbaselines.envs.make import make_env
from tfbaselines.envs.vec import DummyVecEnv
from tfbaselines.envs.vec.native_atari import NativeAtariVecEnv
from tfbaselines.envs.wrappers import TimeLimit


class Game(gymnasium.Env):
    """Frame t is full of t, but only its even frames at the left; lives are lost at given times, with the last all."""

    action_space = spaces.Discrete(4)
    observation_space = spaces.Box(0, 255, (4, 6, 3), np.uint8)

    def __init__(self, losses=(100,), meanings=("NOOP", "FIRE", "RIGHT", "LEFT")):
        self._losses, self._meanings, self.ale, self.played = losses, meanings, self, []

    def lives(self):
        return sum(self._t < loss for loss in self._losses)

    def get_action_meanings(self):
        return list(self._meanings)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        self.played.append("reset")
        return self._frame(), {}

    def step(self, action):
        self._t += 1
        self.played.append(int(action))
        return self._frame(), self._t / 2, self.lives() == 0, False, {}

    def _frame(self):
        frame = np.full(self.observation_space.shape, self._t, np.uint8)
        frame[:, :3] *= self._t % 2 == 0
        return frame


def played_by_reset(env, **kwargs):
    """What a reset did to the game."""
    env.unwrapped.played.clear()
    env.reset(**kwargs)
    return list(env.unwrapped.played)


def test_noops_at_the_start_are_random_and_seeded():
    env = NoopResetEnv(Game(), noop_max=5)
    counts = [len(played_by_reset(env, seed=seed)) - 1 for seed in range(40)]
    assert set(counts) == {1, 2, 3, 4, 5}
    assert [len(played_by_reset(env, seed=seed)) - 1 for seed in range(40)] == counts
    assert played_by_reset(env) == ["reset"] + [0] * env.unwrapped._t


def test_noops_can_be_given_or_left_out():
    env = NoopResetEnv(Game(losses=(4,)), noop_max=0)
    assert played_by_reset(env) == ["reset"]
    env.override_num_noops = 5
    assert played_by_reset(env) == ["reset", 0, 0, 0, 0, "reset", 0]


def test_fire_is_pressed_at_the_start():
    assert played_by_reset(FireResetEnv(Game())) == ["reset", 1, 2]
    assert played_by_reset(FireResetEnv(Game(losses=(2,)))) == ["reset", 1, 2, "reset"]
    with pytest.raises(ValueError, match="needs a game with FIRE as action 1"):
        FireResetEnv(Game(meanings=("NOOP", "UP", "DOWN")))


def test_a_lost_life_ends_the_episode_but_not_the_game():
    env = EpisodicLifeEnv(Game(losses=(2, 5, 7)))
    assert played_by_reset(env) == ["reset"]
    assert [env.step(3)[2:4] for _ in range(2)] == [(False, False), (True, False)]
    assert played_by_reset(env) == [0]
    assert [env.step(3)[2] for _ in range(2)] == [False, True]
    assert played_by_reset(env) == [0]
    assert env.step(3)[2] and env.was_real_done
    assert played_by_reset(env) == ["reset"]


def test_a_seed_begins_a_new_game():
    env = EpisodicLifeEnv(Game(losses=(2, 5)))
    env.reset()
    env.step(0), env.step(0)
    assert played_by_reset(env, seed=1) == ["reset"]


def test_the_game_may_end_in_the_step_between_two_lives():
    env = EpisodicLifeEnv(Game(losses=(1, 2)))
    env.reset()
    assert env.step(3)[2] and not env.was_real_done
    assert played_by_reset(env) == [0, "reset"]


def test_a_time_limit_is_no_lost_life():
    env = EpisodicLifeEnv(TimeLimit(Game(losses=(2, 9)), 2))
    env.reset()
    env.step(0)
    assert env.step(0)[2:4] == (False, True) and env.was_real_done


def test_actions_are_repeated_and_the_last_two_frames_are_merged():
    env = MaxAndSkipEnv(Game(losses=(6,)), skip=4)
    env.reset()
    obs, reward, terminated, *_ = env.step(3)
    assert env.unwrapped.played == ["reset", 3, 3, 3, 3]
    assert (obs == 4).all() and reward == 0.5 + 1 + 1.5 + 2 and not terminated
    obs, reward, terminated, *_ = env.step(2)
    assert (obs == 6).all() and reward == 2.5 + 3 and terminated


def test_rewards_become_their_sign():
    assert [ClipRewardEnv(Game()).reward(reward) for reward in (-3.5, 0, np.float32(0.25))] == [-1.0, 0.0, 1.0]


def test_frames_shrink_to_grey_or_to_colour():
    env = WarpFrame(Game(), width=2, height=1)
    env.reset()
    obs = env.step(0)[0]
    assert obs.shape == env.observation_space.shape == (1, 2, 1) and obs.dtype == np.uint8
    assert obs.ravel().tolist() == [0, 1]
    colour = WarpFrame(Game(), width=3, height=2, grayscale=False)
    assert colour.reset()[0].shape == colour.observation_space.shape == (2, 3, 3)
    weights = WarpFrame(Game()).observation(np.full((4, 6, 3), [100, 0, 0], np.uint8))
    assert (weights == 30).all() and weights.shape == (84, 84, 1)


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 1)])
@pytest.mark.parametrize("grayscale", [True, False])
def test_grey_frames_stay_grey(shape, grayscale):
    class Grey(Game):
        observation_space = spaces.Box(0, 255, shape, np.uint8)

    env = WarpFrame(Grey(), width=3, height=2, grayscale=grayscale)
    obs = env.reset()[0]
    assert obs.shape == env.observation_space.shape == (2, 3, 1) and env.observation_space.contains(obs)


def test_the_latest_frames_are_stacked_and_share_memory():
    env = FrameStack(MaxAndSkipEnv(Game(), skip=1), 3)
    first, _ = env.reset()
    assert isinstance(first, LazyFrames) and len(first) == 4
    assert first.count() == 9 and (first.frame(4) == np.asarray(first)[..., 4]).all()
    second, third = env.step(0)[0], env.step(0)[0]
    assert env.observation_space.shape == np.asarray(third).shape == (4, 6, 9)
    assert np.asarray(third, np.float32)[0, 5, ::3].tolist() == [0.0, 1.0, 2.0]
    assert third[0, 5, ::3].tolist() == [0, 1, 2]
    assert second._frames[2] is third._frames[1]


def test_pixels_become_floats():
    env = ScaledFloatFrame(Game())
    env.reset()
    obs = env.step(0)[0]
    assert obs.dtype == np.float32 and env.observation_space.contains(obs) and obs.max() == np.float32(1 / 255)


def test_deepmind_options():
    options = {"episode_life": False, "clip_rewards": False, "frame_stack": True, "scale": True}
    env = wrap_deepmind(Game(losses=(1, 9)), **options)
    assert np.asarray(env.reset()[0]).shape == (84, 84, 4)
    obs, reward, terminated, *_ = env.step(0)
    assert reward == 1.5 and not terminated and 0 < np.max(obs) < 1
    names = str(wrap_deepmind(Game(meanings=("NOOP", "UP", "DOWN"))))
    assert "FireResetEnv" not in names and "EpisodicLifeEnv" in names and "FrameStack" not in names


def test_make_atari_wants_no_frame_skip_and_takes_a_limit():
    with pytest.raises(ValueError, match="use PongNoFrameskip-v4"):
        make_atari("ALE/Pong-v5")
    env = make_atari("PongNoFrameskip-v4", max_episode_steps=2)
    env.reset()
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    with pytest.raises(ValueError, match="unknown environment 'PogNoFrameskip-v4'"):
        make_atari("PogNoFrameskip-v4")


def test_games_are_registered_for_whoever_asks_first():
    line = "from tfbaselines.common.atari_wrappers import make_atari; print(make_atari('PongNoFrameskip-v4').spec.id)"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    # Nor is there ALE's banner.
    assert done.stdout == "PongNoFrameskip-v4\n" and done.stderr == ""


def one_by_one(env_id, **kwargs):
    """One game behind the wrappers, without no-ops at its start."""
    env = make_env(env_id, "atari", seed=0, **kwargs)
    wrapper = env
    while not isinstance(wrapper, NoopResetEnv):
        wrapper = wrapper.env
    wrapper.override_num_noops = 0
    return env


def compare(wrapped, native, steps):
    """Play the same actions in both; the infos of the games that ended."""
    rng, games = np.random.default_rng(0), []
    np.testing.assert_array_equal(wrapped.reset(), native.reset())
    for step in range(steps):
        actions = rng.integers(wrapped.action_space.n, size=1)
        (*results, (info,)), (*others, (other,)) = wrapped.step(actions), native.step(actions)
        np.testing.assert_equal(others, results, err_msg=f"step {step}")
        assert other.get("TimeLimit.truncated") == info.get("TimeLimit.truncated")
        episode, others_episode = info.pop("episode", {}), other.pop("episode", {})
        assert [episode.get(key) for key in "rl"] == [others_episode.get(key) for key in "rl"]
        if episode:
            # A game that ends within a frame skip: what its last frame is merged with differs.
            games.append(episode | {"truncated": info["TimeLimit.truncated"]})
        elif results[-1][0]:
            np.testing.assert_array_equal(other["final_observation"], info["final_observation"])
    return games


@pytest.mark.parametrize(
    ("env_id", "rom", "steps", "games"),
    [("Pong", "pong", 900, 1), ("Breakout", "breakout", 600, 4), ("SpaceInvaders", "space_invaders", 1000, 2)],
)
def test_both_ways_play_the_same_game(env_id, rom, steps, games):
    wrapped = DummyVecEnv([lambda: one_by_one(f"{env_id}NoFrameskip-v4")])
    assert len(compare(wrapped, NativeAtariVecEnv(rom, 1, noop_max=0), steps)) == games


@pytest.mark.parametrize("frames", [401, 430])
def test_both_ways_cut_games_off_alike_and_obey_the_same_options(frames):
    options = {"episode_life": False, "clip_rewards": False}
    kwargs = {"env_kwargs": {"max_num_frames_per_episode": frames}, "wrapper_kwargs": options}
    wrapped = DummyVecEnv([lambda: one_by_one("BreakoutNoFrameskip-v4", **kwargs)])
    games = compare(wrapped, NativeAtariVecEnv("breakout", 1, noop_max=0, max_frames=frames, **options), 250)
    assert [(game["l"], game["truncated"]) for game in games] == [(-(-frames // 4), True)] * 2
