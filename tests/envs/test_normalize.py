import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.make import build_env, make_vec_env
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.tiny import ConstantRewardEnv, DiscreteIdentityEnv
from tfbaselines.envs.vec import DummyVecEnv


class Noisy(ConstantRewardEnv):
    """Shows numbers around 50 of deviation 4 and pays such numbers; episodes of five steps."""

    def __init__(self, seed):
        super().__init__(episode_len=5)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.reset(seed=seed)

    def _begin(self):
        return self.np_random.normal(50, 4, 2).astype(np.float32)

    def _react(self, action):
        return self._begin(), self.np_random.normal(50, 4)


def noisy(count=2, seed=0):
    return DummyVecEnv([lambda i=i: Noisy(seed + i) for i in range(count)])


def play(env, steps):
    actions = np.zeros(env.num_envs, np.int64)
    return [env.reset(), *(env.step(actions) for _ in range(steps))]


def test_observations_get_mean_0_and_deviation_1():
    env = VecNormalize(noisy())
    play(env, 400)
    later = np.concatenate([obs for obs, *_ in play(env, 400)[1:]])
    assert np.abs(later.mean(0)).max() < 0.15 and np.abs(later.std(0) - 1).max() < 0.15


def test_rewards_are_divided_by_the_deviation_of_their_discounted_sum():
    env, plain = VecNormalize(noisy(), gamma=0.5), noisy()
    sums, running = [], np.zeros(2)
    for (_, scaled, _, _), (_, rewards, dones, _) in zip(play(env, 50)[1:], play(plain, 50)[1:], strict=True):
        running = running * 0.5 + rewards
        sums.extend(running)
        running = np.where(dones, 0.0, running)
        assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, rewards / np.std(sums), rtol=1e-4)


def test_one_environment_has_the_numbers_of_the_formulas_to_the_bit():
    env, plain = VecNormalize(noisy(1), cliprew=1.5, clipob=2.0), noisy(1)
    statistics = {"ob": (np.zeros(2), np.ones(2), 1e-4), "ret": (0.0, 1.0, 1e-4)}

    def scaled(name, x, value, bound):
        """Merge a value by the formula of two samples' moments; return x scaled."""
        mean, var, count = statistics[name]
        delta, total = value - mean, count + 1
        var = (delta * delta * (count / total) + var * count) / total
        mean = mean + delta * (1 / total)
        statistics[name] = (mean, var, total)
        return np.clip((x - (mean if name == "ob" else 0.0)) / np.sqrt(var + 1e-8), -bound, bound)

    (obs, *steps), (raw, *raw_steps) = play(env, 60), play(plain, 60)
    np.testing.assert_array_equal(obs[0], scaled("ob", raw[0], raw[0], 2.0))
    total, clipped = 0.0, 0
    for (obs, rewards, _, _), (raw, raw_rewards, dones, _) in zip(steps, raw_steps, strict=True):
        total = total * 0.99 + float(raw_rewards[0])
        np.testing.assert_array_equal(obs[0], scaled("ob", raw[0], raw[0], 2.0))
        expected = np.float32(scaled("ret", float(raw_rewards[0]), total, 1.5))
        assert rewards.dtype == np.float32 and rewards[0] == expected
        clipped += expected == np.float32(1.5)
        total = 0.0 if dones[0] else total
    assert 0 < clipped < 60


def test_everything_is_clipped():
    env = VecNormalize(noisy(), clipob=0.5, cliprew=0.1)
    _, *steps = play(env, 50)
    assert max(np.abs(obs).max() for obs, *_ in steps) == 0.5
    assert max(np.abs(rewards).max() for _, rewards, *_ in steps) == np.float32(0.1)


def test_the_real_last_observation_is_scaled_as_the_others_are():
    env, plain = VecNormalize(noisy()), noisy()
    env.ret_rms.update(np.arange(3.0))
    _, *steps = play(env, 5)
    _, *raw = play(plain, 5)
    for info, own in zip(steps[-1][3], raw[-1][3], strict=True):
        expected = (own["final_observation"] - env.ob_rms.mean) / np.sqrt(env.ob_rms.var + env.epsilon)
        np.testing.assert_allclose(info["final_observation"], expected, rtol=1e-5)
        assert info["TimeLimit.truncated"]
    assert all("final_observation" not in info for info in steps[0][3])


def test_frozen_statistics_are_used_and_kept():
    trained = VecNormalize(noisy())
    play(trained, 50)
    env = VecNormalize(noisy(seed=9), training=False)
    env.restore_normalization(trained.normalization())
    first, (obs, rewards, *_) = play(env, 1)
    raw_first, (raw, raw_rewards, *_) = play(noisy(seed=9), 1)
    mean, deviation = trained.ob_rms.mean, np.sqrt(trained.ob_rms.var)
    np.testing.assert_allclose([first, obs], ([raw_first, raw] - mean) / deviation, rtol=1e-5)
    np.testing.assert_allclose(rewards, raw_rewards / np.sqrt(trained.ret_rms.var), rtol=1e-5)
    np.testing.assert_equal(env.normalization(), trained.normalization())


