"""Behaviour cloning: the loss of the formula, the held-out part, the early stop, and what is imitated."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from commands import run
from gymnasium import spaces
from helpers import vec
from small_environments import Seeing
from small_runs import DEMONSTRATIONS, learn, samples, table, train, weights

from tfbaselines.algs import bc
from tfbaselines.config.options import RunOptions
from tfbaselines.demos import Demonstrations, cloning, save_demonstrations
from tfbaselines.demos.cloning import cloning_loss
from tfbaselines.envs.make import make_vec_env
from tfbaselines.evaluate import evaluate
from tfbaselines.logs.logger import read_csv
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.training.testing import even_episodes

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
ACTIONS = {
    "Discrete": spaces.Discrete(3, start=5),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2], start=[1, -4]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(-1.0, 1.0, (3,), np.float32),
}
CHOICES = {
    "Discrete": lambda obs: 5 + obs.argmax(axis=1),
    "MultiDiscrete": lambda obs: np.stack([1 + obs.argmax(axis=1), -4 + (obs[:, 0] > 0)], axis=1),
    "MultiBinary": lambda obs: (obs > 0).astype(np.int8),
    "Box": lambda obs: 0.8 * obs[:, ::-1],
}


def imitable(kind, steps=600):
    """A demonstrator who decides by what it sees."""
    obs = np.random.default_rng(0).uniform(-1, 1, (steps, 3)).astype(np.float32)
    given = samples(BOX, ACTIONS[kind], (steps // 2, steps // 2))
    return dataclasses.replace(given, obs=obs, actions=CHOICES[kind](obs), rewards=np.zeros(steps, np.float32))


def clone(tmp_path, kind="Discrete", demonstrations=None, **kwargs):
    path = tmp_path / "demo.npz"
    save_demonstrations(path, demonstrations or imitable(kind), BOX, ACTIONS[kind])
    env = vec(lambda: Seeing(BOX, ACTIONS[kind]))
    return bc.learn("mlp", env, **{"demo_path": path, "seed": 0, "num_test_episodes": 0} | kwargs)


@pytest.mark.parametrize("kind", ACTIONS)
def test_the_policy_does_what_was_done(kind, tmp_path):
    model = clone(tmp_path, kind, num_iterations=150, lr=3e-3, batch_size=32)
    obs = np.random.default_rng(1).uniform(-1, 1, (500, 3)).astype(np.float32)
    actions, wanted = model.act(obs, deterministic=True)[0], CHOICES[kind](obs)
    if kind == "Box":
        assert np.abs(actions - wanted).max() < 0.2
    else:
        assert np.mean(actions == wanted) > 0.95
    assert not model.value(obs).any()


def test_the_loss_is_the_mean_over_the_rows_that_count(eager, tmp_path):
    model = clone(tmp_path, num_iterations=0)
    given = imitable("Discrete")
    valid = (np.arange(len(given)) < 7).astype(np.float32)
    batch = {"obs": given.obs, "actions": given.actions, "valid": valid}
    loss, statistics = cloning_loss(model.policy, {name: tf.constant(array) for name, array in batch.items()})
    flat = model.policy.forward(given.obs[:7]).flat.numpy()
    logp = flat - np.log(np.exp(flat).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(loss, -np.mean(logp[np.arange(7), given.actions[:7] - 5]), rtol=1e-5)
    np.testing.assert_allclose(statistics["entropy"], -np.mean((np.exp(logp) * logp).sum(axis=1)), rtol=1e-5)


def test_what_is_held_out_is_not_learnt_from(tmp_path):
    """The held-out rows' actions contradict the others; every fifth row is one."""
    given = imitable("Discrete")
    actions = given.actions.copy()
    actions[4::5] = 5 + (actions[4::5] - 5 + 1) % 3
    contrary = dataclasses.replace(given, actions=actions)
    model = clone(
        tmp_path, demonstrations=contrary, held_out=0.2, patience=0, num_iterations=100, lr=3e-3, batch_size=32
    )
    chosen = model.act(given.obs, deterministic=True)[0]
    assert np.mean(chosen == given.actions) > 0.95


