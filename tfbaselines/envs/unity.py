"""Unity environments, built executables of ML-Agents' toolkit, as Gymnasium environments.

    python -m tfbaselines.run --env=tfbaselines.envs.unity:Unity-v0 --env_kwargs.file_name=builds/Walker --alg=ppo2

They need the package mlagents_envs, and an environment with one agent, as its Gym wrapper does. Parameters of a
curriculum or of samplers (parameters.py) reach Unity through its channel of environment parameters.
"""

import importlib
from types import ModuleType
from typing import Any

import gymnasium

from tfbaselines.envs.wrappers import OldGym
from tfbaselines.errors import UsageError

NEEDED = "Unity environments need mlagents_envs: pip install mlagents-envs"
# Modules with UnityToGymWrapper: of present versions, and of earlier ones in a package of its own.
GYM_FORMS = ("mlagents_envs.envs.unity_gym_env", "gym_unity.envs")
# Environments on one machine listen on ports of their own, which their numbers count.
MOST_WORKERS = 256


class UnityEnv(OldGym):
    """A Unity environment with one agent.

    Several observations are a Tuple, of images as uint8 and of vectors; branched discrete actions are MultiDiscrete. An
    episode that Unity interrupts at its longest length is truncated.

    Args:
        file_name: path of the executable; None for the Unity editor, whose Play button starts the environment.
        seed: seed of Unity.
        worker_id: number of the environment on this machine; None for the first one that is free.
        no_graphics: do not draw; an environment with images needs to.
        timeout_wait: seconds to wait for the executable.
    """

    def __init__(
        self,
        file_name: str | None = None,
        seed: int = 0,
        worker_id: int | None = None,
        no_graphics: bool = True,
        timeout_wait: int = 60,
    ) -> None:
        channel = _module("mlagents_envs.side_channel.environment_parameters_channel").EnvironmentParametersChannel()
        own = {"seed": seed, "no_graphics": no_graphics, "timeout_wait": timeout_wait, "side_channels": [channel]}
        unity = _started(file_name, worker_id, own)
        try:
            super().__init__(_gym_form().UnityToGymWrapper(unity, uint8_visual=True, allow_multiple_obs=True))
        except BaseException:
            unity.close()
            raise
        self._channel = channel
        self.spec = None
        parts = getattr(self.observation_space, "spaces", ())
        # A Tuple of one observation is that observation.
        self._single = isinstance(self.observation_space, gymnasium.spaces.Tuple) and len(parts) == 1
        if self._single:
            self.observation_space = parts[0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed, options=options)
        return self._shown(obs), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        # Unity's own result of the step, with every agent.
        result = info.pop("step", None) if isinstance(info, dict) else None
        if terminated and any(getattr(result, "interrupted", ())):
            terminated, truncated = False, True
        return self._shown(obs), float(reward), terminated, truncated, info

    def set_parameters(self, values: dict[str, float]) -> None:
        """Set environment parameters; Unity reads them at the reset that follows."""
        for name, value in values.items():
            self._channel.set_float_parameter(name, float(value))

    def _shown(self, obs: Any) -> Any:
        if isinstance(obs, list):
            return obs[0] if self._single else tuple(obs)
        return obs


def _started(file_name: str | None, worker_id: int | None, own: dict[str, Any]) -> Any:
    """Start the executable, with the first number that no other environment has."""
    environment = _module("mlagents_envs.environment").UnityEnvironment
    in_use = _module("mlagents_envs.exception").UnityWorkerInUseException
    numbers = range(MOST_WORKERS) if worker_id is None else [worker_id]
    for number in numbers if file_name is not None else [0]:
        try:
            return environment(file_name=file_name, worker_id=number, **own)
        except in_use:
            continue
    raise UsageError(f"Unity's environment {numbers[-1]} is in use on this machine: give another worker_id")


def _gym_form() -> ModuleType:
    for name in GYM_FORMS:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            missing = error
    raise UsageError(f"{NEEDED} ({missing})") from None


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"{NEEDED} ({error})") from None


gymnasium.register("Unity-v0", f"{__name__}:UnityEnv")
