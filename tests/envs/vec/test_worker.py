"""Worker processes that fail, that are killed, and that must not outlive their parent."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from worker_processes import KINDS, all_gone, process_numbers, running, step, unmade

from tfbaselines.envs.tiny import ConstantRewardEnv, CrashingEnv
from tfbaselines.envs.vec import ShmemVecEnv, SubprocVecEnv, WorkerError


def raising(error, where="step"):
    """A function that makes environments of which a method raises."""

    def make():
        def fail(*_, **__):
            raise error

        env = ConstantRewardEnv()
        setattr(env, where, fail)
        return env

    return make


SCRIPT = """
from tfbaselines.envs.make import make_vec_env
env = make_vec_env("CartPole-v1", num_env=2, worker="subproc")
print(env.reset().shape)
env.close()
"""


def python(file, **kwargs):
    return subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120, **kwargs)


def test_workers_of_a_program_from_standard_input(tmp_path):
    done = python("-", input=SCRIPT, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "(2, 4)\n"), done.stderr


def test_a_script_without_a_guard_is_told_of_it(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = python("script.py", cwd=tmp_path)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].endswith('needs if __name__ == "__main__": before what it runs')
    # The parent's alone.
    assert done.stderr.count("Traceback") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_worker_that_raises_is_named_with_its_error(kind):
    env = kind([ConstantRewardEnv, lambda: CrashingEnv(after=2)])
    numbers = process_numbers(env)
    env.reset()
    step(env)
    with pytest.raises(WorkerError, match=r"^environment 1 .*failed: RuntimeError: the simulator gave up"):
        step(env)
    assert all_gone(numbers, 0)
    for again in (step, lambda env: env.reset(), lambda env: env.get_images()):
        with pytest.raises(WorkerError, match="the environment workers have ended"):
            again(env)
    env.close()


@pytest.mark.parametrize("error", [BrokenPipeError("its socket"), EOFError("its file")])
def test_an_environments_own_trouble_with_pipes_is_told(error):
    env = SubprocVecEnv([raising(error)])
    env.reset()
    with pytest.raises(WorkerError, match=f"environment 0 .*failed: {type(error).__name__}: {error}"):
        step(env)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_before_the_first_step_are_told_too(kind):
    with pytest.raises(WorkerError, match=r"environment 1 failed: OSError: no licence"):
        kind([ConstantRewardEnv, unmade])
    env = kind([ConstantRewardEnv, ConstantRewardEnv, raising(ValueError("no level"), "reset")])
    with pytest.raises(WorkerError, match=r"environment 2 .* failed: ValueError: no level"):
        env.reset()


def test_what_cannot_be_sent_is_told():
    def make():
        class Telling(ConstantRewardEnv):
            def step(self, action):
                return *super().step(action)[:4], {"function": lambda: 0}

        return Telling()

    env = SubprocVecEnv([make])
    env.reset()
    with pytest.raises(WorkerError, match=r"environment 0 .*failed: .*pickle"):
        step(env)


def test_more_processes_than_the_memory_holds_are_refused_before_one_starts(monkeypatch):
    monkeypatch.setattr("tfbaselines.files.available_memory", lambda: 8 * 2**30)
    with pytest.raises(
        ValueError, match=r"^10000 worker processes would take 2\d\d.\d GiB and 8.0 GiB .*: lower num_env$"
    ):
        SubprocVecEnv([ConstantRewardEnv] * 10_000)


def test_a_process_that_the_system_refuses_ends_the_others(monkeypatch):
    start = multiprocessing.process.BaseProcess.start
    started = []

    def refuse_second(process):
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        start(process)
        started.append(process.pid)

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", refuse_second)
    with pytest.raises(ValueError, match=r"^worker process 1 of 2 does not start .*unavailable.*: lower num_env$"):
        SubprocVecEnv([ConstantRewardEnv] * 2)
    assert all_gone(started)


@pytest.mark.parametrize("during", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_is_killed_gives_one_clear_error(kind, during):
    env = kind([ConstantRewardEnv] * 4, in_series=2)
    numbers = process_numbers(env)
    env.reset()
    if during:
        os.kill(numbers[1], signal.SIGSTOP)
        env.step_async(np.zeros(4, np.int64))
    os.kill(numbers[1], signal.SIGKILL)
    message = r"^one of environments 2 to 3 failed: its process ended with exit code -9$"
    with pytest.raises(WorkerError, match=message):
        env.step_wait() if during else step(env)
    assert all_gone(numbers, 0)
    env.close()


def test_an_environment_that_ends_its_process():
    def make():
        env = ConstantRewardEnv()
        env.step = lambda action: os._exit(7)
        return env

    env = SubprocVecEnv([ConstantRewardEnv, make])
    env.reset()
    with pytest.raises(WorkerError, match=r"environment 1 .*failed: .*exit code 7"):
        step(env)


def test_close_ends_the_processes_after_closing_their_environments(tmp_path):
    path = str(tmp_path)

    def make():
        class Closing(ConstantRewardEnv):
            def close(self):
                open(f"{path}/{os.getpid()}", "w").close()

        return Closing()

    env = SubprocVecEnv([make] * 2)
    numbers = process_numbers(env)
    env.close(), env.close()
    assert all_gone(numbers, 0) and sorted(os.listdir(path)) == sorted(map(str, numbers))


def close_in_a_step(make, count, seconds):
    """Check that all processes end within `seconds` when their environments are closed during a step."""
    env = SubprocVecEnv([make] * count)
    numbers = process_numbers(env)
    env.reset()
    env.step_async(np.zeros(count, np.int64))
    begun = time.monotonic()
    env.close()
    assert time.monotonic() - begun < seconds and all_gone(numbers, 0)


def test_close_does_not_wait_for_an_answer_that_nobody_reads():
    def make():
        env = ConstantRewardEnv()
        env.step = lambda _: (np.zeros(1, np.float32), 0.0, False, False, {"large": np.zeros(10**7, np.uint8)})
        return env

    close_in_a_step(make, 2, 4)


def test_environments_that_hang_are_killed_together(monkeypatch):
    def make():
        env = ConstantRewardEnv()
        env.step = lambda _: time.sleep(60)
        return env

    monkeypatch.setattr("tfbaselines.envs.vec.processes.SECONDS_TO_END", 1.0)
    close_in_a_step(make, 4, 3)


def test_an_environment_whose_workers_have_ended_is_saved_without_its_episodes():
    env = SubprocVecEnv([lambda: CrashingEnv(after=1)])
    env.reset()
    with pytest.raises(WorkerError):
        step(env)
    state = env.state()
    another = SubprocVecEnv([ConstantRewardEnv])
    another.restore(state)
    assert not another.restored and another.reset().tolist() == [[0.0]]
    another.close()


def test_control_c_is_left_to_the_parent():
    env = SubprocVecEnv([ConstantRewardEnv] * 2)
    env.reset()
    for number in process_numbers(env):
        os.kill(number, signal.SIGINT)
    assert step(env)[1].tolist() == [1, 1]
    env.close()


def test_workers_do_not_take_themselves_for_ranks(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "3")
    monkeypatch.setenv("OF_THE_USER", "5")
    before = dict(os.environ)

    def make():
        env = ConstantRewardEnv()
        env.step = lambda _: (np.zeros(1, np.float32), 0.0, False, False, dict(os.environ))
        return env

    env = SubprocVecEnv([make])
    env.reset()
    (theirs,) = step(env)[-1]
    env.close()
    assert "PMI_RANK" not in theirs and theirs["OF_THE_USER"] == "5" and dict(os.environ) == before


PARENT = """
import sys, time
from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import ShmemVecEnv, SubprocVecEnv

