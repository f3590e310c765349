import io
import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.errors import warn
from tfbaselines.logs import formats as log_formats
from tfbaselines.logs.formats import CSVOutputFormat, HumanOutputFormat, JSONOutputFormat, make_output_format
from tfbaselines.logs.logger import Logger, read_csv, read_json, read_tb
from tfbaselines.logs.services import EventWriter, read_events

KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=5)
ROWS = st.lists(st.dictionaries(KEYS, st.integers() | st.floats(allow_nan=False), min_size=1), min_size=1, max_size=6)


def cells(path, separator=","):
    import csv

    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=separator))


@given(ROWS, st.integers(0, 6))
def test_csv_columns_grow_and_a_resumed_file_goes_on(tmp_path_factory, rows, stop):
    path = tmp_path_factory.mktemp("csv") / "progress.csv"
    for append, part in ((False, rows[:stop]), (True, rows[stop:])):
        output = CSVOutputFormat(path, append=append)
        for row in part:
            output.writekvs(row)
        output.close()
    header, *written = cells(path)
    columns = []
    for row in rows:
        columns += sorted(row.keys() - set(columns))
    assert header == columns
    assert written == [[str(row[key]) if key in row else "" for key in columns] for row in rows]
    assert os.listdir(path.parent) == ["progress.csv"]


def test_csv_text_with_separators_survives(tmp_path):
    output = CSVOutputFormat(tmp_path / "p.csv")
    output.writekvs({"a,\nb": 'say "hi", then\r\nleave', "n": 1})
    output.writekvs({"a,\nb": "x", "c": 2})
    output.close()
    frame = read_csv(tmp_path / "p.csv")
    assert list(frame.columns) == ["a, b", "n", "c"] and frame["a, b"].tolist() == ['say "hi", then  leave', "x"]
    assert (tmp_path / "p.csv").read_bytes().count(b"\n") == 3


def test_csv_growth_that_fails_loses_nothing(tmp_path, monkeypatch):
    output = CSVOutputFormat(tmp_path / "p.csv")
    output.writekvs({"a": 1})
    before = (tmp_path / "p.csv").read_bytes()
    monkeypatch.setattr(log_formats.os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        output.writekvs({"b": 2})
    assert (tmp_path / "p.csv").read_bytes() == before


def test_csv_row_cut_short_by_a_crash_is_dropped_when_resumed(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("a,b\n1,2\n3,")
    output = CSVOutputFormat(path, append=True)
    output.writekvs({"a": 5, "b": 6})
    output.close()
    assert path.read_text() == "a,b\n1,2\n5,6\n"


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False) | st.text()), max_size=5))
def test_json_lines_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("json") / "progress.json"
    output = JSONOutputFormat(path)
    for row in rows:
        output.writekvs(dict(row))
    output.close()
    assert [json.loads(line) for line in path.read_bytes().decode().split("\n")[:-1]] == rows
    assert len(read_json(path)) == len(rows)


def test_json_hands_floats_to_the_outputs_after_it(tmp_path):
    kvs = {"i": np.int64(2), "f": np.float32(0.5), "s": "x", "p": 3}
    output = JSONOutputFormat(tmp_path / "p.json")
    output.writekvs(kvs)
    output.close()
    assert [type(value) for value in kvs.values()] == [float, float, str, int]


def test_table_shows_every_key_even_those_that_are_cut_to_the_same_text():
    stream = io.StringIO()
    output = HumanOutputFormat(stream)
    output.writekvs({"k" * 40 + "1": 1, "k" * 40 + "2": 2, "None": None})
    output.close()
    assert not stream.closed
    lines = stream.getvalue().splitlines()
    assert len(lines) == 5 and len({*map(len, lines)}) == 1
    assert lines[1].startswith(f"| {'k' * 27}... | 1 ")


def test_empty_table_warns(capsys):
    HumanOutputFormat(io.StringIO()).writekvs({})
    assert "empty" in capsys.readouterr().out


def test_tensorboard_steps_go_on_when_resumed_and_begin_anew_otherwise(tmp_path):
    for append in (False, True):
        output = make_output_format("tensorboard", tmp_path, append=append)
        for _ in range(2):
            output.writekvs({"a": output.step, "text": "t", "none": None})
        output.close()
    frame = read_tb(tmp_path / "tb")
    assert frame.to_dict("list") == {"a": [1.0, 2.0, 3.0, 4.0]}
    output = make_output_format("tensorboard", tmp_path)
    output.writekvs({"a": np.float32(7)})
    output.close()
    assert read_tb(tmp_path / "tb")["a"].tolist() == [7.0]


def test_tensorboards_axis_is_of_environment_steps(tmp_path):
    output = make_output_format("tensorboard", tmp_path)
    for steps in (2048, 4096):
        output.writekvs({"loss": 1.0, "misc/total_timesteps": steps, "fps": 3})
    output.close()
    (path,) = (tmp_path / "tb").glob("events.*")
    assert [step for step, values in read_events(path) if values] == [2048, 4096]


def test_tensorboard_resumes_beside_a_damaged_file(tmp_path):
    output = make_output_format("tensorboard", tmp_path)
    output.writekvs({"a": 1})
    output.close()
    (path,) = (tmp_path / "tb").iterdir()
    path.write_bytes(path.read_bytes() + b"x" * 40)
    assert make_output_format("tensorboard", tmp_path, append=True).step == 2


