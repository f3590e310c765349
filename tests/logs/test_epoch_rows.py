"""Rows of the logs as Spinning Up writes them."""

import numpy as np
import pytest
from small_environments import counting
from small_runs import EPOCH, learn, rows, train

from tfbaselines.learn.engine import Engine
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.logs.statistics import EpochLogger
from tfbaselines.parallel.mpi import Communicator

SPINUP_COLUMNS = {
    "td3": (
        "Epoch AverageEpRet StdEpRet MaxEpRet MinEpRet AverageTestEpRet StdTestEpRet MaxTestEpRet MinTestEpRet EpLen "
        "TestEpLen TotalEnvInteracts AverageQ1Vals StdQ1Vals MaxQ1Vals MinQ1Vals AverageQ2Vals StdQ2Vals MaxQ2Vals "
        "MinQ2Vals LossPi LossQ Time"
    ),
    "sac": (
        "Epoch AverageEpRet StdEpRet MaxEpRet MinEpRet AverageTestEpRet StdTestEpRet MaxTestEpRet MinTestEpRet EpLen "
        "TestEpLen TotalEnvInteracts AverageQ1Vals StdQ1Vals MaxQ1Vals MinQ1Vals AverageQ2Vals StdQ2Vals MaxQ2Vals "
        "MinQ2Vals AverageLogPi StdLogPi MaxLogPi MinLogPi LossPi LossQ1 LossQ2 Time"
    ),
}


def header(directory, name="progress.txt"):
    return (directory / name).read_text().splitlines()[0].split("\t")


@pytest.mark.parametrize("alg", ["td3", "sac"])
def test_the_columns_are_spinning_ups(alg, seen, tmp_path):
    train(tmp_path, alg, counting(), eval_env=counting(), num_test_episodes=1)
    assert header(tmp_path) == [*SPINUP_COLUMNS[alg].split(), "fps"]
    assert set(read_csv(tmp_path / "progress.csv")) == set(header(tmp_path))


def test_a_learnt_temperature_is_told(seen, tmp_path):
    train(tmp_path, "sac", counting(), alpha="auto")
    assert header(tmp_path)[-4:] == ["Alpha", "LossAlpha", "Time", "fps"]


def test_both_tables_say_the_same(seen, tmp_path):
    train(tmp_path, "td3", counting())
    text, table = read_csv(tmp_path / "progress.txt", separator="\t"), read_csv(tmp_path / "progress.csv")
    assert len(text) == 2
    for name in text:
        np.testing.assert_allclose(text[name], table[name], rtol=1e-6)


def test_statistics_are_of_all_gradient_steps_of_an_epoch(monkeypatch, tmp_path):
    told = iter(np.arange(1.0, 100.0))

    def telling(update, block, **coefficients):
        values = np.array([next(told), next(told)])
        own = {"Q1Vals": values, "Q1Vals:std": values / 10, "Q1Vals:min": -values, "Q1Vals:max": 2 * values}
        # The actor had its turn in one of the two.
        own |= {"LossQ": 3 * values, "LossPi": values[:1]}
        return own | {f"Q2Vals{kind}": np.zeros(2) for kind in ("", ":std", ":min", ":max")}

    monkeypatch.setattr(Engine, "block", telling)
    train(tmp_path, "td3", counting(), 4)
    for number, row in rows(tmp_path).iterrows():
        values = np.arange(1.0, 5.0) + 4 * number
        assert row["AverageQ1Vals"] == pytest.approx(values.mean())
        # Within batches and between them.
        assert row["StdQ1Vals"] == pytest.approx(np.sqrt(np.mean((values / 10) ** 2) + values.var()))
        assert (row["MinQ1Vals"], row["MaxQ1Vals"]) == (-values.max(), 2 * values.max())
        assert row["LossQ"] == pytest.approx(3 * values.mean())
        assert row["LossPi"] == pytest.approx(values[::2].mean())


def test_episodes_of_an_epoch(seen, tmp_path):
    train(tmp_path, "td3", counting(), 4)
    log = rows(tmp_path)
    returns = np.arange(40).reshape(2, 4, 5).sum(-1)
    np.testing.assert_allclose(log["AverageEpRet"], returns.mean(1))
    np.testing.assert_allclose(log["StdEpRet"], returns.std(1))
    np.testing.assert_allclose(log[["MinEpRet", "MaxEpRet"]], np.stack([returns.min(1), returns.max(1)], 1))


def test_what_there_was_none_of_is_not_a_number(seen, tmp_path):
    train(tmp_path, "td3", counting(length=None), 2, update_after=100)
    assert rows(tmp_path)[["AverageEpRet", "EpLen", "LossQ", "AverageQ1Vals"]].isna().all(axis=None)


def test_steps_of_all_ranks_are_told(seen, tmp_path):
    class Two(Communicator):
        size = 2

    train(tmp_path, "td3", counting(), comm=Two())
    assert rows(tmp_path)["TotalEnvInteracts"].tolist() == [2 * EPOCH, 4 * EPOCH]


def test_spinning_ups_table_goes_where_it_is_told(seen, tmp_path):
    kwargs = {"output_dir": str(tmp_path / "own"), "output_fname": "table.txt", "exp_name": "walk"}
    train(tmp_path / "log", "td3", counting(), logger_kwargs=kwargs)
    assert header(tmp_path / "own", "table.txt")[0] == "Epoch"
    names = {path.name for path in (tmp_path / "log").iterdir()}
    assert "progress.csv" in names and "progress.txt" not in names


def test_the_table_is_closed_with_the_run(seen, tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(EpochLogger, "close", lambda self: closed.append(self.output_dir))
    train(tmp_path, "td3", counting())
    assert closed == [str(tmp_path)]


def test_without_a_log_directory_nothing_is_written(seen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logger.reset()
    learn("td3", counting())
    assert list(tmp_path.iterdir()) == []