def slow():
    env = ConstantRewardEnv()
    env.step = lambda _: time.sleep(0.5) or ([0.0], 0.0, False, False, {})
    return env

if __name__ == "__main__":
    kind, context, moment = sys.argv[1:]
    env = {"SubprocVecEnv": SubprocVecEnv, "ShmemVecEnv": ShmemVecEnv}[kind]([slow] * 3, context=context)
    env.reset()
    print(*[process.pid for process in env._workers._processes], flush=True)
    while moment == "in a step":
        env.step([0, 0, 0])
    time.sleep(60)
"""


@pytest.mark.parametrize("moment", ["in a step", "between steps"])
@pytest.mark.parametrize(
    ("kind", "context"), [(SubprocVecEnv, "spawn"), (SubprocVecEnv, "fork"), (ShmemVecEnv, "forkserver")]
)
def test_no_worker_outlives_a_parent_that_is_killed(tmp_path, kind, context, moment):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    arguments = [sys.executable, str(script), kind.__name__, context, moment]
    parent = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    numbers = [int(number) for number in parent.stdout.readline().split()]
    assert len(numbers) == 3 and all(map(running, numbers))
    parent.kill()
    parent.wait()
    gone = all_gone(numbers)
    for number in filter(running, numbers):
        os.kill(number, signal.SIGKILL)
    errors = parent.communicate()[1]
    assert gone and "Traceback" not in errors


FORGETFUL_PARENT = """
import sys
from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import ShmemVecEnv, SubprocVecEnv

