"""The side of Stable-Baselines3, or of SBX, its JAX twin: run by the peer's Python, ``peer_sb3.py CASE STEPS``.

It imports nothing of tfbaselines but the cases beside it, so that the peer can live in an environment of its own.
"""

import importlib
import json
import resource
import sys
import time

from cases import CASES, of_pixels
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize


class Clock(BaseCallback):
    """Notes when each rollout begins, which is when the update before it has ended, and the steps until then."""

    def __init__(self):
        super().__init__()
        self.times = []

    def _on_rollout_start(self):
        self.times.append((self.num_timesteps, time.perf_counter()))

    def _on_step(self):
        return True

    def _on_training_end(self):
        self.times.append((self.num_timesteps, time.perf_counter()))


def run(name, steps):
    """Train one case; the same numbers as our side."""
    case = CASES[name]
    if of_pixels(case):
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        env = VecFrameStack(make_atari_env(case["env"], case["num_env"], seed=0), 4)
    else:
        env = make_vec_env(case["env"], case["num_env"], seed=0)
    if case["normalize"]:
        env = VecNormalize(env, gamma=case["learn"]["gamma"])
    model = make_model(case, env)
    clock = Clock()
    model.learn(steps, callback=clock)
    (first, begin), (last, end) = (
        next(noted for noted in clock.times if noted[0] >= case.get("warmup", 1)),
        clock.times[-1],
    )
    return {
        "steps_per_second": (last - first) / (end - begin),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def make_model(case, env):
    """Make the peer's algorithm with the case's numbers."""
    if "peer_learn" not in case:
        make = make_dqn if case.get("alg") == "deepq" else make_off_policy if "peer" in case else make_ppo
        return make(case, env)
    module, name = case["peer"].split(":")
    make = getattr(importlib.import_module(module), name)
    return make(policy_of(case), env, seed=0, device="cpu", **case["peer_learn"])


def policy_of(case):
    """Return the peer's name for the case's kind of network."""
    if case["network"] == "lstm":
        return "MlpLstmPolicy"
    return "CnnPolicy" if of_pixels(case) else "MlpPolicy"


def make_ppo(case, env):
    """Make the peer's PPO with the case's numbers."""
    learn = case["learn"]
    return PPO(
        policy_of(case),
        env,
        n_steps=learn["nsteps"],
        batch_size=case["num_env"] * learn["nsteps"] // learn["nminibatches"],
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


def make_off_policy(case, env):
    """Make the peer's off-policy algorithm with the case's numbers: a gradient step after every step, its default."""
    learn = case["learn"]
    module, name = case["peer"].split(":")
    further = {"ent_coef": "auto"} if name == "SAC" else {}
    if module != "sbx":
        further["device"] = "cpu"
    return getattr(importlib.import_module(module), name)(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        batch_size=learn["batch_size"],
        learning_starts=learn["start_steps"],
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": list(learn["hidden_sizes"])},
        seed=0,
        **further,
    )


def make_dqn(case, env):
    """Make the peer's DQN with the case's numbers; both sides clip gradients at a norm of 10."""
    learn = case["learn"]
    # Steps of each environment from one training to the next.
    collected = max(1, learn["train_freq"] // case["num_env"])
    return DQN(
        policy_of(case),
        env,
        learning_rate=learn["lr"],
        gamma=learn["gamma"],
        buffer_size=learn["buffer_size"],
        batch_size=learn["batch_size"],
        learning_starts=learn["learning_starts"],
        train_freq=collected,
        gradient_steps=collected * case["num_env"] * learn.get("gradient_steps", 1) // learn["train_freq"],
        target_update_interval=learn["target_network_update_freq"],
        exploration_fraction=learn["exploration_fraction"],
        exploration_final_eps=learn["exploration_final_eps"],
        # The network over the pixels has its dense layer already.
        policy_kwargs={"net_arch": [] if of_pixels(case) else list(learn["hidden_sizes"])},
        seed=0,
        device="cpu",
    )


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))
