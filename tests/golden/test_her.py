"""Normaliser, losses, gradients, weights and actions of baselines' her."""

import numpy as np
import pytest
import tensorflow as tf
from cases import cases, group, load
from gymnasium import spaces
from weights import assert_close, assert_equal, assign

from tfbaselines.algs import her
from tfbaselines.algs.her.goal import FIRST_COUNT, GoalActorCritic
from tfbaselines.learn.optimizers import with_targets
from tfbaselines.parallel.moments import MpiRunningMeanStd
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.networks import dense
from tfbaselines.training.model import PolicyModel

DDPG = pytest.mark.parametrize("case", cases("her_ddpg*"))


@pytest.mark.parametrize("case", cases("her_normalizer"))
def test_normaliser(case):
    arrays, hyper = load(case)
    statistics = MpiRunningMeanStd(0.0, (hyper["size"],), count=FIRST_COUNT, least_std=hyper["eps"])
    updates = sum(name.startswith("update") for name in arrays)
    for k in range(updates):
        statistics.update(arrays[f"update{k}"].reshape(-1, hyper["size"]))
        for name, value in (statistics.state() | {"mean": statistics.mean, "std": statistics.std}).items():
            assert_close(np.ravel(value), arrays[f"{name}{k}"], name)
        normalized = np.clip((arrays["y"] - statistics.mean) / statistics.std, -hyper["clip"], hyper["clip"])
        assert_close(normalized, arrays[f"normalized{k}"])
    assert updates == 3


def make(arrays, hyper):
    """The original's policy, targets and statistics at w0."""
    box = lambda name: spaces.Box(-np.inf, np.inf, arrays[name].shape[1:], np.float32)
    observation = spaces.Dict(observation=box("batch_o"), achieved_goal=box("act_ag"), desired_goal=box("batch_g"))
    action = spaces.Box(-hyper["max_u"], hyper["max_u"], arrays["batch_u"].shape[1:], np.float32)
    network = dense(hidden_sizes=[hyper["hidden"]] * hyper["layers"])
    policy, averaged = with_targets(
        lambda: GoalActorCritic(
            observation,
            action,
            network,
            clip_inputs=hyper["clip_obs"],
            clip_normalized=hyper["norm_clip"],
            least_std=hyper["norm_eps"],
            relative=hyper["relative_goals"],
        ),
        hyper["polyak"],
    )
    policy.normalizer.update({"observation": arrays["o_stats_update"], "desired_goal": arrays["g_stats_update"]})
    for which, prefix in ((policy, "w0"), (averaged.policy, "target0")):
        assign(of(which), group(arrays, prefix))
    return policy, averaged


def of(policy):
    """Variables in the original's order."""
    return [*policy.critic_variables, *policy.acting_variables]


def seen(observation, goal, achieved=None):
    return {
        "observation": observation,
        "desired_goal": goal,
        "achieved_goal": np.zeros_like(goal) if achieved is None else achieved,
    }


def batch_of(arrays, hyper):
    return {
        "obs": seen(arrays["batch_o"], arrays["batch_g"]),
        "next_obs": seen(arrays["batch_o_2"], arrays["batch_g_2"]),
        "actions": arrays["batch_u"],
        "rewards": arrays["batch_r"],
        "discount": np.full(len(arrays["batch_r"]), hyper["gamma"], np.float32),
    }


def config_of(hyper):
    names = ("action_l2", "batch_size", "demo_batch_size", "prm_loss_weight", "aux_loss_weight", "clip_pos_returns")
    return her.Config(
        bc_loss=bool(hyper["bc_loss"]), q_filter=bool(hyper["q_filter"]), **{name: hyper[name] for name in names}
    )


@DDPG
def test_quantities_before_training(case):
    arrays, hyper = load(case)
    policy, averaged = make(arrays, hyper)
    for name, short in (("observation", "o"), ("desired_goal", "g")):
        assert_close(policy.normalizer[name].mean, arrays[f"{short}_mean"])
        assert_close(policy.normalizer[name].std, arrays[f"{short}_std"])
    batch = batch_of(arrays, hyper)
    now, after = policy.view(batch["obs"]), policy.view(batch["next_obs"])
    actions = policy.head.mode(policy.act(now))
    assert_close(actions, arrays["w0_pi"])
    assert_close(policy.q(now, actions)[0], arrays["w0_Q_pi"][:, 0])
    assert_close(policy.q(now, batch["actions"])[0], arrays["w0_Q"][:, 0])
    actions = averaged.policy.head.mode(averaged.policy.act(after))
    assert_close(actions, arrays["w0_target_pi"])
    assert_close(averaged.policy.q(after, actions)[0], arrays["w0_target_Q_pi"][:, 0])


@DDPG
def test_losses_and_gradients(case):
    arrays, hyper = load(case)
    policy, averaged = make(arrays, hyper)
    update = her.make_update(policy, averaged, config_of(hyper), -hyper["clip_return"])
    batch = update._prepare(tf.nest.map_structure(tf.constant, batch_of(arrays, hyper)))
    for phase, short in zip(update.phases, ("Q", "pi"), strict=True):
        loss, statistics = phase.loss(batch)
        assert_close(loss, arrays[f"w0_{short}_loss"])
        gradients, _ = phase.gradients_and_statistics(batch)
        assert_close(np.concatenate([np.ravel(one) for one in gradients]), arrays[f"w0_{short}_grad_flat"])
    assert ("w0_cloning_loss" in arrays) == hyper["bc_loss"] == ("cloning_loss" in statistics)
    if hyper["bc_loss"]:
        assert_close(statistics["cloning_loss"], arrays["w0_cloning_loss"])


@DDPG
def test_weights_and_actions(case):
    arrays, hyper = load(case)
    policy, averaged = make(arrays, hyper)
    update = her.make_update(policy, averaged, config_of(hyper), -hyper["clip_return"])
    block = tf.nest.map_structure(lambda array: array[None], batch_of(arrays, hyper))
    losses = []
    for step in (1, 2, 3):
        losses.append(update.block(block, Q_lr=hyper["Q_lr"], pi_lr=hyper["pi_lr"])["Q_loss"][0])
        averaged.step()
        if step != 2:
            assert_equal(of(policy), group(arrays, f"w{step}"))
            assert_equal(of(averaged.policy), group(arrays, f"target{step}"))
    assert_close(losses, arrays["Qloss_and_meanQpi"][:, 0])
    obs = seen(arrays["act_o"], arrays["act_g"], arrays["act_ag"])
    actions = make_actor(policy).act(obs, None)
    assert_close(actions, arrays["act_u_w3"])
    assert_close(PolicyModel(policy).value(obs), arrays["act_Q_w3"][:, 0])
    assert_close(make_actor(averaged.policy).act(obs, None), arrays["act_u_target_w3"])
    # As CASES.md has it.
    noisy = her.explored(actions, policy.head, np.random.RandomState(5), 0.2, 0.3)
    assert_close(noisy, arrays["act_u_noise_seed5"])