def test_tensorboard_begins_anew_where_its_directory_was_removed(tmp_path, capsys):
    output = make_output_format("tensorboard", tmp_path / "run")
    log = Logger(None, [output])
    log.describe({"lr": 1})
    for value in (1, 2, 3):
        if value == 2:
            shutil.rmtree(tmp_path / "run")
        log.logkv("a", value)
        log.dumpkvs()
    assert capsys.readouterr().err.count(f"{tmp_path}/run/tb was removed: a new file takes its place") == 1
    assert read_tb(tmp_path / "run/tb")["a"].to_dict() == {2: 2.0, 3: 3.0}
    (events,) = (tmp_path / "run/tb").iterdir()
    assert b"| lr | 1 |" in events.read_bytes()


def test_tensorboard_goes_on_in_another_file_after_a_full_disk(tmp_path, monkeypatch, capsys):
    log, full, record = Logger(None, [make_output_format("tensorboard", tmp_path)]), [], EventWriter._record

    def torn(writer, data):
        if full:
            writer._file.write(b"torn")
            writer._file.flush()
            raise OSError(28, "No space left on device")
        record(writer, data)

    monkeypatch.setattr(EventWriter, "_record", torn)
    for value in (1, 2, 3, 4):
        full[:] = [True] * (value in (2, 3))
        log.logkv("a", value)
        log.dumpkvs()
    assert capsys.readouterr().err.count("\n") == 1
    # What the torn record cost ends a file; nothing stands after it.
    assert read_tb(tmp_path / "tb")["a"].tolist() == [1.0, 4.0]
    assert len(list((tmp_path / "tb").iterdir())) == 2


def test_a_frame_of_tensorboards_files_has_the_steps_that_there_are(tmp_path):
    output = make_output_format("tensorboard", tmp_path)
    for steps in (10**6, 2 * 10**6, 3 * 10**15):
        output.writekvs({"timesteps": steps, "loss" if steps > 10**6 else "first": 0.5})
    output.close()
    frame = read_tb(tmp_path / "tb")
    assert frame.index.tolist() == [10**6, 2 * 10**6, 3 * 10**15] and list(frame) == ["first", "loss", "timesteps"]
    assert frame["loss"].isna().tolist() == [True, False, False]


def test_unknown_format_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="'tensorbord': did you mean 'tensorboard'"):
        make_output_format("tensorbord", tmp_path)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_short_rows_have_the_main_columns_on_a_line_and_whole_steps(monkeypatch):
    out = Terminal()
    output = HumanOutputFormat(out)
    output.rows = "short"
    clock = iter([0.0, 0.0, 0.5, 0.9, 2.0, 2.0])
    monkeypatch.setattr(log_formats.time, "monotonic", lambda: next(clock))
    columns = {"misc/total_timesteps": 71_400.0, "eprewmean": 12.34567, "fps": 1234.5, "loss/policy_loss": 0.1}
    output.writekvs(columns)
    assert out.getvalue() == "steps 71,400  return 12.35  steps/s 1234\n"
    # Of several rows in a second the last one is shown, at the next message at the latest.
    output.writekvs(columns | {"misc/total_timesteps": 71_500})
    output.writekvs(columns | {"misc/total_timesteps": 71_600})
    assert out.getvalue().count("\n") == 1
    output.writeseq(["done"])
    assert [line.split()[1] for line in out.getvalue().splitlines()[1:-1]] == ["71,600"]
    output.rows = "none"
    output.writekvs(columns)
    assert out.getvalue().endswith("done\n")
    assert log_formats.short_row({"a": "text", "b": float("nan"), "c": 1e-7}) == "a text  b nan  c 1e-07"


def test_a_table_on_a_terminal_has_whole_steps_and_that_of_a_file_is_baselines(tmp_path):
    terminal, file = HumanOutputFormat(Terminal()), HumanOutputFormat(tmp_path / "log.txt")
    for output in (terminal, file):
        output.writekvs({"timesteps": 71_400, "loss": 0.12345})
    assert "| timesteps | 71,400 |" in terminal.file.getvalue() and "| loss      | 0.1235 |" in terminal.file.getvalue()
    assert "| timesteps | 7.14e+04 |" in (tmp_path / "log.txt").read_text()


def test_lines_of_the_log_do_not_collide_with_a_progress_bar():
    """Carriage returns of the bar are obeyed as a terminal does; no line of the log stands behind a bar."""
    from tfbaselines.training.clock import ProgressBar

    screen = Terminal()
    bar = ProgressBar("ppo2", 0, 100, screen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", screen)
        patch.setattr("sys.stderr", screen)
        output = HumanOutputFormat(screen)
        for step in (10, 20):
            bar.update(step, lambda: 1.0)
            output.writeseq([f"row {step}"])
            warn(f"warning {step}")
        bar.close()
    shown = [line.rpartition("\r")[2] for line in screen.getvalue().split("\n")]
    shown = [line for line in shown if "row" in line or "warning" in line]
    assert shown == ["row 10", "tfbaselines: warning: warning 10", "row 20", "tfbaselines: warning: warning 20"]
