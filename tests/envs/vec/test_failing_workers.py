"""Workers that hang or fail, and those that take their place."""

import os
import re
import signal
import time

import numpy as np
import pytest
from commands import SMALL, finish, start, wait_for
from gymnasium import spaces
from worker_processes import KINDS, all_gone, process_numbers, step

from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import ShmemVecEnv, SubprocVecEnv, WorkerError


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
    raise RuntimeError("the simulator\ngave up")


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
    monkeypatch.setattr("tfbaselines.envs.vec.processes.warn", said.append)
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
    assert "\n" not in "".join(warnings)
    assert [re.sub(r".*?; ", "", text) for text in warnings] == [
        f"a new process replaces it, its episode is truncated (replacements left: {left})" for left in (1, 0)
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


@pytest.mark.parametrize(("worker", "sent"), [("subproc", signal.SIGTERM), ("shmem", signal.SIGINT)])
def test_a_signal_to_the_whole_group_saves_a_checkpoint(worker, sent, tmp_path):
    log = tmp_path / "log"
    arguments = [*SMALL, "--num_timesteps=1e7", "--num_env=2", f"--worker={worker}", f"--log_path={log}"]
    process = start("tfbaselines.run", *arguments, cwd=tmp_path)
    progress = log / "progress.csv"
    try:
        wait_for(lambda: progress.exists() and progress.read_text().count("\n") > 3, process)
        os.killpg(process.pid, sent)
        status, out, err = finish(process)
    finally:
        process.kill()
    assert status == 128 + sent, err
    assert f"stopped by {sent.name}: checkpoint saved in" in out and "failed" not in err
