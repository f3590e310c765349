"""Stable-Baselines3's side of one speed measurement: run by the peer's Python as a file, ``peer_sb3.py CASE STEPS``.

It imports nothing of tfbaselines but the cases beside it, so that the peer can live in an environment of its own.
"""

import json
import resource
import sys
import time

from cases import CASES
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize


class Clock(BaseCallback):
    """Notes when each rollout begins, which is when the update before it has ended."""

    def __init__(self):
        super().__init__()
        self.times = []

    def _on_rollout_start(self):
        self.times.append(time.perf_counter())

    def _on_step(self):
        return True

    def _on_training_end(self):
        self.times.append(time.perf_counter())


def run(name, steps):
    """Train one case; the same numbers as our side."""
    case = CASES[name]
    learn = case["learn"]
    if case["network"] == "cnn":
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        env = VecFrameStack(make_atari_env(case["env"], case["num_env"], seed=0), 4)
    else:
        env = make_vec_env(case["env"], case["num_env"], seed=0)
    if case["normalize"]:
        env = VecNormalize(env, gamma=learn["gamma"])
    batch = case["num_env"] * learn["nsteps"]
    model = PPO(
        "CnnPolicy" if case["network"] == "cnn" else "MlpPolicy",
        env,
        n_steps=learn["nsteps"],
        batch_size=batch // learn["nminibatches"],
        n_epochs=learn["noptepochs"],
        gamma=learn["gamma"],
        gae_lambda=learn["lam"],
        learning_rate=learn["lr"],
        clip_range=learn["cliprange"],
        ent_coef=learn["ent_coef"],
        vf_coef=0.5,
        max_grad_norm=0.5,
        seed=0,
        device="cpu",
    )
    clock = Clock()
    model.learn(steps, callback=clock)
    # The first update is left out, as on our side.
    times = clock.times[1:]
    return {
        "steps_per_second": batch * (len(times) - 1) / (times[-1] - times[0]),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))