def test_the_run_ends_with_the_best_policy_once_the_held_out_loss_rises(tmp_path):
    noisy = samples(BOX, ACTIONS["Discrete"], (60, 60))
    own = {"batch_size": 16, "patience": 5, "held_out": 0.3, "num_iterations": 500, "lr": 1e-2}
    save_demonstrations(tmp_path / "demo.npz", noisy, BOX, ACTIONS["Discrete"])
    env = vec(lambda: Seeing(BOX, ACTIONS["Discrete"]))
    log = tmp_path / "log"
    model = train(log, "bc", env, network="mlp", **own, demo_path=tmp_path / "demo.npz", total_timesteps=None)
    curve = table(log)
    losses = curve["held_out_loss"]
    assert len(curve) < 500 and len(curve) == losses.idxmin() + 1 + 5
    assert curve["best_held_out_loss"].iloc[-1] == losses.min()
    held = np.arange(len(noisy)) % 3 == 2
    batch = {"obs": noisy.obs[held], "actions": noisy.actions[held], "valid": np.ones(held.sum(), np.float32)}
    best = cloning_loss(model.policy, {name: tf.constant(array) for name, array in batch.items()})[0]
    assert float(best) == pytest.approx(losses.min(), rel=1e-4)


def test_a_run_that_its_patience_ended_has_nothing_left_when_resumed(eager, tmp_path):
    save_demonstrations(tmp_path / "demo.npz", samples(BOX, ACTIONS["Discrete"], (20, 20)), BOX, ACTIONS["Discrete"])
    own = {"network": "mlp", "demo_path": tmp_path / "demo.npz", "total_timesteps": None, "num_iterations": 60}
    own |= {"batch_size": 14, "held_out": 0.3, "lr": 0.1}

    def go(**more):
        model = train(tmp_path / "log", "bc", vec(lambda: Seeing(BOX, ACTIONS["Discrete"])), **own | more)
        return len(table(tmp_path / "log")), weights(model.policy)

    again = RunOptions(resume=str(tmp_path / "log"))
    passes, ended = go(patience=2)
    assert passes < 60
    same, resumed = go(patience=2, run=again)
    assert same == passes and (resumed == ended).all()
    # A larger patience has something left, from the best policy on.
    assert go(patience=4, run=again)[0] > passes


def test_a_checkpoint_keeps_that_patience_ended(eager, tmp_path):
    model = clone(tmp_path, num_iterations=0)

    def one():
        options = cloning.CloningOptions(patience=2)
        return cloning.Cloning(model.policy, model.policy.trainable_variables, imitable("Discrete"), options, alone)

    alone = Communicator()
    first, further = one(), one()
    for loss in (1.0, 2.0, 2.0):
        assert not first.over
        first._consider(loss)
    further.restore(first.state())
    assert first.over and further.over


