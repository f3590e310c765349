"""Environment steps per second end to end: ours and a peer's in turn, A B A B."""

import csv
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tfbaselines.bench import sides
from tfbaselines.config.options import PRECISIONS
from tfbaselines.errors import UsageError, bad_argument, check_at_least, unknown
from tfbaselines.parallel import mpi


def _case(env: str, network: str, steps: int, learn: dict[str, Any], **further: Any) -> dict[str, Any]:
    return {"env": env, "network": network, "steps": steps, "num_env": 1, "normalize": False, "learn": learn} | further


def _off_policy(alg: str, peer: str | None, hidden_sizes: tuple[int, int], batch_size: int) -> dict[str, Any]:
    """Take one gradient step for each step of HalfCheetah from step 1,000 on; before it both sides compile and fill."""
    learn = {"hidden_sizes": hidden_sizes, "batch_size": batch_size, "start_steps": 1000, "update_after": 1000}
    learn |= {"update_every": 50, "num_test_episodes": 0}
    if alg == "ddpg":
        learn |= {"polyak": 0.995, "act_noise": 0.1, "critic_l2_reg": 0.0, "normalize_observations": False}
        learn |= {"actor_lr": 1e-3, "critic_lr": 1e-3, "nb_epoch_cycles": 40}
    else:
        learn |= {"steps_per_epoch": 2000} | ({"alpha": "auto"} if alg == "sac" else {})
    return _case("HalfCheetah-v5", "dense", 6000, learn, alg=alg, peer=peer, warmup=2000)


def _critics(peer: str, *, further: dict[str, Any] | None = None, **learn: Any) -> dict[str, Any]:
    """Compare `sac` with other critics; `further` are arguments of the peer."""
    case = _off_policy("sac", peer, (256, 256), 256)
    return case | {"learn": case["learn"] | learn, "peer_further": further or {}}


def _droq(peer: str) -> dict[str, Any]:
    """Take 20 gradient steps for each step of HalfCheetah, the actor's after the last; 500 steps are counted."""
    kwargs = {"net_arch": [256, 256], "dropout_rate": 0.01, "layer_norm": True}
    further = {"gradient_steps": 20, "policy_delay": 20, "policy_kwargs": kwargs}
    learn = {"critic_dropout": 0.01, "critic_layer_norm": True, "num_update": 1000, "policy_delay": 20}
    return _critics(peer, further=further, **learn) | {"steps": 1600, "warmup": 1100}


def _a2c(env: str, num_env: int, network: str, steps: int, **learn: Any) -> dict[str, Any]:
    """Take five steps of every environment in an update; the peer's other defaults are ours."""
    learn |= {"nsteps": 5, "gamma": 0.99, "lr": 7e-4, "lrschedule": "constant", "ent_coef": 0.01}
    peer_learn = {"n_steps": 5, "gamma": 0.99, "learning_rate": 7e-4, "ent_coef": 0.01}
    peer = {"peer": "stable_baselines3:A2C", "peer_learn": peer_learn}
    return _case(env, network, steps, learn, alg="a2c", num_env=num_env, warmup=50 * 5 * num_env, **peer)


_PPO2 = {"nminibatches": 4, "noptepochs": 4, "gamma": 0.99, "lam": 0.95, "lr": 3e-4, "cliprange": 0.2, "ent_coef": 0.0}
_CARTPOLE = _PPO2 | {"nsteps": 128}
_SHARED_LSTM = {"net_arch": [], "lstm_hidden_size": 128, "shared_lstm": True, "enable_critic_lstm": False}

