"""Rows of DDPG's logs: baselines' columns, and what is in them."""

import numpy as np
import pytest
from gymnasium import spaces
from small_environments import CYCLE, counting
from small_runs import EPOCH, joined, learn, rows, train

from tfbaselines.config.options import RunOptions
from tfbaselines.learn.engine import Engine
from tfbaselines.logs.logger import read_csv
from tfbaselines.parallel.mpi import Communicator

COLUMNS = (
    "obs_rms_mean obs_rms_std param_noise_stddev reference_Q_mean reference_Q_std reference_action_mean "
    "reference_action_std reference_actor_Q_mean reference_actor_Q_std reference_perturbed_action_mean "
    "reference_perturbed_action_std rollout/Q_mean rollout/actions_mean rollout/actions_std rollout/episode_steps "
    "rollout/episodes rollout/return rollout/return_history rollout/return_history_std rollout/return_std "
    "total/duration total/episodes total/epochs total/steps total/steps_per_second train/loss_actor train/loss_critic "
    "train/param_noise_distance"
)
PERTURBED = {"param_noise_stddev", "reference_perturbed_action_mean", "reference_perturbed_action_std"}
EVALUATED = ["eval/Q", "eval/episodes", "eval/return", "eval/return_history"]


def columns(directory):
    return sorted(read_csv(directory / "progress.csv"))


@pytest.mark.parametrize(
    ("arguments", "more", "fewer"),
    [
        ({}, [], []),
        ({"noise_type": "ou_0.2"}, [], PERTURBED),
        ({"normalize_observations": False}, [], ["obs_rms_mean", "obs_rms_std"]),
        ({"normalize_returns": True}, ["ret_rms_mean", "ret_rms_std"], []),
        ({"num_test_episodes": 1}, ["eval/return"], []),
    ],
)
def test_the_columns_are_baselines(arguments, more, fewer, seen, tmp_path):
    train(tmp_path, "ddpg", counting(), **arguments, run=RunOptions(make_eval_env=counting))
    assert columns(tmp_path) == sorted({*COLUMNS.split(), *more} - {*fewer})


def test_an_environment_beside_adds_baselines_columns_of_it(seen, tmp_path):
    train(tmp_path, "ddpg", counting(), eval_env=counting(), nb_eval_steps=5)
    assert set(columns(tmp_path)) - {*COLUMNS.split()} == {*EVALUATED}


def test_episodes(seen, tmp_path):
    train(tmp_path, "ddpg", counting(), 4)
    log = rows(tmp_path)
    returns = np.arange(40).reshape(8, 5).sum(-1)
    assert log["rollout/episodes"].tolist() == [4, 4] and log["rollout/episode_steps"].tolist() == [5, 5]
    np.testing.assert_allclose(log["rollout/return"], returns.reshape(2, 4).mean(1))
    np.testing.assert_allclose(log["rollout/return_std"], returns.reshape(2, 4).std(1))
    np.testing.assert_allclose(log["rollout/return_history"], [returns[:4].mean(), returns.mean()])
    np.testing.assert_allclose(log["rollout/return_history_std"], [returns[:4].std(), returns.std()])
    assert log["total/episodes"].tolist() == [4, 8]
    assert log["total/epochs"].tolist() == [1, 2]
    assert log["total/steps"].tolist() == [EPOCH, 2 * EPOCH]


def test_returns_are_the_environments_own(seen, tmp_path):
    train(tmp_path, "ddpg", counting(), 2, reward_scale=0.1)
    assert rows(tmp_path)["rollout/return"].tolist() == [np.arange(20).reshape(4, 5).sum(-1).mean()]
    np.testing.assert_allclose(joined(seen, "rewards"), 0.1 * np.abs(joined(seen, "obs")), rtol=1e-6)


def test_actions_are_told_in_units_of_their_bounds(seen, tmp_path):
    env = counting(2, actions=spaces.Box(np.array([10.0, -1.0], np.float32), np.array([30.0, 3.0], np.float32)))
    train(tmp_path, "ddpg", env, 2)
    actions = np.concatenate([one.unwrapped.taken for one in env.envs])
    unit = (actions - [20, 1]) / [10, 2]
    log = rows(tmp_path).iloc[0]
    assert log["rollout/actions_mean"] == pytest.approx(unit.mean(), abs=1e-5)
    assert log["rollout/actions_std"] == pytest.approx(unit.std(), rel=1e-5)
    assert np.abs(unit).max() <= 1


def test_values_are_those_of_what_was_seen(seen, tmp_path):
    model = train(tmp_path, "ddpg", counting(), 2, normalize_observations=False, noise_type="none", start_steps=0)
    counts = np.arange(20)
    obs = np.where(counts % 5 == 0, -counts, counts).astype(np.float32)[:, None]
    assert rows(tmp_path)["rollout/Q_mean"].iloc[0] == pytest.approx(model.value(obs).mean(), rel=1e-4, abs=1e-6)


def test_losses_are_means_over_the_epoch(monkeypatch, tmp_path):
    told = iter(np.arange(100.0))

    def telling(update, block, **coefficients):
        values = np.array([next(told), next(told)])
        return {"loss_critic": values, "loss_actor": -values}

    monkeypatch.setattr(Engine, "block", telling)
    train(tmp_path, "ddpg", counting(), 4)
    log = rows(tmp_path)
    assert log["train/loss_critic"].tolist() == [1.5, 5.5] and log["train/loss_actor"].tolist() == [-1.5, -5.5]


