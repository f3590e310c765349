"""Spinning Up's functions with an actor_critic of the user's own."""

import re
from types import SimpleNamespace

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from small_runs import weights

from tfbaselines.compat import spinup
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.errors import UsageError

SIZES = (8, 6)
SHORT = {"steps_per_epoch": 8, "epochs": 2, "max_ep_len": 4}
LEARNERS = {"train_v_iters": 3, **SHORT}
OFF_POLICY = {"start_steps": 4, "update_after": 4, "update_every": 4, "batch_size": 8, "num_test_episodes": 1}
ARGUMENTS = {
    "vpg": LEARNERS,
    "trpo": LEARNERS,
    "ppo": LEARNERS | {"train_pi_iters": 3},
    "ddpg": OFF_POLICY | SHORT,
    "td3": OFF_POLICY | SHORT,
    "sac": OFF_POLICY | SHORT,
}


def env():
    return tiny.BoxIdentityEnv((2,), episode_len=8)


def mlp(inputs, width, activation, last=None):
    x = inputs[0] if len(inputs) == 1 else keras.layers.Concatenate()(inputs)
    for size in SIZES:
        x = keras.layers.Dense(size, activation)(x)
    return keras.Model(inputs if len(inputs) > 1 else inputs[0], keras.layers.Dense(width, last)(x))


class Scaled(keras.layers.Layer):
    """The action in the units of its space."""

    def __init__(self, space):
        super().__init__()
        self.center, self.limit = (space.high + space.low) / 2, (space.high - space.low) / 2

    def call(self, x):
        return self.center + self.limit * x


def networks(observation_space, action_space, kind, start=()):
    """Spinning Up's networks; `start` has their first weights."""
    obs, action = (keras.Input(space.shape) for space in (observation_space, action_space))
    n = action_space.shape[0]
    activation = "tanh" if kind in ("vpg", "trpo", "ppo") else "relu"
    if kind in ("ddpg", "td3"):
        pi = mlp([obs], n, activation, "tanh")
        pi = keras.Model(pi.inputs, Scaled(action_space)(pi.outputs[0]))
    else:
        pi = mlp([obs], 2 * n if kind == "sac" else n, activation)
    names = {"ddpg": ["q"], "td3": ["q1", "q2"], "sac": ["q1", "q2"]}.get(kind, ["v"])
    others = {name: mlp([obs] if name == "v" else [obs, action], 1, activation) for name in names}
    made = SimpleNamespace(pi=pi, **others)
    start = list(start)
    for model in (pi, *others.values()):
        if start:
            model.set_weights([start.pop(0) for _ in model.get_weights()])
    return made


def usual_start(model):
    """First weights of the usual networks, by model of the user's own: the log standard deviation is no part of it."""
    policy = model.policy
    if hasattr(policy, "critics"):
        return [variable.numpy() for variable in policy.trainable_variables]
    pi = [*policy.network.trainable_variables, *policy.pi_layer.trainable_variables]
    return [variable.numpy() for variable in (*pi, *policy.value_variables)]


@pytest.mark.parametrize("kind", list(ARGUMENTS))
def test_the_same_networks_give_the_same_numbers(kind, eager, tmp_path, capsys):
    call = getattr(spinup, kind)
    activation = "tanh" if kind in ("vpg", "trpo", "ppo") else "relu"
    usual = {"ac_kwargs": {"hidden_sizes": SIZES, "activation": activation}}

    def run(directory, **given):
        arguments = {
            name: value for name, value in ARGUMENTS[kind].items() if "total_timesteps" not in given or name != "epochs"
        }
        return call(env, seed=3, logger_kwargs={"output_dir": str(tmp_path / directory)}, **arguments | given)

    first = run("first", **usual, total_timesteps=0)
    start = usual_start(first)
    whole = run("whole", **usual)
    shown = re.search("Number of parameters: .*", capsys.readouterr().out)[0]
    own = {"actor_critic": networks, "ac_kwargs": {"kind": kind, "start": start}}
    model = run("own", **own)
    out, err = capsys.readouterr()
    assert re.search("Number of parameters: .*", out)[0] == shown
    assert "actor_critic is a function" in out + err
    np.testing.assert_allclose(sorted(weights(model.policy)), sorted(weights(whole.policy)), atol=2e-6)
    assert np.abs(np.sort(weights(model.policy)) - np.sort(weights(first.policy))).max() > 1e-4
    # Saved, loaded and resumed.
    model.save(tmp_path / "model")
    loaded = run("loaded", **own, total_timesteps=0)
    loaded.load(tmp_path / "model")
    obs = env().observation_space.sample()
    for one in (loaded, whole):
        np.testing.assert_allclose(
            one.act(obs, deterministic=True)[0], model.act(obs, deterministic=True)[0], atol=1e-5
        )
    options = RunOptions(resume=str(tmp_path / "own"))
    epochs = {"total_timesteps": 24} if kind == "ddpg" else {"epochs": 3}
    longer = run("own", **own, run=options, **epochs)
    assert np.abs(weights(longer.policy) - weights(model.policy)).max() > 1e-5