# DQN with the peer's own network and its tuned learning rate and exploration, but a gradient step for each environment
# step.
_DQN = {"hiddens": (), "dueling": False, "double_q": False, "gamma": 0.99, "batch_size": 32, "learning_starts": 1000}
_DQN_CARTPOLE = _case(
    "CartPole-v1",
    "dense",
    20_000,
    _DQN
    | {"hidden_sizes": (64, 64), "lr": 2.3e-3, "buffer_size": 100_000, "train_freq": 1}
    | {"target_network_update_freq": 500, "exploration_fraction": 0.16, "exploration_final_eps": 0.04},
    alg="deepq",
    peer="stable_baselines3:DQN",
    warmup=2000,
)
# The peer's settings for Atari, with a replay that is soon filled.
_DQN_PONG = _DQN_CARTPOLE | {
    "env": "PongNoFrameskip-v4",
    "network": "cnn",
    "steps": 8000,
    "learn": _DQN
    | {"lr": 1e-4, "buffer_size": 5000, "train_freq": 4, "target_network_update_freq": 1000}
    | {"exploration_fraction": 0.1, "exploration_final_eps": 0.01},
}
_MEMORY = _off_policy("sac", None, (32, 32), 32)

# A case with a 'peer' names the class that it is compared with, from stable_baselines3 or sbx, by default PPO; None for
# none; with 'peer_learn' it takes these arguments, in its own names, in place of those that follow from ours, and with
# 'peer_further' besides them. The first 'warmup' steps are not counted: by default one update's. A case with an
# 'original' has no peer that is alive: it is compared with OpenAI baselines on TensorFlow 1, by the ratio of the two
# machines' yardsticks.
CASES = {
    "halfcheetah": _case(
        "HalfCheetah-v5",
        "mlp",
        40 * 2048,
        _PPO2 | {"nsteps": 2048, "nminibatches": 32, "noptepochs": 10, "value_network": "copy"},
        normalize=True,
    ),
    "cartpole": _case("CartPole-v1", "mlp", 300 * 1024, _CARTPOLE | {"value_network": "copy"}, num_env=8),
    # An LSTM of 128 units below the policy and the values, on both sides.
    "cartpole-lstm": _case(
        "CartPole-v1",
        "lstm",
        40 * 1024,
        _CARTPOLE,
        alg="ppo2",
        num_env=8,
        peer="sb3_contrib:RecurrentPPO",
        peer_learn={"n_steps": 128, "batch_size": 256, "n_epochs": 4, "gamma": 0.99, "gae_lambda": 0.95}
        | {"learning_rate": 3e-4, "clip_range": 0.2, "ent_coef": 0.0, "policy_kwargs": _SHARED_LSTM},
    ),
    "pong": _case(
        "PongNoFrameskip-v4",
        "cnn",
        16 * 1024,
        _CARTPOLE | {"lr": 2.5e-4, "cliprange": 0.1, "ent_coef": 0.01},
        num_env=8,
    ),
    # Counted while four updates in five are from the replay. Its original ran where the yardstick took these seconds.
    "acer-pong": _case(
        "PongNoFrameskip-v4",
        "cnn",
        60 * 160,
        {"nsteps": 20, "replay_ratio": 4, "replay_start": 200, "lrschedule": "constant"},
        alg="acer",
        num_env=8,
        warmup=20 * 160,
        original={"steps_per_second": 142, "matmul_seconds": 0.054},
    ),
    "sac": _off_policy("sac", "stable_baselines3:SAC", (256, 256), 256),
    "sac-sbx": _off_policy("sac", "sbx:SAC", (256, 256), 256),
    "sac-batch100": _off_policy("sac", "stable_baselines3:SAC", (256, 256), 100),
    "sac-tqc": _critics("sb3_contrib:TQC", critic="tqc"),
    "sac-tqc-sbx": _critics("sbx:TQC", critic="tqc"),
    # The peers' actors have batch renormalization too, which SBX can leave out as we do.
    "sac-crossq": _critics("sb3_contrib:CrossQ", critic="crossq"),
    "sac-crossq-sbx": _critics(
        "sbx:CrossQ", further={"policy_kwargs": {"net_arch": [256, 256], "batch_norm_actor": False}}, critic="crossq"
    ),
    "sac-droq-sbx": _droq("sbx:SAC"),
    "td3": _off_policy("td3", "stable_baselines3:TD3", (400, 300), 256),
    "ddpg": _off_policy("ddpg", "stable_baselines3:DDPG", (400, 300), 256),
    "a2c-cartpole": _a2c("CartPole-v1", 8, "mlp", 6000 * 40, value_network="copy"),
    "a2c-pong": _a2c("PongNoFrameskip-v4", 16, "cnn", 250 * 80),
    # Fisher-vector products on a fifth of the batch, and the value function in minibatches of 64, on both sides.
    "trpo": _case(
        "HalfCheetah-v5",
        "mlp",
        40 * 1024,
        {"timesteps_per_batch": 1024, "max_kl": 0.01, "cg_iters": 10, "cg_damping": 0.1, "gamma": 0.99, "lam": 0.98}
        | {"vf_iters": 5, "vf_stepsize": 1e-3, "normalize_observations": False},
        alg="trpo_mpi",
        warmup=2 * 1024,
        normalize=True,
        peer="sb3_contrib:TRPO",
        peer_learn={"n_steps": 1024, "batch_size": 64, "target_kl": 0.01, "cg_max_steps": 10, "cg_damping": 0.1}
        | {"gamma": 0.99, "gae_lambda": 0.98, "n_critic_updates": 5, "learning_rate": 1e-3}
        | {"sub_sampling_factor": 5},
    ),
    # 80 steps on the whole batch; neither side stops them early.
    "ppo": _case(
        "HalfCheetah-v5",
        "dense",
        10 * 4000,
        {"steps_per_epoch": 4000, "hidden_sizes": [64, 64], "activation": "tanh", "clip_ratio": 0.2, "pi_lr": 3e-4}
        | {"train_pi_iters": 80, "train_v_iters": 80, "target_kl": 1e6, "num_test_episodes": 0},
        alg="ppo",
        warmup=4000,
        peer="stable_baselines3:PPO",
        peer_learn={"n_steps": 4000, "batch_size": 4000, "n_epochs": 80, "clip_range": 0.2, "learning_rate": 3e-4}
        | {"gae_lambda": 0.97},
    ),
    "deepq-cartpole": _DQN_CARTPOLE,
    # A gradient step for each step of each environment; those of a step of all are one compiled call.
    "deepq-cartpole-8": _DQN_CARTPOLE | {"num_env": 8, "steps": 40_000},
    # One gradient step per environment step, eight at a time.
    "deepq-cartpole-together": _DQN_CARTPOLE
    | {"learn": _DQN_CARTPOLE["learn"] | {"train_freq": 8, "gradient_steps": 8}},
    # To be compared with deepq-cartpole, in the same run.
    "deepq-cartpole-prioritized": _DQN_CARTPOLE
    | {"peer": None, "learn": _DQN_CARTPOLE["learn"] | {"prioritized_replay": True}},
    "deepq-pong": _DQN_PONG,
    # One gradient step per environment step; both of a vector step are one compiled call.
    "deepq-pong-8": _DQN_PONG | {"num_env": 8, "steps": 16_000},
    # Not for its speed but for growth_mib: most of its steps are taken after the replay is full.
    "sac-memory": _MEMORY
    | {"env": "Pendulum-v1", "steps": 420_000, "warmup": 20_000}
    | {"learn": _MEMORY["learn"] | {"replay_size": 20_000, "num_update": 5}},
}

