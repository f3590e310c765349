"""Weights, targets, statistics and noise of baselines' ddpg, and of Spinning Up's."""

import re

import numpy as np
import pytest
import tensorflow as tf
from cases import cases, group, load
from gymnasium import spaces
from weights import assert_close, assert_equal, assign, in_golden_order

from tfbaselines.algs import ddpg
from tfbaselines.algs.ddpg.exploration import reference_statistics
from tfbaselines.algs.ddpg.loss import ReturnStatistics
from tfbaselines.learn.exchange import joined
from tfbaselines.learn.optimizers import with_targets
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.networks import dense, mlp
from tfbaselines.policy.noise import AdaptiveParamNoiseSpec, NormalActionNoise, OrnsteinUhlenbeckActionNoise

BASELINES = [name for name in cases("ddpg_*") if name != "ddpg_noise"]
COMPILED = cases("ddpg_normobs_popart_l2_ln") + cases("ddpg_clipnorm_returnrange")


def make(arrays, hyper):
    """The original's policy, targets and statistics at w0."""
    obs = spaces.Box(-np.inf, np.inf, arrays["batch_obs0"].shape[1:], np.float32)
    action = spaces.Box(*hyper["action_range"], arrays["batch_actions"].shape[1:], np.float32)
    returns = ReturnStatistics() if hyper["normalize_returns"] else None

    def one():
        return ActorCritic(
            obs,
            action,
            mlp(**hyper["network_kwargs"]),
            head=DeterministicHead,
            critics=1,
            normalize_observations=hyper["normalize_observations"],
            clip_observations=hyper["observation_range"][1],
            unit_actions=True,
            returns=returns,
        )

    policy, averaged = with_targets(one, 1.0 - hyper["tau"])
    for row in arrays.get("obs_rms_updates", []):
        policy.normalizer.update(row[None])
    if returns is not None:
        returns.restore(list(group(arrays, "w0_ret_rms").values()))
    for part, variables in parts(policy, averaged).items():
        assign(variables, group(arrays, f"w0_{part}"))
    return policy, averaged


def parts(policy, averaged):
    target = averaged.policy
    return {
        "actor": policy.acting_variables,
        "critic": policy.critic_variables,
        "target_actor": target.acting_variables,
        "target_critic": target.critic_variables,
    }


def batch_of(arrays, hyper):
    return {
        "obs": arrays["batch_obs0"],
        "next_obs": arrays["batch_obs1"],
        "actions": arrays["batch_actions"],
        "rewards": arrays["batch_rewards"][:, 0],
        "discount": (hyper["gamma"] * (1.0 - arrays["batch_terminals1"][:, 0])).astype(np.float32),
    }


@pytest.mark.parametrize("case", BASELINES)
def test_baselines(case):
    arrays, hyper = load(case)
    policy, averaged = make(arrays, hyper)
    config = ddpg.Config(
        critic_l2_reg=hyper["critic_l2_reg"],
        clip_norm=hyper["clip_norm"],
        return_range=tuple(float(bound) for bound in hyper["return_range"]),
        popart=hyper["enable_popart"],
        normalize_returns=hyper["normalize_returns"],
    )
    update = ddpg.make_update(policy, averaged, config)
    batch = batch_of(arrays, hyper)
    assert_close(update.prepared(batch)["targets"], arrays["target_Q_w0"][:, 0])
    losses = []
    for step in (1, 2, 3):
        row = update.block(
            {name: array[None] for name, array in batch.items()},
            actor_lr=hyper["actor_lr"],
            critic_lr=hyper["critic_lr"],
        )
        losses.append((row["loss_critic"][0], row["loss_actor"][0]))
        if step == 2:
            continue
        for part, variables in parts(policy, averaged).items():
            assert_equal(variables, group(arrays, f"w{step}_{part}"))
        if hyper["normalize_returns"]:
            statistics = (float(policy.returns.mean), float(policy.returns.std))
            assert_close(statistics, arrays[f"w{step}_ret_rms_mean_std"])
            assert_close(policy.returns.state(), list(group(arrays, f"w{step}_ret_rms").values()))
    assert_close(losses, arrays["losses_critic_actor"])


@pytest.mark.parametrize("case", BASELINES)
def test_quantities_before_training(case):
    arrays, hyper = load(case)
    policy, averaged = make(arrays, hyper)
    if hyper["normalize_observations"]:
        assert_close(policy.normalizer.mean, arrays["obs_rms_mean"])
        assert_close(policy.normalizer.std, arrays["obs_rms_std"])
        for name, value in policy.normalizer.state().items():
            assert_close(value, arrays[f"obs_rms_{name}"])
    if policy.returns is not None:
        assert_close([float(policy.returns.mean), float(policy.returns.std)], arrays["w0_ret_rms_mean_std"])
    batch = batch_of(arrays, hyper)
    seen = policy.view(batch["obs"])
    actions = policy.head.mode(policy.act(seen))
    assert_close(actions, arrays["actor_tf_w0"])
    # The critic's Q are in units of the returns that it has seen.
    for taken, expected in ((batch["actions"], "critic_tf_w0"), (actions, "critic_with_actor_w0")):
        (q,) = policy.q(seen, taken)
        assert_close(q if policy.returns is None else policy.returns.denormalized(q), arrays[expected][:, 0])
    if "actor_grads_flat_w0" in arrays:
        config = ddpg.Config(
            critic_l2_reg=hyper["critic_l2_reg"],
            clip_norm=hyper["clip_norm"],
            return_range=tuple(float(bound) for bound in hyper["return_range"]),
        )
        update = ddpg.make_update(policy, averaged, config)
        prepared = update.prepared(batch)
        for phase in update.phases:
            gradients = phase.gradients_and_statistics(prepared)[0]
            if hyper["clip_norm"] is not None:
                gradients = [tf.clip_by_norm(gradient, hyper["clip_norm"]) for gradient in gradients]
            by_variable = dict(zip(map(id, phase.variables), gradients, strict=True))
            ordered = in_golden_order(phase.variables, group(arrays, f"w0_{phase.name}"))
            flat = joined([by_variable[id(variable)] for variable in ordered])
            assert_close(flat, arrays[f"{phase.name}_grads_flat_w0"])