def test_choices_and_a_log_deviation_of_the_network(eager, tmp_path):
    def run(call, make_env, actor_critic, **given):
        return call(make_env, actor_critic, logger_kwargs={"output_dir": str(tmp_path / "run")}, **given)

    def choices(observation_space, action_space):
        obs = keras.Input(observation_space.shape)
        return SimpleNamespace(**{name: mlp([obs], 2, "tanh") for name in ("pi", "q1", "q2")}, v=mlp([obs], 1, "tanh"))

    def cart_pole():
        return gymnasium.make("CartPole-v1")

    for kind in ("ppo", "sac"):
        model = run(getattr(spinup, kind), cart_pole, choices, **ARGUMENTS[kind])
        assert model.act(np.zeros(4, np.float32))[0] in (0, 1)

    def wide(observation_space, action_space):
        obs = keras.Input(observation_space.shape)
        return SimpleNamespace(pi=mlp([obs], 4, "tanh"), v=mlp([obs], 1, "tanh"))

    model = run(spinup.ppo, env, wide, **ARGUMENTS["ppo"])
    assert model.policy.logstd is None
    flat = model.policy.forward(tf.zeros((1, 2))).flat
    np.testing.assert_allclose(flat, model.policy.network(tf.zeros((1, 2))), rtol=1e-6)


def test_what_does_not_fit_is_named(tmp_path):
    obs, action = keras.Input((2,)), keras.Input((2,))
    good = SimpleNamespace(pi=mlp([obs], 2, "tanh"), v=mlp([obs], 1, "tanh"), q=mlp([obs, action], 1, "relu"))

    def refused(kind, given, make_env=env):
        with pytest.raises(UsageError) as error:
            actor_critic = given if isinstance(given, int) else lambda *_: given
            logs = {"output_dir": str(tmp_path / kind)}
            getattr(spinup, kind)(make_env, actor_critic, logger_kwargs=logs, **ARGUMENTS[kind])
        assert "\n" not in str(error.value)
        return str(error.value)

    def without(**changed):
        return SimpleNamespace(**vars(good) | changed)

    assert "a function of observation space and action space" in refused("vpg", 3)
    assert "a Keras model 'v', not none" in refused("vpg", SimpleNamespace(pi=good.pi))
    assert "a Keras model 'q', not int" in refused("ddpg", without(q=3))
    assert "a Keras model 'q1', not none" in refused("td3", good)
    assert "its pi returns (3,), this space needs (2,) or (4,)" in refused("ppo", without(pi=mlp([obs], 3, "tanh")))
    assert "its pi returns (2,), this space needs (4,)" in refused("sac", without(q1=good.q, q2=good.q))
    assert "its v returns (2,), this space needs (1,)" in refused("trpo", without(v=mlp([obs], 2, "tanh")))
    five = keras.Input((5,))
    assert "its pi takes (5,), this space needs observations (2,)" in refused("vpg", without(pi=mlp([five], 2, "tanh")))
    assert "this space needs actions (2,)" in refused("ddpg", without(q=mlp([obs, five], 1, "relu")))
    assert "this space needs actions (2,)" in refused("ddpg", without(q=mlp([obs], 1, "relu")))
    image = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    seen = gymnasium.wrappers.TransformObservation(env(), lambda _: image.sample(), image)
    assert "it takes vectors or choices" in refused("vpg", good, lambda: seen)
