"""Faults of real processes and of the disk: nothing is lost beyond a checkpoint, nothing goes unsaid."""

import contextlib
import fcntl
import os
import re
import shutil
import signal

import commands
import gymnasium
import numpy as np
import pytest
from helpers import vec
from small_runs import flags, rows

import tfbaselines
from tfbaselines.algs import ppo2
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv, SubprocVecEnv
from tfbaselines.errors import InUseError, NotFiniteError, UsageError, WorkerError
from tfbaselines.logs import directory, logger
from tfbaselines.parallel import mpi
from tfbaselines.run import command as main
from tfbaselines.training import saving
from tfbaselines.training.checkpoint import Checkpoints, load_tree, save_tree
from tfbaselines.training.guards import Interrupted
from tfbaselines.training.saving import Saving

# Updates are few, and are not what is tested.
pytestmark = pytest.mark.usefixtures("eager")
TINY = {"nsteps": 16, "nminibatches": 2, "noptepochs": 2, "num_hidden": 8, "seed": 0, "log_interval": 1}
RUN = (*commands.SMALL, "--num_timesteps=1e7")


def train(directory, env=None, total=320, resume=None, **kwargs):
    logger.configure(str(directory), ["csv", "log"], resume=resume is not None)
    options = RunOptions(resume=resume, **kwargs.pop("options", {}))
    env = env or vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=10))
    return ppo2.learn("mlp", env, total, run=options, **TINY | kwargs)


def saved(directory):
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


class Failing(gymnasium.Wrapper):
    """Raises in one of its steps."""

    def __init__(self, env, step, error):
        super().__init__(env)
        self._left, self._error = step, error

    def step(self, action):
        self._left -= 1
        if self._left == 0:
            raise self._error
        return super().step(action)


def failing(step, error):
    return vec(lambda: Failing(tiny.DiscreteIdentityEnv(4, episode_len=10), step, error))


def test_an_exception_saves_the_last_finished_update(tmp_path):
    with pytest.raises(RuntimeError, match="broken"):
        train(tmp_path, failing(16 * 3 + 5, RuntimeError("broken")))
    assert saved(tmp_path) == ["00003", "best"]
    assert "--resume=" in (tmp_path / "log.txt").read_text()
    train(tmp_path, resume=str(tmp_path))
    assert logger.read_csv(tmp_path / "progress.csv")["misc/nupdates"].tolist() == list(range(1, 21))


def test_an_environment_that_exits_saves_it_too(tmp_path):
    with pytest.raises(WorkerError, match="SystemExit: 0"):
        train(tmp_path, failing(16 * 3 + 5, SystemExit(0)))
    assert saved(tmp_path) == ["00003", "best"]


def test_no_rank_writes_on_before_a_checkpoint_knows_how_long_the_files_are(tmp_path, monkeypatch):
    calls = []
    measured = saving.positions
    monkeypatch.setattr(saving, "positions", lambda directory: calls.append("positions") or measured(directory))
    monkeypatch.setattr(mpi.Communicator, "barrier", lambda self: calls.append("barrier"))
    train(tmp_path, total=16)
    assert calls[:2] == ["positions", "barrier"]
    # Where the files cannot be asked, the others do not wait for ever.
    monkeypatch.setattr(saving, "positions", lambda directory: calls.append("fails") or os.stat(tmp_path / "none"))
    calls.clear()
    train(tmp_path / "b", total=16)
    assert calls[:2] == ["fails", "barrier"] and "could not be saved" in (tmp_path / "b/log.txt").read_text()


def test_an_environment_process_that_fails_saves_it_too(tmp_path):
    make = lambda: Failing(tiny.DiscreteIdentityEnv(4, episode_len=10), 16 * 3, OSError("no licence"))
    env = SubprocVecEnv([lambda: Monitor(make(), None)])
    with pytest.raises(WorkerError, match="OSError: no licence"):
        train(tmp_path, env)
    assert saved(tmp_path) == ["00002", "best"]
    train(tmp_path, total=16 * 4, resume=str(tmp_path))
    assert "the episodes under way begin anew" in (tmp_path / "log.txt").read_text()
    assert saved(tmp_path) == ["00002", "00004", "best"]


def test_a_rescue_that_fails_does_not_hide_the_error(tmp_path):
    env = failing(16 * 3, RuntimeError("broken"))

    def state():
        raise KeyError("the state")

    env.state = state
    with pytest.raises(RuntimeError, match="broken"):
        train(tmp_path, env)
    assert "no checkpoint of update 2 could be saved: 'the state'" in (tmp_path / "log.txt").read_text()


