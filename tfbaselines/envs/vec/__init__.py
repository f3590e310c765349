"""Vector environments."""

from tfbaselines.envs.vec.base import CloudpickleWrapper, VecEnv, VecEnvObservationWrapper, VecEnvWrapper
from tfbaselines.envs.vec.dummy import DummyVecEnv

__all__ = [
    "CloudpickleWrapper",
    "DummyVecEnv",
    "VecEnv",
    "VecEnvObservationWrapper",
    "VecEnvWrapper",
]
