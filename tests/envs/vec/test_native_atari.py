"""What is the native way's own; that it plays as the wrappers do is in tests/envs/test_atari.py."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.monitor import ResultsWriter, load_results
from tfbaselines.envs.vec.native_atari import NativeAtariVecEnv


def play(env, steps, seed=0):
    rng = np.random.default_rng(seed)
    return [env.reset(), *(env.step(rng.integers(env.action_space.n, size=env.num_envs)) for _ in range(steps))]


def shown(results):
    first, *steps = results
    return [first, *(step[0] for step in steps)]


def test_spaces_and_types():
    env = NativeAtariVecEnv("pong", 2, seed=0)
    assert env.observation_space == spaces.Box(0, 255, (84, 84, 1), np.uint8) and env.action_space.n == 6
    first, (obs, rewards, dones, infos) = play(env, 1)
    assert first.shape == obs.shape == (2, 84, 84, 1) and first.dtype == obs.dtype == np.uint8
    assert rewards.dtype == np.float32 and dones.dtype == bool and infos == [{}, {}]
    copy = first.copy()
    play(env, 2)
    np.testing.assert_array_equal(first, copy)
    env.close(), env.close()


def test_games_begin_after_noops_that_depend_on_the_seed():
    once, again, other = (shown(play(NativeAtariVecEnv("space_invaders", 2, seed), 3)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)
    assert len({frames.tobytes() for frames in np.swapaxes(once, 0, 1)}) > 1
    none, neither = (shown(play(NativeAtariVecEnv("space_invaders", 1, seed, noop_max=0), 3)) for seed in (0, 1))
    np.testing.assert_array_equal(none, neither)


def test_the_random_stream_is_saved_and_restored():
    env = NativeAtariVecEnv("pong", 2, seed=0)
    env.reset()
    state = pickle.loads(pickle.dumps(env.state()))
    expected = shown(play(env, 10))
    other = NativeAtariVecEnv("pong", 2, seed=5)
    other.restore(state)
    np.testing.assert_array_equal(shown(play(other, 10)), expected)


def test_a_lost_life_ends_an_episode_and_the_file_has_whole_games(tmp_path):
    writers = [ResultsWriter(tmp_path / str(i), header={"t_start": 0.0, "env_id": "b"}) for i in range(2)]
    env = NativeAtariVecEnv("breakout", 2, 0, writers=writers, max_frames=900)
    _, *steps = play(env, 500)
    env.close()
    lives, games = 0, []
    for _, rewards, dones, infos in steps:
        assert set(rewards.tolist()) <= {-1.0, 0.0, 1.0}
        for done, info in zip(dones, infos, strict=True):
            assert ("final_observation" in info) == ("TimeLimit.truncated" in info) == bool(done)
            lives += bool(done)
            if "episode" in info:
                games.append(info["episode"])
                assert done and info["TimeLimit.truncated"] == (info["episode"]["l"] >= 900 / 4)
    assert lives > 3 * len(games) > 6
    rows = load_results(tmp_path)
    assert sorted(rows["r"]) == sorted(game["r"] for game in games)
    assert sorted(rows["l"]) == sorted(game["l"] for game in games) and rows["t"].is_monotonic_increasing
    assert all(writer._file.closed for writer in writers)


@pytest.mark.parametrize(("limits", "lengths"), [((7, None), [7, 7]), ((1, None), [3] * 10), ((None, 0.0), [3] * 10)])
def test_games_are_cut_at_a_length_and_at_a_return(limits, lengths):
    """FIRE and the action after it count as steps, and a game is not cut before the agent's first one."""
    env = NativeAtariVecEnv("pong", 1, 0)
    env.limit_episodes(*limits)
    _, *steps = play(env, 10)
    ended = [infos[0] for _, _, dones, infos in steps if dones[0]]
    assert [info["episode"]["l"] for info in ended] == lengths and all(info["TimeLimit.truncated"] for info in ended)
    env.close()


def test_rewards_are_the_games_own_when_asked():
    clipped, own = (NativeAtariVecEnv("space_invaders", 1, 0, clip_rewards=clip) for clip in (True, False))
    pairs = [(a[1][0], b[1][0]) for a, b in zip(play(clipped, 200)[1:], play(own, 200)[1:], strict=True)]
    assert max(b for _, b in pairs) >= 5 and all(a == np.sign(b) for a, b in pairs)


def test_pictures_are_what_the_agent_sees():
    env = NativeAtariVecEnv("pong", 2, seed=0)
    obs = env.reset()
    np.testing.assert_array_equal(env.get_images(), np.repeat(obs, 3, axis=-1))
    assert env.render(mode="rgb_array").shape == (168, 84, 3)


@pytest.mark.parametrize("game", ["pong", "breakout"])
def test_no_episode_begins_with_a_frame_of_the_last_one(game):
    env = NativeAtariVecEnv(game, 1, 0, noop_max=0, max_frames=200)
    first, *steps = play(env, 110)
    begun = [obs for obs, _, dones, infos in steps if dones[0] and infos[0]["TimeLimit.truncated"]]
    assert len(begun) >= 2 and all(np.array_equal(obs, first) for obs in begun)