def test_checkpoints_come_by_time(tmp_path):
    train(tmp_path, total=16 * 6, options={"save_minutes": 1e-9, "keep_checkpoints": 9})
    assert saved(tmp_path) == [f"{number:05d}" for number in range(1, 7)] + ["best"]


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(tmp_path, monkeypatch):
    failures = iter([OSError(28, "No space left on device")])

    def save(self, number, tree, real=Checkpoints.save):
        error = next(failures, None)
        if error is not None:
            raise error
        return real(self, number, tree)

    monkeypatch.setattr(Checkpoints, "save", save)
    train(tmp_path, total=16 * 4, save_interval=2)
    assert "No space left" in (tmp_path / "log.txt").read_text()
    assert saved(tmp_path) == ["00002", "00004", "best"]


def test_a_signal_on_a_full_disk_names_the_last_checkpoint(tmp_path, monkeypatch):
    def fill(run):
        if run.update == 3:
            full = OSError(28, "No space left on device")
            monkeypatch.setattr(Checkpoints, "save", lambda *_: (_ for _ in ()).throw(full))
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted) as stop:
        train(tmp_path, save_interval=2, options={"callback": fill})
    last = tmp_path / "checkpoints/00002"
    assert str(stop.value) == f"stopped by SIGTERM: no checkpoint was saved, the last one is {last}"
    assert stop.value.checkpoint is None


def test_a_directory_that_is_removed_begins_anew(tmp_path, capsys):
    log = tmp_path / "run"

    def remove(run):
        if run.update == 3:
            shutil.rmtree(log)

    train(log, total=16 * 6, options={"callback": remove})
    assert "was removed" in capsys.readouterr().err
    assert saved(log) == ["00006", "best"]
    assert logger.read_csv(log / "progress.csv")["misc/nupdates"].tolist() == [3, 4, 5, 6]


def test_leftovers_of_a_kill_are_removed(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ".00007.123.tmp").write_bytes(b"half")
    train(tmp_path, total=16)
    assert saved(tmp_path) == ["00001", "best"]


def test_a_run_killed_with_its_replay_equals_the_uninterrupted_one(tmp_path):
    """SIGKILL comes somewhere between two checkpoints, or while one is written."""
    own = flags("sac", seed=1, num_timesteps=2000, replay_size=300, batch_size=4, hidden_sizes=4, save_freq=2)
    progress, files = tmp_path / "killed/progress.csv", {"cwd": tmp_path, "OPENAI_LOG_FORMAT": "csv,log"}
    process = commands.start("tfbaselines.run", *own, "--log_path=killed", **files)
    try:
        commands.wait_for(lambda: progress.exists() and progress.read_text().count("\n") > 30, process)
    finally:
        process.kill()
    process.communicate()
    for arguments in ([*own, "--log_path=whole"], ["--resume=killed"]):
        status, _, err = commands.run("tfbaselines.run", *arguments, **files)
        assert status == 0, err
    killed, whole = (rows(tmp_path / name) for name in ("killed", "whole"))
    assert len(whole) == 100 and killed.equals(whole)
    killed, whole = (load_tree(tmp_path / name / "checkpoints/00200") for name in ("killed", "whole"))
    np.testing.assert_equal(killed["model"], whole["model"])
    assert "starts empty" not in (tmp_path / "killed/log.txt").read_text()


def test_a_damaged_checkpoint_falls_back_with_a_warning(tmp_path):
    train(tmp_path, total=16 * 4, save_interval=2)
    (tmp_path / "checkpoints" / "00004").write_bytes(b"damaged")
    train(tmp_path, total=16 * 5, resume=str(tmp_path))
    assert re.search(r"00002' is used: checkpoint 00004 is damaged", (tmp_path / "log.txt").read_text())
    for path in (tmp_path / "checkpoints").glob("0*"):
        path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"no checkpoint in .* can be read: 00001, 00002, 00004, 00005 are damaged"):
        train(tmp_path, resume=str(tmp_path))