def test_the_held_out_loss_is_the_same_a_few_steps_at_a_time(eager, tmp_path, monkeypatch):
    losses = []
    for most in (1024, 7):
        monkeypatch.setattr(cloning, "LARGEST_BATCH", most)
        losses.append(clone(tmp_path, num_iterations=2).parts[0].state()["cloning"]["best"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_pretraining_ends_with_the_best_policy(tmp_path):
    """Actions at random: the held-out loss soon rises."""
    noisy = samples(BOX, ACTIONS["Discrete"], (60, 60))
    model = clone(tmp_path, demonstrations=noisy, num_iterations=0)
    options = cloning.CloningOptions(batch_size=16, held_out=0.3, patience=0)
    one = cloning.Cloning(model.policy, model.policy.trainable_variables, noisy, options, Communicator())
    cloning.pretrain(one, np.random.default_rng(0), 1e-2, 200)
    losses = one._held_out_loss(), one.state()["cloning"]["best"]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    last = one.one_pass(np.random.default_rng(1), 1e-2)["held_out_loss"]
    assert last > losses[0]


def test_weight_decay_keeps_parameters_small(tmp_path):
    small, large = (
        np.linalg.norm(weights(clone(tmp_path, num_iterations=50, weight_decay=decay).policy)) for decay in (0.1, 0.0)
    )
    assert small < 0.8 * large


def test_limits_of_what_is_used(eager, tmp_path):
    """One episode, of it every second step."""
    given = imitable("Discrete")
    used = np.arange(0, 300, 2)
    kept = Demonstrations(
        obs=given.obs[used],
        actions=given.actions[used],
        rewards=given.rewards[used],
        lengths=np.array([150]),
        terminated=np.array([True]),
    )
    limited = clone(tmp_path, num_iterations=3, traj_limitation=1, subsample=2)
    whole = clone(tmp_path, num_iterations=3, demonstrations=kept)
    np.testing.assert_array_equal(weights(limited.policy), weights(whole.policy))


def test_statistics_of_observations_are_the_demonstrations(eager, tmp_path):
    model = clone(tmp_path, num_iterations=1, normalize_observations=True)
    np.testing.assert_allclose(model.policy.normalizer.mean, imitable("Discrete").obs.mean(axis=0), atol=1e-4)


@pytest.mark.slow
def test_memory_is_learnt_across_sequences(tmp_path):
    """The first observation alone says what to do to the end, which is three sequences later."""
    rng, length = np.random.default_rng(0), 12
    cues = rng.integers(0, 3, 60)
    obs = np.zeros((60, length, 3), np.float32)
    obs[np.arange(60), 0, cues] = 1.0
    given = Demonstrations(
        obs=obs.reshape(-1, 3),
        actions=5 + np.repeat(cues, length),
        rewards=np.zeros(60 * length, np.float32),
        lengths=np.full(60, length),
        terminated=np.ones(60, bool),
    )
    save_demonstrations(tmp_path / "demo.npz", given, BOX, ACTIONS["Discrete"])
    env = vec(lambda: Seeing(BOX, ACTIONS["Discrete"]))
    own = {"demo_path": tmp_path / "demo.npz", "sequence_length": 4, "batch_size": 64, "lr": 1e-2, "nlstm": 16}
    model = bc.learn("lstm", env, seed=0, num_iterations=100, num_test_episodes=0, patience=0, **own)
    state, right = model.initial_states(3), []
    for t in range(length):
        shown = np.eye(3, dtype=np.float32) * (t == 0)
        chosen, state = model.act(shown, state, True, np.full(3, t == 0))
        right.append((chosen == 5 + np.arange(3)).all())
    assert all(right)


@pytest.mark.slow
def test_five_episodes_of_cartpole_are_enough(tmp_path):
    """As a user types it."""
    flags = ["--alg=bc", "--env=CartPole-v1", f"--demo_path={DEMONSTRATIONS / 'cartpole.npz'}", "--log_path=log"]
    status, _, err = run("tfbaselines.run", *flags, "--seed=1", cwd=tmp_path)
    assert status == 0, err
    assert evaluate(str(tmp_path / "log"), episodes=20)["mean"] >= 475
    curve = read_csv(tmp_path / "log/progress.csv")
    assert {"loss", "held_out_loss", "best_held_out_loss", "test_reward"} <= set(curve.columns)
    assert curve["held_out_loss"].iloc[-1] < 0.5 * curve["held_out_loss"].iloc[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "env_id", "worst"), [("pendulum", "Pendulum-v1", -400.0), ("hopper", "Hopper-v5", 1500.0)]
)
def test_shipped_demonstrations_are_imitated(name, env_id, worst):
    env = make_vec_env(env_id, num_env=2, seed=5)
    try:
        path = DEMONSTRATIONS / f"{env_id.split('-')[0].lower()}.npz"
        own = {"normalize_observations": True, "num_test_episodes": 0, "num_iterations": 100}
        model = bc.learn("mlp", env, demo_path=path, seed=0, **own)
        returns = [episode["r"] for episode in even_episodes(model, env, 10, deterministic=True)]
    finally:
        env.close()
    assert np.mean(returns) > worst, returns


def test_a_run_without_demonstrations_is_refused():
    with pytest.raises(ValueError, match=r"^demo_path=None is not valid: a file of demonstrations"):
        learn("bc", vec(lambda: Seeing(BOX, ACTIONS["Discrete"])), demo_path=None)


@pytest.mark.parametrize("alg", ["bc", "gail"])
def test_a_saved_model_needs_no_demonstrations(alg, eager, tmp_path):
    env = vec(lambda: Seeing(BOX, ACTIONS["Discrete"]))
    model = learn(alg, env, 2)
    model.save(tmp_path / "model")
    loaded = learn(alg, env, 0, demo_path=None, load_path=tmp_path / "model", seed=5)
    assert weights(loaded.policy).tolist() == weights(model.policy).tolist()
