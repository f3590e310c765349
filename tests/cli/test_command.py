"""Errors are one line, and what C libraries print is kept back only while nothing fails."""

import io
import json
import os
import subprocess
import sys

import pytest

from tfbaselines.cli import Parser, exit_status
from tfbaselines.errors import UsageError, WorkerError, nearest
from tfbaselines.loading import absent, silent_stderr


def fail(error):
    def command():
        raise error

    return command


@pytest.mark.parametrize("error", [UsageError("this\nthat"), WorkerError("this that")])
def test_a_users_mistake_is_one_line(error, capsys):
    assert exit_status("name", fail(error)) == 2
    assert capsys.readouterr().err == "name: error: this that\n"


def test_a_path_that_cannot_be_used_is_one_line(tmp_path, capsys):
    path = tmp_path / ("a" * 1000)
    assert exit_status("name", lambda: len(path.read_text())) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"name: error: '{str(path)[:200]}") and "file name too long" in err
    assert err.count("\n") == 1 and len(err) < 500


def test_a_reader_that_leaves_ends_a_command_without_a_message():
    code = (
        "import sys; from tfbaselines.cli import exit_status; sys.exit(exit_status('name', lambda: print('x' * 10**6)))"
    )
    command = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout.read(10) == b"x" * 10
    command.stdout.close()
    assert command.stderr.read() == b"" and command.wait() == 141
    command.stderr.close()


def test_other_errors_keep_their_traceback():
    with pytest.raises(BrokenPipeError):
        exit_status("name", fail(BrokenPipeError("of a socket")))
    with pytest.raises(KeyError):
        exit_status("name", fail(KeyError("bug")))
    with pytest.raises(OSError):
        exit_status("name", fail(OSError("without a path")))


def test_an_error_of_a_users_file_keeps_its_traceback_below_a_line_that_names_the_file(tmp_path, capsys):
    path = tmp_path / "my_network.py"
    path.write_text("import json\ndef build():\n    json.loads('{')\n")
    mine = {}
    exec(compile(path.read_text(), str(path), "exec"), mine)
    with pytest.raises(json.JSONDecodeError):
        exit_status("name", mine["build"])
    line = f"name: error: JSONDecodeError in {path}, line 3, which is not a file of tfbaselines; the traceback is below"
    assert capsys.readouterr().err == line + "\n"


def test_an_error_of_this_package_asks_to_report_it(capsys):
    with pytest.raises(AttributeError):
        exit_status("name", lambda: nearest(None, []))
    err = capsys.readouterr().err
    assert err.startswith("name: error: AttributeError in tfbaselines/errors.py, line ") and err.count("\n") == 1
    assert err.endswith("a bug of tfbaselines: please report it with the traceback below\n")


def test_letters_that_an_output_does_not_have_are_spelt_out(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    assert exit_status("name", lambda: print("caf\xe9", flush=True) or 0) == 0
    assert out.buffer.getvalue() == b"caf\\xe9\n"


def test_a_working_directory_that_was_removed_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert exit_status("name", lambda: len(os.path.abspath("log"))) == 2
    assert capsys.readouterr().err.startswith("name: error: the working directory was removed: change to one")


def test_the_traceback_is_shown_when_asked_for(monkeypatch):
    monkeypatch.setenv("TFBASELINES_TRACEBACK", "1")
    with pytest.raises(UsageError, match="mistake"):
        exit_status("name", fail(UsageError("mistake")))


def test_ctrl_c_has_its_own_status(capsys):
    assert exit_status("name", fail(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "name: interrupted\n"


def test_a_success_is_its_own_status():
    assert exit_status("name", lambda: 5) == 5


def test_an_unknown_option_names_the_nearest(capsys):
    parser = Parser(prog="name")
    parser.add_argument("--episodes")
    with pytest.raises(SystemExit) as stop:
        parser.parse_args(["--epsodes=3"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "name: error: unrecognized arguments: --epsodes=3; did you mean --episodes?\n"


def test_noise_of_c_libraries_is_dropped(capfd):
    with silent_stderr():
        os.write(2, b"noise\n")
    os.write(2, b"news\n")
    assert capfd.readouterr().err == "news\n"


def test_noise_is_shown_when_something_fails(capfd):
    with pytest.raises(RuntimeError), silent_stderr():
        os.write(2, b"the reason\n")
        raise RuntimeError
    assert capfd.readouterr().err == "the reason\n"


@pytest.mark.parametrize("closing", ["os.close(2)", "sys.stderr = None"])
def test_a_closed_standard_error_has_nothing_to_drop(closing):
    script = (
        f"import os, sys; {closing}\n"
        "from tfbaselines.loading import silent_stderr\n"
        "with silent_stderr():\n    print('went on')\n"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "went on\n"


def test_a_library_that_aborts_at_the_very_end_does_not_change_the_status():
    script = (
        "import atexit, ctypes\n"
        "from tfbaselines.cli import leave\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)\n"
        "atexit.register(print, 'closed')\n"
        "leave(7)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (7, "closed\n", "")


def test_absent_packages_look_as_if_they_were_not_installed():
    sys.modules.pop("colorsys", None)
    with absent("colorsys", "os"):
        import os  # noqa: F401 - It was imported before.

        with pytest.raises(ImportError):
            import colorsys
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