def test_rows_after_the_checkpoint_do_not_stand_twice(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        # Ends as abruptly as a kill: nothing is saved.
        train(tmp_path, failing(16 * 5 + 1, KeyboardInterrupt()), save_interval=3)
    assert len(logger.read_csv(tmp_path / "progress.csv")) == 5 and saved(tmp_path) == ["00001", "00003", "best"]
    train(tmp_path, total=16 * 6, resume=str(tmp_path))
    assert logger.read_csv(tmp_path / "progress.csv")["misc/nupdates"].tolist() == [1, 2, 3, 4, 5, 6]


def test_steps_go_on_from_the_steps_that_were_taken(tmp_path):
    """Also when an update is of another size in the resumed run."""
    train(tmp_path, total=16 * 4)
    train(tmp_path, total=16 * 4 + 32 * 3, resume=str(tmp_path), nsteps=32)
    assert logger.read_csv(tmp_path / "progress.csv")["misc/total_timesteps"].tolist() == [16, 32, 48, 64, 96, 128, 160]
    path = Checkpoints(tmp_path / "checkpoints").latest()
    assert load_tree(path)["training"]["timesteps"] == 160


@pytest.mark.parametrize("what", [{"lr": 1e30}, {"ent_coef": 1e30}])
def test_numbers_that_are_not_finite_end_the_run(tmp_path, what):
    with pytest.raises(NotFiniteError, match=r"is not finite (in|after) update \d+") as error:
        train(tmp_path, **what)
    assert "\n" not in str(error.value)
    for path in (tmp_path / "checkpoints").glob("0*"):
        weights = load_tree(path)["model"]["policy"]["weights"].values()
        assert all(np.isfinite(array).all() for entry in weights for array in entry.values())


def test_parameters_that_are_not_finite_are_not_saved(tmp_path):
    def spoil(run):
        if run.update == 3:
            variable = run.model.policy.trainable_variables[0]
            variable.assign(np.full(variable.shape, np.inf))

    with pytest.raises(NotFiniteError, match=r"parameter .* after update 3; the last good checkpoint is 00002"):
        train(tmp_path, total=16 * 3, save_interval=2, options={"callback": spoil})
    assert saved(tmp_path) == ["00001", "00002", "best"]


def test_outputs_that_fail_do_not_end_a_run(tmp_path, capsys, monkeypatch):
    train(tmp_path, total=16)
    output = next(one for one in logger.get_current().output_formats if hasattr(one, "keys"))
    monkeypatch.setattr(
        output.file, "flush", lambda: (_ for _ in ()).throw(OSError(28, "No space left")), raising=False
    )
    logger.logkv("loss", 1.0)
    logger.dumpkvs()
    assert "training goes on" in capsys.readouterr().err


def test_one_directory_one_run(tmp_path):
    """A second run in a directory is refused while the first one writes, and afterwards unless it says so."""
    log = tmp_path / "log"
    process = commands.start("tfbaselines.run", *RUN, f"--log_path={log}", cwd=tmp_path)
    try:
        progress = log / "progress.csv"
        commands.wait_for(lambda: progress.exists() and progress.read_text().count("\n") > 1, process)
        status, _, err = commands.run("tfbaselines.run", *RUN, f"--log_path={log}", "--overwrite", cwd=tmp_path)
        assert status == 2 and f"process {process.pid}" in err
        process.send_signal(signal.SIGTERM)
        assert commands.finish(process)[0] == 128 + signal.SIGTERM
    finally:
        process.kill()
    rows = (log / "progress.csv").read_text()
    status, _, err = commands.run("tfbaselines.run", *RUN, f"--log_path={log}", cwd=tmp_path)
    assert status == 2 and "--resume=" in err and "--overwrite" in err
    assert (log / "progress.csv").read_text() == rows
    status, _, err = commands.run("tfbaselines.run", f"--resume={log}", "--alg=sac", cwd=tmp_path)
    assert status == 2 and "algorithm cannot change" in err


def test_a_directory_that_another_run_has_taken_is_left_to_it(tmp_path):
    """Which is possible once it was removed while a run writes in it."""
    run = tmp_path / "run"
    thief = contextlib.ExitStack()

    def steal(of):
        if of.update == 2:
            shutil.rmtree(run)
            run.mkdir()
            handle = os.open(run / directory.LOCK_NAME, os.O_RDWR | os.O_CREAT)
            thief.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)

    with thief, pytest.raises(InUseError, match="another run is writing in it"), directory.locked(run):
        train(run, save_interval=3, options={"callback": steal})
    assert [path.name for path in run.iterdir()] == [directory.LOCK_NAME]


def test_resume_auto_starts_and_then_goes_on(tmp_path):
    command = ("tfbaselines.run", *commands.SMALL, "--resume=auto", f"--log_path={tmp_path / 'log'}")
    for steps in (128, 256):
        status, _, err = commands.run(*command, f"--num_timesteps={steps}", cwd=tmp_path)
        assert status == 0, err
    assert saved(tmp_path / "log") == ["00002", "00004", "best"]
    status, _, err = commands.run("tfbaselines.run", *commands.SMALL, "--resume=auto", cwd=tmp_path)
    assert status == 2 and "--log_path" in err


def test_a_closed_output_does_not_end_a_run(tmp_path):
    script = "python -m tfbaselines.run {} --num_timesteps=256 --log_path=log | head -1; exit ${{PIPESTATUS[0]}}"
    process = commands.start_shell(script.format(" ".join(commands.SMALL)), cwd=tmp_path)
    status, out, err = commands.finish(process)
    assert (status, out.count("\n")) == (0, 1), err
    assert saved(tmp_path / "log") == ["00004", "best"]


