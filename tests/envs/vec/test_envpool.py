"""EnvPool's environments, by their ids and as a user makes them."""

import gymnasium
import numpy as np
import pytest

from tfbaselines.algs import get
from tfbaselines.envs import env_type_of
from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.envs.make import build_env, make_vec_env
from tfbaselines.envs.monitor import load_results
from tfbaselines.envs.vec import envpool as ours
from tfbaselines.errors import UsageError

envpool = pytest.importorskip("envpool")


def pool(env_id, **kwargs):
    return envpool.make(env_id, env_type="gymnasium", seed=3, num_threads=1, **{"num_envs": 2} | kwargs)


def play(env, steps):
    """Take random steps; yield their results."""
    env.action_space.seed(0)
    for _ in range(steps):
        yield env.step(np.array([env.action_space.sample() for _ in range(env.num_envs)]))


def test_an_episode_ends_in_its_step_with_its_own_last_observation(tmp_path, capsys):
    # EnvPool alone begins the next episode one step later; its observations there are the first ones.
    env = make_vec_env("CartPole-v1", num_env=3, seed=5, worker="envpool", env_threads=1, logger_dir=str(tmp_path))
    assert "cannot be saved" in capsys.readouterr().err
    raw = pool("CartPole-v1", num_envs=3)
    obs, lengths, ended = env.reset(), np.zeros(3, int), []
    assert obs.shape == (3, 4) and raw.reset()[0].dtype == obs.dtype
    for obs, rewards, dones, infos in play(env, 400):
        lengths += 1
        assert (rewards == 1).all() and rewards.dtype == np.float32
        for i in np.flatnonzero(dones):
            last = infos[i]["final_observation"]
            # The pole fell, or the cart left: the limits of CartPole.
            assert abs(last[0]) > 2.4 or abs(last[2]) > 0.209
            assert not infos[i]["TimeLimit.truncated"]
            assert np.abs(obs[i]).max() <= 0.05
            assert infos[i]["episode"]["l"] == infos[i]["episode"]["r"] == lengths[i]
            ended.append(int(lengths[i]))
            lengths[i] = 0
    env.close()
    written = load_results(tmp_path)
    assert len(ended) > 30 and sorted(written["l"]) == sorted(ended)


def test_time_limits_truncate_and_seeds_choose_the_episodes():
    firsts = []
    for seed in (1, 1, 2):
        env = make_vec_env("Pendulum-v1", num_env=2, seed=seed, worker="envpool", env_kwargs={"max_episode_steps": 7})
        firsts.append(env.reset())
        ends = [(dones, infos) for _, _, dones, infos in play(env, 21) if dones.any()]
        assert len(ends) == 3 and all(dones.all() for dones, _ in ends)
        assert all(info["TimeLimit.truncated"] and info["episode"]["l"] == 7 for _, infos in ends for info in infos)
        # A longer limit changes nothing; a shorter one is refused.
        env.limit_episodes(7)
        with pytest.raises(UsageError, match="max_ep_len=6"):
            env.limit_episodes(6)
        env.close()
    np.testing.assert_array_equal(firsts[0], firsts[1])
    assert not np.array_equal(firsts[0], firsts[2]) and not np.array_equal(*firsts[0])


def test_observations_of_every_form():
    for env_id, shape, dtype in (
        ("CheetahRun-v1", (17,), np.float64),
        ("LunarLander-v3", (8,), np.float32),
        ("FrozenLake-v1", (), np.int64),
        ("FetchReach-v4", (16,), np.float64),
    ):
        env = build_env({"env": env_id, "worker": "envpool", "num_env": 2, "seed": 0, "normalize": False})
        assert env.reset().shape == (2, *shape) and env.observation_space.shape == shape
        assert env.unwrapped.observation_space.dtype == dtype
        *_, (obs, rewards, _, _) = play(env, 3)
        assert obs.shape == (2, *shape) and np.isfinite(rewards).all()
        env.close()
    # False bounds are infinite.
    lander = make_vec_env("LunarLander-v3", worker="envpool").observation_space
    assert not np.isfinite(lander.low).any() and not np.isfinite(lander.high).any()
    assert env_type_of("CheetahRun-v1") == ("mujoco", "CheetahRun-v1")


def test_a_games_monitor_counts_the_whole_game(tmp_path):
    env = build_env({"env": "BreakoutNoFrameskip-v4", "worker": "envpool", "seed": 0}, logger_dir=str(tmp_path))
    assert env.reset().shape == (1, 84, 84, 4)
    ends, games = 0, []
    for _, rewards, dones, infos in play(env, 500):
        assert set(rewards) <= {-1.0, 0.0, 1.0}
        ends += dones[0]
        games += [info["episode"] for info in infos if "episode" in info]
    # Five lives in a game.
    assert games and 5 * len(games) <= ends < 5 * (len(games) + 1)
    assert list(load_results(tmp_path)["l"]) == [game["l"] for game in games]


def test_learn_takes_what_envpool_makes():
    given = pool("CartPole-v1")
    model = get("ppo2").module.learn("mlp", given, total_timesteps=64, nsteps=16, num_hidden=8, seed=0)
    assert model.act(np.zeros((1, 4), np.float32))[0].shape == (1,)
    # Through a wrapper of Gymnasium, the step after an episode's end is one of its own.
    wrapped = as_vec_env(gymnasium.wrappers.vector.RecordEpisodeStatistics(pool("CartPole-v1")))
    wrapped.reset()
    assert any("episode" in info for *_, infos in play(wrapped, 60) for info in infos)


def test_what_cannot_be_made_is_one_line(monkeypatch):
    for env_id, kwargs, text in (
        ("HalfCheeta-v5", {}, "unknown environment"),
        ("CheetahRun-v1", {"worker": None}, "is one of EnvPool, not of Gymnasium: --worker=envpool"),
        ("GymV21Environment-v0", {}, "EnvPool has no environment 'GymV21Environment-v0'"),
        ("CartPole-v1", {"env_kwargs": {"gravity_": 1}}, "env_kwargs="),
        ("CartPole-v1", {"wrapper": "a:B"}, "EnvPool's environments take no wrapper"),
        ("CartPole-v1", {"reward_scale": 2.0}, "EnvPool's environments take no reward_scale"),
    ):
        with pytest.raises(UsageError) as error:
            make_vec_env(env_id, **{"worker": "envpool"} | kwargs)
        assert text in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(UsageError, match="batch_size=1 is not valid"):
        as_vec_env(pool("CartPole-v1", batch_size=1))
    with pytest.raises(UsageError, match="env_type='gymnasium'"):
        as_vec_env(envpool.make("CartPole-v1", env_type="dm", num_envs=1))
    monkeypatch.setattr(ours.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs the package envpool.*pip install \"tfbaselines\[envpool\]\""):
        make_vec_env("CartPole-v1", worker="envpool")
