"""Vector environments."""

from tfbaselines.envs.vec.base import (
    CloudpickleWrapper,
    VecEnv,
    VecEnvObservationWrapper,
    VecEnvWrapper,
    find_wrapper,
)
from tfbaselines.envs.vec.vec_envs import DummyVecEnv, ShmemVecEnv, SubprocVecEnv
from tfbaselines.envs.vec.wrappers import (
    VecExtractDictObs,
    VecFrameStack,
    VecMonitor,
    VecVideoRecorder,
    shared_frames,
)
from tfbaselines.errors import WorkerError

__all__ = [
    "CloudpickleWrapper",
    "DummyVecEnv",
    "ShmemVecEnv",
    "SubprocVecEnv",
    "VecEnv",
    "VecEnvObservationWrapper",
    "VecEnvWrapper",
    "VecExtractDictObs",
    "VecFrameStack",
    "VecMonitor",
    "VecNormalize",
    "VecVideoRecorder",
    "WorkerError",
    "find_wrapper",
    "shared_frames",
]


def __getattr__(name: str) -> type:
    # envs/normalize.py imports this package.
    if name == "VecNormalize":
        from tfbaselines.envs.normalize import VecNormalize

        return VecNormalize
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
