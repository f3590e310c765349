"""Unity environments, tested on a stand-in that speaks the interface of mlagents_envs and its Gym form."""

import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.make import make_vec_env
from tfbaselines.errors import UsageError
from tfbaselines.run import main

UNITY = "tfbaselines.envs.unity:Unity-v0"


class InUse(Exception):
    pass


class Channel:
    def __init__(self):
        self.values = {}

    def set_float_parameter(self, key, value):
        assert type(value) is float
        self.values[key] = value


class Environment:
    """UnityEnvironment: takes a number that no other has."""

    running: ClassVar = {}

    def __init__(self, file_name, worker_id, seed, no_graphics, timeout_wait, side_channels):
        if worker_id in self.running:
            raise InUse
        self.running[worker_id] = self
        self.worker_id, self.file_name, self.channel = worker_id, file_name, side_channels[0]

    def close(self):
        self.running.pop(self.worker_id, None)


class GymForm:
    """UnityToGymWrapper: gym's old interface; a Tuple of images and vectors, whose values come as a list."""

    parts = (spaces.Box(0, 255, (36, 36, 3), np.uint8), spaces.Box(-np.inf, np.inf, (2,), np.float32))

    def __init__(self, unity, uint8_visual, allow_multiple_obs):
        assert uint8_visual and allow_multiple_obs
        self._env = unity
        self.observation_space = spaces.Tuple(self.parts)
        self.action_space = spaces.MultiDiscrete([3, 2])
        self.spec = None

    def reset(self):
        self.time = 0
        return self._obs()

    def _obs(self):
        shown = {36: np.zeros((36, 36, 3), np.uint8), 2: np.array([self.time, self._speed()], np.float32)}
        return [shown[space.shape[0]] for space in self.parts]

    def _speed(self):
        return self._env.channel.values.get("speed", 1.0)

    def step(self, action):
        assert self.action_space.contains(np.asarray(action))
        self.time += 1
        over = self.time == 4
        result = SimpleNamespace(interrupted=[True]) if over else SimpleNamespace()
        return self._obs(), float(action[0]), over, {"step": result}

    def render(self):
        pass

    def close(self):
        self._env.close()


@pytest.fixture
def unity(monkeypatch):
    contents = {
        "mlagents_envs": {},
        "mlagents_envs.environment": {"UnityEnvironment": Environment},
        "mlagents_envs.exception": {"UnityWorkerInUseException": InUse},
        "mlagents_envs.envs": {},
        "mlagents_envs.envs.unity_gym_env": {"UnityToGymWrapper": GymForm},
        "mlagents_envs.side_channel": {},
        "mlagents_envs.side_channel.environment_parameters_channel": {"EnvironmentParametersChannel": Channel},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Environment, "running", {})


def test_observations_actions_and_ends(unity):
    speed = {"environment_parameters": {"speed": 2.5}}
    env = make_vec_env(UNITY, num_env=2, env_kwargs={"file_name": "builds/Walker"}, env_parameters=speed)
    assert sorted(Environment.running) == [0, 1] and Environment.running[1].file_name == "builds/Walker"
    obs = env.reset()
    assert obs["0"].shape == (2, 36, 36, 3) and obs["0"].dtype == np.uint8
    # The parameter went through Unity's channel before the reset.
    assert obs["1"].tolist() == [[0, 2.5], [0, 2.5]]
    for _ in range(4):
        obs, rewards, dones, infos = env.step(np.array([[2, 1], [0, 0]]))
    assert rewards.tolist() == [2, 0] and dones.all() and "step" not in infos[0]
    # Unity interrupted the episodes at their longest length.
    assert infos[0]["TimeLimit.truncated"] and infos[0]["final_observation"]["1"].tolist() == [4, 2.5]
    env.close()
    assert not Environment.running


def test_one_observation_is_no_tuple_and_numbers_run_out(unity, monkeypatch):
    monkeypatch.setattr(GymForm, "parts", GymForm.parts[1:])
    env = make_vec_env(UNITY, env_kwargs={"file_name": "a", "worker_id": 7})
    assert env.observation_space.shape == (2,) and env.reset().shape == (1, 2)
    with pytest.raises(UsageError, match="environment 7 is in use on this machine: give another worker_id"):
        make_vec_env(UNITY, env_kwargs={"file_name": "a", "worker_id": 7})


def test_algorithms_train_on_images_vectors_and_branches(unity, tmp_path, eager):
    shared = [f"--env={UNITY}", "--env_kwargs.file_name=builds/Walker", "--seed=0", "--num_timesteps=16"]
    main([*shared, "--alg=ppo2", "--nsteps=8", "--num_hidden=4", "--noptepochs=1", f"--log_path={tmp_path / 'ppo2'}"])
    own = ["--update_every=8", "--update_after=8", "--num_update=1", "--batch_size=4", "--steps_per_epoch=8"]
    own += ["--hidden_sizes=[4]", "--replay_size=50", "--num_test_episodes=0"]
    main([*shared, "--alg=sac", *own, f"--log_path={tmp_path / 'sac'}"])
    assert (tmp_path / "sac/checkpoints").exists() and (tmp_path / "ppo2/checkpoints").exists()


def test_without_the_package_one_line_names_it():
    with pytest.raises(UsageError, match="Unity environments need mlagents_envs: pip install mlagents-envs"):
        make_vec_env(UNITY, env_kwargs={"file_name": "a"})
