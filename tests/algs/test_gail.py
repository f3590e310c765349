"""GAIL: its rewards and steps, what it shares with ranks and checkpoints, and what it imitates."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from helpers import vec
from small_environments import Seeing, box
from small_runs import DEMONSTRATIONS, demonstrations_for, learn, samples, table, train

from tfbaselines.algs import gail
from tfbaselines.algs.gail.gail import LearnedReturns
from tfbaselines.algs.trpo_mpi.trpo_mpi import TrustRegionUpdate
from tfbaselines.config.options import RunOptions
from tfbaselines.demos import load_demonstrations
from tfbaselines.demos.cloning import Cloning
from tfbaselines.envs.make import make_vec_env
from tfbaselines.rewards.learned import Adversary, Discriminator, adversarial_loss, adversarial_reward
from tfbaselines.training.callbacks import StopAt
from tfbaselines.training.testing import even_episodes

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
ACTIONS = [
    spaces.Discrete(3, start=5),
    spaces.MultiDiscrete([3, 2], start=[1, -4]),
    spaces.MultiBinary(3),
    spaces.Box(-1.0, 1.0, (2, 2), np.float32),
]
SEEN = [BOX, spaces.Discrete(4, start=-2), spaces.Box(0, 255, (36, 36, 1), np.uint8)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("expert_dataset", "give demo_path="),
        ("expert_path", "give demo_path="),
        ("reward_giver", "adversary_hidden_size"),
    ],
)
def test_the_originals_arguments_name_what_stands_for_them(name, words):
    with pytest.raises(ValueError, match=rf"unknown argument '{name}' \(network 'mlp'\): .*{words}"):
        gail.learn("mlp", "Pendulum-v1", demo_path="x.npz", **{name: "x"})


def adversary_of(observations, actions, demonstrations, **kwargs):
    keras.utils.set_random_seed(0)
    own = {"entcoeff": 1e-3, "lr": 1e-3, "rng": np.random.default_rng(0)} | kwargs
    return Adversary(Discriminator(observations, actions, 16), demonstrations, actions, **own)


def test_loss_and_reward_of_hand_made_logits():
    generator, expert = np.float32([-1.0, 0.5]), np.float32([2.0, -0.25])
    total, statistics = adversarial_loss(tf.constant(generator), tf.constant(expert), 0.5)
    both = 1 / (1 + np.exp(-np.concatenate([generator, expert])))
    entropy = -np.mean(both * np.log(both) + (1 - both) * np.log(1 - both))
    wanted = -np.mean(np.log(1 - both[:2])) - np.mean(np.log(both[2:])) - 0.5 * entropy
    assert float(total) == pytest.approx(wanted, rel=1e-5)
    assert float(statistics["entropy"]) == pytest.approx(entropy, rel=1e-5)
    assert float(statistics["generator_acc"]) == float(statistics["expert_acc"]) == 0.5
    np.testing.assert_allclose(adversarial_reward(tf.constant(generator)), -np.log(1 - both[:2]), rtol=1e-5)


@pytest.mark.parametrize(("observations", "actions"), zip(itertools.cycle(SEEN), ACTIONS))
def test_the_discriminator_learns_who_acted(observations, actions):
    """The demonstrator and the policy see the same; the demonstrator always does the same."""
    given = samples(observations, actions, (40, 40))
    expert = dataclasses.replace(given, actions=np.repeat(given.actions[:1], 80, axis=0))
    adversary = adversary_of(observations, actions, expert)
    differ = (given.actions != given.actions[0]).reshape(80, -1).any(axis=1)
    other = {"obs": given.obs[differ], "actions": given.actions[differ]}
    first = adversary.update(other)
    for _ in range(200):
        last = adversary.update(other)
    assert last["expert_loss"] + last["generator_loss"] < 0.7 * (first["expert_loss"] + first["generator_loss"])
    assert adversary.rewards(expert.obs, expert.actions).mean() > adversary.rewards(**other).mean()


def test_rewards_of_rollouts_have_their_shape():
    given = samples(BOX, ACTIONS[0], (4, 8))
    adversary = adversary_of(BOX, ACTIONS[0], given)
    flat = adversary.rewards(given.obs, given.actions)
    np.testing.assert_allclose(
        adversary.rewards(given.obs.reshape(4, 3, 3), given.actions.reshape(4, 3)), flat.reshape(4, 3), rtol=1e-5
    )


def test_actions_beyond_their_bounds_are_judged_as_the_environment_takes_them():
    given = samples(BOX, ACTIONS[3], (4, 8))
    adversary = adversary_of(BOX, ACTIONS[3], given)
    outside = np.full((12, 2, 2), 7.0, np.float32)
    np.testing.assert_array_equal(
        adversary.rewards(given.obs, outside), adversary.rewards(given.obs, np.ones_like(outside))
    )


def test_returns_of_learnt_rewards_go_on_from_rollout_to_rollout():
    class Part:
        rewards = np.array([[1.0, 10.0], [2.0, 20.0]])
        ended = np.array([[False, True], [False, False]])

    class Alone:
        def gather(self, episodes):
            return [episodes]

    env = box(2)
    returns = LearnedReturns(env, 40, Alone())
    returns.add(Part)
    assert returns.mean == 10.0
    Part.ended = np.array([[True, False], [False, True]])
    returns.add(Part)
    assert returns.mean == pytest.approx((10 + 4 + 50) / 3)
    other = LearnedReturns(env, 40, Alone())
    other.restore(returns.state())
    assert other.mean == returns.mean


@pytest.fixture
def steps(monkeypatch):
    """What an update of a run consists of, in place of learning."""
    seen = []
    monkeypatch.setattr(TrustRegionUpdate, "__call__", lambda self, rollout: seen.append("policy") or {})
    update = Adversary.update

    def recording(self, batch, indices=None):
        seen.append(len(batch["obs"]))
        return update(self, batch, indices)

    monkeypatch.setattr(Adversary, "update", recording)
    one_pass = Cloning.one_pass
    monkeypatch.setattr(Cloning, "one_pass", lambda *args: seen.append("clone") or one_pass(*args))
    return seen


def test_steps_of_policy_and_discriminator_take_turns(steps, eager):
    learn("gail", box(2), 2, g_step=3, d_step=2, pretrained=False)
    assert steps == (["policy"] * 3 + [65, 65]) * 2


def test_it_begins_with_behaviour_cloning(steps, eager):
    """Batches of all 10 steps that are not held out."""
    learn("gail", box(), 1, g_step=1, d_step=1, pretrained=True, BC_max_iter=5)
    assert steps == ["clone"] * 5 + ["policy", 130]


def test_behaviour_cloning_takes_no_more_steps_than_it_may(eager, tmp_path):
    """A pass has 17 steps of 128."""
    env = make_vec_env("CartPole-v1")
    own = {"demo_path": DEMONSTRATIONS / "cartpole.npz", "pretrained": True, "BC_max_iter": 25}
    train(tmp_path, "gail", env, 0, **own)
    env.close()
    assert "pretrained for 25 gradient steps: loss" in (tmp_path / "log.txt").read_text()


def test_rewards_of_the_environment_do_not_count(eager, tmp_path):
    class Generous(Seeing):
        def step(self, action):
            obs, reward, *rest = super().step(action)
            return obs, 1000.0 * reward, *rest

    models = [
        train(tmp_path / kind.__name__, "gail", vec(lambda kind=kind: kind(BOX, spaces.Discrete(3))), 2)
        for kind in (Seeing, Generous)
    ]
    np.testing.assert_equal(models[0].state(), models[1].state())
    one, other = (table(tmp_path / name).iloc[-1] for name in ("Seeing", "Generous"))
    assert other["EpTrueRewMean"] == pytest.approx(1000 * one["EpTrueRewMean"])
    assert other["EpRewMean"] == one["EpRewMean"] > 0
    columns = {"EpLenMean", "EpThisIter", "EpisodesSoFar", "TimestepsSoFar", "meankl", "ev_tdlam_before"}
    columns |= {f"gail/{name}" for name in ("generator_loss", "expert_loss", "entropy", "generator_acc", "expert_acc")}
    assert columns <= set(one.index)


def test_the_discriminator_is_saved_with_the_model(eager, tmp_path):
    model = learn("gail", box(), 1)
    (adversary,) = model.parts
    assert {id(variable) for variable in adversary.trainable_variables} <= {id(one) for one in model.variables()}
    model.save(tmp_path / "model")
    loaded = learn("gail", box(), 0, seed=8, load_path=tmp_path / "model")
    np.testing.assert_equal(loaded.parts[0].state(), adversary.state())
    fresh = learn("gail", box(), 0, seed=8)
    assert not np.array_equal(fresh.parts[0].trainable_variables[0].numpy(), adversary.trainable_variables[0].numpy())


def test_limits_of_the_demonstrations(eager):
    env = box()
    path = demonstrations_for(env)
    every = load_demonstrations(path, env.observation_space, env.action_space)
    model = learn("gail", env, 0, traj_limitation=2, subsample=3)
    np.testing.assert_array_equal(model.parts[0]._expert[0], every.obs[[0, 3, 4, 7]])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"demo_path": None}, "demo_path=None is not valid: a file of demonstrations"),
        ({"d_step": 200}, "d_step=200 is not valid: at most timesteps_per_batch=130"),
        ({"network": "lstm"}, "gail trains no recurrent policies"),
    ],
)
def test_mistakes(arguments, words):
    with pytest.raises(ValueError) as error:
        learn("gail", box(), **arguments)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_cartpole_is_learnt_from_demonstrations_alone(capsys):
    env = make_vec_env("CartPole-v1", num_env=4, seed=0)
    try:
        # After a fixed number of steps some seeds' policies are at 500 and some between two peaks.
        until = RunOptions(callback=StopAt(400))
        demonstrations = DEMONSTRATIONS / "cartpole.npz"
        model = gail.learn("mlp", env, total_timesteps=150_000, seed=0, demo_path=demonstrations, run=until)
        returns = [episode["r"] for episode in even_episodes(model, env, 12, deterministic=True)]
    finally:
        env.close()
    assert np.mean(returns) > 400, returns
    assert "at least 400: training stops" in capsys.readouterr().out
