"""Callbacks, from Python and from the command line."""

import csv
import math
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from helpers import vec
from small_runs import own_identity
from small_runs import train as small_train

from tfbaselines.algs import ppo2
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.logs import logger
from tfbaselines.run import command as main
from tfbaselines.training.callbacks import Callbacks, EvaluateEvery, SaveEvery, StopAt, StopWithoutGain

SMALL = {"nsteps": 16, "nminibatches": 1, "noptepochs": 1, "num_hidden": 4, "seed": 0, "log_interval": 1}


class FakeRun:
    """A run whose judged returns are given."""

    def __init__(self, returns):
        self.judged_return, self.timesteps = math.nan, 0
        self._returns = returns

    def __iter__(self):
        for value in self._returns:
            self.timesteps += 10
            self.judged_return = value
            yield self


def train(directory, *callbacks, resume=None, total=96):
    logger.configure(str(directory), ["csv"], resume=resume is not None)
    env = vec(lambda: tiny.DiscreteIdentityEnv(3, episode_len=8))
    options = RunOptions(callback=callbacks, resume=resume and str(resume), keep_checkpoints=50)
    return ppo2.learn("mlp", env, total, **SMALL, run=options)


def rows(directory, column):
    with open(directory / "progress.csv") as file:
        return [row[column] for row in csv.DictReader(file)]


def steps_of(directory):
    return [int(steps) for steps in rows(directory, "misc/total_timesteps")]


def saved(directory):
    return [int(path.name) for path in sorted((directory / "checkpoints").glob("0*"))]


def test_a_run_stops_at_a_mean_return_and_says_so(capsys):
    stop = StopAt(5.0)
    assert [stop(run) for run in FakeRun([math.nan, 4.9, 5.0])] == [True, True, False]
    assert "the mean return is 5, at least 5: training stops" in capsys.readouterr().out


def test_a_bound_is_a_number():
    with pytest.raises(ValueError, match=r"^mean_return='475' is not valid: a number$"):
        StopAt("475")


def test_a_run_stops_without_gain():
    stop = StopWithoutGain(30)
    assert [stop(run) for run in FakeRun([math.nan] * 5 + [1.0, 1.0, 2.0, 2.0, 1.0])] == [True] * 10
    again = StopWithoutGain(30)
    again.restore(stop.state())
    run = next(iter(FakeRun([2.0])))
    run.timesteps = 80 + 29
    assert again(run)
    run.timesteps = 80 + 30
    assert not again(run)


def test_a_gain_may_have_to_be_large():
    stop = StopWithoutGain(20, at_least=1.0)
    assert [stop(run) for run in FakeRun([0.0, 0.9, 1.0])] == [True, True, False]


def test_every_callback_is_called_though_one_ends_the_run():
    called = []
    both = Callbacks([lambda run: False, called.append])
    assert not both("run") and called == ["run"]
    assert Callbacks(None)("run") and Callbacks(called.append)("run")


@pytest.mark.parametrize(("answer", "goes_on"), [(None, True), (True, True), (np.True_, True), (np.False_, False)])
def test_what_numpy_compares_ends_a_run_too(answer, goes_on):
    assert Callbacks(lambda run: answer)("run") == goes_on


def test_tests_need_environments_of_their_own(eager):
    env, game = vec(lambda: tiny.DiscreteIdentityEnv(3, episode_len=8)), tiny.DiscreteIdentityEnv(3, episode_len=8)
    for trained, tested in ((env, env), (game, game)):
        run = RunOptions(callback=EvaluateEvery(16, tested, 1))
        with pytest.raises(ValueError, match="env of EvaluateEvery has the environments of training"):
            ppo2.learn("mlp", trained, 32, **SMALL, run=run)
        with pytest.raises(ValueError, match="eval_env has the environments of training"):
            ppo2.learn("mlp", trained, 32, **SMALL, eval_env=tested)


def test_tests_on_another_environment_are_refused_at_the_start(eager):
    env = vec(lambda: tiny.DiscreteIdentityEnv(3, episode_len=8))
    words = r"env of EvaluateEvery has the observations Box.*, those of training are"
    with pytest.raises(ValueError, match=words) as error:
        ppo2.learn("mlp", env, 32, **SMALL, run=RunOptions(callback=EvaluateEvery(16, "BipedalWalker-v3", 1)))
    assert "\n" not in str(error.value)


