"""TD3: every argument's effect, noise, rates, and what it learns."""

import numpy as np
import pytest
import tensorflow as tf
from actor_critics import BOUNDED, BOX, batch, make
from gymnasium import spaces
from helpers import mean_return, vec
from joint_pass import joint_values
from small_environments import box, counting, still
from small_runs import joined, learn, learn_eagerly, train, weights

from tfbaselines.algs import td3
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.errors import UsageError
from tfbaselines.learn import crossq
from tfbaselines.learn.crossq import NormalizedCritic
from tfbaselines.learn.losses import views
from tfbaselines.learn.optimizers import AveragedPolicy
from tfbaselines.policy.bounded import DeterministicHead

BOUNDS = spaces.Box(np.array([[-1.0, 2.0]], np.float32), np.array([[3.0, 2.5]], np.float32))


# Arguments.


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def default():
    """Three cycles with the defaults."""
    return learn_eagerly("td3", box(), 3)


@pytest.mark.parametrize(
    "same", [{"pi_lr": "constant_1e-3"}, {"epochs": 3}, {"save_replay_buffer": False}, {"max_ep_len": None}]
)
def test_other_words_for_the_same(same, default, eager):
    assert weights(learn("td3", box(), 3, **same).policy).tolist() == weights(default.policy).tolist()


# Critics without targets.


@pytest.mark.parametrize("warm", [False, True])
def test_the_joint_pass_against_a_loop(warm, rng, monkeypatch):
    """The next action is the actor's own, with noise, inside the bounds."""
    monkeypatch.setattr(crossq, "WARM_UP", 0 if warm else 10**9)
    policy = make(head=DeterministicHead, kind={"make_critic": NormalizedCritic}, activation="tanh")
    for critic in policy.critics:
        for norm in critic._norms:
            norm.variance.assign(tf.abs(norm.variance.value))
    rows = {"obs": batch(BOX, 6, 1), "next_obs": batch(BOX, 6, 2), "actions": batch(BOUNDED, 6, 3)}
    rows |= {name: rng.normal(size=6).astype(np.float32) for name in ("rewards", "discount")}
    rows["noise"] = rng.normal(size=(6, 2)).astype(np.float32)
    prepared = rows | views(policy, {name: tf.constant(array) for name, array in rows.items()})
    actions = policy.head.mode(policy.act(prepared["next"])).numpy() + rows["noise"]
    values = joint_values(policy, prepared, np.clip(actions, BOUNDED.low, BOUNDED.high), warm)
    goal = rows["rewards"] + rows["discount"] * np.min([value[6:] for value in values], axis=0)
    update = td3.make_update(policy, AveragedPolicy(policy, policy, 0.995), td3.Config(critic="crossq"))
    found = update.block({name: array[None] for name, array in rows.items()}, q_lr=1e-3, pi_lr=1e-3)
    np.testing.assert_allclose(found["LossQ"], [sum(np.mean((value[:6] - goal) ** 2) for value in values)], rtol=1e-3)


def test_critics_without_targets_go_on_after_a_stop(eager, tmp_path):
    whole = train(tmp_path / "whole", "td3", box(2), 4, critic="crossq")
    train(tmp_path / "half", "td3", box(2), 2, critic="crossq")
    resumed = train(tmp_path / "half", "td3", box(2), 4, critic="crossq", run=RunOptions(resume=str(tmp_path / "half")))
    np.testing.assert_equal(resumed.state(), whole.state())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"memory_size": 4}, "critic='crossq' is not valid: 'plain' with memory_size"),
        ({"critic_layer_norm": True}, "critic_layer_norm=True is not valid: needs critic='plain'"),
        ({"offline": "x.npz"}, "critic='crossq' is not valid: needs no offline"),
    ],
)
def test_what_critics_without_targets_cannot_have(given, message):
    with pytest.raises(UsageError) as error:
        td3.Config.of({"critic": "crossq"} | given)
    assert str(error.value).startswith(message)


# Noise and rates.


def test_noise_is_added_to_actions_in_their_own_units(seen):
    env = still(4)
    model = learn("td3", env, 40, act_noise=0.2, start_steps=0)
    noise = np.stack([one.unwrapped.taken for one in env.envs]) - model.act(env.reset(), deterministic=True)[0][:, None]
    assert noise.std() == pytest.approx(0.2, rel=0.1) and abs(noise.mean()) < 0.03
    # Each environment's is drawn for itself.
    assert np.abs(np.corrcoef(noise[..., 0]) - np.eye(4)).max() < 0.4


