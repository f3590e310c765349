import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs import tiny
from tfbaselines.envs.make import _Maker, build_env, env_type_of, make_env, make_vec_env
from tfbaselines.envs.monitor import load_results
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import DummyVecEnv, ShmemVecEnv, SubprocVecEnv, VecFrameStack
from tfbaselines.envs.vec.native_atari import NativeAtariVecEnv

PONG = "PongNoFrameskip-v4"
CONSTANT = "tfbaselines/ConstantReward-v0"


class Parts(tiny.ConstantRewardEnv):
    """Shows several things at once."""

    def __init__(self, kind=dict):
        super().__init__(episode_len=2)
        box, number = spaces.Box(0, 9, (2,), np.float32), spaces.Discrete(2)
        self.observation_space = spaces.Dict(a=box, b=number) if kind is dict else spaces.Tuple([box, number])

    def _begin(self):
        box = np.array([7, 8], np.float32)
        return {"a": box, "b": 1} if isinstance(self.observation_space, spaces.Dict) else (box, 1)

    def _react(self, action):
        return self._begin(), 1.0


@pytest.fixture
def register():
    """Registers environments for one test."""
    ids = []

    def add(env_id, entry_point, **kwargs):
        ids.append(env_id)
        gymnasium.register(env_id, entry_point=entry_point, **kwargs)
        return env_id

    yield add
    for env_id in ids:
        del gymnasium.registry[env_id]


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [
        ("CartPole-v1", ("classic_control", "CartPole-v1")),
        ("HalfCheetah-v5", ("mujoco", "HalfCheetah-v5")),
        ("LunarLander-v3", ("box2d", "LunarLander-v3")),
        ("FrozenLake-v1", ("toy_text", "FrozenLake-v1")),
        (PONG, ("atari", PONG)),
        ("ALE/Pong-v5", ("atari", "ALE/Pong-v5")),
        (f"tfbaselines.envs.tiny:{CONSTANT}", ("tfbaselines", CONSTANT)),
    ],
)
def test_the_type_comes_from_the_registry(env_id, expected):
    assert env_type_of(env_id) == expected


def test_the_type_of_an_own_environment_is_its_package(register):
    assert env_type_of(register("Own-v0", tiny.NaNEnv)) == ("tfbaselines", "Own-v0")


def test_a_given_type_overrides_the_registry():
    assert env_type_of("CartPole-v1", "mujoco") == ("mujoco", "CartPole-v1")


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("CarPole-v1", "unknown environment 'CarPole-v1': did you mean 'CartPole-v1'?"),
        ("CartPole-v7", "unknown environment 'CartPole-v7': did you mean 'CartPole-v1'?"),
        ("HalfCheetah-v1", "unknown environment 'HalfCheetah-v1': did you mean 'HalfCheetah-v5'?"),
        (
            "Robot-v0",
            "unknown environment 'Robot-v0': did you mean 'Robotank-v0'?; if your module registers it",
        ),
        ("PnogNoFrameskip-v4", f"unknown environment 'PnogNoFrameskip-v4': did you mean '{PONG}'?"),
        (":A-v0", "env=':A-v0' is not valid: module '' cannot be imported (it has no name)"),
        ("no_such_module:A-v0", "env='no_such_module:A-v0' is not valid: module 'no_such_module' cannot be imported"),
    ],
)
def test_an_unknown_id_names_the_nearest(env_id, message):
    with pytest.raises(ValueError) as error:
        env_type_of(env_id)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_a_module_is_named_without_its_suffix():
    with pytest.raises(ValueError, match=r"cannot be imported .*: write no_such_file:A-v0, without \.py$"):
        env_type_of("no_such_file.py:A-v0")


@pytest.mark.skipif(bool(importlib.util.find_spec("gymnasium_robotics")), reason="gymnasium-robotics is installed")
@pytest.mark.parametrize("env_id", ["FetchReach-v1", "HandReach-v3"])
def test_an_absent_package_is_named(env_id):
    with pytest.raises(ValueError, match=rf"'{env_id}' needs gymnasium-robotics: pip install gymnasium-robotics$"):
        env_type_of(env_id)


def test_unknown_type_and_retro():
    with pytest.raises(ValueError, match="unknown env_type 'mujco': did you mean 'mujoco'"):
        env_type_of("CartPole-v1", "mujco")
    with pytest.raises(ValueError, match="needs the package stable-retro, which is not supported yet"):
        env_type_of("SonicTheHedgehog-Genesis", "retro")


