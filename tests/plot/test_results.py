import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.logs.services import EventWriter, masked_crc
from tfbaselines.plot.columns import RETURNS, SHORT_XAXES, XAXES
from tfbaselines.plot.results import (
    Run,
    Series,
    check_column,
    expand,
    find_runs,
    group_of,
    labelled,
    merge,
    series,
)


def curve(x, y):
    return Series(np.asarray(x, float), np.asarray(y, float), "x", "y")


def test_every_kind_of_log_is_read(tmp_path):
    texts = {
        "csv/progress.csv": "misc/total_timesteps,eprewmean\n0,nan\n10,1\n20,2\n",
        "txt/progress.txt": "AverageEpRet\tTotalEnvInteracts\n1\t10\n2\t20\n",
        "json/progress.json": '{"EpRewMean": 1, "TimestepsSoFar": 10}\n{"EpRewMean": 2, "TimestepsSoFar": 20}\n',
        "monitor/0.monitor.csv": '# {"t_start": 0} \nr,l,t\r\n1,10,1\r\n2,10,2\r\n',
        "empty/progress.csv": "",
        "empty/0.monitor.csv": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    runs = find_runs(str(tmp_path))
    assert [run.group[-1] for run in runs] == ["csv", "json", "monitor", "txt"]
    for run in runs:
        found = series(run, XAXES, RETURNS, smooth=1)
        assert (found.x.tolist(), found.y.tolist()) == ([10.0, 20.0], [1.0, 2.0]), run.dirname
    assert series(runs[0], XAXES, ["nothing"]) is None
    assert series(runs[0], ["nothing"], RETURNS) is None
    assert series(runs[2], XAXES, RETURNS).y.tolist() == [1.5, 1.5]
    with pytest.raises(ValueError, match="'EpRet': did you mean 'AverageEpRet'"):
        check_column(runs, "EpRet", "--value")


def cleanrl(directory, seed=1, lr=0.5):
    """TensorBoard's file as CleanRL writes it: arguments as a table, episodes one by one, losses between them."""
    run = directory / f"CartPole-v1__ppo__{seed}__171111111{seed}"
    arguments = {"exp_name": "ppo", "seed": seed, "learning_rate": lr, "env_id": "CartPole-v1", "cuda": seed}
    table = "\n".join(["|param|value|", "|-|-|", *(f"|{name}|{value}|" for name, value in arguments.items())])
    writer = EventWriter(run)
    writer.write(0, {"hyperparameters/text_summary": table})
    for step in (10, 20, 20):
        writer.write(step, {"charts/episodic_return": step / 10})
        writer.write(step, {"charts/SPS": 100.0, "losses/value_loss": 0.5})
    writer.close()
    return run


def test_logs_of_other_libraries_are_read(tmp_path):
    (tmp_path / "a2c").mkdir()
    rows = "time/total_timesteps,rollout/ep_rew_mean,time/time_elapsed\n10,1,0.5\n20,2,1\n"
    (tmp_path / "a2c/progress.csv").write_text(rows)
    EventWriter(tmp_path / "a2c").close()
    (tmp_path / "ppo").mkdir()
    np.savez(tmp_path / "ppo/evaluations.npz", timesteps=[10, 20], results=[[1.0, 1.0], [1.0, 3.0]])
    for seed in (1, 2):
        cleanrl(tmp_path, seed)
    cleanrl(tmp_path / "lr", lr=0.1)
    # TensorBoard's files below another log are the same run's.
    EventWriter(tmp_path / "a2c/tb").write(1, {"rollout/ep_rew_mean": 7.0})
    runs = labelled(find_runs(str(tmp_path)))
    assert [run.env for run in runs] == ["CartPole-v1", "CartPole-v1", "", "CartPole-v1", ""]
    ends = {run.label.rsplit("/")[-1]: run for run in runs}
    assert list(ends) == ["ppo learning_rate=0.5", "a2c", "ppo learning_rate=0.1", "ppo"]
    for name, run in ends.items():
        steps, minutes, episodes = (series(run, axis, RETURNS, smooth=1) for axis in SHORT_XAXES.values())
        assert (steps.x[:2].tolist(), steps.y[:2].tolist()) == ([10, 20], [1, 2]), name
        assert (minutes is None) == (name == "ppo") and (episodes is None) == (name in ("a2c", "ppo")), name
    assert episodes is None and series(ends["ppo learning_rate=0.1"], SHORT_XAXES["episodes"], RETURNS).x[-1] == 3


def test_damaged_files_of_other_libraries_are_a_line_each(tmp_path):
    damaged = {"events.out.tfevents.1": b"x" * 64, "evaluations.npz": b"no archive"}
    # A length and its checksum that are right, of data that the file does not have; a number without an end.
    length = struct.pack("<Q", 2**40)
    long = b"\x10" + b"\xff" * 100
    head = struct.pack("<Q", len(long))
    damaged["events.out.tfevents.2"] = length + struct.pack("<I", masked_crc(length)) + b"data"
    damaged["events.out.tfevents.3"] = (
        head + struct.pack("<I", masked_crc(head)) + long + struct.pack("<I", masked_crc(long))
    )
    for number, (name, content) in enumerate(damaged.items()):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / name).write_bytes(content)
    (tmp_path / "large").mkdir()
    with open(tmp_path / "large/events.out.tfevents.1", "wb") as file:
        file.truncate(2**40)
    found = {os.path.basename(run.dirname): run.problems for run in find_runs(str(tmp_path))}
    reasons = {
        "0": "not a TensorBoard event file",
        "1": "no .npz file",
        "3": "no end",
        "large": "at most 64 MiB are read",
    }
    # The second ends where its data ends, as a file does that a run is writing.
    assert found.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert len(found[name]) == 1 and reason in found[name][0] and str(tmp_path / name) in found[name][0]


