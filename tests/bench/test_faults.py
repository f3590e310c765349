"""Each fault of tests/support/faults.py once, and its reports of losses."""

import itertools
import random

import faults
import pytest

# In CI each has one algorithm, mostly those that start soon; the command has all of them.
ALGORITHM_OF = dict(zip(faults.FAULTS, itertools.cycle(("qlearning", "es"))))
ALGORITHM_OF |= {"SIGKILL": "sac", "SIGTERM to a group with workers": "ppo2", "NaN in observations": "a2c"}


@pytest.mark.slow
@pytest.mark.parametrize("fault", faults.FAULTS)
def test_nothing_is_lost(fault, tmp_path):
    assert not faults.inflict(ALGORITHM_OF[fault], fault, 1, tmp_path)


def test_a_loss_is_found_and_stands_in_the_table(tmp_path, monkeypatch, capsys):
    def losing(trial):
        (trial.log / "checkpoints").mkdir(parents=True)
        trial.goes_on()

    monkeypatch.setitem(faults.FAULTS, "SIGKILL", losing)
    out = tmp_path / "faults.md"
    given = ["--algs", "ppo2", "a2c", "--faults", "SIGKILL", "--repeats=2", "--out", str(out)]
    assert faults.main([*given, "--place", str(tmp_path / "runs")]) == 1
    assert "ppo2, SIGKILL: no checkpoint was left" in capsys.readouterr().out
    assert "| SIGKILL | 0/2 | 0/2 |" in out.read_text()


def test_parameters_that_are_not_finite_are_found(tmp_path):
    import numpy as np

    from tfbaselines.training.checkpoint import Checkpoints

    trial = faults.Trial("ppo2", tmp_path / "trial", random.Random(0))
    weights = np.zeros(3, np.float32)
    for step, value in enumerate((1.0, np.nan), 1):
        weights[1] = value
        Checkpoints(trial.log / "checkpoints").save(step, {"model": {"policy": {"weights": {"kernel": weights}}}})
        if step == 1:
            trial.finite()
    with pytest.raises(AssertionError, match="not finite"):
        trial.finite()


def test_what_root_lacks_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "ORDINARY_USER", ("no-such-program", "--flag"))
    (problem,) = faults.inflict("qlearning", "read-only log directory", 1, tmp_path)
    assert "root needs no-such-program" in problem


def test_a_wrong_name_is_one_line(capsys):
    assert faults.main(["--faults", "SIGKIL"]) == 2
    assert "did you mean 'SIGKILL'" in capsys.readouterr().err
