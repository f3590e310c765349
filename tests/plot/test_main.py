import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import tfbaselines
from tfbaselines.plot import panels
from tfbaselines.plot.__main__ import main
from tfbaselines.plot.results import Curve

LOOKS = {"a": ("C0", "-"), "b": ("C1", "-")}


@pytest.fixture
def logs(tmp_path):
    for seed in range(3):
        run = tmp_path / "logs" / f"pong-{seed}"
        run.mkdir(parents=True)
        rows = "".join(f"{i * 1000},{i + seed},{9 - i}\n" for i in range(10))
        (run / "progress.csv").write_text(f"misc/total_timesteps,eprewmean,fps\n{rows}")
    return tmp_path / "logs"


def size(path):
    return matplotlib.image.imread(path).shape[:2]


def test_writes_a_picture_and_says_where(logs, capsys):
    assert main([str(logs)]) == 0
    assert capsys.readouterr().out == f"Wrote {logs / 'plot.png'}\n"
    image = matplotlib.image.imread(logs / "plot.png")
    assert image.std() > 0.01


def test_options(logs, capsys):
    out = logs / "pictures/two.png"
    options = [
        "--value",
        "eprewmean",
        "fps",
        "--xaxis",
        "misc/total_timesteps",
        "--smooth",
        "3",
        "--count",
        "--est",
        "max",
        "--legend",
        "Pong",
    ]
    assert main([str(logs / "pong"), *options, "--out", str(out)]) == 0
    assert main([str(logs)]) == 0
    assert size(out)[1] == 2 * size(logs / "plot.png")[1] and size(out)[1] >= 1000


def drawn(monkeypatch, *argv):
    """The panels that would be drawn."""
    panels = []
    monkeypatch.setattr("tfbaselines.plot.panels.draw", lambda given, out: panels.extend(given))
    assert main([*map(str, argv)]) == 0
    return panels


def test_directories_that_begin_alike_have_a_name_each_and_their_picture_beside_them(logs, monkeypatch, capsys):
    alike = logs / "pong-"
    assert main([str(alike)]) == 0
    assert capsys.readouterr().out == f"Wrote {logs / 'plot.png'}\n"
    for names, labels in ((["a", "b", "c"], ["a", "b", "c"]), (["all"], ["all (3)"])):
        (panel,) = drawn(monkeypatch, alike, "--legend", *names)
        assert [curve.label for curve in panel.curves] == labels
    assert main([str(alike), "--legend", "a", "b"]) == 2
    assert "--legend has 2 names for 3 directories" in capsys.readouterr().err


def test_seeds_are_one_curve_unless_counted(logs, monkeypatch):
    (panel,) = drawn(monkeypatch, logs)
    (curve,) = panel.curves
    assert (panel.xlabel, panel.ylabel, curve.label) == ("misc/total_timesteps", "eprewmean", "pong (3)")
    assert curve.y.tolist() == [i + 1 for i in range(10)]
    (panel,) = drawn(monkeypatch, logs, "--est", "min", "--legend", "Pong")
    assert panel.curves[0].y.tolist() == list(range(10)) and panel.curves[0].label == "Pong (3)"
    (panel,) = drawn(monkeypatch, logs, "--count", "--smooth", "99")
    assert len(panel.curves) == 3 and panel.curves[1].y[5] == pytest.approx(5.5)
    assert [curve.label for curve in panel.curves] == ["pong-0", "pong-1", "pong-2"]
    (panel,) = drawn(monkeypatch, logs, "--count", "--legend", "Pong")
    assert [curve.label for curve in panel.curves] == ["Pong: pong-0", "Pong: pong-1", "Pong: pong-2"]


def test_runs_without_the_column_at_the_bottom_are_named(logs, capsys):
    (logs / "pong-2/progress.csv").write_text("misc/total_timesteps,Time,eprewmean\n1,2,3\n")
    assert main([str(logs), "--xaxis", "Time", "--out", str(logs / "x.png")]) == 0
    assert f"no values of the mean return beside 'Time' in {logs / 'pong-0'}" in capsys.readouterr().err


def test_values_are_called_as_the_user_calls_them(logs, capsys):
    for words, called in ((), "the mean return"), (("--value", "Performance"), "'Performance'"):
        assert main([str(logs), "--xaxis", "episodes", *words]) == 2
        err = capsys.readouterr().err
        assert f"no values of {called} beside 'episodes' in {logs / 'pong-0'}" in err
        assert err.endswith(f"error: no run has values of {called} beside 'episodes'\n")


