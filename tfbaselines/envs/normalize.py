"""VecNormalize, which scales observations and rewards, and its use by `--normalize`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.base import StepResult, VecEnv, VecEnvWrapper, change_last, find_wrapper
from tfbaselines.envs.vec.observations import is_image
from tfbaselines.errors import UsageError, bad_argument, renamed
from tfbaselines.parallel.moments import RunningMeanStd

# Arguments of VecNormalize by the value of the flag; no normalization is an empty tuple.
NORMALIZE = {"both": ("ob", "ret"), "observations": ("ob",), "rewards": ("ret",), "none": ()}


def normalized(env: VecEnv, normalize: bool | str, env_type: str, training: bool = True) -> VecEnv:
    """Wrap environments in VecNormalize.

    Args:
        env: environments.
        normalize: a key of NORMALIZE; True stands for 'both' around MuJoCo environments, False for 'none'.
        env_type: type of the environments.
        training: False freezes the statistics.
    """
    if isinstance(normalize, bool):
        normalize = "both" if normalize and env_type == "mujoco" else "none"
    kinds = NORMALIZE[normalize]
    if "ob" in kinds and is_image(env.observation_space):
        raise bad_argument("normalize", normalize, "'rewards' or 'none' with images, which networks scale themselves")
    if not kinds:
        return env
    return VecNormalize(env, ob="ob" in kinds, ret="ret" in kinds, training=training)


class VecNormalize(VecEnvWrapper):
    """Scale observations to mean 0 and deviation 1, and rewards by the deviation of their discounted sum.

        obs    <- clip((obs - mean) / sqrt(var + epsilon), -clipob, clipob)
        ret    <- gamma * ret + reward
        reward <- clip(reward / sqrt(var(ret) + epsilon), -cliprew, cliprew)

    Episode returns in the infos stay unscaled.

    Args:
        venv: environments with Box observations.
        ob: scale observations.
        ret: scale rewards.
        clipob: bound of scaled observations.
        cliprew: bound of scaled rewards.
        gamma: discount of the sum of rewards.
        epsilon: number added to variances.
        use_tf: accepted for compatibility; the statistics are always numpy's and saved with the model.
        training: update the statistics; False keeps them (playing, evaluating).
    """

    @renamed(norm_obs="ob", norm_reward="ret", clip_obs="clipob", clip_reward="cliprew")
    def __init__(
        self,
        venv: VecEnv,
        ob: bool = True,
        ret: bool = True,
        clipob: float = 10.0,
        cliprew: float = 10.0,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
        use_tf: bool = False,
        training: bool = True,
    ) -> None:
        super().__init__(venv)
        if ob and not isinstance(venv.observation_space, spaces.Box):
            raise UsageError(f"VecNormalize scales Box observations, not {venv.observation_space}: use ob=False")
        self.ob_rms = RunningMeanStd(shape=self.observation_space.shape) if ob else None
        self.ret_rms = RunningMeanStd(shape=()) if ret else None
        self.clipob = clipob
        self.cliprew = cliprew
        self.gamma = gamma
        self.epsilon = epsilon
        self.training = training
        self.ret = np.zeros(self.num_envs)

    def reset(self) -> np.ndarray:
        self.ret = np.zeros(self.num_envs)
        return self._obfilt(self.venv.reset())

    def step_wait(self) -> StepResult:
        obs, rewards, dones, infos = self.venv.step_wait()
        obs = self._obfilt(obs)
        rewards = self._retfilt(rewards)
        if np.count_nonzero(dones):
            self.ret[dones] = 0.0
            for i in np.flatnonzero(dones):
                change_last(infos[i], self.scaled)
        return obs, rewards, dones, infos

    def state(self) -> dict[str, Any]:
        return self.venv.state() | {"normalization": self.normalization(), "returns": self.ret.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.venv.restore(state)
        # A state that was saved without this wrapper has no statistics.
        self.restore_normalization(state.get("normalization", {}))
        if self.restored:
            self.ret = np.array(state.get("returns", self.ret))

    def normalization(self) -> dict[str, Any]:
        return {
            "ob": self.ob_rms.state() if self.ob_rms else None,
            "ret": self.ret_rms.state() if self.ret_rms else None,
            "clipob": self.clipob,
            "epsilon": self.epsilon,
        }

    def restore_normalization(self, statistics: dict[str, Any]) -> None:
        for rms, saved in ((self.ob_rms, statistics.get("ob")), (self.ret_rms, statistics.get("ret"))):
            if rms is not None and saved is not None:
                rms.restore(saved)

    def merge_statistics(self, comm: Any) -> None:
        for rms in (self.ob_rms, self.ret_rms):
            if rms is not None:
                rms.merge(comm)

    def _obfilt(self, obs: np.ndarray) -> np.ndarray:
        if self.ob_rms is None:
            return obs
        if self.training:
            self.ob_rms.update(obs)
        return self.scaled(obs)

    def _retfilt(self, rewards: np.ndarray) -> np.ndarray:
        # Numbers are several times faster than arrays of one number.
        only = float(rewards[0]) if self.num_envs == 1 else None
        if only is None:
            self.ret = self.ret * self.gamma + rewards
        else:
            self.ret[0] = float(self.ret[0]) * self.gamma + only
        if self.ret_rms is None:
            return rewards
        if self.training:
            self.ret_rms.update(self.ret)
        deviation = math.sqrt(self.ret_rms.var + self.epsilon)
        if only is None:
            return _clip(rewards / np.float64(deviation), self.cliprew).astype(np.float32)
        return np.array([min(max(only / deviation, -self.cliprew), self.cliprew)], np.float32)

    def scaled(self, obs: np.ndarray) -> np.ndarray:
        """Scale observations [..., *shape] without an update of the statistics."""
        if self.ob_rms is None:
            return obs
        return scaled(obs, self.ob_rms.mean, self.ob_rms.var, self.epsilon, self.clipob)


def scaled(obs: np.ndarray, mean: np.ndarray, var: np.ndarray, epsilon: float, clipob: float) -> np.ndarray:
    """Scale observations [..., *shape] to mean 0 and deviation 1, clipped to [-clipob, clipob]."""
    if obs.shape == (1, *mean.shape):
        # Without broadcasting: half the time.
        return scaled(obs[0], mean, var, epsilon, clipob)[None]
    return _clip((obs - mean) / np.sqrt(var + epsilon), clipob)


def share_normalization(envs: Sequence[VecEnv]) -> None:
    """Share the statistics of environments that several threads step."""
    first, *others = (find_wrapper(env, VecNormalize) for env in envs)
    if any((other is None) != (first is None) for other in others):
        raise UsageError("some of the workers' environments are wrapped in VecNormalize and some are not")
    if first is None:
        return
    for other in others:
        other.ob_rms = first.ob_rms
        other.ret_rms = first.ret_rms


def _clip(x: np.ndarray, bound: float) -> np.ndarray:
    """Clip at a fraction of np.clip's overhead, and return the same array if nothing is outside of the bounds."""
    flat = x.ravel()
    # No square of a number outside can be less.
    if flat.dot(flat) < bound * bound:
        return x
    return np.minimum(np.maximum(x, -bound), bound)
