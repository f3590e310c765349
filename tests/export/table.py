"""Exports of every algorithm to every target: the largest difference from model.act over 1,000 observations.

    python -m tests.export.table [--out data/benchmarks/export.md] [--only NAME ...] [--to TARGET ...]

Each policy is trained for a few thousand steps, so that its actions depend on what it sees, and exported; the target's
own checker then runs the test vectors. A refusal is shown with its reason.
"""

import argparse
import contextlib
import io
import sys
import tempfile
import time
from pathlib import Path

from tests.export.speed import HEAD as SPEED_HEAD
from tests.export.speed import markdown, measured
from tfbaselines.errors import UsageError
from tfbaselines.evaluate import load
from tfbaselines.export import TARGETS, check, target
from tfbaselines.export.card import read_card
from tfbaselines.loading import load_tensorflow
from tfbaselines.run import command

DEMOS = Path(__file__).parents[2] / "data" / "demos"
WORLD = "tests.export.worlds:"

# Flags of short runs. Every algorithm once, then images, memories, parts, masks and kinds of actions.
CASES = {
    "a2c": "--alg=a2c --env=CartPole-v1 --num_timesteps=5000",
    "acer": "--alg=acer --env=CartPole-v1 --network=mlp --num_timesteps=5000",
    "acktr": "--alg=acktr --env=Pendulum-v1 --network=mlp --num_timesteps=5000",
    "bc": f"--alg=bc --env=CartPole-v1 --demo_path={DEMOS}/cartpole.npz --num_iterations=5",
    "ddpg": "--alg=ddpg --env=Pendulum-v1 --num_timesteps=1500",
    "deepq": "--alg=deepq --env=CartPole-v1 --num_timesteps=3000",
    "es": "--alg=es --env=Pendulum-v1 --num_iterations=3 --num_agents=4",
    "gail": f"--alg=gail --env=Pendulum-v1 --demo_path={DEMOS}/pendulum.npz --num_timesteps=4096",
    "her": "--alg=her --env=tfbaselines.envs.tiny:tfbaselines/PointReach-v0 --num_timesteps=1500",
    "ppo": "--alg=ppo --env=CartPole-v1 --num_timesteps=8000",
    "ppo1": "--alg=ppo1 --env=Pendulum-v1 --num_timesteps=4096",
    "ppo2": "--alg=ppo2 --env=LunarLander-v3 --num_timesteps=8192",
    "qlearning": "--alg=qlearning --env=CartPole-v1 --num_timesteps=5000 --grid_size=8",
    "sac": "--alg=sac --env=Pendulum-v1 --num_timesteps=1500",
    "td3": "--alg=td3 --env=Pendulum-v1 --num_timesteps=1500",
    "trpo": "--alg=trpo --env=CartPole-v1 --num_timesteps=8000",
    "trpo_mpi": "--alg=trpo_mpi --env=Pendulum-v1 --network=mlp --num_timesteps=4096",
    "vpg": "--alg=vpg --env=CartPole-v1 --num_timesteps=8000",
    "ppo2, normalized observations": "--alg=ppo2 --env=HalfCheetah-v5 --num_timesteps=4096",
    "ppo2, LSTM": "--alg=ppo2 --env=CartPole-v1 --network=lstm --nminibatches=1 --num_timesteps=4096",
    "a2c, images and LSTM": f"--alg=a2c --env={WORLD}Camera-v0 --network=lstm --num_timesteps=1000",
    "sac, memory": "--alg=sac --env=Pendulum-v1 --memory_size=16 --num_timesteps=600 --start_steps=200",
    "ppo2, images (Pong)": "--alg=ppo2 --env=PongNoFrameskip-v4 --num_env=4 --num_timesteps=1024",
    "deepq, images (Pong)": "--alg=deepq --env=PongNoFrameskip-v4 --num_timesteps=300 --buffer_size=500",
    "ppo2, image and parts": f"--alg=ppo2 --env={WORLD}Camera-v0 --network=cnn_small --num_timesteps=2048",
    "sac, parts": f"--alg=sac --env={WORLD}Parts-v0 --num_timesteps=600 --start_steps=200",
    "ppo2, joined parts": f"--alg=ppo2 --env={WORLD}Parts-v0 --network=mlp --num_timesteps=2048",
    "ppo2, action masks": f"--alg=ppo2 --env={WORLD}Masked-v0 --network=mlp --num_timesteps=2048",
    "deepq, action masks": f"--alg=deepq --env={WORLD}Masked-v0 --num_timesteps=2000",
    "ppo2, MultiDiscrete": f"--alg=ppo2 --env={WORLD}Numbers-v0 --network=mlp --num_timesteps=2048",
    "ppo2, MultiBinary": f"--alg=ppo2 --env={WORLD}Bits-v0 --network=mlp --num_timesteps=2048",
}
HEAD = """# Exports

The largest difference of an exported policy's actions, and of its new memory, from `model.act` over 1,000
observations of the environment. Differences of numbers above 1 are divided by their magnitude.
`python -m tests.export.table` makes this page."""

