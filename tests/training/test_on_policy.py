"""A run that learns from rollouts: its gradient steps, its rollouts, its rows of the logs and its evaluation."""

from dataclasses import dataclass
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import vec
from remembering import ALGORITHM

from tfbaselines.algs.ppo2.ppo2 import minibatch_by_minibatch
from tfbaselines.config.bases import OnPolicyConfig, PolicyConfig
from tfbaselines.config.config import Schedule, arg
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.rollout.rollout import shuffled
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.on_policy import OnPolicyRun

ENVS, STEPS = 2, 8
ROWS = ENVS * STEPS
COLUMNS = {"nupdates", "total_timesteps", "fps", "eprewmean", "eplenmean", "value_loss", "rows", "lr"}


@dataclass(kw_only=True)
class Config(OnPolicyConfig, PolicyConfig):
    """Arguments of an algorithm that only learns values."""

    lr: Schedule = arg("linear_0.1", "learning rate")


def make_env(count=ENVS):
    return vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=4), count)


def make_run(updates=4, network="mlp", env=None, **arguments):
    own = {"nsteps": STEPS, "total_timesteps": updates * ROWS, "seed": 0}
    own |= {"num_hidden": 4} if network == "mlp" else {"nlstm": 4}
    return OnPolicyRun(ALGORITHM, network, env or make_env(), Config.of(own | arguments))


def value_loss(policy):
    def loss(batch):
        values = policy.forward(batch["obs"]).value
        loss = tf.reduce_mean(tf.square(values - batch["returns"]))
        return loss, {"value_loss": loss, "rows": tf.cast(tf.size(values), tf.float32), "lr": batch["lr"]}

    return loss


def learn(run, each=lambda run, rollout: None, before=None):
    """Every rollout's rates and statistics."""
    found = []
    with run:
        optimizer = keras.optimizers.SGD()
        step = run.gradient_steps(value_loss(run.policy), optimizer)
        for rollout in run.rollouts(PolicyModel(run.policy, optimizer), before):
            each(run, rollout)
            statistics = step(rollout.batch(False, returns=rollout.rewards), **run.rates())
            run.log(statistics)
            found.append(statistics)
    return found


def test_every_update_has_a_rollout_and_rates_go_down():
    run = make_run()
    found = learn(run)
    assert [row["lr"] for row in found] == pytest.approx([0.1, 0.075, 0.05, 0.025])
    assert (run.update, run.timesteps) == (4, 4 * ROWS)


def test_without_indices_a_step_takes_all_rows():
    assert {row["rows"] for row in learn(make_run())} == {ROWS}


def test_steps_are_those_of_the_rows_named_and_their_statistics_means():
    run = make_run()
    step = run.gradient_steps(value_loss(run.policy), keras.optimizers.SGD())
    data = {
        "obs": np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32),
        "returns": np.arange(6.0, dtype="f"),
    }
    values, indices = PolicyModel(run.policy).value(data["obs"]), np.array([[0, 1], [4, 5]], np.int32)
    squares = np.square(values - data["returns"])
    statistics = step(data, indices, lr=0.0)
    assert statistics["value_loss"] == pytest.approx((squares[[0, 1]].mean() + squares[[4, 5]].mean()) / 2, rel=1e-4)
    assert statistics["rows"] == 2.0


def test_the_actor_acts_with_what_was_learned():
    obs, values = np.ones((3, 2), np.float32), []
    run = make_run(2)
    learn(run, lambda run, rollout: values.append(run.model.value(obs)))
    values.append(run.model.value(obs))
    np.testing.assert_allclose(values[-1], run.policy.forward(tf.constant(obs)).value, rtol=1e-5, atol=1e-6)
    assert (values[0] != values[1]).all() and (values[1] != values[2]).all()


