"""ACKTR's options; resuming beyond the first updates."""

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ACTIONS, Guess, vec

from tfbaselines.algs import acktr
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.training.on_policy import OnPolicyRun

# Updates after which K-FAC's alone are left.
COLD = 11
TINY = {"num_hidden": 8, "seed": 0, "nsteps": 5, "is_async": False}


def fixed():
    """An environment in which nothing is random, and whose episodes end with every update."""
    return vec(lambda: tiny.FixedSequenceEnv(4, episode_len=5))


def train(directory, env=None, updates=2 * COLD, **kwargs):
    logger.configure(str(directory), ["csv"], resume=bool(kwargs.get("run") and kwargs["run"].resume))
    arguments = {**TINY, "log_interval": 1, **kwargs}
    env = env or fixed()
    steps = updates * arguments["nsteps"] * env.num_envs
    return acktr.learn("mlp", env, **{"total_timesteps": steps} | arguments)


def rows(directory):
    return read_csv(str(directory / "progress.csv")).drop(columns=["fps"])


def weights(model):
    return np.concatenate([variable.numpy().ravel() for variable in model.policy.trainable_variables])


def test_the_log_has_the_originals_columns_and_cadence(tmp_path, eager):
    train(tmp_path, updates=7, log_interval=3)
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    names = "eplenmean,eprewmean,explained_variance,fps,nupdates,policy_entropy,policy_loss,total_timesteps,value_loss"
    assert header == names
    assert rows(tmp_path)["nupdates"].tolist() == [1, 3, 6, 7]


def test_arguments_and_defaults_are_the_originals():
    names = list(acktr.Config.arguments())[:16]
    expected = "seed total_timesteps gamma log_interval nprocs nsteps ent_coef vf_coef vf_fisher_coef lr max_grad_norm"
    assert names == [*expected.split(), "kfac_clip", "save_interval", "lrschedule", "load_path", "is_async"]
    defaults = [acktr.Config.arguments()[name].default for name in names]
    assert defaults == [None, 40e6, 0.99, 100, 32, 20, 0.01, 0.5, 1.0, 0.25, 0.5, 0.001, None, "linear", None, True]
    assert acktr.Config.defaults_for("mujoco") == {"nsteps": 2500, "value_network": "copy"}
    assert acktr.Config.defaults_for("atari") == {}


def test_policies_with_memory_are_refused():
    error = r"^network='lstm' is not valid: acktr trains no recurrent policies, take ppo2"
    with pytest.raises(ValueError, match=error):
        acktr.learn("lstm", fixed(), nlstm=4)


def test_layers_without_factors_are_refused():
    def network_fn(input_shape):
        inputs = keras.Input(input_shape)
        return keras.Model(inputs, keras.layers.Embedding(4, 3)(inputs))

    error = r"^layer '.*' \(Embedding\) has no Kronecker factors: .* a2c and ppo2 take any$"
    with pytest.raises(ValueError, match=error):
        acktr.learn(lambda: network_fn, fixed(), total_timesteps=0)


@pytest.mark.parametrize("actions", ACTIONS, ids=lambda space: type(space).__name__)
def test_every_action_space_beyond_the_first_updates(actions, eager):
    env = vec(lambda: Guess(actions), 2)
    arguments = TINY | {"total_timesteps": 2 * COLD * 10}
    model = acktr.learn("mlp", env, layer_norm=True, value_network="copy", **arguments)
    assert np.isfinite(weights(model)).all()
    # Observations are 0, and so are the gradients of what multiplies them.
    assert np.mean(model.optimizer.velocity.numpy() != 0.0) > 0.8


def test_images_beyond_the_first_updates(eager):
    space = gymnasium.spaces.Box(0, 255, (20, 20, 1), np.uint8)

    class Picture(Guess):
        observation_space = space

        def _seen(self):
            return self.np_random.integers(0, 256, space.shape, np.uint8)

        def reset(self, **kwargs):
            super().reset(**kwargs)
            return self._seen(), {}

        def step(self, action):
            return self._seen(), *super().step(action)[1:]

    own = {"convs": [(4, 5, 3), (6, 3, 1)], "seed": 0, "nsteps": 5, "is_async": False}
    model = acktr.learn("conv_only", vec(lambda: Picture(ACTIONS[0])), total_timesteps=5 * (COLD + 3), **own)
    assert np.isfinite(weights(model)).all()
    assert model.optimizer.velocity.numpy().any()