@pytest.mark.parametrize(("letters", "columns"), [(10, None), (41, 2), (60, 1), (150, 1)])
def test_long_entries_of_a_legend_stand_below_the_panel(letters, columns):
    curve = Curve("x" * letters, *(np.arange(3.0) for _ in range(4)))
    axis = Figure().subplots()
    panel = panels.Panel("steps", "r", [curve] * 3)
    panels._draw(axis, panel, panels._styles([panel]))
    legend = axis.get_legend()
    assert (None if legend._loc == 0 else legend._ncols) == columns


def test_directories_of_one_name_below_others_are_not_seeds_of_one_experiment(tmp_path, monkeypatch):
    for name in ("ppo2/pong-0", "ppo2/pong-1", "acer/pong-0", "acer/hopper-0"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "progress.csv").write_text("steps,eprewmean\n1,2\n")
    (panel,) = drawn(monkeypatch, tmp_path / "ppo2", tmp_path / "acer")
    assert [curve.label for curve in panel.curves] == ["ppo2/pong (2)", "hopper", "acer/pong"]


def test_select_and_exclude(logs, monkeypatch):
    (panel,) = drawn(monkeypatch, logs, "--select", "pong", "g-1")
    assert [curve.label for curve in panel.curves] == ["pong"]
    (panel,) = drawn(monkeypatch, logs, "--exclude", "pong-1")
    assert [curve.label for curve in panel.curves] == ["pong (2)"]


def test_runs_without_the_value_are_named(logs, monkeypatch, capsys):
    (logs / "pong-9").mkdir()
    (logs / "pong-9/progress.csv").write_text("misc/total_timesteps,eprewmean\n0,nan\n")
    (panel,) = drawn(monkeypatch, logs)
    assert panel.curves[0].label == "pong (3)" and "pong-9" in capsys.readouterr().err


BAD = {
    "": "arguments are required: DIR",
    "none": "none is not a directory",
    "LOGS --value eprewmen": "did you mean 'eprewmean'",
    "LOGS --xaxis misc/total_timestep": "did you mean 'misc/total_timesteps'",
    "LOGS --vlaue fps": "did you mean --value?",
    "LOGS --smooth 0": "--smooth=0 is not valid",
    "LOGS --smooth x": "invalid int value",
    "LOGS --est median": "invalid choice",
    "LOGS --legend a b": "--legend has 2 names for 1 directories",
    "LOGS --select zzz": "leave none of the 3 runs",
    "LOGS --out plot.pdf": "ends in .png",
    "LOGS --out LOGS/pong-0/progress.csv/x.png": "can be written",
    "LOGS/empty": "no progress.csv",
    "LOGS/torn": "is not a table of values",
}


def test_a_run_without_rows_is_named_beside_others(logs, capsys):
    (logs / "begun").mkdir()
    (logs / "begun/progress.csv").touch()
    assert main([str(logs), str(logs / "begun"), "--out", str(logs / "out.png")]) == 0
    assert capsys.readouterr().err == f"nothing to plot yet in {logs / 'begun'}\n"


@pytest.mark.parametrize("line", BAD)
def test_mistakes_are_one_line_and_status_2(logs, capsys, line):
    (logs / "empty").mkdir()
    if "torn" in line:
        (logs / "torn").mkdir()
        (logs / "torn/progress.csv").write_text("a,b\n1,2,\n3,4,5,6\n")
    try:
        status = main(line.replace("LOGS", str(logs)).split())
    except SystemExit as stop:
        status = stop.code
    errors = capsys.readouterr().err
    assert status == 2 and BAD[line] in errors and errors.count("\n") == 1


def test_as_a_user_types_it(logs):
    root = Path(tfbaselines.__file__).parents[1]
    command = [sys.executable, "-m", "tfbaselines.plot", str(logs), "--out", str(logs / "p.png")]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"Wrote {logs / 'p.png'}\n"), done.stderr
    assert (logs / "p.png").read_bytes().startswith(b"\x89PNG")


def test_each_environment_has_a_panel(logs, monkeypatch):
    for number, env in enumerate(("Pong", "Hopper-v5", "Pong")):
        (logs / f"pong-{number}/config.json").write_text(json.dumps({"env": {"env": env}}))
    panels = drawn(monkeypatch, logs)
    assert [(panel.title, panel.curves[0].label) for panel in panels] == [("Pong", "pong (2)"), ("Hopper-v5", "pong")]


def test_the_monitor_files_name_the_environment(tmp_path, monkeypatch):
    (tmp_path / "0.monitor.csv").write_text('# {"t_start": 0.0, "env_id": "Pendulum-v1"} \nr,l,t\n1,2,3\n')
    assert drawn(monkeypatch, tmp_path)[0].title == "Pendulum-v1"


