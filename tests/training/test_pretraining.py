"""Behaviour cloning beside ppo2 and sac: its steps, its strength, resuming, the command line."""

import json

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from helpers import vec
from small_environments import Still
from small_runs import ACTIONS, DEMONSTRATIONS, learn, rows, samples, stop_after, train, weights

from tfbaselines.config.options import RunOptions
from tfbaselines.demos import Demonstrations, load_demonstrations, save_demonstrations
from tfbaselines.demos.cloning import imitation_loss
from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.evaluate import evaluate
from tfbaselines.learn.engine import Engine
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.run import command as main
from tfbaselines.training import build as pretraining
from tfbaselines.training.build import CloningBeside

SEEN, BOUNDED = Still.observation_space, spaces.Box(-2.0, 2.0, (2,), np.float32)
BOTH = pytest.mark.parametrize("alg", ["ppo2", "sac"])
PENDULUM = str(DEMONSTRATIONS / "pendulum.npz")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Demonstrations of one action, whatever is seen."""
    path = tmp_path_factory.mktemp("demo") / "demo.npz"
    given = samples(SEEN, BOUNDED, (20, 21))
    given = Demonstrations(**vars(given) | {"actions": np.tile(np.float32([1.0, -0.5]), (41, 1))})
    save_demonstrations(path, given, SEEN, BOUNDED)
    return str(path)


def still(count=1):
    return vec(lambda: Still(BOUNDED), count)


class Free(Still):
    """Nothing is paid."""

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, 0.0, *rest


class Spaces:
    observation_space, action_space = SEEN, BOUNDED


def test_a_bounded_policy_descends_its_distance_from_demonstrations():
    policy = build_actor_critic(Spaces, "dense", head=SquashedGaussianHead, critics=2, hidden_sizes=[8])
    given = samples(SEEN, BOUNDED, (5,))
    valid = np.array([1, 1, 0, 1, 1], np.float32)
    batch = {"obs": given.obs, "actions": given.actions, "valid": valid}
    modes, total = policy.head.mode(policy.forward(tf.constant(given.obs)).flat).numpy(), 0.0
    for mode, action, counts in zip(modes, given.actions, valid, strict=True):
        total += counts * sum(((m - a) / 2.0) ** 2 for m, a in zip(mode, action, strict=True)) / 2
    loss, _ = imitation_loss(policy, {name: tf.constant(array) for name, array in batch.items()})
    np.testing.assert_allclose(loss, total / 4, rtol=1e-5)


@BOTH
def test_what_is_demonstrated_is_imitated(alg, demo):
    own = {"pretraining": {"demo_path": demo, "batch_size": 16}, "lr": 2e-2}
    own |= {"noptepochs": 4} if alg == "ppo2" else {"num_update": 8, "alpha": 0.0}
    action = learn(alg, vec(lambda: Free(BOUNDED)), 20, **own).act(np.full(2, 0.5, np.float32), deterministic=True)[0]
    np.testing.assert_allclose(action, [1.0, -0.5], atol=0.3)


@BOTH
def test_it_takes_as_many_steps_as_the_algorithm_with_a_falling_strength(alg, demo, eager, monkeypatch):
    taken, call = [], Engine.minibatches

    def watched(engine, data, indices, **coefficients):
        if "neglogpacs" not in data:
            taken.append((indices.shape, len(data["obs"]), coefficients["lr"]))
        return call(engine, data, indices, **coefficients)

    monkeypatch.setattr(Engine, "minibatches", watched)
    own = {"demo_path": demo, "strength": 0.5, "steps": 30, "batch_size": 6}
    learn(alg, still(), 5, pretraining=own, lr="linear_1e-2")
    own_steps = 4 if alg == "ppo2" else 2
    expected = [(1 - u / 5) * 1e-2 * 0.5 * (1 - u * 10 / 30) for u in range(3)]
    assert [(shape, count) for shape, count, _ in taken] == [((own_steps, 6), 6 * own_steps)] * len(expected)
    np.testing.assert_allclose([lr for *_, lr in taken], expected, rtol=1e-5)


@BOTH
@pytest.mark.parametrize(
    ("given", "network", "shape"),
    [
        ({"num_epoch": 3}, None, (3 * 6, 6)),
        ({"num_epoch": 2, "samples_per_update": 20}, None, (2 * 3, 6)),
        ({"samples_per_update": 4}, None, (1, 4)),
        ({"num_epoch": 2, "batch_size": 100}, None, (2, 41)),
        ({"num_epoch": 2, "sequence_length": 4, "batch_size": 8, "samples_per_update": 16}, "lstm", (2 * 2, 2)),
    ],
)
def test_passes_over_the_demonstrations(alg, given, network, shape, demo, eager, monkeypatch):
    """41 steps, or 5 + 6 sequences of 4, of which no pass has one twice."""
    drawn = []

    def watched(part, steps):
        drawn.append(draw(part, steps))
        return drawn[-1]

    draw = CloningBeside._drawn
    monkeypatch.setattr(CloningBeside, "_drawn", watched)
    learn(alg, still(), 3, network, pretraining={"demo_path": demo, "batch_size": 6} | given)
    passes = given.get("num_epoch", 1)
    assert {len(rows) for rows in drawn} == {shape[0] * shape[1]} and len(drawn) > 1
    for one in np.array(drawn).reshape(len(drawn) * passes, -1):
        assert len(set(one.tolist())) == len(one)
    assert drawn[0].tolist() != drawn[1].tolist()


@BOTH
def test_without_it_nothing_changes(alg, demo, eager):
    plain = learn(alg, still(), 3)
    given = {"demo_path": demo, "strength": 0.0}
    assert plain.parts == [] and "pretraining" not in plain.state()
    np.testing.assert_array_equal(weights(learn(alg, still(), 3, pretraining=given).policy), weights(plain.policy))
    other = {"demo_path": demo}
    assert (weights(learn(alg, still(), 3, pretraining=other).policy) != weights(plain.policy)).any()


@BOTH
@pytest.mark.parametrize(("network", "steps"), [(None, 0), ("lstm", 30)], ids=["dense-kept", "memory-ending"])
def test_a_resumed_run_equals_an_uninterrupted_one(alg, network, steps, demo, eager, tmp_path):
    own = {"pretraining": {"demo_path": demo, "steps": steps, "batch_size": 8, "sequence_length": 4}}
    own |= {"network": network} | ({"save_interval": 0} if alg == "ppo2" else {})
    updates = 8 if network is None else 4
    whole = train(tmp_path / "whole", alg, still(), updates, **own)
    train(tmp_path / "half", alg, still(), updates, run=stop_after(updates // 2), **own)
    again = own | {"run": RunOptions(resume=str(tmp_path / "half")), "seed": 99}
    resumed = train(tmp_path / "half", alg, still(), updates, **again)
    np.testing.assert_equal(resumed.state(), whole.state())
    table = rows(tmp_path / "whole")
    assert rows(tmp_path / "half").equals(table) and "pretraining" in whole.state()
    assert {"pretraining/loss", "pretraining/strength"} <= set(table)
    assert (table["pretraining/strength"].iloc[-1] == 0) == (steps > 0)


@pytest.mark.parametrize("kind", ["Discrete", "MultiDiscrete", "MultiBinary", "Box"])
def test_every_kind_of_actions(kind, eager, tmp_path):
    space = ACTIONS[kind]
    save_demonstrations(tmp_path / "demo.npz", samples(SEEN, space), SEEN, space)
    for alg in ("ppo2", "sac") if "Discrete" in kind else ("ppo2",):
        learn(alg, vec(lambda: Still(space)), 2, pretraining={"demo_path": str(tmp_path / "demo.npz")})


def test_demonstrations_are_scaled_as_the_environments_observations_are(eager, monkeypatch):
    seen, loss = [], pretraining.imitation_loss
    monkeypatch.setattr(pretraining, "imitation_loss", lambda policy, batch: seen.append(batch) or loss(policy, batch))
    env = VecNormalize(make_vec_env("Pendulum-v1", "classic_control", 1, 0))
    learn("ppo2", env, 1, pretraining={"demo_path": PENDULUM, "batch_size": 8})
    raw = load_demonstrations(PENDULUM, env.observation_space, env.action_space).obs
    drawn, scaled = seen[0]["obs"].numpy(), env.scaled(raw)
    assert all(np.isclose(row, scaled, atol=1e-4).all(-1).any() for row in drawn)
    assert not any(np.isclose(row, raw, atol=1e-4).all(-1).any() for row in drawn)


@BOTH
def test_the_command_line(alg, eager, tmp_path, capsys):
    file, log = tmp_path / "own.yaml", tmp_path / "log"
    file.write_text(f"default:\n  pretraining: {{demo_path: {PENDULUM}, batch_size: 8}}\n")
    small = {
        "ppo2": ["--nsteps=10", "--nminibatches=2", "--noptepochs=1", "--num_hidden=8", "--log_interval=1"],
        "sac": [f"--{name}=10" for name in ("steps_per_epoch", "update_every", "update_after")]
        + ["--hidden_sizes=[8]", "--batch_size=8", "--num_update=1", "--num_test_episodes=0"],
    }[alg]
    words = [f"--alg={alg}", "--env=Pendulum-v1", "--seed=0", *small]
    assert main([*words, f"--config={file}", "--num_timesteps=20", f"--log_path={log}"]) == 0
    assert rows(log)["pretraining/loss"].notna().all()
    given = f"--pretraining={json.dumps({'demo_path': PENDULUM, 'batch_size': 8})}"
    assert main([f"--resume={log}", "--num_timesteps=30", given]) == 0
    assert len(rows(log)) == 3 and len(evaluate(str(log), episodes=1)["returns"]) == 1
    capsys.readouterr()
    assert main([*words, given, "--num_timesteps=10", f"--log_path={tmp_path / 'typed'}"]) == 0
    assert f"--resume={tmp_path / 'typed'} --pretraining=" in capsys.readouterr().out
    assert main([f"--resume={tmp_path / 'typed'}", "--num_timesteps=20"]) == 2
    assert "the path in the run's pretraining is not kept: give --pretraining=" in capsys.readouterr().err


@BOTH
def test_demonstrations_that_do_not_fit(alg, demo):
    with pytest.raises(ValueError, match="for another observation space"):
        learn(alg, make_vec_env("Pendulum-v1", "classic_control", 1, 0), 1, pretraining={"demo_path": demo})
    with pytest.raises(ValueError, match="there is no such file"):
        learn(alg, still(), 1, pretraining={"demo_path": "nowhere.npz"})


def test_a_model_without_cloning_can_go_on_with_it(demo, eager, tmp_path):
    learn("sac", still(), 1).save(tmp_path / "model")
    own = {"load_path": str(tmp_path / "model"), "pretraining": {"demo_path": demo}}
    assert "pretraining" in learn("sac", still(), 2, **own).state()


@BOTH
def test_reward_signals_stand_beside_it(alg, demo, eager):
    own = {"pretraining": {"demo_path": demo}, "reward_signals": {"extrinsic": {}, "rnd": {"encoding_size": 8}}}
    state = learn(alg, still(), 2, **own).state()
    assert {"pretraining", "rnd"} <= set(state)