@pytest.mark.parametrize(("alg", "own"), [("td3", {"act_noise": 0.2, "pi_lr": 0}), ("sac", {"lr": 0})])
def test_exploration_is_as_correlated_as_asked(alg, own, seen):
    correlations = []
    for correlation in (0.0, 0.9):
        env = still(4)
        learn(alg, env, 40, start_steps=0, noise_correlation=correlation, **own)
        taken = np.stack([one.unwrapped.taken for one in env.envs])[..., 0].astype(np.float64)
        taken -= taken.mean(axis=1, keepdims=True)
        correlations.append((taken[:, 1:] * taken[:, :-1]).sum() / (taken**2).sum())
    assert abs(correlations[0]) < 0.2 < 0.5 < correlations[1]


def test_actions_stay_inside_of_their_bounds(seen):
    env = counting(actions=BOUNDS)
    learn("td3", env, 8, act_noise=10.0)
    taken = np.array(env.envs[0].unwrapped.taken)
    assert taken.shape == (80, 1, 2)
    assert (taken >= BOUNDS.low).all() and (taken <= BOUNDS.high).all()
    np.testing.assert_array_equal(taken.min(0), BOUNDS.low)
    np.testing.assert_array_equal(taken.max(0), BOUNDS.high)


def test_the_targets_noise_is_clipped(seen):
    learn("td3", counting(), 20, target_noise=0.4, noise_clip=0.5)
    noise = joined(seen, "noise")
    assert seen[0].block["noise"].shape == (2, 8, 2)
    assert np.abs(noise).max() == 0.5
    assert np.mean(np.abs(noise) == 0.5) == pytest.approx(0.21, abs=0.08)
    assert noise[np.abs(noise) < 0.5].std() == pytest.approx(0.25, abs=0.05)


def test_rates_follow_their_schedules(seen):
    learn("td3", counting(), 4, pi_lr="linear_0.1", q_lr=lambda left: 2 * left)
    rates = [(one.coefficients["pi_lr"], one.coefficients["q_lr"]) for one in seen]
    np.testing.assert_allclose(rates, [(0.1, 2.0), (0.075, 1.5), (0.05, 1.0), (0.025, 0.5)])


def test_without_rates_nothing_moves(eager):
    still_there = learn("td3", box(), 3, pi_lr=0, q_lr=0)
    assert weights(still_there.policy).tolist() == weights(learn("td3", box(), 0).policy).tolist()


def test_actor_and_targets_move_in_every_so_manieth_step(eager):
    changes, last = [], {}

    def watch(run):
        model = run.model
        now = {
            "actor": np.concatenate([v.numpy().ravel() for v in model.policy.acting_variables]),
            "critics": np.concatenate([v.numpy().ravel() for v in model.policy.critic_variables]),
            "targets": weights(model.averaged.policy),
        }
        if last:
            changes.append([name for name in now if not np.array_equal(now[name], last[name])])
        last.update(now)

    learn("td3", box(), 8, num_update=1, policy_delay=3, run=RunOptions(callback=watch))
    # The first step, of the first cycle, is one of them.
    every = ["actor", "critics", "targets"]
    assert changes == [["critics"], ["critics"], every, ["critics"], ["critics"], every, ["critics"]]


def test_targets_keep_polyak_of_themselves(eager):
    start = weights(learn("td3", box(), 0).policy)
    model = learn("td3", box(), 1, num_update=1, polyak=0.9, pi_lr=0.1, q_lr=0.1)
    expected = 0.9 * start + 0.1 * weights(model.policy)
    np.testing.assert_allclose(weights(model.averaged.policy), expected, rtol=1e-5, atol=1e-6)


# Networks.


@pytest.mark.parametrize(
    ("kwargs", "layers"),
    [
        ({"network": "mlp", "num_layers": 2, "num_hidden": 5}, 6),
        ({"network": "dense", "hidden_sizes": (5, 4, 3)}, 8),
        ({"network": lambda: td3_network}, 4),
    ],
    ids=["mlp", "dense", "own"],
)
def test_networks_of_numbers(kwargs, layers, eager):
    model = learn("td3", box(), 2, **kwargs)
    assert len(model.policy.acting_variables) == layers


def td3_network(shape):
    import keras

    inputs = keras.Input(shape)
    return keras.Model(inputs, keras.layers.Dense(5, "tanh")(inputs))


# Learning.


@pytest.mark.slow
def test_a_target_on_a_line():
    """Straight there is 0.6, and 0.5 with a sixth step, as actions only come close to their bounds."""
    env = vec(lambda: tiny.Target1DEnv(continuous=True))
    own = {"start_steps": 1000, "update_after": 100, "update_every": 20, "batch_size": 64, "num_test_episodes": 0}
    own |= {"hidden_sizes": (64, 64), "gamma": 0.95, "polyak": 0.98}
    assert mean_return(td3.learn("dense", env, 0, 4000, **own), env) >= 0.49