def test_an_environment_whose_package_is_missing_says_what_to_install(register):
    def absent():
        raise ImportError("No module named 'Box2D'\nand more")

    register("Absent-v0", absent)
    message = r"""'Absent-v0' cannot be made \(No module named 'Box2D'\): pip install "gymnasium\[box2d\]"$"""
    with pytest.raises(ValueError, match=message):
        make_env("Absent-v0", "box2d")
    with pytest.raises(ValueError, match=r"env_kwargs=\{'nonsense': 1\} is not valid: use arguments of CartPole-v1"):
        make_env("CartPole-v1", "classic_control", env_kwargs={"nonsense": 1})


def test_a_version_of_the_past_names_the_present_one():
    for env_id in ("HalfCheetah-v2", "Hopper-v3"):
        newest = env_id[:-1] + "5"
        with pytest.raises(ValueError, match=f"^environment '{env_id}' needs outdated packages: use '{newest}'$"):
            build_env({"env": env_id})


@pytest.mark.skipif(not importlib.util.find_spec("gymnasium_robotics"), reason="needs gymnasium-robotics")
def test_what_simulators_print_or_write_on_their_own_is_silenced(tmp_path):
    script = """
import os
from tfbaselines.envs.make import _Maker, build_env, env_type_of
assert env_type_of("FetchReach-v4")[0] == "robotics"
env = build_env({"env": "Hopper-v5"})
env.reset()
env.unwrapped.envs[0].unwrapped.data.qvel[:] = 1e12
env.step(env.action_space.sample()[None])
assert not os.listdir("."), os.listdir(".")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Gymnasium-Robotics" not in done.stderr + done.stdout


def test_some_arguments_are_for_workers_in_processes_alone():
    for worker in (None, "dummy"):
        for care in ({"step_timeout": 5.0}, {"restart_workers": 1}, {"in_series": 2}):
            with pytest.raises(ValueError, match=f"^{next(iter(care))}=.* needs --worker=subproc or --worker=shmem"):
                make_vec_env("CartPole-v1", "classic_control", 1, 0, worker=worker, **care)
    config = {"env": "CartPole-v1", "worker": "subproc", "num_env": 4}
    config |= {"step_timeout": 60.0, "restart_workers": 1, "in_series": 2}
    env = build_env(config)
    assert env._workers._timeout == 60.0 and env._workers._replacements == 1 and len(env._workers) == 2
    env.close()
    # Tests and playing take the environments into this process.
    build_env(config | {"worker": None}).close()


def test_the_replacement_of_an_environment_goes_on_with_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tfbaselines.envs.vec.processes.warn", lambda _: None)
    options = {"logger_dir": str(tmp_path), "worker": "subproc", "restart_workers": 1}
    env = make_vec_env("CartPole-v1", "classic_control", 1, 0, **options)
    first = env.reset()

    def episode():
        for _ in range(500):
            if env.step(np.zeros(1, np.int64))[2][0]:
                return

    episode()
    env._workers._processes[0].kill()
    obs, _, dones, infos = env.step(np.zeros(1, np.int64))
    assert dones[0] and infos[0]["TimeLimit.truncated"] and not np.array_equal(obs, first)
    episode()
    env.close()
    assert len(load_results(tmp_path)) == 2


def test_the_monitor_sees_rewards_before_they_are_scaled(tmp_path):
    order = []
    options = {"env_kwargs": {"episode_len": 2}, "logger_dir": str(tmp_path), "reward_scale": 0.25}
    env = make_env(CONSTANT, "tfbaselines", 1, 2, initializer=lambda *ranks: order.append(ranks), **options)
    env.reset()
    assert env.step(0)[1] == 0.25
    assert env.step(0)[-1]["episode"]["r"] == 2.0 and order == [(1, 2)]
    assert (tmp_path / "1.2.monitor.csv").read_text().splitlines()[2].startswith("2.0,2,")
    env.close()
    again = make_env(CONSTANT, "tfbaselines", 1, 2, append=True, **options)
    again.reset(), again.step(0), again.step(0), again.close()
    assert len(load_results(tmp_path)) == 2


def test_actions_are_clipped():
    env = make_env("Pendulum-v1", "classic_control", seed=0)
    env.reset(seed=0)
    obs = env.step(np.array([100.0], np.float32))[0]
    env.reset(seed=0)
    np.testing.assert_array_equal(obs, env.step(np.array([2.0], np.float32))[0])


@pytest.mark.parametrize("options", [{"gamestate": "level1"}, {"wrapper_kwargs": {"scale": True}}])
def test_options_of_other_types_are_refused(options):
    with pytest.raises(ValueError, match=rf"{next(iter(options))}=.* is not valid: only (retro|Atari) games have it"):
        make_env("CartPole-v1", "classic_control", **options)
    with pytest.raises(ValueError, match="gamestate='a' is not valid"):
        make_vec_env(PONG, "atari", 1, 0, gamestate="a")


@pytest.mark.parametrize("kind", [dict, tuple])
def test_several_parts_are_flattened_unless_asked_otherwise(register, kind):
    register("Parts-v0", Parts, kwargs={"kind": kind})
    env = make_vec_env("Parts-v0", "own", 2, 0)
    np.testing.assert_array_equal(env.reset(), [[7, 8, 0, 1]] * 2)
    env = make_env("Parts-v0", "own", flatten_dict_observations=False)
    assert type(env.reset()[0]) is kind


def first_draws(env):
    """What two steps' observations and a sampled action are after a reset."""
    shown = [env.reset(), *(env.step(np.zeros(env.num_envs, np.int64))[0] for _ in range(2))]
    return np.array(shown).T.tolist(), [make.action_space.sample() for make in env.envs]