def test_a_restored_run_goes_on_as_the_first_would_have():
    first = VecNormalize(noisy())
    play(first, 13)
    state = first.state()
    expected = play(first, 13)
    again = VecNormalize(noisy(seed=7))
    again.restore(state)
    np.testing.assert_equal(play(again, 13), expected)


def test_saved_statistics_do_not_change_with_further_steps():
    env = VecNormalize(noisy())
    play(env, 3)
    saved = env.normalization()
    mean, count = saved["ob"]["mean"].copy(), saved["ob"]["count"]
    play(env, 3)
    np.testing.assert_array_equal(saved["ob"]["mean"], mean)
    assert saved["ob"]["count"] == count < env.ob_rms.count


def test_either_part_can_be_left_out():
    env, plain = VecNormalize(noisy(), ob=False), noisy()
    np.testing.assert_array_equal(play(env, 5)[-1][0], play(plain, 5)[-1][0])
    assert env.normalization()["ob"] is None
    env, plain = VecNormalize(noisy(), ret=False), noisy()
    np.testing.assert_array_equal(play(env, 5)[-1][1], play(plain, 5)[-1][1])
    env.restore_normalization(VecNormalize(noisy(), ob=False).normalization())
    assert env.normalization()["ret"] is None


def test_observations_that_are_no_box_are_refused():
    env = DummyVecEnv([DiscreteIdentityEnv])
    with pytest.raises(ValueError, match=r"scales Box observations, not Discrete.*use ob=False"):
        VecNormalize(env)
    assert VecNormalize(env, ob=False).reset().shape == (1,)


class TwoRanks:
    """Adds the arrays of two threads."""

    size = 2

    def __init__(self):
        self.parts, self.both = [], threading.Barrier(2, timeout=5)

    def sum(self, array):
        self.parts.append(array)
        self.both.wait()
        total = self.parts[-1] + self.parts[-2]
        self.both.wait()
        return total


def test_ranks_share_what_they_have_seen():
    ranks, together = [VecNormalize(noisy(seed=seed)) for seed in (0, 100)], VecNormalize(noisy())
    for env, seed in zip(ranks, (0, 100), strict=True):
        play(env, 6)
        first, *steps = play(noisy(seed=seed), 6)
        for obs in (first, *(step[0] for step in steps)):
            together.ob_rms.update(obs)
    assert not np.allclose(ranks[0].ob_rms.mean, ranks[1].ob_rms.mean)
    comm = TwoRanks()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda env: env.merge_statistics(comm), ranks))
    for part in ("mean", "var", "count"):
        expected = getattr(together.ob_rms, part)
        np.testing.assert_allclose([getattr(env.ob_rms, part) for env in ranks], [expected] * 2)
    assert ranks[0].ret_rms.state() == ranks[1].ret_rms.state() and ranks[0].ret_rms.count == pytest.approx(
        24, abs=1e-3
    )


def test_a_filter_of_the_users_own_is_called_and_pickles_work_as_in_baselines():
    class Doubled(VecNormalize):
        def _obfilt(self, obs):
            return 2 * obs

    plain, doubled = noisy(), Doubled(noisy())
    for ours, theirs in zip(play(plain, 3), play(doubled, 3), strict=True):
        first, second = (one[0] if isinstance(one, tuple) else one for one in (ours, theirs))
        np.testing.assert_array_equal(2 * first, second)
    env = VecNormalize(noisy())
    play(env, 6)
    statistics = pickle.loads(pickle.dumps((env.ob_rms, env.ret_rms)))
    for kept, rms in zip(statistics, (env.ob_rms, env.ret_rms), strict=True):
        np.testing.assert_array_equal(kept.mean, rms.mean)
        kept.update(np.ones((3, *rms.mean.shape)))
    cart = VecNormalize(make_vec_env("CartPole-v1", num_env=2, seed=0))
    cart.reset()
    again = pickle.loads(pickle.dumps(cart))
    for one, other in zip(cart.step(np.ones(2, int))[:3], again.step(np.ones(2, int))[:3], strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_flag_normalizes_any_environment():
    config = {"env": "Pendulum-v1", "seed": 0}
    scales = {}
    for value, kinds in {"both": "ob ret", "observations": "ob", "rewards": "ret", "none": ""}.items():
        env = build_env(config | {"normalize": value})
        scaled = {"ob": getattr(env, "ob_rms", None), "ret": getattr(env, "ret_rms", None)}
        assert {name for name, statistics in scaled.items() if statistics is not None} == set(kinds.split())
        env.reset()
        rewards = [env.step(np.zeros((1, 1), np.float32))[1][0] for _ in range(20)]
        scales[value] = np.abs(rewards).max()
        env.close()
    assert scales["both"] == scales["rewards"] < scales["none"] == scales["observations"]
    with pytest.raises(ValueError, match="normalize='both' is not valid: 'rewards' or 'none' with images"):
        build_env({"env": "tfbaselines.envs.tiny:tfbaselines/ImageClassification-v0", "normalize": "both"})
