"""Native MuJoCo vectors have the numbers of Gymnasium's tasks; tests/support/mujoco_bits.py is the long proof."""

import threading
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.mujoco import half_cheetah_v5
from gymnasium.envs.registration import EnvSpec

from tests.support.mujoco_bits import CASES, assert_equals_gymnasium, assert_same
from tfbaselines.envs.make import build_env, make_vec_env
from tfbaselines.envs.monitor import load_results
from tfbaselines.envs.vec import DummyVecEnv, native_mujoco
from tfbaselines.envs.vec.native_mujoco import NativeMujocoVecEnv, Threads
from tfbaselines.errors import UsageError, WorkerError


@pytest.fixture(autouse=True)
def work_is_shared_out(monkeypatch):
    monkeypatch.setattr(native_mujoco, "SECONDS_ALONE", 0.0)
    monkeypatch.setattr(native_mujoco, "CALLS_ALONE", 1)


def actions_of(env, steps):
    rng = np.random.default_rng(0)
    return rng.uniform(-1.2, 1.2, (steps, env.num_envs, *env.action_space.shape)).astype(np.float32)


def assert_alike(dummy, native, actions):
    """Assert that two vector environments have the same steps; the times of episodes differ."""
    assert type(dummy.unwrapped) is DummyVecEnv and type(native.unwrapped) is NativeMujocoVecEnv
    for number, action in enumerate(actions):
        one, other = dummy.step(action), native.step(action)
        for info in (*one[-1], *other[-1]):
            info.get("episode", {}).pop("t", None)
        for expected, found in zip((*one[:3], *one[3]), (*other[:3], *other[3]), strict=True):
            assert_same(expected, found, f"step {number}")


def test_every_task_has_the_bits_of_gymnasium():
    """Steps, deaths, time limits, infos, with other arguments, and in one, two and four threads."""
    ends = np.zeros(2, int)
    for env_id, others in CASES.items():
        for seed, (threads, env_kwargs) in enumerate(zip((2, 4, 1), ({}, *others), strict=True)):
            ends += assert_equals_gymnasium(env_id, 32, 3, seed, threads, env_kwargs)
    assert (ends > 50).all()


def test_an_unstable_simulation_begins_again_as_in_gymnasium(tmp_path, capfd):
    path = tmp_path / "unstable.xml"
    stable = half_cheetah_v5.__file__.replace("half_cheetah_v5.py", "assets/half_cheetah.xml")
    with open(stable, encoding="utf-8") as file:
        path.write_text(file.read().replace('timestep="0.01"', 'timestep="0.4"'), encoding="utf-8")
    assert_equals_gymnasium("HalfCheetah-v5", 60, 3, 0, 2, {"xml_file": str(path)})
    assert "simulation is unstable" in "".join(capfd.readouterr())


def test_monitors_limits_scales_and_environments_at_rest_are_as_with_dummy(tmp_path):
    def made(worker):
        directory = tmp_path / worker
        options = {"reward_scale": 0.5, "monitor_keys": "x_position", "logger_dir": str(directory), "start_index": 2}
        return make_vec_env("Hopper-v5", num_env=3, seed=5, worker=worker, mpi_rank=1, **options)

    envs = [made("dummy"), made("native")]
    dummy, native = envs
    actions = actions_of(dummy, 210)
    for env in envs:
        env.reset()
    assert_alike(dummy, native, actions[:50])
    for env in envs:
        # Limits count from where they are set, also in the middle of an episode.
        env.limit_episodes(20)
        env.limit_episodes(None, 30.0)
    assert_alike(dummy, native, actions[50:140])
    for env in envs:
        assert env.rest(1)
    assert_alike(dummy, native, actions[140:170])
    assert_same(dummy.reset(), native.reset())
    assert_alike(dummy, native, actions[170:])
    for env in envs:
        env.close()
    tables = [load_results(tmp_path / worker).sort_values(["r", "l"]) for worker in ("dummy", "native")]
    columns = ["r", "l", "x_position"]
    assert len(tables[0]) > 15 and tables[0][columns].to_numpy().tolist() == tables[1][columns].to_numpy().tolist()


def test_actions_are_clipped_as_one_by_one():
    envs = [make_vec_env("HalfCheetah-v5", num_env=2, seed=0, worker=worker) for worker in ("dummy", "native")]
    for env in envs:
        env.reset()
    spoilt = np.ones((2, 6), np.float32)
    spoilt[0, :3] = np.nan, np.inf, -np.inf
    assert_alike(*envs, [spoilt, np.full((2, 6), 0.3), np.full((2, 1), 0.5, np.float32)])
    with pytest.raises(WorkerError, match=r"^environment 0 \(HalfCheetah-v5\) failed: ValueError: operands could not"):
        envs[1].step(np.zeros((2, 5), np.float32))


