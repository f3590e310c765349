"""Goals in hindsight against the original's sampler, which draws from numpy's old generator."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import cases, load
from gymnasium import spaces
from weights import assert_close

from tfbaselines.replay.hindsight import HindsightReplay

# The original's strategies by the names of their arrays, and our replay_k.
STRATEGIES = {"future_k4": 4, "future_k1": 1, "none_k4": 0}


class OldGenerator:
    """Draws rows as the original does: episodes first, then the time; the replay asks for the age first."""

    def __init__(self, seed, episodes, length):
        self._state, self._length = np.random.RandomState(seed), length
        self._episodes, self.random = episodes, self._state.random_sample

    def integers(self, low, high=None, size=None):
        if high is None:
            return self._chosen
        self._chosen = self._state.randint(0, self._episodes, size)
        return self._length - self._state.randint(self._length, size=size)


def reward(achieved, desired, info):
    return -(np.linalg.norm(achieved - desired, axis=-1) > 0.6).astype(np.float32)


def filled(a, replay_k):
    """A replay in which each of several environments has taken one episode."""
    count, length = a["ep_u"].shape[:2]
    box = lambda name: spaces.Box(-np.inf, np.inf, a[name].shape[2:], np.float64)
    obs_space = spaces.Dict(observation=box("ep_o"), achieved_goal=box("ep_ag"), desired_goal=box("ep_g"))
    env = SimpleNamespace(num_envs=count, observation_space=obs_space, action_space=box("ep_u"))
    replay = HindsightReplay(env, count * length, compute_reward=reward, replay_k=replay_k)

    def obs(t):
        goals = a["ep_g"][:, min(t, length - 1)]
        return {"observation": a["ep_o"][:, t], "achieved_goal": a["ep_ag"][:, t], "desired_goal": goals}

    for t in range(length):
        over = np.full(count, t == length - 1)
        after = obs(t + 1)
        infos = [
            {"TimeLimit.truncated": True, "final_observation": {name: part[i] for name, part in after.items()}}
            for i in range(count)
        ]
        rewards = reward(a["ep_ag"][:, t + 1], a["ep_g"][:, t], {})
        replay.put(obs(t), a["ep_u"][:, t], rewards, obs(0) if over.all() else after, over, infos)
    return replay


@pytest.mark.parametrize("case", cases("her_sampler"))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sampled_transitions(case, strategy):
    a, hyper = load(case)
    rng = OldGenerator(hyper["numpy_seed"], *a["ep_u"].shape[:2])
    batch = filled(a, STRATEGIES[strategy]).sample(rng, 1, hyper["batch"])
    found = {
        "o": batch["obs"]["observation"],
        "ag": batch["obs"]["achieved_goal"],
        "g": batch["obs"]["desired_goal"],
        "u": batch["actions"],
        "r": batch["rewards"],
        "o_2": batch["next_obs"]["observation"],
        "ag_2": batch["next_obs"]["achieved_goal"],
    }
    for name, array in found.items():
        assert_close(array[0], a[f"{strategy}/{name}"], name, tolerance=1e-6)
