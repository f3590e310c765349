"""bfloat16 inside networks only."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.ppo2 import learn
from tfbaselines.config.options import RunOptions
from tfbaselines.policy import layers as precision
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.layers import OPTION, compile_with_xla, set_precision
from tfbaselines.policy.policy import build_policy
from tfbaselines.training import run


class Env:
    observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = spaces.Discrete(6)
    num_envs = 1


class Steered(Env):
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Numbers(Steered):
    observation_space = spaces.Box(-3.0, 3.0, (16,), np.float32)


# Variables of the environment that keep oneDNN from computing in bfloat16.
SWITCHES = ("TF_ENABLE_ONEDNN_OPTS", "ONEDNN_MAX_CPU_ISA")


@pytest.fixture(autouse=True)
def seeded_and_back_to_float32(monkeypatch):
    monkeypatch.setattr(precision, "_flags", lambda: frozenset({"avx512_bf16"}))
    keras.utils.set_random_seed(0)
    yield
    set_precision("float32")


def test_precision_is_switched_on_and_off():
    for name, expected in (("bfloat16", True), ("float32", False)):
        set_precision(name)
        assert tf.config.optimizer.get_experimental_options()[OPTION] == expected


@pytest.mark.parametrize(
    ("flags", "used"),
    [
        ({"avx512f", "avx512_bf16"}, "bfloat16"),
        ({"avx2", "amx_bf16"}, "bfloat16"),
        ({"asimd", "bf16"}, "bfloat16"),
        # Where nothing is known it is as the user says.
        (set(), "bfloat16"),
        ({"avx2", "avx512f"}, "float32"),
    ],
)
def test_a_processor_without_bfloat16_takes_float32_and_says_so(flags, used, monkeypatch, capsys):
    monkeypatch.setattr(precision, "_flags", lambda: frozenset(flags))
    for variable in SWITCHES:
        monkeypatch.delenv(variable, raising=False)
    assert precision.available("bfloat16") == used
    assert capsys.readouterr().err.count("\n") == (used == "float32")
    assert precision.available("bfloat16", warns=False) == used
    assert precision.available("float32") == "float32"
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value", "used"),
    [
        ("TF_ENABLE_ONEDNN_OPTS", "0", "float32"),
        ("TF_ENABLE_ONEDNN_OPTS", "false", "float32"),
        ("TF_ENABLE_ONEDNN_OPTS", "1", "bfloat16"),
        ("ONEDNN_MAX_CPU_ISA", "avx2", "float32"),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_AMX", "bfloat16"),
    ],
)
def test_a_variable_that_switches_bfloat16_off_is_named(variable, value, used, monkeypatch, capsys):
    """Without oneDNN, TensorFlow computes in float32 whatever it is asked for."""
    monkeypatch.setattr(precision, "_flags", lambda: frozenset({"avx512_bf16"}))
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    assert precision.available("bfloat16") == used
    assert (f"{variable}={value}" in capsys.readouterr().err) == (used == "float32")


def test_a_run_takes_the_precision_that_is_available(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(precision, "_flags", lambda: frozenset({"avx2"}))
    monkeypatch.setattr(run, "set_precision", asked.append)
    learn("mlp", "CartPole-v1", total_timesteps=0, run=RunOptions(precision="bfloat16"))
    assert asked == ["float32"]
    assert "precision=bfloat16" in capsys.readouterr().err


def test_of_several_ranks_the_first_one_warns(monkeypatch):
    warned = []
    monkeypatch.setattr(run, "available", lambda precision, warns: warned.append(warns) or precision)
    for rank in (0, 1):
        monkeypatch.setattr(run.Run, "is_root", property(lambda run, rank=rank: rank == 0))
        learn("mlp", "CartPole-v1", total_timesteps=0)
    assert warned == [True, False]


def actor_and_critic(env=Steered, network="cnn_small", **kwargs):
    return build_actor_critic(env(), network, head=DeterministicHead, critics=2, **kwargs)


def dense_actor_and_critic(*sizes):
    return actor_and_critic(Numbers, "dense", hidden_sizes=sizes or (256, 256))


def dense_policy(units=256):
    return build_policy(Numbers(), "mlp", num_hidden=units)


BUILDS = {
    "images": lambda: build_policy(Env(), "cnn_small"),
    "images, actor and critic": actor_and_critic,
    "dense": dense_policy,
    "dense, actor and critic": dense_actor_and_critic,
}


def ask_for_bfloat16():
    """Set what a run that asks for bfloat16 gets on this machine; whether it is bfloat16."""
    used = precision.available("bfloat16", warns=False)
    set_precision(used)
    return used == "bfloat16"


def observations(policy, rows=64):
    space = policy.observation_space
    rng = np.random.default_rng(0)
    if space.dtype == np.uint8:
        return rng.integers(0, 255, (8, *space.shape)).astype(np.uint8)
    return rng.normal(size=(rows, *space.shape)).astype(np.float32)


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_what_is_computed_from_outputs_is_float32(build):
    """A difference from a number of more than eight bits would be rounded with it."""
    ask_for_bfloat16()
    policy = build()

    @tf.function
    def advantage(obs):
        outputs = policy.forward(obs)
        return (3.14159 + 1e-4 * outputs.value) - 3.0, tf.reduce_mean(outputs.flat * 0.3333)

    outputs = policy.forward(observations(policy))
    seen, mean = advantage(observations(policy))
    np.testing.assert_allclose(seen, 0.14159 + 1e-4 * outputs.value, atol=1e-4)
    assert tf.cast(tf.cast(mean, tf.bfloat16), tf.float32) != mean


def rounded(x):
    """The share of numbers that bfloat16 holds exactly."""
    return np.mean(tf.cast(tf.cast(x, tf.bfloat16), tf.float32) == x)


def test_dense_networks_compute_in_bfloat16_outside_xla():
    """A processor without its instructions computes in float32, to the last bit."""
    policy = dense_policy()
    obs = observations(policy)
    forward = tf.function(lambda obs: policy.forward(obs).value)
    exact = forward(obs).numpy()
    narrow = ask_for_bfloat16()
    outputs = {xla: tf.function(lambda obs: policy.forward(obs).value, jit_compile=xla)(obs) for xla in (False, True)}
    error = np.abs(outputs[False] - exact).max()
    assert error > 1e-4 if narrow else error == 0
    np.testing.assert_allclose(outputs[False], exact, atol=0.05)
    np.testing.assert_allclose(outputs[True], exact, atol=1e-5)


def test_the_losses_of_dense_critics_and_their_gradients_are_float32():
    """Values and targets a hundred apart from zero differ by less than bfloat16 resolves there."""
    ask_for_bfloat16()
    policy = dense_actor_and_critic()
    for critic in policy.critics:
        critic.layer.bias.assign([100.0])

    @tf.function
    def critic_loss(obs, actions):
        q, *_ = policy.q(policy.view(obs), actions)
        with tf.GradientTape() as tape:
            tape.watch(q)
            error = q - 100.1
            loss = tf.reduce_mean(tf.square(error))
        return q, error, tape.gradient(loss, q)

    rng = np.random.default_rng(1)
    q, error, gradient = critic_loss(observations(policy), rng.uniform(-1, 1, (64, 2)).astype(np.float32))
    np.testing.assert_allclose(error, q - 100.1, atol=1e-4)
    np.testing.assert_allclose(gradient, 2 * error / 64, rtol=1e-5)
    assert rounded(error) < 0.5 and rounded(gradient) < 0.5


def test_gradients_of_dense_networks_are_near_those_in_float32():
    policy = dense_actor_and_critic()
    obs = observations(policy, rows=256)

    def gradients():
        @tf.function
        def compiled(obs):
            with tf.GradientTape() as tape:
                view = policy.view(obs)
                q, *_ = policy.q(view, policy.head.mode(policy.act(view)))
                loss = -tf.reduce_mean(q)
            return tape.gradient(loss, [variable.value for variable in policy.acting_variables])

        return [gradient.numpy() for gradient in compiled(obs)]

    exact = gradients()
    narrow = ask_for_bfloat16()
    for ours, expected in zip(gradients(), exact, strict=True):
        error = np.linalg.norm(ours - expected)
        # Rounding moves some units over the edge of their ReLU.
        assert 0 < error < 0.15 * np.linalg.norm(expected) if narrow else error == 0


@pytest.mark.parametrize(
    ("build", "float32", "bfloat16"),
    [
        (BUILDS["images"], False, False),
        (BUILDS["images, actor and critic"], False, False),
        (lambda: dense_policy(64), True, True),
        (lambda: dense_policy(255), True, True),
        (lambda: dense_policy(256), True, False),
        (lambda: dense_actor_and_critic(64, 64), True, True),
        (lambda: dense_actor_and_critic(64, 256), True, False),
        (lambda: build_policy(Numbers(), "lstm", nlstm=256), True, True),
    ],
)
def test_xla_compiles_what_it_does_not_slow_down(build, float32, bfloat16):
    policy = build()
    assert compile_with_xla(policy) == float32
    set_precision("bfloat16")
    assert compile_with_xla(policy) == bfloat16


def test_small_batches_of_wide_layers_are_compiled_with_xla():
    set_precision("bfloat16")
    assert [compile_with_xla(dense_policy(256), rows) for rows in (64, 255, 256, 1024)] == [True, True, False, False]
    assert [compile_with_xla(dense_policy(512), rows) for rows in (63, 64)] == [True, False]
    assert not compile_with_xla(build_policy(Env(), "cnn_small"), 1)


def test_tile_products_pay_from_fewer_units(monkeypatch):
    monkeypatch.setattr(precision, "_flags", lambda: frozenset({"amx_bf16"}))
    assert compile_with_xla(dense_policy(256))
    set_precision("bfloat16")
    assert [compile_with_xla(dense_policy(units), 1) for units in (127, 128)] == [True, False]


def test_the_widest_layer_is_found_in_any_network():
    assert dense_policy(64).widest_dense == 64
    assert build_policy(Numbers(), "mlp", "dense", num_hidden=8).widest_dense == 256
    assert dense_actor_and_critic(8, 300, 9).widest_dense == 300
    assert build_policy(Env(), "cnn").widest_dense == 512