# Sixteen environments with as many steps in an update; the peer has them in its process, its faster worker for these.
_SIXTEEN = {"num_env": 16}
CASES |= {
    "halfcheetah-16": CASES["halfcheetah"] | _SIXTEEN | {"learn": CASES["halfcheetah"]["learn"] | {"nsteps": 128}},
    "trpo-16": CASES["trpo"] | _SIXTEEN | {"peer_learn": CASES["trpo"]["peer_learn"] | {"n_steps": 64}},
    "ppo-16": CASES["ppo"] | _SIXTEEN | {"peer_learn": CASES["ppo"]["peer_learn"] | {"n_steps": 250}},
    "a2c-halfcheetah-16": _a2c("HalfCheetah-v5", 16, "mlp", 1000 * 80, value_network="copy") | {"normalize": True},
}


def _steps_per_update(case: dict[str, Any]) -> int:
    """Count the environment steps from one update to the next."""
    learn = case["learn"]
    if "nsteps" in learn:
        return case["num_env"] * learn["nsteps"]
    # Names of the steps argument in off-policy, baselines' on-policy and Spinning Up's on-policy algorithms.
    names = ("train_freq", "update_every", "timesteps_per_batch", "steps_per_epoch")
    return next(learn[name] for name in names if name in learn)


COLUMNS = ("case", "program", "round", "steps_per_second", "peak_mib", "growth_mib", "matmul_seconds")
YARDSTICK_SIZE = 2048
# Width of a case's name in the table.
WIDTH = max(map(len, CASES))
PROGRAM_WIDTH = 29
# Baseline of the comparison of ranks.
ONE_RANK = "1 rank, 1 thread"
# End of a program's name where its speed is by the processor time of one core.
ONE_CORE = ", one core"
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
PEERS = {"stable_baselines3": "stable-baselines3", "sb3_contrib": "sb3-contrib", "sbx": "sbx"}
# Programs that the others are compared with.
_BASES = (*PEERS.values(), *(f"{name}{ONE_CORE}" for name in PEERS.values()), ONE_RANK)


