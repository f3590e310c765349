import json
import os

import numpy as np
import pytest

from tfbaselines.logs.logger import read_csv
from tfbaselines.logs.statistics import EpochLogger, EpochTable
from tfbaselines.parallel.mpi import Communicator


def moments_of(values):
    values = np.asarray(values, dtype=float)
    return [values.size, values.mean(), np.square(values - values.mean()).sum(), values.min(), values.max()]


class Ranks(Communicator):
    """One of two ranks whose other one stored each of `others`, lists of values."""

    size = 2

    def __init__(self, rank, *others):
        self.rank, self.others = rank, others

    def gather(self, obj):
        return [obj, [moments_of(other) for other in self.others]]


def statistics(table, key):
    """Mean, deviation, largest and smallest of what is stored under a key, which is forgotten."""
    table.log_tabular(key, with_min_and_max=True)
    row = table.take_row()
    return [row[f"{kind}{key}"] for kind in ("Average", "Std", "Max", "Min")]


def statistics_of(values):
    return pytest.approx([np.mean(values), np.std(values), np.max(values), np.min(values)])


@pytest.fixture
def make(tmp_path):
    made = []

    def build(**kwargs):
        made.append(EpochLogger(tmp_path / "run", **{"format_strs": (), **kwargs}))
        return made[-1]

    yield build
    for logger in made:
        logger.close()


def epoch(logger, number, **extra):
    logger.store(EpRet=number)
    logger.store(EpRet=number + 2.0, VVals=np.arange(4.0).reshape(2, 2))
    logger.log_tabular("Epoch", number)
    logger.log_tabular("EpRet", with_min_and_max=True)
    logger.log_tabular("VVals", average_only=True)
    for key, value in extra.items():
        logger.log_tabular(key, value)
    logger.dump_tabular()


def test_table_is_tab_separated_in_the_order_of_the_first_epoch(make, tmp_path):
    logger = make()
    epoch(logger, 0, Time=1.5)
    epoch(logger, 1)
    text = (tmp_path / "run/progress.txt").read_text()
    assert text == (
        "Epoch\tAverageEpRet\tStdEpRet\tMaxEpRet\tMinEpRet\tVVals\tTime\n"
        "0\t1.0\t1.0\t2.0\t0.0\t1.5\t1.5\n"
        "1\t2.0\t1.0\t3.0\t1.0\t1.5\t\n"
    )


def test_statistics_are_over_all_ranks(make):
    logger = make(comm=Ranks(0, [5.0, 6.0, -1.0]))
    logger.store(R=[1.0, 2.0])
    everything = [1.0, 2.0, 5.0, 6.0, -1.0]
    assert logger.get_stats("R") == (pytest.approx(np.mean(everything)), pytest.approx(np.std(everything)))
    logger.log_tabular("R", with_min_and_max=True)
    assert logger._row["MaxR"] == 6.0 and logger._row["MinR"] == -1.0
    # The other rank alone: this one has stored nothing since.
    assert logger.get_stats("R")[0] == pytest.approx(10 / 3)


def test_statistics_of_equal_batches_count_as_their_values():
    batches, table = np.array([[1.0, 2.0, 4.5], [-3.0, 7.0, 7.0]]), EpochTable()
    spread = {"": batches.mean(1), ":std": batches.std(1), ":min": batches.min(1), ":max": batches.max(1)}
    for batch in range(2):
        table.store(**{f"R{suffix}": array[batch] for suffix, array in spread.items()})
    assert table.get_stats("R") == pytest.approx((batches.mean(), batches.std()))
    assert statistics(table, "R") == statistics_of(batches.ravel())
    assert np.isnan(table.get_stats("R")).all()


def test_a_table_alone_writes_nothing_and_gives_its_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = EpochTable()
    table.store(R=[1.0, 3.0], L=5)
    table.log_tabular("Epoch", 1)
    table.log_tabular("R")
    table.log_tabular("L", average_only=True)
    assert table.take_row() == {"Epoch": 1, "AverageR": 2.0, "StdR": 1.0, "L": 5.0}
    # The first row decides which columns there are; what was stored before is forgotten.
    table.log_tabular("L", average_only=True)
    row = table.take_row()
    assert list(row) == ["Epoch", "AverageR", "StdR", "L"] and row["Epoch"] == row["StdR"] == "" and np.isnan(row["L"])
    with pytest.raises(ValueError, match=r"'Epock' is a new key.*did you mean 'Epoch'"):
        table.log_tabular("Epock", 1)
    assert list(tmp_path.iterdir()) == [] and capsys.readouterr().out == ""


