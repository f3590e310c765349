"""GAIL's discriminator against the original's numbers: loss, gradients, steps and rewards."""

import json

import numpy as np
import pytest
from cases import cases, group, load
from gymnasium import spaces
from weights import assert_close, assert_equal, assign

from tfbaselines.demos import Demonstrations
from tfbaselines.learn.engine import gradients_of
from tfbaselines.learn.exchange import joined
from tfbaselines.rewards.learned import ADAM_EPSILON, Adversary, Discriminator

CASES = cases("gail_adversary*")


def make_adversary(arrays, hyper):
    obs, actions = arrays["exp_obs"], arrays["exp_acs"]
    shown, done = (spaces.Box(-np.inf, np.inf, array.shape[1:], np.float32) for array in (obs, actions))
    weights = group(arrays, "w0")
    discriminator = Discriminator(shown, done, next(iter(weights.values())).shape[1])
    assign(discriminator.encoder.trainable_variables, weights)
    discriminator.normalizer.update(np.concatenate([arrays["gen_obs"], obs]))
    count = len(obs)
    expert = Demonstrations(
        obs=obs,
        actions=actions,
        rewards=np.zeros(count, np.float32),
        lengths=np.array([count]),
        terminated=np.array([True]),
    )
    own = {"entcoeff": hyper["entcoeff"], "lr": hyper["d_stepsize"], "rng": np.random.default_rng(0)}
    return Adversary(discriminator, expert, done, **own)


def batch_of(arrays):
    names = {"obs": "gen_obs", "actions": "gen_acs", "expert_obs": "exp_obs", "expert_actions": "exp_acs"}
    return {name: arrays[theirs] for name, theirs in names.items()}


@pytest.mark.parametrize("case", CASES)
def test_statistics_of_observations(case):
    arrays, hyper = load(case)
    normalizer = make_adversary(arrays, hyper).discriminator.normalizer
    assert_close(normalizer.mean, arrays["obs_rms_mean"])
    assert_close(normalizer.std, arrays["obs_rms_std"])


@pytest.mark.parametrize("case", CASES)
def test_gradient(case):
    arrays, hyper = load(case)
    adversary = make_adversary(arrays, hyper)
    gradients, _ = gradients_of(lambda: adversary.loss(batch_of(arrays)), adversary.trainable_variables)
    assert_close(joined(gradients).numpy(), arrays["grad_flat_w0"])


@pytest.mark.parametrize("case", CASES)
def test_steps_losses_and_rewards(case):
    """Three steps on the same batch; the expert's rows come in another order, which no mean shows."""
    arrays, hyper = load(case)
    assert hyper["adam_epsilon"] == ADAM_EPSILON
    adversary = make_adversary(arrays, hyper)
    names, variables = json.loads(str(arrays["loss_names_json"])), adversary.trainable_variables
    obs, actions = arrays["gen_obs"], arrays["gen_acs"]
    assert_close(adversary.rewards(obs, actions), arrays["reward_w0"][:, 0])
    assert_close(adversary.rewards(obs[0], actions[0]), arrays["reward_single_w0"][0, 0])
    # The original's statistics stay as they are in between.
    adversary.discriminator.normalizer.update = lambda _: None
    for step, losses in enumerate(arrays["losses"], start=1):
        statistics = adversary.update({"obs": obs, "actions": actions})
        assert_close([statistics[name] for name in names], losses)
        if step != 2:
            assert_equal(variables, group(arrays, f"w{step}"))
    assert_close(adversary.rewards(obs, actions), arrays["reward_w3"][:, 0])
