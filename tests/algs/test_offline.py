"""td3 and sac from a data set alone: what is learnt, mistakes, resuming, the command line."""

import copy
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from helpers import vec
from small_environments import Still
from small_runs import DEMONSTRATIONS, joined, learn, rows, samples, stop_after, train, weights

from tfbaselines.algs import get
from tfbaselines.config.options import RunOptions
from tfbaselines.demos import Demonstrations, save_demonstrations
from tfbaselines.envs.make import make_vec_env
from tfbaselines.evaluate import evaluate
from tfbaselines.run import command as main

SEEN, ACTIONS = Still.observation_space, spaces.Box(-2.0, 2.0, (2,), np.float32)
BOTH = pytest.mark.parametrize("alg", ["td3", "sac"])
PENDULUM = DEMONSTRATIONS / "pendulum.npz"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file with 40 steps of an environment that nothing is learnt in."""
    path = tmp_path_factory.mktemp("data") / "data.npz"
    save_demonstrations(path, samples(SEEN, ACTIONS, (10,) * 4), SEEN, ACTIONS)
    return str(path)


class Untouched(Still):
    """Fails when a run takes a step."""

    def step(self, action):
        raise AssertionError("an offline run took a step")


def untouched():
    return vec(lambda: Untouched(ACTIONS))


# What the data holds, and what is learnt from it.


@BOTH
def test_batches_are_the_data_and_the_environment_takes_no_step(alg, data, seen):
    learn(alg, untouched(), 3, offline=data)
    given = samples(SEEN, ACTIONS, (10,) * 4)
    assert [one.count for one in seen] == [2, 2, 2]
    drawn = np.concatenate([one.block["actions"].reshape(-1, 2) for one in seen])
    assert all((given.actions == action).all(axis=1).any() for action in drawn)
    assert set(joined(seen, "rewards")) <= set(given.rewards)


@BOTH
def test_a_step_of_the_run_is_a_gradient_step(alg, data, seen):
    learn(alg, untouched(), total_timesteps=60, num_update=None, offline=data)
    assert sum(one.count for one in seen) == 60


@pytest.mark.parametrize(
    ("alg", "name", "value"),
    [("td3", "bc_alpha", 0.5), ("sac", "cql_weight", 1.0), ("sac", "cql_actions", 3), ("sac", "cql_threshold", 0.5)],
)
def test_every_argument_makes_a_difference(alg, name, value, data, eager):
    plain, other = (weights(learn(alg, untouched(), 3, offline=data, **own).policy) for own in ({}, {name: value}))
    assert plain.tolist() != other.tolist()


@pytest.mark.parametrize(("threshold", "grows"), [(-1e3, True), (1e3, False)])
def test_the_weight_is_learnt_for_a_threshold(threshold, grows, data, eager, tmp_path):
    train(tmp_path, "sac", untouched(), 4, offline=data, cql_threshold=threshold, lr=0.1)
    weight = rows(tmp_path)["CQLWeight"]
    assert (weight.iloc[-1] > weight.iloc[0]) == grows and weight.notna().all()


def test_observations_are_normalised_over_the_data(data, eager):
    obs = samples(SEEN, ACTIONS, (10,) * 4).obs.astype(np.float64)
    normalizer = learn("td3", untouched(), 2, offline=data).policy.normalizer
    np.testing.assert_allclose(normalizer.mean, obs.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(normalizer.std, obs.std(axis=0) + 1e-3, rtol=1e-5)
    assert learn("td3", untouched(), 2, offline=data, normalize_observations=False).policy.normalizer is None
    assert learn("sac", untouched(), 2, offline=data).policy.normalizer is None
    assert learn("td3", vec(lambda: Still(ACTIONS)), 2).policy.normalizer is None


def test_small_deviations_are_not_raised(tmp_path, eager):
    given = samples(SEEN, ACTIONS, (10,) * 4)
    given = dataclasses.replace(given, obs=0.01 * given.obs, last_obs=0.01 * given.last_obs)
    save_demonstrations(tmp_path / "data.npz", given, SEEN, ACTIONS)
    model = learn("td3", untouched(), 2, offline=str(tmp_path / "data.npz"))
    expected = given.obs.astype(np.float64).std(axis=0) + 1e-3
    np.testing.assert_allclose(model.policy.normalizer.std, expected, rtol=1e-3)
    again = learn("td3", untouched(), 0, offline=str(tmp_path / "data.npz"))
    again.policy.normalizer.restore(copy.deepcopy(model.policy.normalizer.state()))
    np.testing.assert_array_equal(again.policy.normalizer.std, model.policy.normalizer.std)


# Runs.


@BOTH
@pytest.mark.parametrize("own", [{}, {"memory_size": 4, "sequence_length": 3}], ids=["plain", "memory"])
def test_a_resumed_run_equals_an_uninterrupted_one(alg, own, data, eager, tmp_path):
    own = own | {"offline": data} | ({"alpha": "auto", "cql_threshold": 0.1} if alg == "sac" else {})
    whole = train(tmp_path / "whole", alg, untouched(), 4, **own)
    train(tmp_path / "half", alg, untouched(), 4, run=stop_after(2), **own)
    again = own | {"run": RunOptions(resume=str(tmp_path / "half")), "seed": 99}
    resumed = train(tmp_path / "half", alg, untouched(), 4, **again)
    np.testing.assert_equal(resumed.state(), whole.state())
    assert len(rows(tmp_path / "whole")) == 2 and rows(tmp_path / "half").equals(rows(tmp_path / "whole"))
    assert not list((tmp_path / "half").rglob("replay*"))


def test_sequences_are_as_long_as_the_data_whatever_the_number_of_environments(data, seen):
    """The data's 40 steps are those of one environment."""
    learn("td3", vec(lambda: Untouched(ACTIONS), 3), 2, offline=data, memory_size=4, sequence_length=15)
    assert len(seen) == 2


