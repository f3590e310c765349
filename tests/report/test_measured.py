"""Numbers of single runs, names of methods across environments, and what is compared."""

import json

import numpy as np
import pytest

from tfbaselines.plot.results import Run, find_runs, group_of
from tfbaselines.report import measured
from tfbaselines.report.measured import Measured, final_score, measure
from tfbaselines.report.methods import with_methods
from tfbaselines.report.tasks import Task, normalized, pairs_of, sentences, shared, tasks_of


def named(path, env, **config):
    """A run as the readers give it."""
    settings = frozenset((name, str(value)) for name, value in config.items())
    return Run(path, group_of(f"/{path}", config)[-3:], {}, env, settings=settings, config=config)


@pytest.mark.parametrize(
    ("runs", "labels"),
    [
        # One method on two environments, with settings tuned for each, is one name.
        ([("l/ppo2/CartPole-v1", "CartPole-v1", {"lr": 1}), ("l/ppo2/Ant-v5", "Ant-v5", {"lr": 2})], ["ppo2", "ppo2"]),
        ([("l/runs/ppo2-CartPole-v1", "CartPole-v1", {}), ("l/runs/a2c-Ant-v5", "Ant-v5", {})], ["ppo2", "a2c"]),
        # Directories of a study.
        (
            [(f"s/runs/ppo2-{env}-lr={lr}-s0", env, {"lr": lr}) for env in ("A-v0", "B-v0") for lr in (1, 2)],
            ["ppo2-lr=1", "ppo2-lr=2"] * 2,
        ),
        # The algorithm is part of the name where there are several.
        ([("l/x-ALE-Pong-v5", "ALE/Pong-v5", {"alg": "acer"}), ("l/x", "Ant-v5", {"alg": "sac"})], ["acer", "sac"]),
        # Settings that differ on one environment.
        ([("l/p", "A-v0", {"lr": 1, "g": 0}), ("l/p", "A-v0", {"lr": 2, "g": 0})], ["p lr=1", "p lr=2"]),
        ([("l/s1-A-v0", "A-v0", {"alg": "sac"}), ("l/s2-B-v0", "B-v0", {"alg": "sac"})], ["s1", "s2"]),
        # A search with many settings.
        (
            [("l/p", "A-v0", dict.fromkeys("abcd", value)) for value in range(3)],
            ["p #1", "p #2", "p #3"],
        ),
    ],
)
def test_methods_have_one_name_on_all_environments(runs, labels):
    runs = [named(path, env, **config) for path, env, config in runs]
    assert [run.label for run in with_methods(runs)] == labels


def test_the_score_is_the_mean_of_the_last_tenth(tmp_path):
    (tmp_path / "progress.csv").write_text(
        "misc/total_timesteps,eprewmean\n" + "".join(f"{i},{i}\n" for i in range(101))
    )
    (run,) = find_runs(str(tmp_path))
    found = measure(run)
    assert found.score == np.mean(range(90, 101)) == final_score(found.curves["steps"])
    assert found.tested is None and list(found.curves) == ["steps"]


def test_a_log_of_few_rows_gives_way_to_its_episodes(tmp_path):
    (tmp_path / "progress.csv").write_text("steps,mean 100 episode reward\n10,1\n")
    rows = "".join(f"{i},10,{i}\r\n" for i in range(30))
    (tmp_path / "0.monitor.csv").write_text(f'# {{"t_start": 0, "env_id": "CartPole-v1"}} \nr,l,t\r\n{rows}')
    (tmp_path / "result.json").write_text('{"score": 499.5}')
    found = measure(find_runs(str(tmp_path))[0])
    assert found.column == "r" and found.curves["steps"].x[-1] == 300 and found.tested == 499.5
    assert found.facts["steps/s"] == "10"
    (tmp_path / "result.json").write_text('{"score": "many"}')
    assert measure(find_runs(str(tmp_path))[0]).tested is None


def test_a_failure_of_the_doctor_is_a_line_and_the_run_is_shown(tmp_path, monkeypatch, capsys):
    (tmp_path / "progress.csv").write_text("misc/total_timesteps,eprewmean\n1,2\n")
    monkeypatch.setattr(measured, "examine_directory", lambda *_: 1 / 0)
    assert measure(find_runs(str(tmp_path))[0]).findings == ()
    assert capsys.readouterr().err == f"the doctor cannot examine {tmp_path}: ZeroDivisionError: division by zero\n"


def test_success_rates_are_a_task_of_their_own(tmp_path):
    for name, column in (("a", "test/success_rate"), ("b", "eprewmean")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"alg": name, "env": {"env": "FetchReach-v4"}}))
        (tmp_path / name / "progress.csv").write_text(f"steps,{column}\n1,0.5\n2,0.5\n")
    tasks = tasks_of(map(measure, with_methods(find_runs(str(tmp_path)))))
    assert [task.name for task in tasks] == ["FetchReach-v4", "FetchReach-v4 (success rate)"]


def scored(*scores):
    return [Measured(None, False, "r", {}, score, None, (), {}, ()) for score in scores]


def test_comparisons_over_tasks_are_of_methods_that_have_run_on_all_of_them():
    one = Task("A", False, {"x": scored(1, 3), "y": scored(0, 5), "z": scored(2)})
    two = Task("B", False, {"x": scored(10, 30, 20), "y": scored(20, 10)})
    other = Task("C", False, {"z": scored(1)})
    tasks, methods = shared([one, two, other])
    assert [task.env for task in tasks] == ["A", "B"] and methods == ["x", "y"]
    matrices = normalized(tasks, methods)
    assert matrices["x"].tolist() == [[0.2, 0.0], [0.6, 1.0]] and matrices["y"].tolist() == [[0.0, 0.5], [1.0, 0.0]]
    assert shared([one]) == ([], [])


def test_sentences_say_how_many_seeds_would_do():
    scores = {"b": np.array([[4.0], [5.0], [6.0]]), "a": np.array([[3.0], [4.5], [1.0]]), "c": np.full((3, 1), 4.5)}
    said = dict(zip(["b a", "b c", "a c"], sentences(pairs_of(scores)), strict=True))
    assert said["b a"] == (
        "These 3 seeds cannot tell b from a; about 9 would (b was better in 89% of the pairs of runs, p = 0.2).",
        False,
    )
    assert "more than" not in said["b c"][0] and said["b c"][0].startswith(
        "These 3 seeds cannot tell b from c; about 48"
    )
    assert sentences(pairs_of({"a": np.ones((5, 1)), "b": np.ones((5, 1))})) == [
        ("These 5 seeds cannot tell a from b: they are equal so far.", False)
    ]
    apart = {"a": np.arange(5.0, 10)[:, None], "b": np.arange(5.0)[:, None]}
    ((text, told),) = sentences(pairs_of(apart))
    assert told and text.startswith("a is better than b")
    on_many_tasks = {"a": np.arange(2.0, 12)[None], "b": np.arange(1.0, 11)[None]}
    ((text, told),) = sentences(pairs_of(on_many_tasks))
    assert told and "p = 0.00" in text
    many = {str(number): np.array([[float(number)]]) for number in range(4)}
    assert sentences(pairs_of(many)) == [("One seed each cannot tell any two methods apart; about 6 can.", False)]