def test_gradients_are_bounded_when_asked_for():
    moves = []
    for bound in (None, 0.01):
        run = make_run()
        step = run.gradient_steps(value_loss(run.policy), keras.optimizers.SGD(), bound)
        before = [variable.numpy() for variable in run.policy.trainable_variables]
        step({"obs": np.ones((3, 2), np.float32), "returns": np.full(3, 9.0, np.float32)}, lr=1.0)
        after = [variable.numpy() for variable in run.policy.trainable_variables]
        moves.append(np.sqrt(sum(np.square(new - old).sum() for old, new in zip(before, after, strict=True))))
    assert moves[1] == pytest.approx(0.01, rel=1e-3) and moves[0] > 0.1


def test_the_optimizer_is_saved_with_the_model():
    run = make_run()
    optimizer = keras.optimizers.Adam()
    run.gradient_steps(value_loss(run.policy), optimizer)
    assert PolicyModel(run.policy, optimizer).state()["optimizer"]


def test_something_may_come_between_the_start_and_the_first_rollout():
    events, env = [], make_env()
    run = make_run(2, env=env)
    own_step = env.step

    def step(actions):
        events.append("step")
        return own_step(actions)

    env.step = step
    learn(run, before=lambda: events.append(("before", run.model is not None, run.update)))
    assert events == [("before", True, 0)] + ["step"] * 2 * STEPS


def test_episodes_of_rollouts_are_the_runs():
    run, lengths = make_run(), []
    learn(run, lambda run, rollout: lengths.append(len(rollout.episodes)))
    # Two episodes of each environment in every rollout.
    assert lengths == [4] * 4 and run.episodes.count == 16 and run.episodes.mean_length == 4


def test_observations_are_taken_in_after_they_were_learnt_from():
    run, seen, counts = make_run(normalize_observations=True), [], []

    def each(run, rollout):
        counts.append((run.policy.normalizer.mean.copy(), np.concatenate(seen).mean(0) if seen else np.zeros(2)))
        seen.append(rollout.obs.reshape(-1, 2).copy())

    learn(run, each)
    for found, expected in counts:
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(run.policy.normalizer.mean, np.concatenate(seen).mean(0), rtol=1e-3, atol=1e-3)
    obs = seen[0][:3]
    np.testing.assert_allclose(run.model.value(obs), run.policy.forward(tf.constant(obs)).value, rtol=1e-4, atol=1e-5)


def test_a_row_has_the_columns_and_what_was_logged(tmp_path):
    logger.configure(str(tmp_path), ["csv"])
    found = learn(make_run())
    table = read_csv(tmp_path / "progress.csv")
    assert table["nupdates"].tolist() == [1, 2, 3, 4]
    assert table["total_timesteps"].tolist() == [ROWS * k for k in (1, 2, 3, 4)]
    assert table["eplenmean"].tolist() == [4.0] * 4
    np.testing.assert_allclose(table["value_loss"], [row["value_loss"] for row in found], rtol=1e-6)
    assert set(table) == COLUMNS


def test_a_function_gives_its_row_only_when_one_is_due(tmp_path):
    logger.configure(str(tmp_path), ["csv"])
    asked = []

    def row_of(run):
        def row():
            asked.append(run.update)
            return {"asked": len(asked)}

        return row

    run = make_run(5, log_interval=2)
    with run:
        for _ in run.rollouts(PolicyModel(run.policy)):
            run.log(row_of(run))
    assert asked == [1, 2, 4, 5]
    assert read_csv(tmp_path / "progress.csv")["asked"].tolist() == [1, 2, 3, 4]


def test_an_algorithm_may_have_columns_of_its_own(tmp_path):
    logger.configure(str(tmp_path), ["csv"])
    config = Config(nsteps=STEPS, total_timesteps=ROWS, seed=0)
    with OnPolicyRun(ALGORITHM, "mlp", make_env(), config, lambda run: {"mine": run.update}) as run:
        for _ in run.rollouts(PolicyModel(run.policy)):
            pass
    assert list(read_csv(tmp_path / "progress.csv")) == ["mine"]