def test_a_resumed_run_equals_an_uninterrupted_one(eager, tmp_path):
    whole = train(tmp_path / "whole", updates=3 * COLD)
    stop = RunOptions(callback=lambda run: run.update < 2 * COLD)
    train(tmp_path / "half", updates=3 * COLD, run=stop)
    resumed = train(
        tmp_path / "half", updates=3 * COLD, run=RunOptions(resume=str(tmp_path / "half")), **{**TINY, "seed": 99}
    )
    assert rows(tmp_path / "whole").equals(rows(tmp_path / "half"))
    np.testing.assert_equal(resumed.state(), whole.state())


@pytest.mark.parametrize("stopped", [COLD - 2, COLD - 1, COLD + 2])
def test_a_run_with_decompositions_in_the_background_resumes(tmp_path, stopped, eager):
    """Those that were under way begin again."""
    stop = RunOptions(callback=lambda run: run.update < stopped)
    train(tmp_path, is_async=True, run=stop)
    model = train(tmp_path, is_async=True, run=RunOptions(resume=str(tmp_path)))
    assert model.optimizer.step.numpy() == 2 * COLD
    assert np.isfinite(weights(model)).all() and model.optimizer.velocity.numpy().any()


def make_run(**arguments):
    config = acktr.Config.of(TINY | {"total_timesteps": 100} | arguments)
    return OnPolicyRun(acktr.ALGORITHM, "mlp", fixed(), config)


def batch(count=6):
    rng = np.random.default_rng(0)
    names = ("values", "returns", "noise")
    data = {name: tf.constant(rng.standard_normal(count), tf.float32) for name in names}
    return data | {"obs": tf.constant(rng.integers(4, size=count)), "actions": tf.constant(rng.integers(4, size=count))}


def test_the_weight_of_the_values_in_the_fisher_matrix(eager):
    """It is that of gradients, and the factor is of their squares; the policy's factors do not change."""
    found = []
    for weight in (1.0, 3.0):
        run = make_run(vf_fisher_coef=weight, value_network="copy")
        step = acktr.make_step(run)
        sizes = [size * size for size in step._factors.sizes]
        factors = np.split(step.measure(batch())[0][1].numpy(), np.cumsum(sizes)[:-1])
        layers = ((run.policy.vf_layer, 9.0), (run.policy.pi_layer, 1.0))
        found.append([(factors[step._factors.numbers_of(layer.kernel)[1]], ratio) for layer, ratio in layers])
    for (one, ratio), (three, _) in zip(*found, strict=True):
        np.testing.assert_allclose(three, ratio * one, rtol=1e-4)
    # The noise is the gradient: of each row's own likelihood it is twice that.
    np.testing.assert_allclose(found[0][0][0], np.mean(np.square(2.0 * batch()["noise"])), rtol=1e-5)


@pytest.mark.parametrize(("nprocs", "cores", "threads"), [(1, 4, 1), (32, 4, 4), (3, 4, 3)])
def test_threads(nprocs, cores, threads, monkeypatch):
    monkeypatch.setattr(acktr.mpi, "threads_for_rank", lambda comm: cores)
    assert acktr.make_step(make_run(nprocs=nprocs))._decomposer._pool._max_workers == threads


def test_options_give_other_steps(eager, tmp_path):
    def learnt(**kwargs):
        return weights(train(tmp_path, updates=COLD + 4, **kwargs))

    usual, changes = learnt(), {"kfac_clip": 1e-5, "stats_update": 3, "kfac_update": 4, "vf_fisher_coef": 0.1}
    for name, value in (changes | {"max_grad_norm": 1e-3, "lrschedule": "constant"}).items():
        assert not np.array_equal(usual, learnt(**{name: value})), name
