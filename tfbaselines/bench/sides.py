"""One speed measurement in a process: ``sides.py ours CASE STEPS PRECISION`` or ``sides.py peer CASE STEPS``.

CASE is one of speed.CASES as JSON. The process prints one JSON object. Speed is counted from the end of the first
update (or of the case's warm-up), so that imports and compilation are left out. The peer is Stable-Baselines3, or SBX,
its JAX twin; its Python has its own environment, so that nothing of tfbaselines is imported on its side.
"""

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

Case = dict[str, Any]
# Numbers of environment steps, and the times when they were reached.
Times = list[tuple[int, float]]


def of_pixels(case: Case) -> bool:
    """Return True if a case's network has convolutions."""
    return case["network"] in ("cnn", "conv_only")


def ours(case: Case, steps: int, precision: str = "float32") -> dict[str, float]:
    """Train one case; growth_mib is the memory that the second half of training added."""
    from tfbaselines.loading import load_tensorflow

    load_tensorflow()
    from tfbaselines.config.options import RunOptions
    from tfbaselines.envs.make import build_env
    from tfbaselines.logs import logger

    learn = importlib.import_module(f"tfbaselines.algs.{case.get('alg', 'ppo2')}").learn
    times: Times = []
    clock = clock_of(case)
    half: list[float] = []

    def note(training: Any) -> None:
        times.append((training.timesteps, clock()))
        # Once: what it takes to read is no part of training.
        if not half and training.timesteps >= steps // 2:
            half.append(resident_mib())

    env = build_env({name: case[name] for name in ("env", "num_env", "normalize") if name in case} | {"seed": 0})
    with logger.scoped_configure(format_strs=["csv"]):
        options = RunOptions(callback=note, precision=precision)
        learn(case["network"], env, total_timesteps=steps, seed=0, run=options, **case["learn"])
        growth = resident_mib() - half[0]
    env.close()
    return measured(times, case) | {"growth_mib": growth}


def peer(case: Case, steps: int) -> dict[str, float]:
    """Train one case with the peer and the same numbers."""
    from stable_baselines3.common.callbacks import BaseCallback

    times: Times = []
    clock = clock_of(case)

    class Clock(BaseCallback):
        """Notes when each rollout begins, which is when the update before it has ended, and the steps until then."""

        def _on_rollout_start(self) -> None:
            times.append((self.num_timesteps, clock()))

        def _on_step(self) -> bool:
            return True

        def _on_training_end(self) -> None:
            times.append((self.num_timesteps, clock()))

    make_peer(case, peer_env(case)).learn(steps, callback=Clock())
    return measured(times, case)


def clock_of(case: Case) -> Callable[[], float]:
    """Return the clock of a case: 'cpu' for this process's processor time."""
    return time.process_time if case.get("clock") == "cpu" else time.perf_counter


def measured(times: Times, case: Case) -> dict[str, float]:
    """Return steps_per_second after the warm-up, and peak_mib: the process's largest resident memory."""
    first, begin = next(noted for noted in times if noted[0] >= case.get("warmup", 1))
    last, end = times[-1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"steps_per_second": (last - first) / (end - begin), "peak_mib": peak}


def resident_mib() -> float:
    """Return the memory that this process holds now (Linux; 0 elsewhere)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20
    except OSError:
        return 0.0


def peer_env(case: Case) -> Any:
    """Make the case's environments with the peer's wrappers."""
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize

    if of_pixels(case):
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        return VecFrameStack(make_atari_env(case["env"], case["num_env"], seed=0), 4)
    env = make_vec_env(case["env"], case["num_env"], seed=0)
    return VecNormalize(env, gamma=case["learn"]["gamma"]) if case["normalize"] else env


def make_peer(case: Case, env: Any) -> Any:
    """Make the peer's algorithm with the case's numbers."""
    module, name = case.get("peer", "stable_baselines3:PPO").split(":")
    policy = "MlpLstmPolicy" if case["network"] == "lstm" else "CnnPolicy" if of_pixels(case) else "MlpPolicy"
    numbers = (case.get("peer_learn") or peer_numbers(name, case)) | case.get("peer_further", {})
    if module != "sbx":
        numbers = numbers | {"device": "cpu"}
    return getattr(importlib.import_module(module), name)(policy, env, seed=0, **numbers)


# The peer's names of our arguments.
NAMES = {
    "n_steps": "nsteps",
    "n_epochs": "noptepochs",
    "gamma": "gamma",
    "gae_lambda": "lam",
    "learning_rate": "lr",
    "clip_range": "cliprange",
    "ent_coef": "ent_coef",
    "buffer_size": "buffer_size",
    "batch_size": "batch_size",
    "learning_starts": "learning_starts",
    "target_update_interval": "target_network_update_freq",
    "exploration_fraction": "exploration_fraction",
    "exploration_final_eps": "exploration_final_eps",
}


def peer_numbers(name: str, case: Case) -> dict[str, Any]:
    """Translate the case's arguments for the peer's PPO, DQN, SAC, TD3 or DDPG."""
    learn = case["learn"]
    numbers = {theirs: learn[ours] for theirs, ours in NAMES.items() if ours in learn}
    if name == "PPO":
        batch_size = case["num_env"] * learn["nsteps"] // learn["nminibatches"]
        return numbers | {"batch_size": batch_size, "vf_coef": 0.5, "max_grad_norm": 0.5}
    # The network over the pixels has its dense layer already.
    numbers["policy_kwargs"] = {"net_arch": [] if of_pixels(case) else list(learn["hidden_sizes"])}
    if name == "DQN":
        # Both sides clip gradients at a norm of 10. Steps of each environment from one training to the next:
        collected = max(1, learn["train_freq"] // case["num_env"])
        steps = collected * case["num_env"] * learn.get("gradient_steps", 1) // learn["train_freq"]
        return numbers | {"train_freq": collected, "gradient_steps": steps}
    # A gradient step after every step, the peer's default.
    numbers |= {"learning_rate": 1e-3, "learning_starts": learn["start_steps"], "train_freq": 1, "gradient_steps": 1}
    return numbers | ({"ent_coef": "auto"} if name in ("SAC", "TQC", "CrossQ") else {})


if __name__ == "__main__":
    side, name, count, *precision = sys.argv[1:]
    print(json.dumps({"ours": ours, "peer": peer}[side](json.loads(name), int(count), *precision)))