# Cases that are exported a second time, with sampled actions.
SAMPLED = ("ppo2", "sac", "ppo1", "ppo2, MultiDiscrete", "ppo2, MultiBinary", "deepq")
# Cases that are exported with int8 weights, for their returns.
INT8 = ("ppo", "trpo", "bc", "deepq", "td3", "qlearning", "ppo2, images (Pong)")


def trained(flags: str, place: Path):
    """Train a policy unless its directory is there, and load it."""
    if not (place / "config.json").exists():
        with contextlib.redirect_stdout(io.StringIO()):
            if command([*flags.split(), "--seed=0", f"--log_path={place}", "--log_format=csv"]) != 0:
                raise SystemExit(f"the run failed: {flags}")
    return load(place, trust=True)


def cell(model, to: str, place: Path, **options) -> str:
    """Export and check; return the largest difference, or the reason of a refusal."""
    try:
        model.export(place, to, episodes=0, **options)
        return f"{check(place)[0]:.1e}"
    except UsageError as error:
        return f"refused: {error}"


def int8_rows(models, place: Path):
    """Yield rows of the returns of int8 exports beside those of the models."""
    for name in INT8:
        if name in models:
            models[name].export(place, "litert", precision="int8")
            card = read_card(place)
            one, other = card["score"], card["score_of_export"]
            change = abs(other["mean"] - one["mean"]) / max(abs(one["mean"]), 1e-9)
            yield [
                name,
                f"{one['mean']:.2f} ± {one['std']:.2f}",
                f"{other['mean']:.2f} ± {other['std']:.2f}",
                f"{change:.1%}",
            ]


def main(argv: list[str] | None = None) -> int:
    """Train, export, check, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="file of the table; standard output without it")
    parser.add_argument("--runs", type=Path, help="directory of the runs, which are trained if they are not there")
    parser.add_argument("--only", nargs="*", choices=CASES, help="names of cases")
    parser.add_argument("--to", nargs="*", choices=TARGETS, default=list(TARGETS), help="targets")
    args = parser.parse_args(argv)
    load_tensorflow()
    available = []
    for to in args.to:
        try:
            target(to)
            available.append(to)
        except UsageError as error:
            print(error, file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        page = table(args.only or list(CASES), available, args.runs or Path(scratch) / "runs", Path(scratch) / "out")
    if args.out:
        args.out.write_text(page, encoding="utf-8")
    else:
        print(page)
    return 0


def table(names: list[str], targets: list[str], runs: Path, place: Path) -> str:
    """Return the page."""
    rows, models = [], {}
    for name in names:
        begin = time.time()
        models[name] = model = trained(CASES[name], runs / "".join(c if c.isalnum() else "_" for c in name))
        rows.append([name, *(cell(model, to, place / to) for to in targets)])
        if name in SAMPLED:
            rows.append([f"{name}, sampled", *(cell(model, to, place / to, sampled=True) for to in targets)])
        print(f"{time.time() - begin:.0f} s: {rows[-1]}", file=sys.stderr, flush=True)
    parts = [
        HEAD,
        markdown(["policy", *targets], rows),
    ]
    if "ppo2" in models:
        text = "One action of ppo2 on LunarLander-v3, 2 layers of 64 units, one observation a call:"
        parts += [text, markdown(SPEED_HEAD, measured(models["ppo2"], targets, place / "speed"))]
    if "litert" in targets:
        head = ["policy", "return of the model", "return of the export", "difference"]
        parts += ["LiteRT with int8, 20 episodes each:", markdown(head, list(int8_rows(models, place / "int8")))]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
