"""Compare native MuJoCo vectors with environments of gymnasium.make, bit for bit.

python -m tests.support.mujoco_bits is the long proof: every task, three seeds, 16 environments and 10,000 steps.
"""

import argparse
import time

import gymnasium
import numpy as np

from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.vec import native_mujoco

SHOWN = {"exclude_current_positions_from_observation": False}
NOISY = {"reset_noise_scale": 0.3}
WALKING = {"forward_reward_weight": 0.7, "ctrl_cost_weight": 0.3} | SHOWN
ALIVE = {"healthy_reward": 2, "terminate_when_unhealthy": False}
LYING = {"include_cinert_in_observation": False, "include_qfrc_actuator_in_observation": False}

# Arguments of the second and the third seed of each task; the first seed has none.
CASES = {
    "HalfCheetah-v5": (WALKING | {"frame_skip": 3}, NOISY | {"max_episode_steps": 70}),
    "HalfCheetah-v4": (WALKING, NOISY | {"max_episode_steps": 70}),
    "Hopper-v5": (ALIVE | WALKING, {"healthy_state_range": (-2.0, 3), "healthy_z_range": (0.5, 1.4), "frame_skip": 2}),
    "Hopper-v4": (ALIVE | WALKING, {"healthy_angle_range": (-0.1, 0.1), "max_episode_steps": 20}),
    "Walker2d-v5": (ALIVE | WALKING, {"healthy_z_range": (1.0, 1.5), "max_episode_steps": 15} | NOISY),
    "Walker2d-v4": (ALIVE | WALKING, {"healthy_z_range": (1.0, 1.5), "max_episode_steps": 15}),
    "Ant-v5": (
        ALIVE | WALKING | {"contact_cost_weight": 0.01, "contact_force_range": (-0.5, 2.0)},
        {"include_cfrc_ext_in_observation": False, "main_body": "front_left_leg", "healthy_z_range": (0.3, 0.8)},
    ),
    "Ant-v4": (
        {"use_contact_forces": True, "contact_force_range": (-0.5, 2.0)} | ALIVE | SHOWN,
        {"healthy_z_range": (0.4, 0.9), "ctrl_cost_weight": 1},
    ),
    "Humanoid-v5": (
        ALIVE | WALKING | LYING | {"contact_cost_weight": 1e-3, "contact_cost_range": (0.1, 3.0)},
        {"include_cvel_in_observation": False, "include_cfrc_ext_in_observation": False, "healthy_z_range": (1.2, 1.5)},
    ),
    "Humanoid-v4": (ALIVE | WALKING, {"healthy_z_range": (1.2, 1.5)} | NOISY),
    "HumanoidStandup-v5": (
        LYING | SHOWN | {"impact_cost_range": (0.01, 0.5), "impact_cost_weight": 1e-4},
        {"uph_cost_weight": 2, "ctrl_cost_weight": 1, "max_episode_steps": 40},
    ),
    "HumanoidStandup-v4": ({}, {"max_episode_steps": 40}),
    "Swimmer-v5": (WALKING, NOISY | {"max_episode_steps": 30, "frame_skip": 2}),
    "Swimmer-v4": (WALKING, NOISY | {"max_episode_steps": 30}),
    "InvertedPendulum-v5": (NOISY, {"frame_skip": 1, "max_episode_steps": 9}),
    "InvertedPendulum-v4": ({}, {"max_episode_steps": 4}),
    "InvertedDoublePendulum-v5": (NOISY, {"healthy_reward": 3.5, "max_episode_steps": 5}),
    "InvertedDoublePendulum-v4": ({}, {"max_episode_steps": 5}),
    "Reacher-v5": ({"reward_dist_weight": 0.3, "reward_control_weight": 2.5}, {"frame_skip": 1}),
    "Reacher-v4": ({}, {"max_episode_steps": 7}),
    "Pusher-v5": (
        {"reward_near_weight": 0.7, "reward_dist_weight": 0.2, "reward_control_weight": 0.3},
        {"max_episode_steps": 20},
    ),
}


