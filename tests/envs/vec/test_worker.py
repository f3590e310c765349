"""Worker processes that fail, that are killed, and that must not outlive their parent."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import SMALL, environment, finish, wait_for
from gymnasium import spaces

from tfbaselines.envs.tiny import ConstantRewardEnv, CrashingEnv
from tfbaselines.envs.vec import ShmemVecEnv, SubprocVecEnv, WorkerError

KINDS = [SubprocVecEnv, ShmemVecEnv]


def raising(error, where="step"):
    """A function that makes environments of which a method raises."""

    def make():
        def fail(*_, **__):
            raise error

        env = ConstantRewardEnv()
        setattr(env, where, fail)
        return env

    return make


def unmade():
    raise OSError("no licence")


def step(env):
    return env.step(np.zeros(env.num_envs, np.int64))


def process_numbers(env):
    return [process.pid for process in env._workers._processes]


def running(number):
    """Whether a process is there and not only waiting for its parent to ask how it ended."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_gone(numbers, seconds=8.0):
    """Whether no process is left within some seconds."""
    until = time.monotonic() + seconds
    while any(map(running, numbers)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(running, numbers))


@pytest.mark.parametrize("kind", KINDS)
def test_the_worker_that_raises_is_named_with_its_error(kind):
    env = kind([ConstantRewardEnv, lambda: CrashingEnv(after=2)])
    numbers = process_numbers(env)
    env.reset()
    step(env)
    with pytest.raises(WorkerError, match=r"^environment 1 .*failed: RuntimeError: the simulator gave up$"):
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
    env = SubprocVecEnv([ConstantRewardEnv, raising(SystemExit(7))])
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


def test_close_does_not_wait_for_an_answer_that_nobody_reads():
    def make():
        env = ConstantRewardEnv()
        env.step = lambda _: (np.zeros(1, np.float32), 0.0, False, False, {"large": np.zeros(10**7, np.uint8)})
        return env

    env = SubprocVecEnv([make] * 2)
    numbers = process_numbers(env)
    env.reset()
    env.step_async(np.zeros(2, np.int64))
    begun = time.monotonic()
    env.close()
    assert time.monotonic() - begun < 4 and all_gone(numbers, 0)


def test_an_environment_that_hangs_is_killed(monkeypatch):
    def make():
        env = ConstantRewardEnv()
        env.step = lambda _: time.sleep(60)
        return env

    monkeypatch.setattr("tfbaselines.envs.vec.worker.SECONDS_TO_END", 0.3)
    env = SubprocVecEnv([make])
    numbers = process_numbers(env)
    env.reset()
    env.step_async(np.zeros(1, np.int64))
    begun = time.monotonic()
    env.close()
    assert time.monotonic() - begun < 4 and all_gone(numbers, 0)


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


class Failing(ConstantRewardEnv):
    """Fails in one of its steps, in some way; observations count the steps."""

    def __init__(self, way, at=3):
        super().__init__(episode_len=100)
        self._way, self._at = way, at
        self.observation_space = spaces.Box(0, 100, (1,), np.float32)

    def _react(self, action):
        if self._time + 1 == self._at:
            self._way()
        return np.full(1, self._time + 1, np.float32), 1.0


def hang():
    time.sleep(600)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def give_up():
    raise RuntimeError("the simulator gave up")


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_hangs_is_named_and_its_process_killed(kind):
    env = kind([ConstantRewardEnv, lambda: Failing(hang)], step_timeout=1.0)
    numbers = process_numbers(env)
    env.reset(), step(env), step(env)
    begun = time.monotonic()
    message = r"^environment 1 \(Failing\) failed: no answer to step 3 with action 0 in 1 seconds$"
    with pytest.raises(WorkerError, match=message):
        step(env)
    assert time.monotonic() - begun < 5 and all_gone(numbers, 0)


def test_a_reset_that_hangs_is_named():
    def make():
        env = ConstantRewardEnv()
        env.reset = lambda: time.sleep(600)
        return env

    env = SubprocVecEnv([make], step_timeout=0.5)
    with pytest.raises(WorkerError, match=r"^environment 0 .* failed: no answer to reset in 0.5 seconds$"):
        env.reset()


@pytest.fixture
def warnings(monkeypatch):
    """What is logged as a warning."""
    said = []
    monkeypatch.setattr("tfbaselines.envs.vec.worker.warn", said.append)
    return said


@pytest.mark.parametrize(("kind", "way"), [(SubprocVecEnv, hang), (ShmemVecEnv, crash), (ShmemVecEnv, give_up)])
def test_a_failed_worker_is_replaced_and_its_episode_truncated(kind, way, warnings):
    env = kind([lambda: Failing(hang, at=1000), lambda: Failing(way)], step_timeout=3.0, restart_workers=2)
    env.limit_episodes(50)
    first = process_numbers(env)
    env.reset(), step(env), step(env)
    for _ in range(2):
        obs, rewards, dones, infos = step(env)
        assert obs[1].tolist() == [0.0] and rewards.tolist() == [1.0, 0.0] and dones.tolist() == [False, True]
        assert infos[1]["final_observation"].tolist() == [2.0] and infos[1]["TimeLimit.truncated"] is True
        assert infos[1]["worker_replaced"].startswith("environment 1 (Failing) failed:") and "reset_info" in infos[1]
        assert infos[0] == {}
        step(env), step(env)
    with pytest.raises(WorkerError, match=r"environment 1 \(Failing\) failed"):
        step(env)
    assert process_numbers(env)[0] == first[0] and process_numbers(env)[1] != first[1]
    assert all_gone([*first, *process_numbers(env)], 0)
    assert [re.sub(r".*?; ", "", text) for text in warnings] == [
        f"a new process replaces it, its episode is truncated ({left} more replacements)" for left in (1, 0)
    ]


def test_a_reset_that_fails_is_tried_by_another_worker(tmp_path, warnings):
    flag = str(tmp_path / "flag")

    def make():
        class Once(ConstantRewardEnv):
            def reset(self, **kwargs):
                if not os.path.exists(flag):
                    open(flag, "w").close()
                    raise OSError("no server yet")
                return super().reset(**kwargs)

        return Once()

    env = SubprocVecEnv([make], restart_workers=1)
    assert env.reset().tolist() == [[0.0]] and step(env)[1].tolist() == [1.0] and len(warnings) == 1
    env.close()


@pytest.mark.parametrize("worker", ["subproc", "shmem"])
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_saves_a_checkpoint(worker, sent, tmp_path):
    log = tmp_path / "log"
    arguments = [*SMALL, "--num_timesteps=1e7", "--num_env=2", f"--worker={worker}", f"--log_path={log}"]
    command = [sys.executable, "-m", "tfbaselines.run", *arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    progress = log / "progress.csv"
    try:
        wait_for(lambda: progress.exists() and progress.read_text().count("\n") > 3, process)
        os.killpg(process.pid, sent)
        status, out, err = finish(process)
    finally:
        process.kill()
    assert status == 128 + sent, err
    assert f"stopped by {sent.name}: checkpoint saved in" in out and "failed" not in err
