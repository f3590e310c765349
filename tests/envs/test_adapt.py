"""Whatever a user trains on becomes a VecEnv, and learn takes it."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit
from small_runs import network_of, small, steps_of_update

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli.command_line import parse
from tfbaselines.cli.stored import env_config
from tfbaselines.config.algorithm import takes
from tfbaselines.envs import tiny
from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import DummyVecEnv


def cartpole():
    return gymnasium.make("CartPole-v1")


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (cartpole, 1),
        (cartpole(), 1),
        ("CartPole-v1", 1),
        ("gymnasium.envs.classic_control:CartPole-v1", 1),
        ([cartpole, cartpole], 2),
        (lambda: DummyVecEnv([cartpole]), 1),
        (gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync"), 3),
        (gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="async"), 2),
        (DummyVecEnv([cartpole]), 1),
    ],
    ids=[
        "function",
        "environment",
        "id",
        "module and id",
        "functions",
        "function of a VecEnv",
        "sync",
        "async",
        "VecEnv",
    ],
)
def test_everything_becomes_a_vec_env(given, count):
    env = as_vec_env(given, seed=1)
    assert env.num_envs == count and env.reset().shape == (count, 4)
    infos = [env.step(np.zeros(count, np.int64))[3] for _ in range(30)]
    if not isinstance(given, DummyVecEnv) and count > 1:
        # Monitored, though nobody asked for it.
        assert any("episode" in info for of_step in infos for info in of_step)


def test_one_seed_gives_one_course_and_each_environment_its_own():
    def course(seed):
        return as_vec_env([cartpole, cartpole], seed).reset()

    np.testing.assert_array_equal(as_vec_env(cartpole(), 3).reset(), as_vec_env(cartpole(), 3).reset())
    np.testing.assert_array_equal(course(3), course(3))
    assert not np.array_equal(course(3), course(4)) and not np.array_equal(*course(3))


def test_actions_are_clipped_and_observations_flattened():
    class Strict(gymnasium.Env):
        observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
        action_space = spaces.Box(-1.0, 1.0, (1,))

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"a": np.zeros(2, np.float32), "b": 1}, {}

        def step(self, action):
            assert action in self.action_space
            return {"a": np.zeros(2, np.float32), "b": 1}, 0.0, False, False, {}

    env = as_vec_env(Strict())
    assert env.reset().shape == (1, 5)
    env.step(np.array([[1.57]], np.float32))
    assert isinstance(as_vec_env(Strict(), flatten=False).observation_space, spaces.Dict)


def test_wrappers_that_are_there_are_not_added_again():
    monitored = Monitor(cartpole(), None)
    env = as_vec_env(monitored)
    assert env.envs[0] is monitored
    # The seed begins an episode, which is not over when the first reset begins another.
    assert as_vec_env(Monitor(cartpole(), None), seed=1).reset().shape == (1, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "env='int' is not valid: a VecEnv, a Gymnasium environment, an id, a function"),
        (None, "env=None is not valid"),
        ([], r"env=\[\] is not valid"),
        ([cartpole, 3], r"env=\[...\] has int where it needs functions that make environments"),
        (["CartPole-v1"] * 2, r"env=\[...\] has str where it needs functions that make environments"),
        (lambda: 3, "env='int' is not valid: a function that makes a Gymnasium environment"),
        ("CartPol-v1", "did you mean 'CartPole-v1'"),
    ],
)
def test_anything_else_is_refused_in_one_line(given, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as error:
        as_vec_env(given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("alg", ["a2c", "ddpg"])
def test_learn_takes_an_environment_and_one_for_tests(alg, eager):
    def make():
        return tiny.DiscreteIdentityEnv(3, episode_len=5) if alg == "a2c" else tiny.BoxIdentityEnv((1,), episode_len=5)

    env, tests = make(), {"num_test_episodes": 2} if alg == "ddpg" else {}
    steps = 2 * steps_of_update(alg, 1, small(alg))
    model = get(alg).learn(network_of(alg), env, **small(alg) | {"total_timesteps": steps, "eval_env": make()} | tests)
    assert model.act(env.reset()[0])[0].shape == env.action_space.shape


def test_ends_that_a_monitor_inside_of_a_time_limit_does_not_see_are_seen():
    inside = TimeLimit(Monitor(tiny.ConstantRewardEnv(100), None, allow_early_resets=True), 3)
    env = as_vec_env(inside)
    env.reset()
    *_, infos = [env.step(np.zeros(1, np.int64)) for _ in range(3)][-1]
    assert (infos[0]["episode"]["r"], infos[0]["episode"]["l"]) == (3.0, 3)
    outside = Monitor(TimeLimit(tiny.ConstantRewardEnv(100), 3), None)
    assert sum(isinstance(layer, Monitor) for layer in layers(as_vec_env(outside).envs[0])) == 1


def layers(env):
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env


@pytest.mark.parametrize("alg", ["ppo2", "acktr", "sac"])
def test_an_id_gets_what_the_command_line_gives_it(alg):
    """VecNormalize where the command line has it, and the defaults for MuJoCo and for the network."""

    @takes(get(alg))
    def learn(network, env, **arguments):
        """Return what arrives."""
        return env, {name: value for name, value in arguments.items() if name != "run"}

    args = parse({"alg": alg, "env": "InvertedPendulum-v5", "network": "mlp"}, ALGORITHMS)
    env, arguments = learn("mlp", "InvertedPendulum-v5", gamma=0.5, eval_env="InvertedPendulum-v5")
    tests = arguments.pop("eval_env")
    assert arguments == args.learn | {"gamma": 0.5}
    assert isinstance(env, VecNormalize) == isinstance(tests, VecNormalize) == env_config(args)["normalize"]
    assert alg == "sac" or (env.training and not tests.training)
    made = learn("mlp", lambda: gymnasium.make("InvertedPendulum-v5"), gamma=0.5)
    assert not isinstance(made[0], VecNormalize) and made[1] == {"gamma": 0.5}


class Clock(gymnasium.Env):
    """Shows and pays the time; environment i ends its episodes after i + 2 steps, by itself or by a time limit."""

    observation_space = spaces.Dict(time=spaces.Box(0, 99, (1,), np.float32), kind=spaces.Discrete(3))
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, i):
        self.i = i

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.show(), {"begun": self.i}

    def step(self, action):
        assert action in self.action_space
        self.time += 1
        over = self.time == self.i + 2
        return self.show(), float(self.time), over and self.i != 1, over and self.i == 1, {"time": self.time}

    def show(self):
        return {"time": np.full(1, self.time, np.float32), "kind": self.i}


CLOCKS = [lambda i=i: Clock(i) for i in range(3)]


def course(env, steps=12):
    """What comes of some steps, without the clock of the episodes."""
    course = [(env.reset(), env.reset_infos)]
    for _ in range(steps):
        obs, rewards, dones, infos = env.step(np.full((3, 1), 1.5, np.float32))
        infos = [info | {"episode": info["episode"] | {"t": 0}} if "episode" in info else info for info in infos]
        course.append((obs, rewards, dones, infos))
    return course


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("kind", [gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv])
@pytest.mark.parametrize("flatten", [True, False])
def test_a_wrapped_vector_environment_has_the_course_of_its_environments(mode, kind, flatten):
    wrapped = gymnasium.wrappers.vector.TransformReward(kind(CLOCKS, autoreset_mode=mode), lambda reward: reward)
    env = as_vec_env(wrapped, flatten=flatten)
    np.testing.assert_equal(course(env), course(as_vec_env(CLOCKS, flatten=flatten)))
    env.close()


def test_where_a_step_begins_the_episode_it_is_one_of_a_step_that_does_not_count():
    env = as_vec_env(gymnasium.make_vec("CartPole-v1", num_envs=2), seed=1)
    obs, before = env.reset(), np.zeros(2, bool)
    ended = 0
    for _ in range(60):
        old = obs
        obs, rewards, dones, infos = env.step(np.zeros(2, np.int64))
        for i in range(2):
            if before[i]:
                assert dones[i] and rewards[i] == 0.0 and "episode" not in infos[i]
                assert infos[i]["TimeLimit.truncated"] and np.array_equal(infos[i]["final_observation"], old[i])
                assert np.abs(obs[i]).max() < 0.05
            elif dones[i]:
                ended += 1
                assert infos[i]["episode"]["r"] == infos[i]["episode"]["l"] > 5 and rewards[i] == 1.0
                assert np.array_equal(infos[i]["final_observation"], obs[i]) and not infos[i]["TimeLimit.truncated"]
        before = dones & ~before
    assert ended > 8


@pytest.mark.parametrize("alg", ["ppo2", "sac"])
def test_learn_takes_a_native_vector_environment(alg, eager, capsys):
    env = gymnasium.make_vec("CartPole-v1", num_envs=2)
    steps = 2 * steps_of_update(alg, 2, small(alg))
    model = get(alg).learn(network_of(alg), env, **small(alg) | {"total_timesteps": steps})
    assert model.act(env.reset()[0])[0].shape == (2,)
    assert capsys.readouterr().err.count("cannot be saved: a resumed run begins other episodes") == 1