def matmul_seconds(repeats: int = 10) -> float:
    """Measure the median time of a float32 matrix product, by which numbers of two machines are compared."""
    matrix = np.random.default_rng(0).standard_normal((YARDSTICK_SIZE, YARDSTICK_SIZE), np.float32)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        matrix @ matrix
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(
    cases: Iterable[str],
    precisions: Iterable[str],
    peer_python: str | None,
    rounds: int,
    fraction: float,
    ranks: int | None = None,
    clock: str = "wall",
) -> Iterator[dict[str, object]]:
    """Run every case, and yield a row of COLUMNS for each measurement.

    Args:
        cases: names of the cases.
        precisions: precisions of our side; bfloat16 is measured for convolutions only.
        peer_python: path of a Python that has Stable-Baselines3; None measures our side alone.
        rounds: number of runs of each program.
        fraction: share of each case's steps; a smaller share is faster and noisier.
        ranks: number of MPI ranks of one thread each, compared with one such rank in place of a peer.
        clock: 'wall', or 'cpu' for the processor time of one core and one thread, where other work shares the machine.
    """
    cases, precisions = list(cases), list(precisions)
    check_at_least(1, rounds=rounds)
    if ranks is not None:
        check_at_least(2, ranks=ranks)
        if peer_python is not None:
            raise bad_argument("ranks", ranks, "without a peer, which has no ranks")
        if clock == "cpu":
            raise bad_argument("clock", clock, "'wall' with ranks, which need a core each")
    for kind, given, known in (("case", cases, CASES), ("precision", precisions, PRECISIONS)):
        for name in given:
            if name not in known:
                raise unknown(kind, name, known)
    if clock == "cpu":
        take_one_core()
    for case in cases:
        steps = _steps(case, fraction)
        programs = (
            _programs(case, steps, precisions, peer_python, clock) if ranks is None else _ranks(case, steps, ranks)
        )
        for number in range(rounds):
            for program, command in programs.items():
                row = {"case": case, "program": program, "round": number + 1, "matmul_seconds": matmul_seconds()}
                row |= _result(command)
                print(
                    f"{case:<{WIDTH}} {program:<{PROGRAM_WIDTH}} {row['steps_per_second']:>10,.0f} steps/s", flush=True
                )
                yield row