def test_what_is_at_the_bottom_has_short_names(tmp_path, monkeypatch):
    (tmp_path / "progress.csv").write_text(
        "total_timesteps,TimeElapsed,EpisodesSoFar,eprewmean\n8,60,2,1\n16,120,4,2\n"
    )
    found = {axis: drawn(monkeypatch, tmp_path, "--xaxis", axis)[0] for axis in ("steps", "time", "episodes")}
    assert [panel.xlabel for panel in found.values()] == ["total_timesteps", "TimeElapsed", "EpisodesSoFar"]


def test_twenty_curves_are_told_apart(monkeypatch):
    curve = Curve("", *np.zeros((4, 3)))
    looks = panels._styles([panels.Panel("x", "y", [curve._replace(label=f"run{i} (3)") for i in range(25)])])
    assert len(set(looks.values())) == len(looks) == 25


def test_names_in_brackets_are_names_of_their_own_and_numbers_of_runs_are_not(logs, monkeypatch):
    for name in ("pong (lr=1)", "pong (lr=2)"):
        (logs / name).mkdir()
        (logs / name / "progress.csv").write_text("steps,eprewmean\n1,2\n")
    shown = drawn(monkeypatch, logs / "pong (lr=1)", logs / "pong (lr=2)", logs / "pong-")
    assert len(set(panels._styles(shown).values())) == 3
    # Of one of three runs the environment is another one.
    (logs / "pong-2/config.json").write_text(json.dumps({"env": {"env": "Pong"}}))
    shown = drawn(monkeypatch, logs / "pong-")
    assert [curve.label for panel in shown for curve in panel.curves] == ["pong (2)", "pong"]
    assert len(panels._styles(shown)) == 1


def test_axes_have_names_and_units(tmp_path):
    curve = Curve("a", np.array([0.0, 3600.0]), *np.zeros((3, 2)))
    dot = Curve("b", *np.full((4, 1), 600.0))
    figure = Figure()
    axis = figure.subplots()
    panels._draw(axis, panels.Panel("TimeElapsed", "eprewmean", [curve, dot], "Pong"), panels._styles([]) | LOOKS)
    assert (axis.get_xlabel(), axis.get_ylabel(), axis.get_title()) == ("minutes", "mean return", "Pong")
    assert axis.lines[0].get_xdata().tolist() == [0.0, 60.0]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["a", "b: one row so far"]
    assert panels.readable("loss/of_its_own") == "loss/of_its_own"


def test_success_rates_have_a_panel_of_their_own(logs, monkeypatch):
    """her reports success rates, and others returns."""
    her = logs / "reach-0"
    her.mkdir()
    (her / "progress.csv").write_text("steps,test/success_rate\n1,0.5\n2,1.0\n")
    (panel,) = drawn(monkeypatch, her)
    assert (panel.ylabel, panel.curves[0].y.tolist()) == ("test/success_rate", [0.5, 1.0])
    (her / "0.monitor.csv").write_text('# {"t_start": 0} \nr,l,t\n-50,50,1\n')
    returns, rates = drawn(monkeypatch, logs)
    assert (returns.ylabel, [curve.label for curve in returns.curves]) == ("return", ["pong (3)", "reach"])
    assert returns.curves[1].y.tolist() == [-50.0]
    assert (rates.ylabel, [curve.label for curve in rates.curves]) == ("test/success_rate", ["reach"])


def test_the_line_of_runs_that_end_at_different_steps_does_not_jump_and_is_thinner_there(logs, monkeypatch):
    rows = "".join(f"{i * 1000},{i},0\n" for i in range(6))
    (logs / "pong-2/progress.csv").write_text(f"misc/total_timesteps,eprewmean,fps\n{rows}")
    (panel,) = drawn(monkeypatch, logs)
    (curve,) = panel.curves
    assert np.abs(np.diff(curve.y)).max() < 1.01 and curve.y[-1] == pytest.approx((9 + 10 + 5) / 3)
    axis = Figure().subplots()
    panels._draw(axis, panel, panels._styles([panel]))
    full, rest = axis.lines
    assert full.get_xdata()[-1] == rest.get_xdata()[0] == 5000 and rest.get_xdata()[-1] == 9000
    assert rest.get_linewidth() < full.get_linewidth() and rest.get_color() == full.get_color()
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["pong (3; 2 after 5k)"]