def test_updates_that_are_not_finite_are_dropped_when_asked_to(tmp_path):
    """Of a learning rate that is much too large for one update."""
    rates = {1.0: 1e-3, 0.75: 1e30}
    model = train(tmp_path, total=16 * 4, lr=lambda left: rates.get(left, 1e-3), options={"on_nan": "skip"})
    rows = logger.read_csv(tmp_path / "progress.csv")
    assert rows["dropped_updates"].tolist() == [0, 1, 1, 1] and rows["misc/nupdates"].tolist() == [1, 2, 3, 4]
    assert all(np.isfinite(variable.numpy()).all() for variable in model.variables())


def test_a_run_in_which_every_update_is_dropped_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("tfbaselines.training.guards.MOST_DROPPED_IN_A_ROW", 3)
    with pytest.raises(NotFiniteError, match=r"in update 3.*and 2 updates before were not finite either"):
        train(tmp_path, total=16 * 9, lr=1e30, options={"on_nan": "skip"})


def test_a_saved_model_is_no_checkpoint(tmp_path):
    model = train(tmp_path, total=16)
    model.save(tmp_path / "checkpoints" / "00009")
    with pytest.raises(ValueError, match=r"cannot resume: .*00009' is no checkpoint of a run") as error:
        train(tmp_path, resume=str(tmp_path))
    assert "\n" not in str(error.value)


def test_nothing_at_the_end_keeps_the_model_from_being_saved(tmp_path, monkeypatch, capsys):
    """The environments, those of tests, a callback and the last checkpoint fail; the status says so."""
    small = ["--alg=ppo", "--env=CartPole-v1", "--steps_per_epoch=20", "--num_test_episodes=1", "--hidden_sizes=[4]"]
    small += ["--epochs=2", "--train_pi_iters=1", "--train_v_iters=1", f"--log_path={tmp_path / 'log'}"]

    class Faulty:
        def __call__(self, run):
            if run.update == 2:
                monkeypatch.setattr(Saving, "save", lambda *_: 1 / 0)

        def close(self):
            raise RuntimeError("no end")

    def close(self):
        # As a monitor does where its disk is full.
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tfbaselines.run._callbacks", lambda *_: Faulty())
    monkeypatch.setattr(DummyVecEnv, "close", close)
    assert main([*small, f"--save_path={tmp_path / 'model'}"]) == 1
    assert tfbaselines.load(tmp_path / "model").act(np.zeros(4))[0] in (0, 1)
    said = capsys.readouterr().err
    for words in ("ZeroDivisionError", "RuntimeError: no end", "environments could not be closed: OSError"):
        assert words in said
    assert said.count("No space left") == 2


WRONG = (None, "x", -1, 1.5, 10**30, [], {}, {"x": 1}, ["x", 3], True, np.zeros(3), np.array("x"))


CARTPOLES = ("state", "steps_beyond_terminated")


def leaves(tree, path=()):
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield (*path, key)
        yield from leaves(value, (*path, key))


def test_checkpoints_with_other_metadata_are_damaged_and_the_one_before_is_taken(tmp_path):
    """What is wrong is said; whatever is taken is trained with. TFBASELINES_FUZZ tries more."""
    train(tmp_path / "log", vec(lambda: gymnasium.make("CartPole-v1"), 2), total=64, save_interval=1)
    last = tmp_path / "log/checkpoints/00002"
    whole = load_tree(last)
    # What is the environment's own comes back as it was saved.
    several = [(path, wrong) for path in leaves(whole["training"]) for wrong in WRONG if path[-1] not in CARTPOLES]
    count = int(os.environ.get("TFBASELINES_FUZZ", 16))
    rng, damaged = np.random.default_rng(0), 0
    for number in rng.permutation(len(several))[:count]:
        path, wrong = several[number]
        tree = load_tree(last)
        place = tree["training"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = wrong
        shutil.rmtree(tmp_path / "again", ignore_errors=True)
        shutil.copytree(tmp_path / "log", tmp_path / "again")
        save_tree(tmp_path / "again/checkpoints/00002", tree)
        env = vec(lambda: gymnasium.make("CartPole-v1"), 2)
        try:
            train(tmp_path / "again", env, total=96, resume=str(tmp_path / "again"))
        except UsageError as error:
            assert re.search("is damaged: ", str(error)), (path, wrong, error)
            continue
        said = (tmp_path / "again/log.txt").read_text()
        damaged += bool(re.search(r"00001' is used: checkpoint 00002 is damaged \(.*is damaged: .", said))
    assert damaged > count / 4