def test_the_row_that_is_written_is_the_row_that_is_given(make, tmp_path):
    logger = make()
    logger.store(R=[1.0, 3.0])
    logger.log_tabular("Epoch", 1)
    logger.log_tabular("R")
    assert logger.dump_tabular() == {"Epoch": 1, "AverageR": 2.0, "StdR": 1.0}
    assert (tmp_path / "run/progress.txt").read_text() == "Epoch\tAverageR\tStdR\n1\t2.0\t1.0\n"


def test_only_rank_zero_writes(make, tmp_path, capsys):
    logger = make(comm=Ranks(1, [1.0]), format_strs=("stdout", "csv"))
    epoch(logger, 0)
    logger.save_config({"a": 1})
    assert not (tmp_path / "run").exists() and capsys.readouterr().out == ""


def test_nothing_stored_is_nan(make, tmp_path):
    logger = make()
    logger.log_tabular("EpRet", with_min_and_max=True)
    logger.dump_tabular()
    assert np.isnan(logger.get_stats("EpRet")).all()
    assert read_csv(tmp_path / "run/progress.txt", separator="\t").isna().all(axis=None)


def test_new_keys_and_keys_set_twice_are_errors(make):
    logger = make()
    epoch(logger, 0)
    with pytest.raises(ValueError, match=r"'Epock' is a new key.*did you mean 'Epoch'"):
        logger.log_tabular("Epock", 1)
    logger.log_tabular("Epoch", 1)
    with pytest.raises(ValueError, match="'Epoch' was already set"):
        logger.log_tabular("Epoch", 1)


def test_resume_continues_the_table_and_its_columns(make, tmp_path):
    epoch(make(), 0)
    logger = make(resume=True)
    epoch(logger, 1)
    assert read_csv(tmp_path / "run/progress.txt", separator="\t")["Epoch"].tolist() == [0, 1]
    with pytest.raises(ValueError, match="new key"):
        logger.log_tabular("Other", 1)


def test_the_first_row_after_resuming_may_add_columns(make, tmp_path):
    """As a run does that is resumed with tests, or with another loss; what it no longer has is empty."""
    epoch(make(), 0, Gone=5)
    logger = make(resume=True)
    for number in (1, 2):
        epoch(logger, number, Test=7)
    with pytest.raises(ValueError, match="'Later' is a new key"):
        logger.log_tabular("Later", 1)
    lines = [line.split("\t") for line in (tmp_path / "run/progress.txt").read_text().splitlines()]
    assert lines[0][-3:] == ["VVals", "Gone", "Test"]
    assert [line[-2:] for line in lines[1:]] == [["5", ""], ["", "7"], ["", "7"]]


def test_other_formats_and_stdout(make, tmp_path, capsys):
    epoch(make(format_strs=("stdout", "json", "tensorboard"), output_fname="table.txt"), 0)
    out = capsys.readouterr().out
    assert out.startswith(f"Logging data to {tmp_path / 'run/table.txt'}\n---") and "| AverageEpRet | 1 " in out
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"table.txt", "progress.json", "tb"}


def test_config_is_readable(make, tmp_path):
    make(exp_name="walk").save_config({"fn": np.mean, "sizes": (64, 64), "env_fn": lambda: None})
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["exp_name"] == "walk" and config["fn"] == "numpy.mean" and config["sizes"] == [64, 64]
    assert "lambda" in config["env_fn"]


@pytest.mark.parametrize("bad", ["", "file", "file/below"])
def test_directories_that_cannot_be(tmp_path, bad):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"output_dir=.*directory"):
        EpochLogger(tmp_path / bad if bad else bad)


def test_default_directory(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    logger = EpochLogger()
    assert logger.output_dir.startswith(str(tmp_path / "experiments"))
    # Nobody else can make it before.
    assert EpochLogger().output_dir != logger.output_dir and os.stat(logger.output_dir).st_mode & 0o077 == 0
    logger.close()


def test_messages_have_color_on_a_terminal(tmp_path, monkeypatch, capsys):
    logger = EpochLogger(tmp_path)
    logger.log("plain", color="red")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    logger.log("seen", color="red")
    assert capsys.readouterr().out.splitlines()[-2:] == ["plain", "\x1b[31;1mseen\x1b[0m"]
