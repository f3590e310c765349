"""Public threads in which a run did not learn and the cause was named, made anew as small runs.

    python tests/doctor/threads.py DIR [--only keon37 ...] [--list] [--out data/benchmarks/doctor_threads.csv]

trains each in DIR/NAME, asks the doctor with and without --probe, and applies its command for the likeliest cause.
What is finished is left out, so the command may be stopped and given again. A score is the mean
return of the last fifth of the training, or of 20 episodes of the most likely actions where the environment of the
training is the fault. The doctor reads neither the names of threads nor those of faults.
"""

import argparse
import csv
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

COLUMNS = ("thread", "link", "cause", "files_first", "files_second", "files_place", "probe_first", "probe_second")
COLUMNS += ("probe_place", "before", "remedy", "after", "as_there")
EPISODES = 20
# Seconds in which probes may begin: those of the command are for an idle machine.
PATIENCE = 2400.0
REPORTED = "tests.doctor.reported"


class Thread(NamedTuple):
    """One thread.

    Attributes:
        name: name of the run's directory.
        link: address of the thread.
        reported: what its first message reports.
        found: the cause that the thread names.
        cause: the doctor's name of that cause.
        flags: flags of the run that has the fault.
        mended: flags that mend it as the thread does; None leaves a flag out.
        scored: arguments of the environment in which policies are scored, where these are others than in training.
    """

    name: str
    link: str
    reported: str
    found: str
    cause: str
    flags: str
    mended: dict[str, str | None]
    scored: dict[str, Any] | None = None


CARTPOLE_DQN = (
    "--alg=deepq --env=CartPole-v1 --num_timesteps=8000 --print_freq=10 --save_replay_buffer=False --gamma=0.95 "
    "--lr=0.001 --learning_starts=32 --dueling=False --double_q=False --hiddens=[] --num_hidden=24 "
    "--epsilon_decay=0.995 --exploration_final_eps=0.01 "
)
EFFORT = f"--env={REPORTED}:tests/Effort-v0"
THREADS = (
    Thread(
        "keon37",
        "https://github.com/keon/deep-q-learning/issues/37",
        "returns of a Q-learner on CartPole fall to 10",
        "there is no target network",
        "target_copied",
        f"{CARTPOLE_DQN} --batch_size=32 --buffer_size=2000 --target_network_update_freq=1",
        {"target_network_update_freq": "500"},
    ),
    Thread(
        "hill553",
        "https://github.com/hill-a/stable-baselines/issues/553",
        "PPO2 takes the same action throughout the training",
        "the action space has the same number as its lower and its upper bound",
        "action_bounds",
        "--alg=ppo2 --env=Pendulum-v1 --tuned --num_timesteps=60000 --nsteps=256 --nminibatches=16 --lr=5e-4 "
        "--wrapper=tests.doctor.spoiled:ActionBounds(factor=0.0)",
        {"wrapper": None},
    ),
    Thread(
        "sb936",
        "https://github.com/DLR-RM/stable-baselines3/issues/936",
        "TD3 and DDPG do not learn MountainCarContinuous",
        "there is no action noise, so the goal is never found",
        "no_exploration",
        "--alg=ddpg --env=MountainCarContinuous-v0 --num_timesteps=50000 --noise_type=none",
        {"noise_type": "ou_0.5"},
    ),
    Thread(
        "cleanrl198",
        "https://github.com/vwxyzjn/cleanrl/issues/198",
        "PPO gets stuck where effort costs at first and pays later",
        "ends by a time limit count as real ends; values are not bootstrapped there",
        "limits_as_ends",
        f"--alg=ppo2 {EFFORT} --num_timesteps=40000 --num_env=8 --nsteps=64 --gamma=0.97 --lr=1e-3 "
        "--env_kwargs.limit=6 --env_kwargs.told=terminated",
        {"env_kwargs.told": "truncated"},
        {"limit": 100},
    ),
    Thread(
        "gym1577",
        "https://github.com/openai/gym/issues/1577",
        "a Q-network does not improve on CartPole",
        "it learns from the latest step alone; minibatches of a replay made the difference",
        "replay_small",
        f"{CARTPOLE_DQN} --batch_size=1 --buffer_size=1 --target_network_update_freq=100",
        {"buffer_size": "2000", "batch_size": "32"},
    ),
    Thread(
        "baselines1030",
        "https://github.com/openai/baselines/issues/1030",
        "PPO2 does not learn MountainCar, even in a long time",
        "observations are not normalized; with VecNormalize it learns quickly",
        "observation_scale",
        "--alg=ppo2 --env=MountainCar-v0 --tuned --num_timesteps=400000 --normalize=rewards",
        {"normalize": "both"},
    ),
    Thread(
        "garage1165",
        "https://github.com/rlworkgroup/garage/pull/1165",
        "a point environment always returns the same reward",
        "step() never updates the place",
        "actions_ignored",
        f"--alg=ppo2 --env={REPORTED}:tests/StillPoint-v0 --num_timesteps=60000 --num_env=4 --nsteps=128 --lr=1e-3 "
        "--gamma=0.95",
        {"env_kwargs.moves": "True"},
        {"moves": True},
    ),
    Thread(
        "jlrl140",
        "https://github.com/JuliaReinforcementLearning/ReinforcementLearningEnvironments.jl/pull/140",
        "rewards of Acrobot are 0, and -1 at the end of an episode",
        "success and time limit pay the same, so it does not matter what the agent does",
        "rewards_constant",
        f"--alg=deepq --env=Acrobot-v1 --tuned --num_timesteps=20000 --wrapper={REPORTED}:EndReward",
        {"wrapper": None},
        {},
    ),
)


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run(words: list[str], out: Path, seconds: float = 1800) -> int:
    """Run a module with its arguments, with its output in a file."""
    from support.warm import Warm

    with open(out, "w") as output:
        process = Warm(words, ROOT, environment(), output)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def flags_of(text: str) -> dict[str, str]:
    """Return flags by name; one without a value is "True"."""
    pairs = (word.removeprefix("--").partition("=") for word in text.split())
    return {name: value or "True" for name, _, value in pairs}