class Reference:
    """Environments of gymnasium.make, each stepped alone, with the calls that a vector environment makes."""

    def __init__(self, env_id, count, seed, env_kwargs):
        self.envs = [gymnasium.make(env_id, disable_env_checker=True, **env_kwargs) for _ in range(count)]
        for i, env in enumerate(self.envs):
            env.reset(seed=seed + i)
        self.returns = [0] * count

    def reset(self):
        begun = [env.reset() for env in self.envs]
        return np.stack([obs for obs, _ in begun]), [info for _, info in begun]

    def step(self, actions):
        low, high = self.envs[0].action_space.low, self.envs[0].action_space.high
        results = [self._step(i, np.clip(action, low, high)) for i, action in enumerate(actions)]
        obs, rewards, dones, infos = zip(*results, strict=True)
        return np.stack(obs), np.array(rewards, np.float64), np.array(dones), list(infos)

    def _step(self, i, action):
        obs, reward, terminated, truncated, info = self.envs[i].step(action)
        self.returns[i] += reward
        if not (terminated or truncated):
            return obs, reward, False, info
        info = info | {"episode": round(float(self.returns[i]), 6), "final_observation": obs}
        info["TimeLimit.truncated"] = bool(truncated and not terminated)
        self.returns[i] = 0
        obs, info["reset_info"] = self.envs[i].reset()
        return obs, reward, True, info


def assert_same(one, other, place=""):
    """Assert that numbers have the same bits, and that infos have the same entries in one order."""
    if isinstance(one, dict):
        assert list(one) == list(other), (place, list(one), list(other))
        for name in one:
            assert_same(one[name], other[name], f"{place} {name}")
        return
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype != other.dtype:
        # Whole numbers and Python's: Gymnasium's is_healthy * healthy_reward.
        one, other = one.astype(np.float64), other.astype(np.float64)
    assert one.shape == other.shape and one.tobytes() == other.tobytes(), (place, one, other)


def assert_equals_gymnasium(env_id, steps, count, seed, threads, env_kwargs):
    """Step both with random actions, some outside of the bounds; return the numbers of deaths and of time limits."""
    options = {"worker": "native", "env_threads": threads, "env_kwargs": env_kwargs}
    env = make_vec_env(env_id, num_env=count, seed=seed, **options)
    assert type(env) is native_mujoco.NativeMujocoVecEnv
    reference, rng, ends = Reference(env_id, count, seed, env_kwargs), np.random.default_rng(seed), [0, 0]
    obs, infos = reference.reset()
    assert_same(obs, env.reset())
    for one, other in zip(infos, env.reset_infos, strict=True):
        assert_same(one, other, "reset_info")
    scale = 1.3 * np.minimum(env.action_space.high, 10)
    for step in range(steps):
        actions = (scale * rng.uniform(-1, 1, (count, *env.action_space.shape))).astype(np.float32)
        obs, rewards, dones, infos = reference.step(actions)
        got_obs, got_rewards, got_dones, got_infos = env.step(actions)
        place = f"{env_id} {env_kwargs} step {step}"
        assert_same(obs, got_obs, place)
        assert_same(rewards, env._rewards, f"{place} reward")
        assert_same(rewards.astype(np.float32), got_rewards, f"{place} reward")
        assert_same(dones, got_dones, f"{place} done")
        for i, (one, other) in enumerate(zip(infos, got_infos, strict=True)):
            if dones[i]:
                ends[one["TimeLimit.truncated"]] += 1
                other = other | {"episode": other["episode"]["r"]}
            assert_same(one, other, f"{place} info {i}")
    env.close()
    for one in reference.envs:
        one.close()
    return ends


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=list(CASES))
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--envs", type=int, default=16)
    args = parser.parse_args()
    # Light tasks too are stepped in threads.
    native_mujoco.SECONDS_ALONE = 0.0
    for env_id in args.tasks:
        for seed, (threads, env_kwargs) in enumerate(zip((2, 4, 1), ({}, *CASES[env_id]), strict=True)):
            start = time.time()
            ends = assert_equals_gymnasium(env_id, args.steps, args.envs, 100 * seed, threads, env_kwargs)
            seconds = f"{time.time() - start:.0f} s"
            print(
                env_id, f"seed {100 * seed}, {threads} threads, deaths and limits {ends}: equal,", seconds, flush=True
            )


if __name__ == "__main__":
    main()