def test_the_policy_is_also_run_in_other_environments(tmp_path):
    """As many steps as in those it learns from, after it has learnt, and nothing of it is learnt from."""
    logger.configure(str(tmp_path), ["csv"])
    beside, taken = make_env(3), []
    own_step = beside.step

    def step(actions):
        taken.append(run.update)
        return own_step(actions)

    beside.step = step
    run, shapes = make_run(3, eval_env=beside), []
    learn(run, lambda run, rollout: shapes.append((rollout.obs.shape, len(taken))))
    assert shapes == [((STEPS, ENVS, 2), (k - 1) * STEPS) for k in (1, 2, 3)]
    assert taken == [k for k in (1, 2, 3) for _ in range(STEPS)]
    assert run.eval_episodes.count == 3 * 3 * 2 and run.episodes.count == 3 * 2 * 2
    table = read_csv(tmp_path / "progress.csv")
    assert table["eval_eplenmean"].tolist() == [4.0] * 3
    assert table["eval_eprewmean"].iloc[-1] == pytest.approx(run.eval_episodes.mean_reward)


def test_a_resumed_run_goes_on_with_its_model_and_optimiser(tmp_path):
    logger.configure(str(tmp_path), ["csv"])
    saved = None

    def each(run, rollout):
        nonlocal saved
        saved = saved or (run.update, [variable.numpy() for variable in run.policy.trainable_variables])

    first = make_run(2)
    learn(first)
    logger.configure(str(tmp_path), ["csv"], resume=True)
    run = make_run(4, run=RunOptions(resume=str(tmp_path)))
    found = learn(run, each)
    assert len(found) == 2 and saved[0] == 3 and run.update == 4
    for one, other in zip(saved[1], first.policy.trainable_variables, strict=True):
        np.testing.assert_array_equal(one, other)


def test_each_pass_is_a_permutation_cut_into_minibatches():
    indices = shuffled(np.random.default_rng(0), 12, 3, 4)
    assert indices.shape == (12, 4) and indices.dtype == np.int32
    passes = indices.reshape(4, 12)
    np.testing.assert_array_equal(np.sort(passes, axis=1), np.tile(np.arange(12), (4, 1)))
    assert len({tuple(one) for one in passes.tolist()}) == 4


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_model_of_the_users_own_takes_minibatches(recurrent):
    """Of recurrent policies every row is a sequence."""
    taken = []

    def train(lr, cliprange, obs, masks, states, **others):
        taken.append((lr, cliprange, obs, masks, states, others))
        return [float(obs.sum()), 1.0]

    phase = minibatch_by_minibatch(SimpleNamespace(train=train, loss_names=("total", "one")))
    obs = np.tile(np.arange(6.0)[:, None, None], (1, 3, 1)) if recurrent else np.arange(6.0)[:, None]
    data = {"obs": obs, "returns": obs[..., 0]}
    if recurrent:
        data |= {"episode_start": np.eye(6, 3), "states": np.arange(12.0).reshape(6, 2)}
    row = phase(0.1, 0.2, data, np.array([[0, 1], [5, 3]]))
    assert row == {"total": pytest.approx(np.mean([1.0, 8.0]) * (3 if recurrent else 1)), "one": 1.0}
    lr, cliprange, seen, masks, states, others = taken[1]
    repeats = 3 if recurrent else 1
    assert (lr, cliprange) == (0.1, 0.2)
    np.testing.assert_array_equal(seen[:, 0], np.repeat([5.0, 3.0], repeats))
    np.testing.assert_array_equal(others["returns"], np.repeat([5.0, 3.0], repeats))
    assert masks.shape == (2 * repeats,)
    if recurrent:
        np.testing.assert_array_equal(states, data["states"][[5, 3]])
    else:
        assert states is None and not masks.any()