def test_seeds_differ_by_environment_and_by_rank():
    make = lambda seed, count=3, **kwargs: first_draws(
        make_vec_env("tfbaselines/DiscreteIdentity-v0", "own", count, seed, env_kwargs={"dim": 10**6}, **kwargs)
    )
    shown, sampled = make(5)
    assert len(set(map(str, shown))) == 3 and len(set(sampled)) == 3
    assert make(5) == (shown, sampled)
    assert make(6, 2) == (shown[1:], sampled[1:]) == make(5, 2, start_index=1)
    assert make(10_006, 1) == make(6, 1, mpi_rank=1) != make(6, 1)
    assert make(None) != make(None)


def test_monitor_files_are_named_by_rank_and_environment(tmp_path):
    make_vec_env("CartPole-v1", "classic_control", 2, 0, start_index=3, mpi_rank=1, logger_dir=str(tmp_path)).close()
    make_vec_env(PONG, "atari", 1, 0, mpi_rank=2, logger_dir=str(tmp_path)).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{i}.monitor.csv" for i in ("1.3", "1.4", "2.0")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, DummyVecEnv),
        ({"worker": "dummy"}, DummyVecEnv),
        ({"worker": "subproc"}, SubprocVecEnv),
        ({"worker": "shmem"}, ShmemVecEnv),
        ({"worker": "shmem", "force_dummy": True}, DummyVecEnv),
    ],
)
def test_the_worker_is_chosen(options, expected):
    # Processes of their own have not imported the module that registers the environment.
    env = make_vec_env("tfbaselines/DiscreteIdentity-v0", "own", 2, 3, **options)
    assert type(env) is expected
    shown = env.reset().tolist()
    env.close()
    assert shown == make_vec_env("tfbaselines/DiscreteIdentity-v0", "own", 2, 3).reset().tolist()


def test_a_module_may_be_named_beside_a_type():
    env = make_vec_env("tfbaselines.envs.tiny:tfbaselines/DiscreteIdentity-v0", "robotics", 2, 3)
    assert env.num_envs == 2 and env.envs[0].spec.id == "tfbaselines/DiscreteIdentity-v0"


def test_bad_numbers_and_workers():
    with pytest.raises(ValueError, match="num_env=0 is not valid: at least 1"):
        make_vec_env("CartPole-v1", "classic_control", 0, 0)
    with pytest.raises(ValueError, match="unknown worker 'subprocess': did you mean 'subproc'"):
        make_vec_env("CartPole-v1", "classic_control", 1, 0, worker="subprocess")
    with pytest.raises(ValueError, match="env_type=4 is not valid: the number of environments is num_env=4"):
        make_vec_env("CartPole-v1", 4)
    with pytest.raises(ValueError, match="unknown environment 'CarPole-v1'"):
        make_vec_env("CarPole-v1", "classic_control", 1, 0)


@pytest.mark.parametrize("options", [{}, {"wrapper_kwargs": {"clip_rewards": False}}])
def test_atari_is_native_by_default(options):
    env = make_vec_env(PONG, "atari", 1, 0, **options)
    assert type(env) is NativeAtariVecEnv
    env.close()