@pytest.mark.parametrize("case", BASELINES)
def test_what_the_logs_tell_of_a_fixed_batch(case):
    arrays, hyper = load(case)
    policy, _ = make(arrays, hyper)
    low, high = (float(bound) for bound in hyper["return_range"])
    batch = {"obs": arrays["batch_obs0"], "actions": arrays["batch_actions"]}
    told = reference_statistics(policy, batch, None, (low, high))
    for name, value in zip(ddpg_names(arrays), arrays["stats_w0"], strict=True):
        if name in told:
            assert_close(float(told[name]), value, name)
    assert sum(name in told for name in ddpg_names(arrays)) == 6


def ddpg_names(arrays):
    return re.findall(r'"(\w+)"', str(arrays["stats_names_json"]))


def test_spinning_up():
    arrays, hyper = load("spinup_ddpg")
    obs = spaces.Box(-np.inf, np.inf, (hyper["obs_dim"],), np.float32)
    action = spaces.Box(-hyper["act_limit"], hyper["act_limit"], (hyper["act_dim"],), np.float32)
    network = dense(hidden_sizes=hyper["hidden"])
    policy, averaged = with_targets(
        lambda: ActorCritic(obs, action, network, head=DeterministicHead, critics=1), hyper["polyak"]
    )

    def weights(step, part):
        return [arrays[name] for name in sorted(arrays) if re.match(rf"w{step}/\d+/{part}\.", name)]

    for one, part in ((policy, "main"), (averaged.policy, "target")):
        for variable, value in zip(one.trainable_variables, weights(0, part), strict=True):
            variable.assign(value)
    update = ddpg.make_update(policy, averaged, ddpg.Config(polyak=hyper["polyak"], critic_l2_reg=0))
    losses, steps = [], sum(name.endswith("/obs1") for name in arrays)
    for k in range(steps):
        batch = {
            "obs": arrays[f"batch{k}/obs1"],
            "next_obs": arrays[f"batch{k}/obs2"],
            "actions": arrays[f"batch{k}/acts"],
            "rewards": arrays[f"batch{k}/rews"],
            "discount": (hyper["gamma"] * (1.0 - arrays[f"batch{k}/done"])).astype(np.float32),
        }
        row = update.block(
            {name: array[None] for name, array in batch.items()}, actor_lr=hyper["pi_lr"], critic_lr=hyper["q_lr"]
        )
        losses += [row["loss_critic"][0], row["loss_actor"][0]]
        for one, part in ((policy, "main"), (averaged.policy, "target")):
            expected = weights(k + 1, part)
            if expected:
                for variable, value in zip(one.trainable_variables, expected, strict=True):
                    assert_close(variable.numpy(), value)
    told = [arrays[name] for name in sorted(arrays) if re.fullmatch(r"log\d+/Loss(Q|Pi)", name)]
    assert_close(losses, told)
    assert steps >= 3


def test_noise():
    arrays, hyper = load("ddpg_noise")
    rng = np.random.RandomState(int(arrays["numpy_seed"]))
    mu, sigma = arrays["mu"], arrays["sigma"]
    noise = OrnsteinUhlenbeckActionNoise(mu, sigma, hyper["ou_theta"], hyper["ou_dt"], rng=rng)
    assert_close([noise() for _ in range(10)], arrays["ou_first10"], tolerance=1e-12)
    noise.reset()
    assert_close([noise() for _ in range(5)], arrays["ou_after_reset5"], tolerance=1e-12)
    second = hyper["ou_second"]
    noise = OrnsteinUhlenbeckActionNoise(mu, sigma, second["theta"], second["dt"], second["x0"], rng)
    assert_close([noise() for _ in range(5)], arrays["ou_x0_theta03_dt005"], tolerance=1e-12)
    noise = NormalActionNoise(mu, sigma, rng)
    assert_close([noise() for _ in range(5)], arrays["normal5"], tolerance=1e-12)
    names = ("initial_stddev", "desired_action_stddev", "adoption_coefficient")
    spec, stddevs = AdaptiveParamNoiseSpec(*(hyper[name] for name in names)), []
    for distance in arrays["distances"]:
        spec.adapt(distance)
        stddevs.append(spec.current_stddev)
    assert_close(stddevs, arrays["stddev_after"], tolerance=1e-12)