def train(directory: Path, flags: dict[str, str | None]) -> None:
    """Train a run unless it is finished."""
    if (directory / "finished").exists():
        return
    words = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    words += [f"--log_path={directory}", "--overwrite"]
    status = run(["tfbaselines.run", *words], directory.parent / f"{directory.name}.out")
    if status:
        raise SystemExit(f"{directory.name} ended with status {status}: {directory}.out")
    (directory / "finished").write_text("0\n")


def ask(directory: Path, probe: bool) -> list[dict[str, Any]]:
    """Return the doctor's findings, which are kept beside the run."""
    kept = directory.parent / f"{directory.name}.{'probe' if probe else 'files'}.json"
    if not kept.exists():
        from tfbaselines.doctor.__main__ import defaults
        from tfbaselines.doctor.examine import examine_directory

        report = examine_directory(str(directory), defaults)
        if probe:
            from tfbaselines.probes.examination import examine

            report = report.with_probes(*examine(str(directory), True, PATIENCE))
        kept.write_text(report.as_json())
    return json.loads(kept.read_text())["findings"]


def remedy_of(findings: list[dict[str, Any]]) -> list[str]:
    """Return the words of the first command that mends the likeliest cause; empty if there is none."""
    mending = (found["remedy"] for found in findings if findings[0]["causes"][0] in found["causes"] and found["remedy"])
    return shlex.split(next(mending, ""))[1:]


def apply(directory: Path, words: list[str]) -> Path:
    """Run a command of the doctor unless it is finished; return its directory."""
    mended = directory.with_name(f"{directory.name}-mended")
    if not (mended / "finished").exists():
        status = run([f"tfbaselines.{words[0]}", *words[1:], "--overwrite"], mended.with_suffix(".out"))
        if status:
            raise SystemExit(f"{mended.name} ended with status {status}: {mended}.out")
        (mended / "finished").write_text(f"{shlex.join(words)}\n")
    return mended


def score(directory: Path, thread: Thread) -> float:
    """Return the mean return of the last fifth of a run, or of its policy in another environment."""
    kept = directory.parent / f"{directory.name}.score"
    if not kept.exists():
        kept.write_text(str(late_return(directory) if thread.scored is None else policy_return(directory, thread)))
    return float(kept.read_text())


def late_return(directory: Path) -> float:
    from tfbaselines.doctor.__main__ import defaults
    from tfbaselines.doctor.evidence import of_directory

    returns = of_directory(directory, defaults).episodes.returns
    return float(returns[-max(1, len(returns) // 5) :].mean())


def policy_return(directory: Path, thread: Thread) -> float:
    import gymnasium

    from tfbaselines.evaluate import evaluate

    env = gymnasium.make(flags_of(thread.flags)["env"], **thread.scored)
    return float(evaluate(str(directory), env, EPISODES, deterministic=True, seed=1000, trust=True)["mean"])


def named(cause: str, findings: list[dict[str, Any]]) -> int:
    """Return the place of the first finding that has a cause among its own, from 1; 0 if none has."""
    return next((place for place, found in enumerate(findings, 1) if cause in found["causes"]), 0)


def study(thread: Thread, root: Path) -> dict[str, Any]:
    """Make a thread anew; return a row of COLUMNS."""
    directory, own = root / thread.name, root / f"{thread.name}-as-there"
    flags = {"seed": "0", **flags_of(thread.flags)}
    train(directory, flags)
    train(own, flags | thread.mended)
    row = {"thread": thread.name, "link": thread.link, "cause": thread.cause}
    for name in ("files", "probe"):
        findings = ask(directory, probe=name == "probe")
        words = [f"{found['rule']} {found['certainty']:.2f}" for found in findings[:2]]
        first, second = [*words, "", ""][:2]
        row |= {f"{name}_first": first, f"{name}_second": second, f"{name}_place": named(thread.cause, findings)}
    words = remedy_of(findings)
    flags_only = [word for word in words[1:] if word.partition("=")[0] not in ("--config", "--log_path", "--trust")]
    row |= {"before": f"{score(directory, thread):.1f}", "remedy": " ".join(flags_only)}
    row["after"] = f"{score(apply(directory, words), thread):.1f}" if words else ""
    return row | {"as_there": f"{score(own, thread):.1f}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", nargs="+", choices=[thread.name for thread in THREADS])
    parser.add_argument("--out", type=Path, help="write the rows to a CSV file")
    parser.add_argument("--list", action="store_true", help="print the commands and train nothing")
    parser.add_argument("--train", action="store_true", help="train the runs with the fault and those mended as there")
    args = parser.parse_args()
    root = args.directory.resolve()
    root.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for thread in (one for one in THREADS if args.only is None or one.name in args.only):
        flags = {"seed": "0", **flags_of(thread.flags)}
        if args.list:
            print(f"{thread.link}\n  tfbaselines run {' '.join(f'--{name}={flags[name]}' for name in flags)}")
        elif args.train:
            train(root / thread.name, flags)
            train(root / f"{thread.name}-as-there", flags | thread.mended)
            print(thread.name, *(score(root / f"{thread.name}{end}", thread) for end in ("", "-as-there")), flush=True)
        else:
            rows.append(study(thread, root))
            print(json.dumps(rows[-1]), flush=True)
    if args.out:
        with open(args.out, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