def test_discrete_actions_are_learnt_offline(tmp_path):
    """Of three actions the data takes each in turn, and one is paid."""
    actions, count = np.arange(60) % 3, 60
    given = Demonstrations(
        obs=np.zeros((count, 2), np.float32),
        actions=actions,
        rewards=(actions == 1).astype(np.float32),
        lengths=np.full(count, 1),
        terminated=np.ones(count, bool),
    )
    space = spaces.Discrete(3)
    save_demonstrations(tmp_path / "data.npz", given, SEEN, space)
    own = {"offline": str(tmp_path / "data.npz"), "alpha": 0.01, "lr": 1e-2, "num_update": None, "batch_size": 32}
    model = learn("sac", vec(lambda: Untouched(space)), 15, **own)
    assert model.act(np.zeros(2, np.float32), deterministic=True)[0] == 1


@BOTH
def test_the_command_line(alg, eager, tmp_path, capsys):
    small = ["--hidden_sizes=[8]", "--batch_size=8", "--steps_per_epoch=20", "--update_every=10", "--num_update=2"]
    words = [f"--alg={alg}", "--env=Pendulum-v1", "--seed=0", "--num_test_episodes=1", "--max_ep_len=15", *small]
    log, given = tmp_path / "log", f"--offline={PENDULUM}"
    assert main([*words, given, "--num_timesteps=40", f"--log_path={log}"]) == 0
    out = capsys.readouterr().out
    assert f"--resume={log} {given}" in out and "offline: 10 episodes, 2000 steps" in out
    assert len(rows(log)) == 2 and rows(log)["AverageTestEpRet"].notna().all()
    # Without the data set it would go on in the environment.
    assert main([f"--resume={log}", "--num_timesteps=60"]) == 2
    assert "the path in the run's offline is not kept: give --offline=" in capsys.readouterr().err
    assert main([f"--resume={log}", "--num_timesteps=60", given]) == 0
    assert len(rows(log)) == 3 and (log / "0.0.monitor.csv").read_text().count("\n") == 2
    assert len(evaluate(str(log), episodes=1)["returns"]) == 1