def test_text_cannot_be_drawn(tmp_path):
    (tmp_path / "progress.csv").write_text("steps,note\n1,hello\n")
    with pytest.raises(ValueError, match="column 'note'"):
        series(find_runs(str(tmp_path))[0], XAXES, ["note"])


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("pong-2", "pong"),
        ("pong_s20", "pong"),
        ("pong/3", "pong"),
        ("pong/seed3", "pong"),
        ("pong-seed_3", "pong"),
        ("seed3/pong", "pong"),
        ("lr-3/pong-0", "lr-3/pong"),
        ("ppo2", "ppo2"),
        ("CartPole-v1", "CartPole-v1"),
    ],
)
def test_groups_by_name(tmp_path, path, group):
    assert group_of(str(tmp_path / path)) == (*group_of(str(tmp_path / "x"))[:-1], *group.split("/"))


def test_groups_by_experiment(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"exp_name": "walk"}))
    assert group_of(str(tmp_path)) == ("walk",)
    (tmp_path / "config.json").write_text("{torn")
    assert group_of(str(tmp_path / "x-1"))[-1] == "x"


def test_labels_are_as_long_as_groups_need_to_be_told_apart():
    groups = [("a", "ppo2", "pong"), ("a", "acer", "pong"), ("b", "ppo2", "pong"), ("a", "walk"), ("pong",)]
    runs = labelled([Run("", group, {}) for group in (*groups, groups[0])])
    names = ["a/ppo2/pong", "acer/pong", "b/ppo2/pong", "walk", "pong"]
    assert [run.label for run in runs] == [*names, names[0]]


def test_expand_completes_prefixes(tmp_path):
    for name in ("run-0", "run-1", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "run-file").write_text("")
    assert expand(str(tmp_path / "run")) == [str(tmp_path / "run-0"), str(tmp_path / "run-1")]
    assert expand(str(tmp_path)) == [str(tmp_path)]
    with pytest.raises(ValueError, match="is not a directory"):
        expand(str(tmp_path / "none"))


