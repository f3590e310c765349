"""The rules of the tiny environments, and with them what a perfect policy earns."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tfbaselines.envs import tiny


def episode(env, act, seed=0):
    """Return, length, kind of end and observations of an episode with act(observation, time)."""
    obs, _ = env.reset(seed=seed)
    shown, total = [obs], 0.0
    while True:
        obs, reward, terminated, truncated, _ = env.step(act(obs, len(shown) - 1))
        shown.append(obs)
        total += reward
        if terminated or truncated:
            return total, len(shown) - 1, "terminated" if terminated else "truncated", shown


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", tiny.ENVIRONMENTS)
def test_it_is_a_proper_environment(name):
    env = gymnasium.make(f"tfbaselines/{name}-v0")
    assert type(env.unwrapped) is tiny.ENVIRONMENTS[name]
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", sorted(set(tiny.ENVIRONMENTS) - {"NaN", "Crashing"}))
def test_equal_seeds_give_equal_episodes(name):
    env = gymnasium.make(f"tfbaselines/{name}-v0").unwrapped
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(100)]
    first, again = (episode(env, lambda _, t: actions[t]) for _ in range(2))
    np.testing.assert_equal(first, again)


def test_a_module_is_imported_by_its_name_from_the_command_line():
    code = "import gymnasium; print(gymnasium.make('tfbaselines.envs.tiny:tfbaselines/SparseMaze-v0').unwrapped)"
    assert "SparseMazeEnv" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", ["DiscreteIdentity", "MultiDiscreteIdentity", "MultiBinaryIdentity", "BoxIdentity"])
def test_identity_pays_for_repeating_what_is_shown(name):
    env = tiny.ENVIRONMENTS[name](episode_len=20)
    perfect = 0.0 if name == "BoxIdentity" else 20.0
    total, length, end, shown = episode(env, lambda obs, _: obs)
    assert (total, length, end) == (perfect, 20, "terminated")
    assert len({str(obs) for obs in shown}) > 2
    assert episode(env, lambda _, t: shown[0])[0] < perfect


def test_partly_right_answers():
    bits, point, numbers = tiny.MultiBinaryIdentityEnv(4), tiny.BoxIdentityEnv((2,)), tiny.MultiDiscreteIdentityEnv()
    wanted = bits.reset(seed=0)[0]
    assert bits.step(np.where(np.arange(4) < 1, 1 - wanted, wanted))[1] == 0.75
    wanted = point.reset(seed=0)[0]
    assert point.step(wanted + np.array([1.0, 2.0], np.float32))[1] == pytest.approx(-2.5, rel=1e-5)
    wanted = numbers.reset(seed=0)[0]
    assert numbers.step((wanted + np.arange(2)) % 3)[1] == 0.0


def test_fixed_sequence_is_the_same_in_every_episode_and_unseen():
    env = tiny.FixedSequenceEnv()
    found = []
    for _ in range(env.episode_len):
        scores = [episode(env, lambda _, t, a=a: [*found, a, 0, 0, 0, 0][t], seed=a)[0] for a in range(10)]
        found.append(int(np.argmax(scores)))
    total, length, end, shown = episode(env, lambda _, t: found[t], seed=123)
    assert (total, length, end, set(shown)) == (5.0, 5, "terminated", {0})


def test_the_cue_is_shown_once_and_asked_for_last():
    env = tiny.CueMemoryEnv(n_cues=3, episode_len=4)
    cues = set()
    for seed in range(20):
        cue = int(np.argmax(env.reset(seed=seed)[0]))
        total, length, end, shown = episode(env, lambda _, t, cue=cue: cue if t == 3 else 0, seed)
        assert (total, length, end) == (1.0, 4, "terminated")
        assert shown[0][cue] == 1 and all(obs.tolist() == [0, 0, 0, 1] for obs in shown[1:])
        assert episode(env, lambda _, t, cue=cue: (cue + 1) % 3 if t == 3 else cue, seed)[0] == 0.0
        cues.add(cue)
    assert cues == {0, 1, 2}


@pytest.mark.parametrize("continuous", [False, True])
def test_target_is_a_few_steps_away(continuous):
    env = tiny.Target1DEnv(continuous, episode_len=8)
    towards = (lambda obs, _: obs[:1]) if continuous else (lambda obs, _: int(obs[0] > 0))
    away = (lambda obs, _: -obs[:1]) if continuous else (lambda obs, _: int(obs[0] < 0))
    there_and_back = (lambda _, t: [1.0 - 2 * (t % 2)]) if continuous else (lambda _, t: t % 2)
    goals = set()
    for seed in range(6):
        total, length, end, shown = episode(env, towards, seed)
        assert total == pytest.approx(0.6) and (length, end) == (5, "terminated")
        assert episode(env, away, seed)[0] == pytest.approx(-1.4)
        total, length, end, _ = episode(env, there_and_back, seed)
        assert total == pytest.approx(-0.8) and (length, end) == (8, "truncated")
        goals.add(float(shown[0][0]))
    assert goals == {-1.0, 1.0}


def test_pictures_can_be_told_apart_in_spite_of_the_noise():
    env = tiny.ImageClassificationEnv(episode_len=30)
    means = env._pictures + 27
    nearest = lambda obs, _: int(np.abs(means - obs).sum((1, 2, 3)).argmin())
    total, length, end, shown = episode(env, nearest)
    assert (total, length, end) == (30.0, 30, "terminated")
    assert shown[0].shape == (36, 36, 1) and not np.array_equal(shown[0], shown[1])


def test_the_maze_pays_at_the_far_corner_only():
    env = tiny.SparseMazeEnv(size=3, episode_len=10)
    total, length, end, shown = episode(env, lambda _, t: [1, 3][t % 2])
    assert (total, length, end) == (1.0, 4, "terminated")
    assert [room.tolist() for room in shown] == [[0, 0], [1, 0], [1, 1], [2, 1], [2, 2]]
    total, length, end, shown = episode(env, lambda _, t: [0, 2][t % 2])
    assert (total, length, end) == (0.0, 10, "truncated") and not np.any(shown)


def test_constant_reward_is_cut_off_not_ended():
    assert episode(tiny.ConstantRewardEnv(7), lambda *_: 0)[:3] == (7.0, 7, "truncated")


def test_the_broken_ones_break_when_they_should():
    env = tiny.NaNEnv(after=3)
    env.reset()
    assert [bool(np.isnan(env.step(0)[0]).any()) for _ in range(4)] == [False, False, True, True]
    env = tiny.CrashingEnv(after=3)
    env.reset()
    env.step(0), env.step(0)
    with pytest.raises(RuntimeError, match="the simulator gave up"):
        env.step(0)


def test_a_point_is_where_it_moved_and_is_paid_for_being_near_its_goal():
    env = tiny.PointReachEnv()
    straight = lambda obs, _: (obs["desired_goal"] - obs["achieved_goal"]) / env.STEP
    total, length, end, shown = episode(env, straight)
    assert (length, end) == (15, "truncated")
    assert -10 <= total < 0
    *_, last = shown
    np.testing.assert_allclose(last["observation"], last["desired_goal"], atol=1e-5)
    moves = np.diff([obs["achieved_goal"] for obs in shown], axis=0)
    assert np.abs(moves).max() == pytest.approx(env.STEP, rel=1e-4)
    # Step by step, the rewards are those that compute_reward gives for all at once.
    achieved, desired = (np.array([obs[f"{name}_goal"] for obs in shown[1:]]) for name in ("achieved", "desired"))
    assert env.compute_reward(achieved, desired, {}).sum() == total
    assert episode(env, lambda obs, _: np.zeros(2, np.float32))[0] == -15
    assert env.step(np.zeros(2))[-1] == {"is_success": False}