@pytest.mark.parametrize(
    ("alg", "own", "message"),
    [
        ("td3", {"batch_size": 41}, r"offline='.*' is not valid: at least batch_size=41 steps, it has 40"),
        ("td3", {"memory_size": 4, "sequence_length": 50}, r"sequence_length=50 .* 40 transitions is too small$"),
        ("sac", {"replay": "hindsight"}, r"replay='hindsight' is not valid: 'uniform' with offline"),
        ("sac", {"cql_weight": 0.0, "cql_threshold": 1.0}, r"cql_weight=0.0 is not valid: above 0 with cql_threshold"),
        ("sac", {"offline": "nowhere.npz"}, r"cannot read demonstrations 'nowhere.npz': there is no such file"),
        ("sac", {"offline": ""}, r"offline"),
        ("sac", {"reward_signals": {"extrinsic": {}}}, r"reward_signals=.* is not valid: None with offline"),
        ("sac", {"offline": None, "cql_weight": 1.0}, r"cql_weight=1.0 is not valid: needs offline"),
        ("td3", {"offline": None, "bc_alpha": 1.0}, r"bc_alpha=1.0 is not valid: needs offline"),
    ],
)
def test_mistakes_are_one_line(alg, own, message, data):
    with pytest.raises(ValueError, match=message) as error:
        learn(alg, untouched(), 2, **{"offline": data} | own)
    assert "\n" not in str(error.value)


def test_other_spaces_are_refused(data):
    with pytest.raises(ValueError, match="for another observation space"):
        learn("td3", make_vec_env("Pendulum-v1", "classic_control", 1, 0), 2, offline=data)
    with pytest.raises(ValueError, match="for another action space"):
        learn("sac", vec(lambda: Still(spaces.Discrete(3))), 2, offline=data)
    with pytest.raises(ValueError, match="continuous actions need bounds"):
        learn("td3", vec(lambda: Still(spaces.Discrete(3))), 2, offline=data)


def test_minari_datasets(eager, monkeypatch):
    """A stand-in for the package's loader."""
    given, seen = samples(SEEN, ACTIONS, (10,) * 4), []
    monkeypatch.setattr("tfbaselines.demos.of_minari", lambda name, packed: seen.append(name) or given)
    learn("td3", untouched(), 2, offline="minari:some/data-v0")
    assert seen == ["some/data-v0"]


# Learning.


@pytest.mark.slow
@BOTH
def test_the_best_of_noisy_data_is_found(alg, tmp_path):
    """A line, with rewards for actions near a half; the data's actions are random."""
    tf.keras.utils.set_random_seed(0)
    rng, count = np.random.default_rng(0), 2000
    actions = rng.uniform(-2, 2, (count, 2)).astype(np.float32)
    given = Demonstrations(
        obs=rng.uniform(-1, 1, (count, 2)).astype(np.float32),
        actions=actions,
        rewards=-np.square(actions - 0.5).sum(axis=1),
        lengths=np.ones(count, int),
        terminated=np.ones(count, bool),
    )
    save_demonstrations(tmp_path / "data.npz", given, SEEN, ACTIONS)
    own = {"td3": {"bc_alpha": 20.0}, "sac": {"cql_weight": 0.1, "cql_actions": 4, "alpha": 0.05}}[alg]
    own |= {"offline": str(tmp_path / "data.npz"), "num_update": None, "batch_size": 64, "hidden_sizes": [32, 32]}
    model = learn(alg, untouched(), 200, **own)
    chosen = model.act(given.obs[:100], deterministic=True)[0]
    assert np.abs(chosen - 0.5).mean() < 0.3


def test_only_algorithms_that_learn_offline_declare_it():
    declared = {alg for alg in ("td3", "sac", "ddpg", "deepq", "her") if "offline" in get(alg).config.arguments()}
    assert declared == {"td3", "sac"}
