"""Environments that turn harmful after some hundred steps, for faults.py."""

import os
import time

import gymnasium
import numpy as np

GOOD_STEPS = 300


class Spoilt(gymnasium.Wrapper):
    """Behave for GOOD_STEPS steps, then spoil the results of steps."""

    count = 0

    def step(self, action):
        obs, reward, *ends = super().step(action)
        self.count += 1
        if self.count > GOOD_STEPS:
            return self.spoil(obs, reward, *ends)
        return obs, reward, *ends


class Hanging(Spoilt):
    def spoil(self, *result):
        time.sleep(1000)


class Crashing(Spoilt):
    def spoil(self, *result):
        os._exit(7)


class NanReward(Spoilt):
    def spoil(self, obs, reward, *ends):
        return obs, float("nan"), *ends


class NanObservation(Spoilt):
    def spoil(self, obs, reward, *ends):
        numbers = obs["observation"] if isinstance(obs, dict) else obs
        numbers[...] = np.nan
        return obs, reward, *ends


for wrapper in (Hanging, Crashing, NanReward, NanObservation):
    for base in ("CartPole-v1", "Pendulum-v1", "tfbaselines.envs.tiny:tfbaselines/PointReach-v0"):
        name = f"{wrapper.__name__}{base.split('/')[-1]}"
        gymnasium.register(name, lambda base=base, wrapper=wrapper, **kwargs: wrapper(gymnasium.make(base, **kwargs)))