@pytest.mark.parametrize(
    "options",
    [
        {"env_kwargs": {"mode": 0}},
        {"worker": "dummy"},
        {"force_dummy": True},
        {"reward_scale": 2.0},
        {"start_index": 1},
        {"initializer": lambda *_: None},
        {"wrapper_kwargs": {"scale": True}},
    ],
)
def test_atari_is_not_native_when_the_native_way_cannot(options):
    env = make_vec_env(PONG, "atari", 1, 0, **options)
    assert type(env) is DummyVecEnv and env.reset().shape == (1, 84, 84, 1)


def test_sticky_actions_are_not_native(register):
    sticky = {"game": "pong", "frameskip": 1, "repeat_action_probability": 0.25}
    own = register("StickyNoFrameskip-v4", "ale_py.env:AtariEnv", kwargs=sticky)
    for env_id in ("PongNoFrameskip-v0", own):
        assert type(make_vec_env(env_id, "atari", 1, 0)) is DummyVecEnv


def test_a_run_of_each_type_gets_its_wrappers():
    atari = build_env({"env": PONG, "seed": 0, "num_env": 2})
    assert type(atari) is VecFrameStack and atari.reset().shape == (2, 84, 84, 4)
    mujoco = build_env({"env": "InvertedPendulum-v5"}, training=False)
    assert type(mujoco) is VecNormalize and mujoco.num_envs == 1 and not mujoco.training
    assert build_env({"env": "InvertedPendulum-v5", "num_env": None}).training
    control = build_env({"env": "CartPole-v1", "num_env": 3, "env_type": None, "worker": None})
    assert type(control) is DummyVecEnv and control.num_envs == 3


def test_a_run_takes_everything_from_its_configuration(tmp_path):
    config = {"env": f"tfbaselines.envs.tiny:{CONSTANT}", "num_env": 2, "reward_scale": 3.0, "worker": "subproc"}
    config["env_kwargs"] = {"episode_len": 4}
    for append in (False, True):
        env = build_env(config, logger_dir=str(tmp_path), append=append, mpi_rank=1)
        env.reset()
        rewards = [env.step(np.zeros(2, np.int64))[1].tolist() for _ in range(4)]
        env.close()
    assert type(env) is SubprocVecEnv and rewards == [[3.0, 3.0]] * 4
    assert [len(Path(tmp_path, f"1.{i}.monitor.csv").read_text().splitlines()) for i in range(2)] == [4, 4]


@pytest.mark.parametrize("worker", ["dummy", "subproc"])
def test_a_function_makes_the_environments(worker):
    def make(episode_len=7):
        return tiny.DiscreteIdentityEnv(3, episode_len=episode_len)

    env = make_vec_env(make, num_env=2, seed=0, worker=worker, env_kwargs={"episode_len": 4})
    try:
        env.reset()
        ends = [env.step([0, 1])[2].tolist() for _ in range(4)]
    finally:
        env.close()
    assert ends == [[False, False]] * 3 + [[True, True]]


def test_a_function_that_makes_something_else_is_named():
    with pytest.raises(ValueError, match=r"env='int' is not valid: a function that makes a Gymnasium environment"):
        make_vec_env(lambda: 3)


def test_a_function_makes_environments_of_every_type():
    """Whether infos have is_success is known by the environment's id, which a function's may lack."""
    env = make_env(lambda: tiny.DiscreteIdentityEnv(3, episode_len=2), env_type="robotics")
    env.reset()
    env.step(0)
    *_, info = env.step(0)
    assert "is_success" not in info["episode"]
    env.close()


def test_a_worker_imports_the_module_that_registers_its_environment_first(tmp_path, monkeypatch):
    """Gymnasium warns in every worker if the entry is there before the module registers it."""
    registering = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv as Own
gymnasium.register("OwnModule-v0", entry_point="own_module:Own")
"""
    (tmp_path / "own_module.py").write_text(registering)
    monkeypatch.syspath_prepend(tmp_path)
    gymnasium.make("own_module:OwnModule-v0").close()
    maker = _Maker(gymnasium.registry.pop("OwnModule-v0"), lambda **_: gymnasium.make("OwnModule-v0"), 0, None, False)
    del sys.modules["own_module"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        maker().close()
    del gymnasium.registry["OwnModule-v0"]
