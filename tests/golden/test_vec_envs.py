"""VecNormalize and VecFrameStack against the original's numbers."""

import numpy as np
import pytest
from cases import cases, load
from gymnasium import spaces
from weights import assert_close

from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecEnv, VecFrameStack


class Recorded(VecEnv):
    """Shows recorded observations, rewards and dones [T, N, ...]: each reset and each step goes on by one."""

    def __init__(self, obs, dones, rewards):
        low, high = (0, 255) if obs.dtype == np.uint8 else (-np.inf, np.inf)
        super().__init__(obs.shape[1], spaces.Box(low, high, obs.shape[2:], obs.dtype.type), spaces.Discrete(2))
        self.obs, self.dones, self.rewards, self.t = obs, dones, rewards, -1

    def reset(self):
        self.t += 1
        return self.obs[self.t].copy()

    def step_async(self, actions):
        self.t += 1

    def step_wait(self):
        infos = [{"final_observation": obs.copy()} if done else {} for obs, done in self._now(self.obs, self.dones)]
        return self.obs[self.t].copy(), self.rewards[self.t].copy(), self.dones[self.t].copy(), infos

    def _now(self, *recordings):
        return zip(*(recording[self.t] for recording in recordings), strict=True)


def variants(case):
    """The ways in which one recording was normalised, by the prefix of their arrays."""
    arrays, _ = load(case)
    return sorted({key.split("/")[0] for key in arrays if "/" in key})


@pytest.mark.parametrize(
    ("case", "variant"), [(case, variant) for case in cases("vec_normalize*") for variant in variants(case)]
)
def test_vec_normalize(case, variant):
    a, hyper = load(case)
    out = {key.split("/")[1]: value for key, value in a.items() if key.startswith(f"{variant}/")}
    options = hyper.get(variant, hyper["default"])
    env = Recorded(a["obs"], a["dones"], a["rewards"])
    env = VecNormalize(env, ob="ob_mean" in out, ret="ret_mean" in out, **options)
    observed, rewards, sums = [env.reset()], [], []
    for t in range(hyper["T"]):
        if t == hyper["T"] // 2:
            observed.append(env.reset())
        obs, reward, _, _ = env.step(np.zeros(env.num_envs, np.int64))
        observed.append(obs)
        rewards.append(reward)
        sums.append(env.ret.copy())
    assert_close(observed, out["obs"])
    assert_close(rewards, out["rewards"])
    assert_close(sums, out["ret_after_step"])
    for name, statistics in (("ob", env.ob_rms), ("ret", env.ret_rms)):
        assert (statistics is None) == (f"{name}_mean" not in out)
        for part in ("mean", "var", "count") if statistics else ():
            assert_close(getattr(statistics, part), out[f"{name}_{part}"])


@pytest.mark.parametrize("case", cases("vec_frame_stack*"))
def test_vec_frame_stack(case):
    a, hyper = load(case)
    env = VecFrameStack(Recorded(a["obs"], a["dones"], np.zeros(a["dones"].shape, np.float32)), hyper["nstack"])
    actions = np.zeros(env.num_envs, np.int64)
    stacked = [env.reset(), *(env.step(actions)[0] for _ in range(len(a["obs"]) - 1))]
    assert stacked[0].dtype == a["stacked"].dtype and env.observation_space.shape == a["stacked"].shape[2:]
    np.testing.assert_array_equal(stacked, a["stacked"])
