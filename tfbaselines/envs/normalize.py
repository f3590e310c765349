"""VecNormalize: scale observations and rewards by running statistics, which are saved with the model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.base import StepResult, VecEnv, VecEnvWrapper, change_last, find_wrapper
from tfbaselines.errors import UsageError
from tfbaselines.parallel.moments import RunningMeanStd


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
        return self._observe(self.venv.reset())

    def step_wait(self) -> StepResult:
        obs, rewards, dones, infos = self.venv.step_wait()
        self.ret = self.ret * self.gamma + rewards
        obs = self._observe(obs)
        if self.ret_rms is not None:
            if self.training:
                self.ret_rms.update(self.ret)
            rewards = _clip(rewards / np.sqrt(self.ret_rms.var + self.epsilon), self.cliprew)
            rewards = rewards.astype(np.float32)
        if dones.any():
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

    def _observe(self, obs: np.ndarray) -> np.ndarray:
        if self.ob_rms is None:
            return obs
        if self.training:
            self.ob_rms.update(obs)
        return self.scaled(obs)

    def scaled(self, obs: np.ndarray) -> np.ndarray:
        """Scale observations [..., *shape] without an update of the statistics."""
        if self.ob_rms is None:
            return obs
        return scaled(obs, self.ob_rms.mean, self.ob_rms.var, self.epsilon, self.clipob)


def scaled(obs: np.ndarray, mean: np.ndarray, var: np.ndarray, epsilon: float, clipob: float) -> np.ndarray:
    """Scale observations [..., *shape] to mean 0 and deviation 1, clipped to [-clipob, clipob].

    Args:
        obs: raw observations.
        mean: mean of observations [*shape].
        var: variance of observations [*shape].
        epsilon: number added to the variance.
        clipob: bound of the scaled observations.
    """
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
    """Clip at a fraction of np.clip's overhead."""
    return np.minimum(np.maximum(x, -bound), bound)
