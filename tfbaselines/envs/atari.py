"""Atari wrappers with the semantics of baselines, for one game at a time.

envs/vec/native_atari.py has the same observations for several games at once.
"""

from collections import deque
from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces

from tfbaselines.envs import spec_of
from tfbaselines.envs.wrappers import TimeLimit
from tfbaselines.errors import UsageError

# Frames are too small for several threads.
cv2.ocl.setUseOpenCL(False)

StepResult = tuple[Any, float, bool, bool, dict[str, Any]]


class NoopResetEnv(gymnasium.Wrapper):
    """Do nothing for 1 to noop_max frames at the start of a game, so that games begin differently."""

    def __init__(self, env: gymnasium.Env, noop_max: int = 30) -> None:
        super().__init__(env)
        self.noop_max = noop_max
        self.override_num_noops: int | None = None

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        noops = self.override_num_noops
        if noops is None:
            noops = int(self.unwrapped.np_random.integers(1, self.noop_max + 1)) if self.noop_max else 0
        for _ in range(noops):
            obs, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                obs, info = self.env.reset()
        return obs, info


class FireResetEnv(gymnasium.Wrapper):
    """Press FIRE, which must be action 1, at an episode's start, then the action after it."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        meanings = env.unwrapped.get_action_meanings()
        if meanings[1] != "FIRE" or len(meanings) < 3:
            raise UsageError(f"FireResetEnv needs a game with FIRE as action 1, not {meanings}")

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        for action in (1, 2):
            obs, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                return self.env.reset()
        return obs, info


class EpisodicLifeEnv(gymnasium.Wrapper):
    """End an episode with each lost life; a new game begins after the last one."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.lives = 0
        self.was_real_done = True

    def step(self, action: Any) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_done = terminated or truncated
        lives = self.unwrapped.ale.lives()
        lost = 0 < lives < self.lives
        self.lives = lives
        return obs, reward, terminated or (lost and not truncated), truncated, info

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        if self.was_real_done or kwargs.get("seed") is not None:
            obs, info = self.env.reset(**kwargs)
        else:
            obs, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                obs, info = self.env.reset(**kwargs)
        self.was_real_done = False
        self.lives = self.unwrapped.ale.lives()
        return obs, info


class MaxAndSkipEnv(gymnasium.Wrapper):
    """Repeat each action and return the maximum of the last two frames, since sprites flicker."""

    def __init__(self, env: gymnasium.Env, skip: int = 4) -> None:
        super().__init__(env)
        self._skip = skip

    def step(self, action: Any) -> StepResult:
        total, last_two = 0.0, deque(maxlen=2)
        for _ in range(self._skip):
            obs, reward, terminated, truncated, info = self.env.step(action)
            last_two.append(obs)
            total += float(reward)
            if terminated or truncated:
                break
        return np.maximum.reduce(list(last_two)), total, terminated, truncated, info


class ClipRewardEnv(gymnasium.RewardWrapper):
    """Replace rewards by their sign: -1, 0 or 1."""

    def reward(self, reward: Any) -> float:
        return float(np.sign(reward))


class WarpFrame(gymnasium.ObservationWrapper):
    """Resize RGB or gray frames by area interpolation; grayscale converts RGB to one channel."""

    def __init__(self, env: gymnasium.Env, width: int = 84, height: int = 84, grayscale: bool = True) -> None:
        super().__init__(env)
        # A gray game has one channel or no axis of channels.
        shape = env.observation_space.shape
        channels = 1 if grayscale or len(shape) == 2 else shape[-1]
        self._size = (width, height)
        self._to_gray = grayscale and len(shape) == 3 and shape[-1] != 1
        self.observation_space = spaces.Box(0, 255, (height, width, channels), np.uint8)

    def observation(self, frame: np.ndarray) -> np.ndarray:
        if self._to_gray:
            frame = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)
        frame = cv2.resize(frame, self._size, interpolation=cv2.INTER_AREA)
        return frame[:, :, None] if frame.ndim == 2 else frame


class FrameStack(gymnasium.Wrapper):
    """Stack the latest k frames along the last axis; an episode begins with its first frame k times."""

    def __init__(self, env: gymnasium.Env, k: int) -> None:
        super().__init__(env)
        self._frames: deque[np.ndarray] = deque(maxlen=k)
        space = env.observation_space
        low, high = np.repeat(space.low, k, axis=-1), np.repeat(space.high, k, axis=-1)
        self.observation_space = spaces.Box(low, high, dtype=space.dtype)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        self._frames.extend([obs] * self._frames.maxlen)
        return LazyFrames(list(self._frames)), info

    def step(self, action: Any) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._frames.append(obs)
        return LazyFrames(list(self._frames)), reward, terminated, truncated, info


class LazyFrames:
    """Frames [..., C] that are joined on conversion to an array, so that neighbors in a replay share them."""

    def __init__(self, frames: list[np.ndarray]) -> None:
        self._frames = frames

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        stacked = np.concatenate(self._frames, axis=-1)
        return stacked if dtype is None else stacked.astype(dtype)

    def __len__(self) -> int:
        return len(np.asarray(self))

    def count(self) -> int:
        """Return the number of channels of all frames."""
        return np.asarray(self).shape[-1]

    def frame(self, i: int) -> np.ndarray:
        """Return one channel [...]."""
        return np.asarray(self)[..., i]

    def __getitem__(self, i: Any) -> np.ndarray:
        return np.asarray(self)[i]


class ScaledFloatFrame(gymnasium.ObservationWrapper):
    """Scale pixels to float32 from 0 to 1. This undoes the memory savings of LazyFrames."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(0.0, 1.0, env.observation_space.shape, np.float32)

    def observation(self, obs: Any) -> np.ndarray:
        return np.asarray(obs, np.float32) / 255.0


def make_atari(env_id: str, max_episode_steps: int | None = None, **env_kwargs: Any) -> gymnasium.Env:
    """Make a game with no-op starts and frame skip.

    Another max_episode_steps counts steps of four frames; env_kwargs are for gymnasium.make.
    """
    if "NoFrameskip" not in env_id:
        game = env_id.rpartition("/")[2].partition("-")[0].removesuffix("Deterministic")
        raise UsageError(f"env={env_id!r} is not valid: this function skips frames, use {game}NoFrameskip-v4")
    spec = spec_of(env_id)
    from ale_py import ALEInterface, LoggerMode

    # Without ALE's banner.
    ALEInterface.setLoggerMode(LoggerMode.Warning)
    env = gymnasium.make(spec, disable_env_checker=True, **env_kwargs)
    env = MaxAndSkipEnv(NoopResetEnv(env))
    return env if max_episode_steps is None else TimeLimit(env, max_episode_steps)


def wrap_deepmind(
    env: gymnasium.Env,
    episode_life: bool = True,
    clip_rewards: bool = True,
    frame_stack: bool = False,
    scale: bool = False,
) -> gymnasium.Env:
    """Add the preprocessing of Mnih et al. 2015.

    Args:
        env: a game of make_atari.
        episode_life: end an episode with each lost life.
        clip_rewards: replace rewards by their sign.
        frame_stack: stack four frames.
        scale: scale pixels to floats from 0 to 1.
    """
    if episode_life:
        env = EpisodicLifeEnv(env)
    if "FIRE" in env.unwrapped.get_action_meanings():
        env = FireResetEnv(env)
    env = WarpFrame(env)
    if scale:
        env = ScaledFloatFrame(env)
    if clip_rewards:
        env = ClipRewardEnv(env)
    return FrameStack(env, 4) if frame_stack else env