@pytest.mark.parametrize(("before", "after"), [("dummy", "native"), ("native", "dummy"), ("native", "native")])
def test_episodes_go_on_with_another_worker(before, after):
    """Ant reads contact forces and positions that its saved state has beside its coordinates."""
    config = {"env": "Ant-v5", "num_env": 2, "seed": 3, "env_kwargs": {"max_episode_steps": 40}}
    first, second, other = (
        build_env(config | {"worker": worker, "seed": i}) for i, worker in enumerate((before, after, before))
    )
    actions = actions_of(first, 70)
    first.reset()
    for action in actions[:25]:
        first.step(action)
    for env in (second, other):
        env.restore(first.state())
        assert env.restored
    envs = (second, first) if after == "dummy" else (first, second)
    if before != after:
        assert_alike(*envs, actions[25:])
        return
    for action in actions[25:]:
        for expected, found in zip(first.step(action)[:3], second.step(action)[:3], strict=True):
            assert_same(expected, found)


def test_native_is_the_default_of_several_known_environments(monkeypatch):
    def registered(env_id, entry_point, **options):
        monkeypatch.setitem(gymnasium.registry, env_id, EnvSpec(env_id, entry_point, **options))
        return env_id

    def kind(env_id="Reacher-v5", num_env=2, **options):
        env = make_vec_env(env_id, num_env=num_env, seed=0, **options)
        env.close()
        return type(env)

    kwargs = {"xml_file": half_cheetah_v5.__file__.replace("half_cheetah_v5.py", "assets/half_cheetah.xml")}
    cheetah = "gymnasium.envs.mujoco.half_cheetah_v5:HalfCheetahEnv"
    own = registered("OwnCheetah-v0", cheetah, kwargs=kwargs, max_episode_steps=9)
    for native in ({}, {"env_id": own}, {"num_env": 1, "worker": "native"}, {"num_env": 1, "env_threads": 2}):
        assert kind(**native) is NativeMujocoVecEnv
    own = registered("OwnTask-v0", type("OwnTask", (half_cheetah_v5.HalfCheetahEnv,), {}))
    others = [{"num_env": 1}, {"worker": "dummy"}, {"wrapper": gymnasium.wrappers.NormalizeReward}, {"env_id": own}]
    others += [{"env_kwargs": {"render_mode": "rgb_array"}}, {"env_id": lambda: gymnasium.make("Reacher-v5")}]
    for dummy in (*others, {"force_dummy": True}, {"initializer": lambda *_: None}):
        assert kind(**dummy) is DummyVecEnv


def test_what_native_cannot_do_is_one_line():
    refused = {
        "worker='native' is not valid: native environments are Gymnasium's MuJoCo tasks, v4 and v5": {
            "env_id": "CartPole-v1"
        },
        "worker='native' is not valid: native environments take no wrapper": {
            "wrapper": gymnasium.wrappers.NormalizeReward
        },
        "worker='native' is not valid: native Reacher-v5 takes no argument length": {"env_kwargs": {"length": 3}},
        "worker='native' is not valid: native Reacher-v5 takes no frame_skip='3'": {"env_kwargs": {"frame_skip": "3"}},
        "worker='native' is not valid: native games are those of NoFrameskip": {"env_id": "ALE/Pong-v5"},
        "env_threads=0 is not valid: a number from 1": {"env_threads": 0},
        "env_threads=2 is not valid: needs --worker=native": {"env_threads": 2, "worker": "dummy"},
        "env_threads=3 is not valid: native environments are": {
            "env_threads": 3,
            "worker": None,
            "env_id": "CartPole-v1",
        },
        "step_timeout=3 is not valid: needs --worker=subproc": {"step_timeout": 3},
    }
    for text, options in refused.items():
        with pytest.raises(UsageError, match=f"^{text}"):
            make_vec_env(**{"env_id": "Reacher-v5", "num_env": 2, "worker": "native"} | options)


def test_a_failing_simulation_names_its_environment(monkeypatch):
    env = make_vec_env("Reacher-v5", num_env=3, seed=0, env_threads=2)
    env.reset()
    step = native_mujoco.mujoco.mj_step

    def failing(model, data, frames):
        if data is env._datas[2]:
            raise RuntimeError("out of memory")
        step(model, data, frames)

    monkeypatch.setattr(native_mujoco.mujoco, "mj_step", failing)
    for _ in range(3):
        with pytest.raises(WorkerError, match=r"^environment 2 \(Reacher-v5\) failed: RuntimeError: out of memory"):
            env.step(np.zeros((3, 2), np.float32))
    env.close()


def test_threads_share_out_each_number_once_and_end():
    before, done, seen = set(threading.enumerate()), [], set()

    def work(numbers):
        for number in numbers:
            seen.add(threading.get_ident())
            time.sleep(0.001)
            done.append(number)

    threads = Threads(3)
    for _ in range(5):
        threads.run(work, range(12))
    assert sorted(done) == sorted(5 * [*range(12)]) and 1 < len(seen) <= 3
    others = set(threading.enumerate()) - before
    assert len(others) == 2
    threads.end()
    for thread in others:
        thread.join(10)
        assert not thread.is_alive()