def test_the_row_of_the_update_that_is_good_enough_is_logged(tmp_path):
    train(tmp_path, lambda run: run.update < 3)
    assert steps_of(tmp_path) == [16, 32, 48]


def test_checkpoints_come_by_steps(tmp_path):
    train(tmp_path, SaveEvery(40))
    assert saved(tmp_path) == [3, 5, 6]


def test_tests_come_by_steps_and_count(tmp_path):
    seen = []
    tests = EvaluateEvery(48, lambda: vec(lambda: tiny.DiscreteIdentityEnv(3, episode_len=8), seed=5), episodes=4)
    train(tmp_path, tests, lambda run: seen.append((run.eval_episodes.count, run.judged_return)))
    assert [count for count, _ in seen] == [0, 0, 4, 4, 4, 8]
    assert math.isnan(seen[1][1])
    column = rows(tmp_path, "evaluation/return")
    assert column[1] == "nan" and float(column[2]) == pytest.approx(seen[2][1])
    assert float(rows(tmp_path, "evaluation/length")[-1]) == 8.0


@pytest.mark.parametrize("given", ["CartPole-v1", lambda: gymnasium.make("CartPole-v1")])
def test_environments_for_tests_have_a_seed_of_the_runs(given):
    begun = []
    for seed in (3, 3, 4, None):
        space = SimpleNamespace(observation_space=SimpleNamespace())
        run = SimpleNamespace(
            model=SimpleNamespace(policy=space),
            algorithm=SimpleNamespace(wrap=lambda env: env),
            config=SimpleNamespace(seed=seed),
            normalized=vec(lambda: gymnasium.make("CartPole-v1")),
            options=RunOptions(),
            scores=SimpleNamespace(judge_by_tests=lambda episodes: True),
            columns={},
        )
        tests = EvaluateEvery(10, given)
        tests.begin(run)
        begun.append(tests._tester.env.reset().tolist())
        tests.close()
    assert begun[0] == begun[1] != begun[2] and begun[3] not in begun[:3]


def test_a_resumed_run_tests_as_an_uninterrupted_one(tmp_path):
    def tests():
        return EvaluateEvery(32, lambda: vec(lambda: tiny.DiscreteIdentityEnv(3, episode_len=8), seed=5), episodes=2)

    train(tmp_path / "whole", tests(), total=160)
    train(tmp_path / "parts", tests(), total=64)
    train(tmp_path / "parts", tests(), total=160, resume=tmp_path / "parts")
    whole, parts = (rows(tmp_path / name, "evaluation/return") for name in ("whole", "parts"))
    assert whole == parts


@pytest.mark.slow
def test_the_flags_do_the_same(tmp_path):
    flags = ["--evaluate_every=200", "--evaluate_episodes=3", "--save_every=300", "--stop_at=8"]
    small = ["--nsteps=50", "--nminibatches=1", "--noptepochs=1", "--log_interval=1", "--num_timesteps=2000"]
    assert main(["--env=CartPole-v1", f"--log_path={tmp_path}", "--seed=0", *small, *flags]) == 0
    # Any policy stands for eight steps: the first test ends the run.
    assert steps_of(tmp_path)[-1] == 200 and saved(tmp_path) == [4]
    assert float(rows(tmp_path, "evaluation/return")[-1]) >= 8


def test_a_flag_out_of_bounds_is_one_line(capsys):
    assert main(["--evaluate_every=0"]) == 2
    assert "evaluate_every=0.0 is not valid: at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("alg", ["td3", "vpg", "es"])
def test_algorithms_with_tests_of_their_own_are_tested_beside_them(alg, eager, tmp_path):
    """Their environments for training and for tests stand together in the run."""
    own = {"eval_env": own_identity(alg, 1, 7), "num_test_episodes": 1, "max_ep_len": 5}
    tests = EvaluateEvery(10, own_identity(alg, 1, 8), episodes=2)
    small_train(tmp_path, alg, own_identity(alg), 6, run=RunOptions(callback=tests), **own)
    assert rows(tmp_path, "evaluation/length")[-1] == "5.0"
