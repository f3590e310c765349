"""Logs that go to Weights & Biases and MLflow: with stand-ins, and with the packages where they are installed."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tfbaselines.logs import logger
from tfbaselines.logs.services import SERVICES
from tfbaselines.run import command as main

ROW = {"eprewmean": np.float32(2.5), "misc/total_timesteps": 128, "% time": 3, "note": "text"}


class Record:
    """What a stand-in was given."""

    def __init__(self):
        self.begun, self.rows, self.parameters, self.ended = [], [], {}, 0


@pytest.fixture
def wandb(monkeypatch):
    record, module = Record(), ModuleType("wandb")

    def init(project, dir, id, resume):
        record.begun.append((project, id, resume))
        return SimpleNamespace(
            id=id or "abc",
            config=SimpleNamespace(update=lambda new, allow_val_change: record.parameters.update(new)),
            log=lambda numbers, step: record.rows.append((step, numbers)),
            finish=lambda: setattr(record, "ended", record.ended + 1),
        )

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return record


def dump(directory, *formats, resume=False):
    with logger.scoped_configure(directory, formats, resume=resume):
        logger.get_current().describe({"lr": "linear_1e-3", "layers": [64]})
        logger.logkvs(ROW)
        logger.dumpkvs()


def test_numbers_go_there_by_steps_and_a_resumed_run_to_the_same_record(wandb, tmp_path):
    dump(tmp_path, "wandb")
    assert wandb.begun == [("tfbaselines", None, "allow")]
    assert wandb.rows == [(128, {"eprewmean": 2.5, "misc/total_timesteps": 128.0, "% time": 3.0})]
    assert wandb.parameters == {"lr": "linear_1e-3", "layers": [64]} and wandb.ended == 1
    dump(tmp_path, "wandb", resume=True)
    assert wandb.begun[1][1] == "abc"
    dump(tmp_path, "wandb")
    assert wandb.begun[2][1] is None


def test_what_it_cannot_take_ends_no_run(wandb, tmp_path, capsys):
    with logger.scoped_configure(tmp_path, ["wandb", "csv"]):
        output = logger.get_current().output_formats[0]
        output._run.log = lambda *_, **__: 1 / 0
        logger.logkvs(ROW)
        logger.dumpkvs()
    assert (
        "Wandb cannot be written to (ZeroDivisionError: division by zero): training goes on" in capsys.readouterr().err
    )
    assert (tmp_path / "progress.csv").read_text().count("\n") == 2


@pytest.mark.parametrize("name", SERVICES)
def test_without_the_package_there_is_one_line(name, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, name, None)
    assert main([f"--log_format=csv,{name}", f"--log_path={tmp_path}", "--num_timesteps=0"]) == 2
    assert f"log format '{name}' needs the package: pip install {name}" in capsys.readouterr().err


def test_one_that_cannot_begin_is_one_line(wandb, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys.modules["wandb"], "init", lambda **_: 1 / 0)
    assert main(["--log_format=wandb", f"--log_path={tmp_path}", "--num_timesteps=0"]) == 2
    assert "log format 'wandb' could not begin (ZeroDivisionError: division by zero)" in capsys.readouterr().err


def test_a_wrong_format_is_one_line_before_anything_is_removed(capsys, tmp_path):
    (tmp_path / "progress.csv").write_text("a\n1\n")
    assert main(["--log_format=cvs", f"--log_path={tmp_path}", "--overwrite"]) == 2
    assert "unknown log format in --log_format 'cvs': did you mean 'csv'?" in capsys.readouterr().err
    assert (tmp_path / "progress.csv").exists()


def test_tensorboard_has_the_arguments(tmp_path):
    dump(tmp_path, "tensorboard")
    (events,) = (tmp_path / "tb").glob("events.*")
    assert b"hyper-parameters" in events.read_bytes() and b"| lr | linear_1e-3 |" in events.read_bytes()


@pytest.mark.parametrize("name", SERVICES)
def test_the_package_itself_takes_it(name, tmp_path, monkeypatch):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    dump(tmp_path, name)
    dump(tmp_path, name, resume=True)
    assert (tmp_path / f"{name}_id.txt").read_text()
    assert any(Path(tmp_path).rglob("*.wandb" if name == "wandb" else "eprewmean"))
