import io
import json
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import tfbaselines
from tfbaselines.logs import logger
from tfbaselines.logs.formats import KVWriter
from tfbaselines.logs.logger import Logger
from tfbaselines.parallel import mpi
from tfbaselines.parallel.mpi import Communicator


class Rows(KVWriter):
    def __init__(self):
        self.rows = []

    def writekvs(self, kvs):
        self.rows.append(dict(kvs))


class Ranks(Communicator):
    """Rank 0 of two: `other` is what rank 1 gathers."""

    size = 2

    def __init__(self, other, rank=0):
        self.other, self.rank = other, rank

    def gather(self, obj):
        return [obj, self.other]


@pytest.fixture(autouse=True)
def temporary_default(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(Logger, "CURRENT", None)
    monkeypatch.setattr(Logger, "DEFAULT", None)
    for name in mpi.RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_public_name():
    assert tfbaselines.logger is logger


def test_configure_says_where_and_writes_the_default_formats(tmp_path, capsys):
    logger.configure(tmp_path / "run")
    logger.record_tabular("a", 1)
    logger.dump_tabular()
    assert capsys.readouterr().out.startswith(f"Logging to {tmp_path / 'run'}\n---")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["log.txt", "progress.csv"]
    assert logger.get_dir() == logger.configured_dir() == str(tmp_path / "run")


def test_the_directory_stays_when_the_working_directory_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logger.configure("run", ["csv"])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    logger.record_tabular("a", 1)
    logger.dump_tabular()
    assert (tmp_path / "run/progress.csv").read_text() == "a\n1\n"
    assert logger.get_dir() == str(tmp_path / "run")


def test_environment_variables(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENAI_LOGDIR", str(tmp_path / "env"))
    monkeypatch.setenv("OPENAI_LOG_FORMAT", "json, csv,,json")
    monkeypatch.setenv("OPENAI_LOG_FORMAT_MPI", "csv")
    logger.configure()
    logger.logkv("a", 1)
    logger.dumpkvs()
    monkeypatch.setenv("PMI_RANK", "2")
    logger.configure(log_suffix="-x")
    assert sorted(path.name for path in (tmp_path / "env").iterdir()) == [
        "progress-x-rank002.csv",
        "progress.csv",
        "progress.json",
    ]
    assert (tmp_path / "env/progress.json").read_text() == '{"a": 1}\n'
    logger.configure(tmp_path / "argument")
    assert (tmp_path / "argument").is_dir()


def test_ranks_above_zero_write_a_log_only(tmp_path, monkeypatch, capsys):
    logger.configure(tmp_path, comm=Ranks({}, rank=1))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["log-rank001.txt"]
    assert capsys.readouterr().out == ""


def test_without_configure_a_dated_directory_in_the_temporary_one(tmp_path, capsys):
    assert logger.configured_dir() is None
    logger.logkv("a", 1)
    assert logger.configured_dir() is None
    directory = logger.get_dir()
    assert re.fullmatch(r".*/temporary/openai(-\d+){6}-\d{6}", directory)
    assert Logger.CURRENT is Logger.DEFAULT is not None
    with logger.scoped_configure(tmp_path / "inside", ["csv"]):
        assert logger.get_dir() == str(tmp_path / "inside")
    assert logger.get_dir() == directory
    logger.configure(tmp_path / "other", ["csv"])
    logger.reset()
    assert logger.get_dir() == directory


@pytest.mark.parametrize("variable", ["OPENAI_LOG_FORMAT", "OPENAI_LOG_FORMAT_MPI"])
def test_unknown_format_in_a_variable(tmp_path, monkeypatch, variable):
    monkeypatch.setenv(variable, "log,cvs")
    monkeypatch.setenv("PMI_RANK", "1" if variable.endswith("MPI") else "0")
    with pytest.raises(ValueError, match=f"{variable} 'cvs': did you mean 'csv'") as caught:
        logger.configure(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_directories_that_cannot_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "busy/log.txt").mkdir(parents=True)
    for bad in ("", " ", tmp_path / "file", tmp_path / "file/below", tmp_path / "busy"):
        with pytest.raises(ValueError, match=r"is not valid: .*directory") as caught:
            logger.configure(bad)
        assert "\n" not in str(caught.value)
    monkeypatch.setenv("OPENAI_LOGDIR", "")
    with pytest.raises(ValueError, match="is not valid"):
        logger.configure()
    assert Logger.CURRENT is None
    assert (tmp_path / "file").read_text() == "mine"


def test_resume_appends_in_every_format(tmp_path):
    names = ["log", "csv", "json", "tensorboard"]
    for resume in (False, True):
        logger.configure(tmp_path, names, resume=resume)
        logger.logkv("resumed", resume)
        logger.dumpkvs()
        Logger.CURRENT.close()
    assert (tmp_path / "log.txt").read_text().count("Logging to") == 2
    assert logger.read_csv(tmp_path / "progress.csv")["resumed"].tolist() == [False, True]
    assert logger.read_json(tmp_path / "progress.json")["resumed"].tolist() == [False, True]
    assert logger.read_tb(tmp_path / "tb")["resumed"].tolist() == [0.0, 1.0]
    logger.configure(tmp_path, names)
    assert (tmp_path / "progress.csv").read_text() == ""


def test_values_of_all_kinds(tmp_path):
    tf = pytest.importorskip("tensorflow")
    output = Rows()
    log = Logger(None, [output])
    log.logkvs({"py": 1, "np": np.float32(2), "array": np.array([[3.0]]), "text": "t", "none": None, "flag": True})
    log.logkvs({"tensor": tf.constant(4.0), "variable": tf.Variable([5])})
    row = log.dumpkvs()
    assert output.rows == [row]
    numbers = [float(row[key]) for key in ("py", "np", "array", "tensor", "variable", "flag")]
    assert numbers == [1, 2, 3, 4, 5, 1] and (row["text"], row["none"]) == ("t", None)
    assert all(np.ndim(value) == 0 for value in row.values())
    log.logkv("many", np.zeros(3))
    with pytest.raises(ValueError, match=r"many cannot be logged: an array of shape \(3,\)"):
        log.dumpkvs()


def test_means_and_emptying():
    log = Logger(None, [Rows()])
    for value in (1, 2, 6):
        log.logkv_mean("m", value)
    log.logkv("last", 1)
    log.logkv("last", 2)
    assert log.dumpkvs() == {"m": pytest.approx(3), "last": 2}
    log.logkv_mean("m", 10)
    assert log.dumpkvs() == {"m": 10}
    assert log.dumpkvs() == {}


def test_values_are_averaged_over_ranks_by_their_counts():
    other = {"m": (10.0, 3), "v": (4, 1), "theirs": (7.0, 1), "text": ("theirs", 1)}
    log = Logger(None, [Rows()], comm=Ranks(other))
    log.logkv_mean("m", 2)
    log.logkvs({"v": 2, "mine": 1, "text": "mine"})
    assert log.dumpkvs() == {"m": 8.0, "v": 3.0, "theirs": 7.0, "mine": 1.0, "text": "mine"}


def test_warnings_without_an_output_for_messages_are_seen(tmp_path, capsys):
    with logger.scoped_configure(str(tmp_path), ["csv"]):
        logger.info("this run", "stops")
        logger.warn("nothing", "left to train")
    assert capsys.readouterr().err == "tfbaselines: warning: nothing left to train\n"


def test_levels(tmp_path):
    with logger.scoped_configure(tmp_path, ["log"]):
        for speak in (logger.debug, logger.info, logger.warn, logger.error):
            speak("at", 1, speak.__name__)
        logger.set_level(logger.ERROR)
        logger.warn("unheard")
        logger.log("unheard")
        logger.error("heard")
        logger.set_level(logger.DISABLED)
        logger.error("unheard")
    lines = (tmp_path / "log.txt").read_text().splitlines()[1:]
    assert lines == ["at 1 info", "at 1 warn", "at 1 error", "heard"]


def test_profiling_adds_up_the_time(tmp_path):
    wait = threading.Event().wait

    @logger.profile("nap")
    def nap(seconds):
        """Sleep."""
        wait(seconds)
        return seconds

    with logger.scoped_configure(tmp_path, ["csv"]):
        with logger.profile_kv("nap"):
            wait(0.01)
        assert nap(0.02) == 0.02 and nap.__doc__ == "Sleep."
        assert 0.03 <= logger.getkvs()["wait_nap"] < 5


def test_a_logger_of_ones_own_formats(tmp_path):
    text = io.StringIO()
    formats = [
        logger.HumanOutputFormat(text),
        logger.CSVOutputFormat(tmp_path / "a.csv"),
        logger.JSONOutputFormat(tmp_path / "a.json"),
    ]
    own = logger.Logger(dir=None, output_formats=formats)
    own.logkv("loss", 0.5)
    own.dumpkvs()
    own.close()
    assert "| loss | 0.5" in text.getvalue() and issubclass(logger.TensorBoardOutputFormat, logger.KVWriter)
    assert (tmp_path / "a.csv").read_text() == "loss\n0.5\n" and json.loads((tmp_path / "a.json").read_text())


def test_readers(tmp_path):
    (tmp_path / "0.monitor.csv").write_text('# {"t_start": 1.0} \nr,l,t\r\n1.0,2,3.0\r\n')
    assert logger.read_csv(tmp_path / "0.monitor.csv").to_dict("list") == {"r": [1.0], "l": [2], "t": [3.0]}
    (tmp_path / "p.csv").write_text("#episodes,text\n1,a # b\n")
    assert logger.read_csv(tmp_path / "p.csv").to_dict("list") == {"#episodes": [1], "text": ["a # b"]}
    (tmp_path / "empty.csv").write_text("")
    assert len(logger.read_csv(tmp_path / "empty.csv")) == 0
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(ValueError, match=r"ragged.csv is not a table"):
        logger.read_csv(tmp_path / "ragged.csv")
    (tmp_path / "p.json").write_text('{"a": 1}\n{"a": NaN}\n{"a"')
    assert len(logger.read_json(tmp_path / "p.json")) == 2
    (tmp_path / "p.json").write_text("no\njson\n")
    with pytest.raises(ValueError, match=r"p.json is not a log of JSON lines"):
        logger.read_json(tmp_path / "p.json")


def test_light_imports(tmp_path):
    """Nothing heavy is loaded until it is needed."""
    code = (
        "import sys, tfbaselines.logs.statistics, tfbaselines.envs.monitor, tfbaselines.plot.plot_util,"
        " tfbaselines.plot.__main__; from tfbaselines import logger;"
        "logger.configure(sys.argv[1], ['tensorboard']); logger.logkv('a', 1); logger.dumpkvs();"
        "print({'tensorflow', 'pandas', 'matplotlib', 'mpi4py'} & set(sys.modules))"
    )
    root = next(iter(tfbaselines.__path__)) + "/.."
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, capture_output=True, text=True)
    assert done.stdout.endswith("set()\n"), done


def test_a_terminal_obeys_nothing_in_the_name_of_a_directory(tmp_path, capsys):
    with logger.scoped_configure(tmp_path / "\x1b[2Jruns", ["stdout"]):
        pass
    assert capsys.readouterr().out == f"Logging to {tmp_path}/\\x1b[2Jruns\n"
