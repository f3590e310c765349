"""Steps of several environments in a replay and in a plain list, and environments of pictures."""

from types import SimpleNamespace

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec import VecEnvWrapper

GAMMA = 0.5
BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)


def environment(count=3, obs=BOX, action=BOX):
    return SimpleNamespace(num_envs=count, observation_space=obs, action_space=action)


class History:
    """Steps of several environments whose observations all differ, in a replay and in a list."""

    def __init__(self, replay, count, steps, seed=0, chance=0.2, start=0):
        self.replay, self.steps = replay, {}
        rng = np.random.default_rng(seed)
        obs = (start + 1000.0 * np.arange(count, dtype=np.float32))[:, None]
        for t in range(steps):
            dones, cut = rng.random(count) < chance, rng.random(count) < 0.5
            following, final = obs + 1, obs + 0.5
            infos = [
                {"TimeLimit.truncated": bool(cut[i]), "final_observation": final[i]} if dones[i] else {}
                for i in range(count)
            ]
            replay.put(obs, obs + 7, obs[:, 0], following, dones, infos, states=np.full((count, 2), t, np.float32))
            for i in range(count):
                after = float(final[i, 0] if dones[i] else following[i, 0])
                self.steps[float(obs[i, 0])] = (after, bool(dones[i]), bool(dones[i] and cut[i]))
            obs = following

    def expected(self, obs, n_step):
        """Return, weight and observation after up to n_step steps from one."""
        total, weight = 0.0, 1.0
        for _ in range(n_step):
            after, done, cut = self.steps[obs]
            total += weight * obs
            weight = 0.0 if done and not cut else weight * GAMMA
            if done or after not in self.steps:
                break
            obs = after
        return total, weight, after


class Pictures(VecEnvWrapper):
    """Two environments whose single frames count up."""

    def __init__(self, size=2):
        space = spaces.Box(0, 255, (size, size, 1), np.uint8)
        self.venv, self.num_envs, self.observation_space, self.action_space = None, 2, space, spaces.Discrete(3)
        self._clock = np.array([0, 100])

    def reset(self):
        return self._frames()

    def step_wait(self):
        self._clock += 1
        dones = self._clock % 7 == 3
        infos = [{"TimeLimit.truncated": True, "final_observation": frame + 50} for frame in self._frames()]
        return self._frames(), np.zeros(2, np.float32), dones, infos

    def step_async(self, actions):
        pass

    def _frames(self):
        return np.broadcast_to(self._clock[:, None, None, None], (2, *self.observation_space.shape)).astype(np.uint8)