def test_before_learning_there_are_no_losses(seen, tmp_path):
    train(tmp_path, "ddpg", counting(length=None), 2, update_after=100)
    log = rows(tmp_path)
    assert log[["train/loss_critic", "train/param_noise_distance", "rollout/return"]].isna().all(axis=None)
    assert log["rollout/episodes"].tolist() == [0]


def test_the_fixed_batch_stays_the_same(seen, tmp_path):
    """Without learning nothing that is said of it changes."""
    train(tmp_path, "ddpg", counting(), 6, normalize_observations=False, noise_type="none")
    log = rows(tmp_path)
    names = [name for name in log if name.startswith("reference_")]
    assert len(names) == 6
    assert (log[names].nunique() == 1).all() and (log["reference_Q_std"] > 0).all()


def test_noise_of_parameters_is_told(seen, tmp_path):
    train(tmp_path, "ddpg", counting(), 6, noise_type="adaptive-param_0.5")
    log = rows(tmp_path)
    sizes = log["param_noise_stddev"].tolist()
    # One correction in each of an epoch's two cycles.
    for before, after in zip([0.5, *sizes], sizes, strict=False):
        assert round(np.log(after / before) / np.log(1.01), 3) in (-2, 0, 2)
    assert (log["train/param_noise_distance"] > 0).all()
    assert (log["reference_perturbed_action_mean"] != log["reference_action_mean"]).all()


def test_the_size_is_corrected_at_intervals_of_gradient_steps(seen, tmp_path):
    model = learn(
        "ddpg", counting(), 2, nb_train_steps=10, param_noise_adaption_interval=4, noise_type="adaptive-param_9"
    )
    assert [one.count for one in seen] == [4, 4, 2] * 2
    # The distance, of bounded actions, is never as large as that.
    assert model.state()["param_noise_stddev"] == pytest.approx(9 * 1.01**6)


def test_the_environment_beside_is_acted_in_without_noise(seen, tmp_path):
    tests = counting(2)
    own = {"normalize_observations": False, "noise_type": "normal_0.5", "nb_eval_steps": 6}
    model = train(tmp_path, "ddpg", counting(), 4, eval_env=tests, **own)
    taken = np.array(tests.envs[0].unwrapped.taken)
    counts = np.arange(4 * 6)
    obs = np.where(counts % 5 == 0, -counts, counts).astype(np.float32)[:, None]
    # Episodes go on from one cycle to the next.
    np.testing.assert_allclose(taken, model.act(obs, deterministic=True)[0], rtol=1e-4, atol=1e-5)
    log = rows(tmp_path)
    returns = np.arange(20).reshape(4, 5).sum(-1)
    assert log["eval/episodes"].tolist() == [4, 4]
    np.testing.assert_allclose(log["eval/return"], [returns[:2].mean(), returns[2:].mean()])
    np.testing.assert_allclose(log["eval/return_history"], [returns[:2].mean(), returns.mean()])
    assert log["eval/Q"].iloc[0] == pytest.approx(model.value(obs[:12]).mean(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", ["render", "render_eval"])
def test_environments_are_shown_when_asked_for(name, seen, monkeypatch):
    env, beside, shown = counting(), counting(), []
    for one in (env, beside):
        monkeypatch.setattr(one, "render", lambda one=one: shown.append(one))
    learn("ddpg", env, 2, eval_env=beside, nb_eval_steps=3)
    assert shown == []
    learn("ddpg", env, 2, eval_env=beside, nb_eval_steps=3, **{name: True})
    assert shown == ([env] * 20 if name == "render" else [beside] * 6)


def test_means_are_over_ranks(seen, tmp_path):
    class Two(Communicator):
        """The other rank's numbers are all 100 more."""

        size = 2

        def sum(self, array):
            return 2 * np.asarray(array) + 100

        def average(self, flat, weight=1.0):
            return flat

    train(tmp_path, "ddpg", counting(), 2, comm=Two(), normalize_observations=False)
    log = rows(tmp_path)
    assert log["rollout/return"].tolist() == [np.arange(20).reshape(4, 5).sum(-1).mean() + 50]
    assert log["total/steps"].tolist() == [EPOCH] and log["total/epochs"].tolist() == [1]


def test_with_memory_nothing_is_said_of_single_observations(seen, tmp_path):
    train(tmp_path, "ddpg", counting(), 2, network="lstm", nlstm=4, noise_type="none", nb_rollout_steps=CYCLE)
    log = rows(tmp_path)
    assert not [name for name in log if name.startswith("reference_")]
    assert np.isnan(log["rollout/Q_mean"].iloc[0])


def test_a_resumed_run_goes_on_counting(seen, tmp_path):
    stop = RunOptions(callback=lambda training: training.update < 4)
    train(tmp_path, "ddpg", counting(), 8, run=stop)
    train(tmp_path, "ddpg", counting(first=40), 8, run=RunOptions(resume=str(tmp_path)))
    table = read_csv(tmp_path / "progress.csv")
    assert table["total/steps"].tolist() == [20, 40, 60, 80]
    assert table["total/epochs"].tolist() == [1, 2, 3, 4]
    assert table["total/duration"].is_monotonic_increasing
    assert table["total/episodes"].tolist() == [4, 8, 12, 16]


def test_returns_of_before_a_stop_are_among_the_latest(seen, tmp_path):
    stop = RunOptions(callback=lambda training: training.update < 4)
    train(tmp_path, "ddpg", counting(), 6, run=stop)
    train(tmp_path, "ddpg", counting(first=40), 6, run=RunOptions(resume=str(tmp_path)))
    returns = np.concatenate([np.arange(40), np.arange(40, 60)]).reshape(-1, 5).sum(-1)
    assert rows(tmp_path)["rollout/return_history"].iloc[-1] == pytest.approx(returns.mean())