if __name__ == "__main__":
    kind, context, error = sys.argv[1:]
    env = {"SubprocVecEnv": SubprocVecEnv, "ShmemVecEnv": ShmemVecEnv}[kind]([ConstantRewardEnv] * 2, context=context)
    env.reset()
    if error:
        raise ValueError(error)
    print("done")
"""


@pytest.mark.parametrize(
    ("kind", "context", "error"),
    [(SubprocVecEnv, "spawn", ""), (SubprocVecEnv, "fork", "its own"), (ShmemVecEnv, "forkserver", "")],
)
def test_a_program_that_closes_nothing_ends(tmp_path, kind, context, error):
    script = tmp_path / "parent.py"
    script.write_text(FORGETFUL_PARENT)
    arguments = [sys.executable, str(script), kind.__name__, context, error]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    if error:
        assert ended.returncode == 1 and ended.stderr.strip().endswith(f"ValueError: {error}")
    else:
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


LEFT_TO_PARENT = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]


@pytest.mark.parametrize("kind", KINDS)
def test_signals_are_left_to_the_parent(kind):
    env = kind([ConstantRewardEnv] * 2)
    env.reset()
    for number in process_numbers(env):
        for sent in LEFT_TO_PARENT:
            os.kill(number, sent)
    time.sleep(0.1)
    assert step(env)[1].tolist() == [1, 1]
    env.close()


def test_programs_that_an_environment_starts_can_be_terminated():
    def make():
        def run(_):
            program = subprocess.Popen(["sleep", "60"])
            program.terminate()
            return np.zeros(1, np.float32), float(program.wait(10)), False, False, {}

        env = ConstantRewardEnv()
        env.step = run
        return env

    env = SubprocVecEnv([make])
    env.reset()
    assert step(env)[1].tolist() == [-signal.SIGTERM]
    env.close()


HANGING_PARENT = PARENT.replace("time.sleep(0.5)", "time.sleep(600)")


def test_no_worker_outlives_its_parent_in_a_step_that_never_ends(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(HANGING_PARENT)
    arguments = [sys.executable, str(script), "SubprocVecEnv", "spawn", "in a step"]
    parent = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    numbers = [int(number) for number in parent.stdout.readline().split()]
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    gone = all_gone(numbers, 15)
    for number in filter(running, numbers):
        os.kill(number, signal.SIGKILL)
    assert gone
