"""PPO2's memory, images, and arguments."""

from functools import partial

import numpy as np
import pytest
from helpers import reward_per_step, vec
from small_environments import identity

from tfbaselines.algs import ppo2
from tfbaselines.algs.ppo2.microbatched import MicrobatchedModel
from tfbaselines.envs import tiny
from tfbaselines.logs import logger

TINY = {"nsteps": 16, "nminibatches": 2, "noptepochs": 2, "num_hidden": 8, "seed": 0}


@pytest.mark.slow
def test_fixed_sequence_with_memory():
    """Observations tell nothing: without memory it is 0.4."""
    env = vec(lambda: tiny.FixedSequenceEnv(4, episode_len=5), 4)
    arguments = {"nsteps": 10, "nminibatches": 1, "lr": 1e-2, "gamma": 0.9, "nlstm": 16, "max_total_reward": 4.5}
    model = ppo2.learn("lstm", env, 12_000, seed=0, **arguments)
    assert reward_per_step(model, env) >= 0.8


@pytest.mark.slow
def test_image_classification():
    """Without a bonus for entropy about one seed in thirty stays with fewer classes than there are."""
    env = vec(lambda: tiny.ImageClassificationEnv(episode_len=100))
    model = ppo2.learn(
        "cnn", env, 6_000, seed=0, gamma=0.9, ent_coef=0.01, nsteps=100, nminibatches=4, noptepochs=2, lr=1e-3
    )
    assert reward_per_step(model, env, steps=300) >= 0.6


def train(directory, env=None, total_timesteps=320, **kwargs):
    logger.configure(str(directory), ["csv"], resume=bool(kwargs.get("run") and kwargs["run"].resume))
    return ppo2.learn("mlp", env or identity(), total_timesteps, **{**TINY, "log_interval": 1, **kwargs})


def test_the_log_has_the_originals_columns(eager, tmp_path):
    train(tmp_path, eval_env=identity())
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert header == (
        "eplenmean,eprewmean,eval_eplenmean,eval_eprewmean,fps,loss/approxkl,loss/clipfrac,loss/policy_entropy,"
        "loss/policy_loss,loss/value_loss,misc/explained_variance,misc/nupdates,misc/serial_timesteps,"
        "misc/time_elapsed,misc/total_timesteps"
    )


def test_rates_follow_their_schedules():
    seen = []

    class Recording(ppo2.Model):
        def train(self, lr, cliprange, *args, **kwargs):
            seen.append((lr, cliprange))
            return super().train(lr, cliprange, *args, **kwargs)

    rates = {"lr": lambda fraction: fraction, "cliprange": "linear_0.5"}
    ppo2.learn("mlp", identity(), 64, model_fn=Recording, **rates, **TINY)
    per_update = TINY["nminibatches"] * TINY["noptepochs"]
    assert len(seen) == 4 * per_update
    np.testing.assert_allclose(seen[::per_update], [(1, 0.5), (0.75, 0.375), (0.5, 0.25), (0.25, 0.125)])


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_a_model_of_the_users_own_trains_as_the_built_in_one(network, eager):
    """model_fn goes minibatch by minibatch through train(); the numbers are those of the one compiled phase."""
    kwargs = {**TINY, **({"nlstm": 4} if network == "lstm" else {"num_hidden": 8})}
    if network == "lstm":
        del kwargs["num_hidden"]
    fused = ppo2.learn(network, identity(2), 128, **kwargs)
    stepped = ppo2.learn(network, identity(2), 128, model_fn=ppo2.Model, **kwargs)
    for one, other in zip(fused.policy.trainable_variables, stepped.policy.trainable_variables, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_microbatches_take_the_step_of_their_minibatch(eager):
    """Where no gradient is clipped, the mean over parts is the whole; clipping is done to each part."""
    kwargs = TINY | {"num_hidden": 8, "max_grad_norm": None, "seed": 1}

    def trained(**own):
        return ppo2.learn("mlp", identity(2), 64, **(kwargs | own)).policy.trainable_variables

    parts = partial(MicrobatchedModel, microbatch_size=4)
    whole, parted, clipped = trained(), trained(model_fn=parts), trained(model_fn=parts, max_grad_norm=1e-3)
    for one, other in zip(whole, parted, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)
    assert not np.allclose(parted[0].numpy(), clipped[0].numpy(), atol=1e-5)
    for size in (0, 5, 1000):
        with pytest.raises(ValueError, match=r"microbatch_size=.* a divisor of the"):
            trained(model_fn=partial(MicrobatchedModel, microbatch_size=size))
    with pytest.raises(ValueError, match="recurrent"):
        ppo2.learn("lstm", identity(2), 64, model_fn=parts, nlstm=4, nsteps=16, nminibatches=2)


def test_functions_are_called(eager):
    calls = []
    ppo2.learn("mlp", identity(), 48, init_fn=lambda: calls.append("init"), update_fn=calls.append, **TINY)
    assert calls == ["init", 1, 2, 3]


def test_recurrent_minibatches_are_whole_environments():
    with pytest.raises(ValueError, match="divisor of the 3 envs"):
        ppo2.learn("lstm", identity(3), 48, nsteps=16, nminibatches=2, nlstm=4)