def test_merge_of_equal_grids():
    merged = merge("m", [curve([0, 1], [0, 4]), curve([0, 1], [2, 8])])
    assert merged.y.tolist() == [1, 6] and merged.low.tolist() == [0, 4] and merged.high.tolist() == [2, 8]
    assert merge("m", [curve([0, 1], [0, 4]), curve([0, 1], [2, 8])], "max").y.tolist() == [2, 8]
    assert merge("m", [curve([0, 1], [0, 4]), curve([0, 1], [2, 8])], "min").y.tolist() == [0, 4]


def test_merge_interpolates_and_keeps_the_last_value_of_a_run_that_ends_before_others():
    merged = merge("m", [curve([0, 2], [0, 2]), curve([1, 4], [3, 3])])
    assert merged.x.tolist() == [0, 1, 2, 4] and merged.y.tolist() == [0, 2, 2.5, 2.5]
    assert merged.runs.tolist() == [2, 2, 2, 1]
    # Ends that lie close together are one end.
    assert merge("m", [curve([0, 99], [0, 1]), curve([0, 100], [0, 1])]).runs.tolist() == [2, 2, 2]


def test_merge_keeps_a_gap_out():
    merged = merge("m", [curve([0], [0]), curve([5], [1])])
    assert merged.x.tolist() == [0, 5] and np.isfinite(merged.y).all()


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), min_size=1, max_size=4))
def test_merged_curves_lie_between_the_runs(xs):
    curves = [curve(np.sort(x), np.full(len(x), float(number))) for number, x in enumerate(xs)]
    merged = merge("m", curves)
    assert np.isfinite(merged.y).all() and len(merged.x)
    assert (merged.y >= 0).all() and (merged.y <= len(xs) - 1).all()
    assert (merged.low <= merged.y + 1e-12).all() and (merged.y <= merged.high + 1e-12).all()


def configured(path, nsteps, seed=0, **others):
    path.mkdir()
    (path / "progress.csv").write_text("steps,eprewmean\n1,2\n")
    config = {"alg": "ppo2", "env": {"env": "Tank-v0", "seed": seed}, "learn": {"nsteps": nsteps, "lr": 1e-3}}
    (path / "config.json").write_text(
        json.dumps(config | {"started": str(path), "given": {"seed": str(seed)}} | others)
    )


def test_runs_of_different_settings_are_no_seeds_whatever_their_names(tmp_path):
    for nsteps in (64, 512):
        configured(tmp_path / f"tank_nsteps_{nsteps}", nsteps)
    for seed in (1, 2):
        configured(tmp_path / f"walk_s{seed}", 64, seed)
    runs = labelled(find_runs(str(tmp_path)))
    same = "tank_nsteps, walk"
    assert [run.label for run in runs] == ["tank_nsteps", same, same, same]
    walks = labelled(find_runs(str(tmp_path), "walks"))
    assert [run.label for run in walks] == ["walks nsteps=512", "walks nsteps=64", "walks nsteps=64", "walks nsteps=64"]
    for seed in (3, 4):
        configured(tmp_path / f"exp{seed}", seed * 100, exp_name="grid")
    assert [run.label for run in labelled(find_runs(str(tmp_path)))][:2] == ["grid nsteps=300", "grid nsteps=400"]


def test_what_an_environment_is_not_given_divides_no_seeds(tmp_path):
    """An earlier version does not know all that may be given."""
    configured(tmp_path / "walk_s1", 64, 1)
    configured(tmp_path / "walk_s2", 64, 2, env={"env": "Tank-v0", "seed": 2, "env_parameters": None})
    configured(tmp_path / "walk_s3", 64, 3, env={"env": "Tank-v0", "seed": 3, "env_parameters": "lessons.yaml"})
    labels = [run.label for run in labelled(find_runs(str(tmp_path)))]
    assert labels[0] == labels[1] != labels[2]
