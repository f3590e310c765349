import json
import os

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib import pyplot as plt

import tfbaselines
from tfbaselines.plot import plot_util
from tfbaselines.plot.plot_util import Result, default_split_fn, load_results, plot_results


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def logs(tmp_path):
    """Two experiments of two seeds, with episodes and progress, and directories that are no runs."""
    for name in ("pong", "qbert"):
        for seed in range(2):
            run = tmp_path / f"{name}-{seed}"
            run.mkdir()
            rows = "".join(f"{seed + i},10,{i}.0\r\n" for i in range(30))
            (run / "0.0.monitor.csv").write_text(f'# {{"t_start": {seed}.0}} \nr,l,t\r\n{rows}')
            (run / "progress.csv").write_text("steps,eprewmean\n0,1.0\n10,2.0\n")
            (run / "config.json").write_text(json.dumps({"seed": seed}))
    (tmp_path / "pong-proc1").mkdir()
    (tmp_path / "pong-proc1/progress.csv").write_text("a\n1\n")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/progress.csv").write_text("")
    return tmp_path


def test_public_surface():
    assert tfbaselines.plot_util is plot_util
    assert Result._fields == ("monitor", "progress", "dirname", "metadata")
    assert all(hasattr(plot_util, name) for name in plot_util.__all__)


def test_load_results_finds_the_runs(logs, capsys):
    results = load_results(str(logs))
    assert [result.dirname.rsplit("/")[-1] for result in results] == ["pong-0", "pong-1", "qbert-0", "qbert-1"]
    first = results[0]
    assert len(first.monitor) == 30 and first.progress["eprewmean"].tolist() == [1.0, 2.0]
    assert first.metadata == {"seed": 0} and capsys.readouterr().out == ""
    assert len(load_results([logs / "pong-0", logs / "qbert-1"])) == 2
    assert load_results(logs, enable_monitor=False)[0].monitor is None
    assert load_results(logs, enable_progress=False, verbose=True)[0].progress is None
    assert "loaded" in capsys.readouterr().out
    with pytest.raises(ValueError, match="is not a directory"):
        load_results(logs / "none")


def test_progress_json_is_preferred(logs):
    (logs / "pong-0/progress.json").write_text('{"steps": 3}\n')
    assert load_results(logs / "pong-0")[0].progress.to_dict("list") == {"steps": [3]}


@pytest.mark.parametrize(("dirname", "name"), [("logs/pong-2", "pong"), ("logs/pong", "pong"), ("a/b-c-12", "c")])
def test_default_split(dirname, name):
    assert default_split_fn(Result(dirname=dirname)) == name


def test_every_run_is_a_line(logs):
    figure, axes = plot_results(load_results(logs), xlabel="steps", ylabel="reward")
    assert axes.shape == (2, 1) and [axis.get_title() for axis in axes.flat] == ["pong", "qbert"]
    assert [len(axis.lines) for axis in axes.flat] == [2, 2] and axes[0, 0].get_xlabel() == "steps"
    x, y = axes[0, 0].lines[0].get_data()
    assert x.tolist() == list(range(10, 310, 10)) and y[15] == pytest.approx(15)
    assert tuple(figure.get_size_inches()) == (6.0, 12.0)


@pytest.mark.parametrize("resample", [0, 50])
def test_groups_are_averaged(logs, resample):
    _, axes = plot_results(
        load_results(logs), average_group=True, resample=resample, tiling="horizontal", legend_outside=True
    )
    assert axes.shape == (1, 2)
    axis = axes[0, 0]
    assert len(axis.lines) == 1 and len(axis.collections) == 2
    assert len(axis.lines[0].get_xdata()) == (resample or 30)
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["pong (2)"]
    middle = axis.lines[0].get_ydata()[len(axis.lines[0].get_ydata()) // 2]
    assert middle == pytest.approx(15.5, abs=0.5)


def test_the_mean_of_runs_with_different_x_has_512_points_as_in_baselines(logs):
    shifted = lambda r: (np.arange(9) + r.metadata["seed"], np.arange(9))
    _, axes = plot_results(load_results(logs), average_group=True, xy_fn=shifted, split_fn=None, group_fn=None)
    (line,) = axes[0, 0].lines
    assert len(line.get_xdata()) == 512 and line.get_xdata()[[0, -1]].tolist() == [1, 8]
    assert axes[0, 0].get_title() == "" and axes[0, 0].get_legend().get_texts()[0].get_text() == " (4)"


def test_files_that_are_no_tables_are_skipped(logs, capsys):
    os.mkfifo(logs / "empty/0.monitor.csv")
    (logs / "qbert-1/config.json").unlink()
    os.mkfifo(logs / "qbert-1/config.json")
    (logs / "pong-1/0.0.monitor.csv").write_text("# [1]\nr,l,t\n1,2,3\n")
    results = load_results(logs, verbose=True)
    assert [result.monitor is None for result in results] == [False, True, False, False]
    assert results[3].metadata is None and capsys.readouterr().out.count("skipping") == 3


def test_one_panel_and_colours_by_group(logs):
    _, axes = plot_results(
        load_results(logs), split_fn=lambda _: "all", tiling="symmetric", average_group=True, shaded_err=False
    )
    assert axes.shape == (1, 1)
    assert [line.get_color() for line in axes[0, 0].lines] == list(plot_util.COLORS[:2])
    assert len(axes[0, 0].collections) == 2


def test_points_are_counted_where_there_is_no_x_and_panels_stand_below_one_another(logs):
    _, axes = plot_results(load_results(logs), xy_fn=lambda r: (None, r.progress["eprewmean"]), tiling=None)
    assert axes.shape == (2, 1) and axes[0, 0].lines[0].get_xdata().tolist() == [0, 1]


def test_a_slash_at_the_end_changes_no_name(logs):
    (result,) = load_results(f"{logs}/pong-1/")
    assert default_split_fn(result) == "pong"


def test_mistakes(logs):
    results = load_results(logs)
    with pytest.raises(ValueError, match="did you mean 'vertical'"):
        plot_results(results, tiling="vertikal")
    with pytest.raises(ValueError, match="nothing to plot"):
        plot_results([])
    with pytest.raises(ValueError, match="no monitor files"):
        plot_results([Result(dirname="x")])