def test_a_legend_below_the_panel_does_not_cover_the_name_of_the_axis(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(panels, "save", lambda figure, out: figures.append(figure))
    curves = [Curve(f"run {number}", *(np.arange(3.0) for _ in range(4))) for number in range(21)]
    panels.draw([panels.Panel("steps", "r", curves)], "x.png")
    (figure,) = figures
    FigureCanvasAgg(figure).draw()
    (axis,) = figure.axes
    assert not axis.get_legend().get_window_extent().overlaps(axis.xaxis.label.get_window_extent())


def damaged(directory):
    """Write files that are no tables, by the name of their directory."""
    deep = "[" * 100_000 + "]" * 100_000
    texts = {
        "text/progress.csv": "steps,r\n\udcff,1\n",
        "ragged/progress.csv": "a,b\n1,2,\n3,4,5,6\n",
        "list/0.monitor.csv": "# [1, 2]\nr,l,t\n1,2,3\n",
        "deep/0.monitor.csv": f"# {deep}\nr,l,t\n1,2,3\n",
        "start/0.monitor.csv": '# {"t_start": "x"}\nr,l,t\n1,2,3\n',
        "json/progress.json": "[1]\n",
        "nested/progress.json": f"{deep}\n",
        "wide/progress.csv": f"steps,eprewmean\n1,2{',3' * 10**6}\n",
        "words/progress.csv": "steps,eprewmean\none,two\n",
    }
    for name, text in texts.items():
        (directory / name).parent.mkdir()
        (directory / name).write_text(text, errors="surrogateescape")
    for name in ("pipe/progress.csv", "fifo/0.monitor.csv"):
        (directory / name).parent.mkdir()
        os.mkfifo(directory / name)
    (directory / "device").mkdir()
    (directory / "device/progress.csv").symlink_to("/dev/zero")
    (directory / "large").mkdir()
    with open(directory / "large/progress.csv", "wb") as file:
        file.truncate(2**42)
    return sorted({name.partition("/")[0] for name in texts} | {"pipe", "fifo", "device", "large"})


def test_damaged_and_hostile_files_are_a_line_each_and_the_rest_is_plotted(logs, monkeypatch, capsys):
    names = damaged(logs)
    os.mkfifo(logs / "pong-1/config.json")
    (panel,) = drawn(monkeypatch, logs)
    assert [curve.label for curve in panel.curves] == ["pong (3)"]
    lines = capsys.readouterr().err.splitlines()
    for name in names:
        assert sum(f"{logs / name}" in line for line in lines) == 1, (name, lines)
    assert len(lines) == len(names)
    assert main([str(logs / "pipe")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_infinite_and_huge_numbers_are_left_out(logs, capsys):
    rows = "0,1\n1,inf\n2,-inf\ninf,3\n3,1e308\n4,-1e308\n1e308,2\n5,6\n"
    (logs / "pong-2/progress.csv").write_text(f"misc/total_timesteps,eprewmean\n{rows}")
    (logs / "pong-2/0.monitor.csv").write_text('# {"t_start": Infinity} \nr,l,t\ninf,1e308,1\n-inf,1e308,inf\n')
    assert main([str(logs / "pong-2"), "--smooth", "2"]) == 0
    assert main([str(logs), "--value", "r", "eprewmean", "--out", str(logs / "x.png")]) == 0
    assert main([str(logs / "pong-2"), "--xaxis", "t", "--value", "r"]) == 2
    assert capsys.readouterr().err.count("\n") == 5


def test_the_short_flags_of_spinning_up(logs, monkeypatch):
    (panel,) = drawn(monkeypatch, logs, "-x", "misc/total_timesteps", "-y", "fps", "-s", "3", "-l", "Pong")
    assert (panel.ylabel, panel.curves[0].label) == ("fps", "Pong (3)")


def test_the_functions_of_results_plotter_and_make_plots(logs, tmp_path):
    rows = "".join(f"{i},10,{i}.0\n" for i in range(120))
    for seed in range(2):
        (logs / f"pong-{seed}/0.monitor.csv").write_text(f'# {{"t_start": {seed}}} \nr,l,t\n{rows}')
    (run, *_) = tfbaselines.plot_util.load_results(logs)
    plotter = tfbaselines.results_plotter
    x, y = plotter.ts2xy(run.monitor, plotter.X_WALLTIME, plotter.Y_REWARD)
    assert x[-1] == pytest.approx(119 / 3600) and y[-1] == 119
    with pytest.raises(ValueError, match="did you mean 'timesteps'"):
        plotter.ts2xy(run.monitor, "timestep", "reward")
    figure = plotter.plot_curves([plotter.ts2xy(run.monitor, "episodes", "reward")], "episodes", "reward", "pong")
    assert len(figure.axes[0].lines[0].get_xdata()) == 21
    figure, axes = plotter.plot_results([str(logs)], title="all")
    assert axes[0, 0].get_title() == "pong" and len(axes[0, 0].lines) == 1
    from tfbaselines.utils.plot import make_plots

    assert make_plots([str(logs)], values="Performance", xaxis="steps", smooth=3) == str(logs / "plot.png")
    assert (logs / "plot.png").exists()


def test_without_matplotlib_there_is_one_line(logs, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main([str(logs)]) == 2
    assert capsys.readouterr().err.endswith("error: plots need matplotlib: pip install matplotlib\n")