def _programs(
    case: str, steps: int, precisions: list[str], peer_python: str | None, clock: str
) -> dict[str, list[str]]:
    """Make the commands that measure our side in each precision, and the peer."""
    own = [one for one in precisions if one == "float32" or sides.of_pixels(CASES[case])]
    programs = {f"tfbaselines {precision}": _ours(case, steps, precision, clock) for precision in own}
    peer = None if "original" in CASES[case] else CASES[case].get("peer", "stable_baselines3:PPO")
    if peer_python and peer:
        program = PEERS[peer.split(":")[0]]
        programs[program] = [peer_python, sides.__file__, "peer", _words(case, clock), str(steps)]
    if clock == "cpu":
        return {f"{program}{ONE_CORE}": [*_one_thread(), *command] for program, command in programs.items()}
    return programs


def _ranks(case: str, steps: int, ranks: int) -> dict[str, list[str]]:
    """Make the commands that measure one rank, and several."""
    ours = _ours(case, steps, "float32")
    return {
        ONE_RANK: [*_one_thread(), *ours],
        f"{ranks} ranks, 1 thread": [*_one_thread(), *mpi.mpirun_command(ranks), *ours],
    }


def _one_thread() -> list[str]:
    return ["env", *(f"{name}=1" for name in ONE_THREAD)]


def take_one_core() -> None:
    """Keep this process and those that it starts on one core, so that no library computes with more threads."""
    if not hasattr(os, "sched_setaffinity"):
        raise bad_argument("clock", "cpu", "'wall': only Linux keeps processes on one core")
    os.sched_setaffinity(0, {max(mpi.usable_cores())})


def _ours(case: str, steps: int, precision: str, clock: str = "wall") -> list[str]:
    return [sys.executable, "-m", sides.__name__, "ours", _words(case, clock), str(steps), precision]


def _words(case: str, clock: str) -> str:
    return json.dumps(CASES[case] | {"clock": clock})


def _steps(case: str, fraction: float) -> int:
    """Round a case's steps to whole updates, at least two after the warm-up."""
    per_update = _steps_per_update(CASES[case])
    least = CASES[case].get("warmup", per_update) // per_update + 2
    return max(least, round(fraction * CASES[case]["steps"] / per_update)) * per_update


def _result(command: list[str]) -> dict[str, float]:
    """Run a program and parse its results: the sum of all ranks' steps, and the largest memory."""
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"})
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UsageError(f"{textwrap.shorten(' '.join(command), 120)} failed: {last}")
    # Several ranks may print on one line.
    results = [json.loads(one) for one in re.findall(r"\{.*?\}", done.stdout)]
    largest = {name: max(result[name] for result in results if name in result) for name in {*itertools.chain(*results)}}
    return largest | {"steps_per_second": sum(result["steps_per_second"] for result in results)}


def summary(rows: list[dict[str, object]]) -> str:
    """Format medians, peak memory and the ratios to the peer, or to one rank, as a table."""
    import pandas as pd

    table = pd.DataFrame(rows)
    lines = [f"{'case':<{WIDTH}} {'program':<{PROGRAM_WIDTH}} {'steps/s':>10} {'ratio':>7} {'peak MiB':>9}"]
    for case, of_case in table.groupby("case", sort=False):
        by_program = of_case.groupby("program", sort=False)
        speeds, peaks = by_program["steps_per_second"].median(), by_program["peak_mib"].max()
        basis = next((speeds[program] for program in _BASES if program in speeds), None)
        if basis is None and (original := CASES.get(case, {}).get("original")):
            # Its speed on this machine, by the ratio of the matrix products.
            own, here = original["matmul_seconds"], of_case["matmul_seconds"].median()
            basis = original["steps_per_second"] * own / here
        for program, speed in speeds.items():
            ratio = f"{speed / basis:.2f}x" if basis else ""
            lines.append(
                f"{case:<{WIDTH}} {program:<{PROGRAM_WIDTH}} {speed:>10,.0f} {ratio:>7} {peaks[program]:>9,.0f}"
            )
    seconds = table["matmul_seconds"].median()
    lines.append(f"float32 matrix product {YARDSTICK_SIZE}x{YARDSTICK_SIZE} in the same run: {seconds:.4f} s")
    return "\n".join(lines)


def write_rows(rows: list[dict[str, object]], path: str) -> None:
    """Write the measurements as CSV."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
