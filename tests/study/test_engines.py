"""Engines: workers in threads, as jobs of submitit, as tasks of Ray and Dask; each with its local executor."""

import contextlib
import importlib.util
import logging
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import commands
import pytest

from tfbaselines.study import engines
from tfbaselines.study.__main__ import main
from tfbaselines.study.cells import Cell
from tfbaselines.study.engines import slurm, spread
from tfbaselines.study.store import DONE, Study

# The ordinary command with a run that needs no TensorFlow.
WORDS = {"alg": "qlearning", "env": "FrozenLake-v1", "num_timesteps": "100"}


def needs(package):
    """Skip a test before its fixtures are made."""
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"not in [all]: pip install {package}")


@pytest.fixture(scope="module", autouse=True)
def _open_streams():
    """Importing submitit configures logging and closes the streams of other handlers: absl's is pytest's own."""
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(ImportError):
        patch.setattr(logging, "shutdown", lambda handlers=(): None)
        importlib.import_module("submitit")


@pytest.fixture
def study(tmp_path):
    return Study.create(tmp_path / "s", [Cell(f"{i}", "g", f"runs/{i}", {**WORDS, "seed": f"{i}"}) for i in range(3)])


@pytest.fixture
def check(study, monkeypatch):
    """Commands of a study, whose processes import the tests' package; every cell has run once."""
    monkeypatch.setenv("PYTHONPATH", commands.SUPPORT)

    def run(*words):
        assert main(["submit", str(study.directory), *words]) == 0

    yield run
    assert study.names(DONE) == ["0", "1", "2"]
    for number in range(3):
        run = study.directory / f"runs/{number}"
        assert (run / "output.txt").read_text().count("of 100 steps (") == 1
        assert f'"--seed={number}"' in (run / "config.json").read_text()
    assert not os.listdir(study.queue / "workers")


def test_workers_in_threads_of_this_process(study, check):
    with ThreadPoolExecutor(2) as pool:
        futures = spread(pool.submit, study, 2, 1)
    assert [future.result() for future in futures] == [0, 0]


@needs("submitit")
def test_submitit(study, check, capsys):
    from submitit.helpers import DelayedSubmission

    jobs = []
    check_jobs = slurm.spread
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm, "spread", lambda *given: jobs.extend(check_jobs(*given)) or jobs)
        check("--workers", "2", "--slurm", "cluster=local", "timeout_min=5")
    assert capsys.readouterr().out.startswith("submitted ")
    assert [job.result() for job in jobs] == [0, 0]
    assert isinstance(slurm.Requeued(int).checkpoint(), DelayedSubmission)


def test_a_worker_of_slurm_is_queued_again_when_its_time_is_over():
    received = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: received.append(number))
    try:
        assert slurm.Requeued(lambda: 128 + signal.SIGUSR2)() == 128 + signal.SIGUSR2
        assert received == [signal.SIGUSR2] and slurm.Requeued(lambda: 143)() == 143 and len(received) == 1
    finally:
        signal.signal(signal.SIGUSR2, before)


@needs("ray")
def test_ray(check):
    check("--workers", "2", "--ray")


@needs("distributed")
def test_dask(check):
    check("--workers", "2", "--dask")


def test_mistakes_are_one_line(study, monkeypatch, capsys):
    for name in ("submitit", "ray", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    directory = str(study.directory)
    for words, line in (
        (["--slurm"], '--slurm needs submitit: pip install "tfbaselines[slurm]"'),
        (["--ray"], '--ray needs ray: pip install "tfbaselines[ray]"'),
        (["--dask"], '--dask needs distributed: pip install "tfbaselines[dask]"'),
    ):
        assert main(["submit", directory, *words]) == 2
        err = capsys.readouterr().err
        assert line in err and err.count("\n") == 1
    with pytest.raises(ValueError, match="workers=0 is not valid"):
        engines.spread(None, study, 0, 1)


def test_settings_of_slurm_are_checked(study, monkeypatch, capsys):
    pytest.importorskip("submitit", reason="not in [all]: pip install submitit")
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    for words, line in (
        (["partition=gpu"], "there is no sbatch on this machine"),
        (["cluster=local", "partition"], "write NAME=VALUE"),
        (["cluster=local", "partitoin=gpu"], "partitoin"),
    ):
        assert main(["submit", str(study.directory), "--slurm", *words]) == 2
        err = capsys.readouterr().err
        assert line in err and err.count("\n") == 1, err
