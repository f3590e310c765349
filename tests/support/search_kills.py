"""Kill a search again and again, by SIGKILL at random moments, and count what it lost.

    python tests/support/search_kills.py --kills 50 [--real]

The victims are the search, one of its runs, or both. With --real the runs are those of ppo2 on CartPole, else processes
that write the log of a run. A search has lost nothing if every trial that was finished before a kill is the same at the
end, no trial is finished twice, and no run goes on after it was done.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = Path(__file__).parents[2]
# Optuna's operation that ends a trial, and the states of ended ones.
SET_STATE, ENDED = 6, (1, 2, 3)

FAKE = """
import sys; sys.path.insert(0, {support!r})
from pathlib import Path
import fake_runs
from tfbaselines.search import settings
from tfbaselines.search.command import Plan, carry_out
words = {{"nsteps": "8", "num_env": "1"}}
space = {{"default": {{"lr": {{"low": 1e-5, "high": 1.0, "scale": "log"}}}}}}
own = settings.make("ppo2", "CartPole-v1", words, space, num_timesteps=1000.0, seeds=2, evaluations=5)
plan = Plan(trials={trials}, jobs=2, finalists=1, judge_seeds=0)
carry_out(Path({directory!r}), own, plan, print, fake_runs.command({seconds}))
"""
REAL = ["--alg=ppo2", "--env=CartPole-v1", "--num_timesteps=2000", "--seeds=2", "--evaluations=4", "--jobs=2"]
REAL += ["--evaluate_episodes=2", "--nsteps=64", "--num_env=2", "--nminibatches=4", "--judge_seeds=1"]
REAL += ["--judge_episodes=10"]


def command(directory, trials, real, seconds):
    if real:
        words = [*REAL, f"--trials={trials}", f"--log_path={directory}"]
        return [sys.executable, "-m", "tfbaselines.search", *words]
    code = FAKE.format(support=str(SUPPORT), directory=str(directory), trials=trials, seconds=seconds)
    return [sys.executable, "-c", code]


def journal(directory):
    """Values of ended trials by their number in the journal; raises an error if one ended twice."""
    path = directory / "journal.log"
    ended = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            # The line of a killed process.
            continue
        if entry["op_code"] == SET_STATE and entry["state"] in ENDED:
            assert entry["trial_id"] not in ended, f"trial {entry['trial_id']} ended twice"
            ended[entry["trial_id"]] = entry["state"], entry["values"]
    return ended


def done_runs(directory):
    """Sizes of the logs of runs that are done."""
    logs = {path.name: directory / "trials" / path.name / "progress.csv" for path in directory.glob("cells/done/*")}
    return {name: log.stat().st_size for name, log in logs.items() if log.exists()}


def children(parent):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found


def kill(search, rng):
    """Kill the search, one of its runs, or both; return which."""
    runs = children(search.pid)
    what = rng.choice(["search", "run", "both"])
    if what != "search" and runs:
        os.kill(rng.choice(runs), signal.SIGKILL)
    if what != "run":
        search.kill()
        search.wait()
    return what


def trial(directory, kills, trials, real=False, seconds=0.3, longest=1.5, seed=0):
    """Kill a search `kills` times, let it end, and return the counts; AssertionError if anything is lost."""
    rng, counts = random.Random(seed), Counter()
    known, sizes, search = {}, {}, None
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
    out = open(directory.parent / "search.txt", "ab")  # noqa: SIM115
    start = command(directory, trials, real, seconds)
    while counts["kills"] < kills:
        if search is None or search.poll() is not None:
            assert search is None or search.returncode != 0, "the search ended before all kills: give more --trials"
            search = subprocess.Popen(start, env=environment, stdout=out, stderr=out, cwd=directory.parent)
        time.sleep(rng.uniform(0.0, longest))
        if search.poll() is not None:
            continue
        counts[kill(search, rng)] += 1
        counts["kills"] += 1
        now, running = journal(directory), done_runs(directory)
        assert {number: now.get(number) for number in known} == known, "a finished trial is lost"
        assert {name: running.get(name) for name in sizes} == sizes, "a run went on after it was done"
        known, sizes = now, running
    if search is not None:
        search.wait()
    for _ in range(2):
        search = subprocess.run(start, env=environment, stdout=out, stderr=out, cwd=directory.parent)
    assert search.returncode == 0, (directory.parent / "search.txt").read_text()[-2000:]
    out.close()
    return counts | check(directory, trials, known, sizes)


def check(directory, trials, known, sizes):
    """Check the end of a search against what was finished before the kills."""
    now, running = journal(directory), done_runs(directory)
    assert {number: now.get(number) for number in known} == known, "a finished trial is lost"
    assert {name: running.get(name) for name in sizes} == sizes, "a run went on after it was done"
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(directory / "journal.log")))
    found = optuna.load_study(study_name="search", storage=storage).trials
    counted = [one for one in found if one.user_attrs.get("words")]
    assert len(counted) == trials, f"{len(counted)} trials in place of {trials}"
    # A worker gives a run up that was killed three times before its first checkpoint.
    failed = [one.user_attrs["reason"] for one in counted if one.state.name == "FAIL"]
    assert all("killed too often" in reason or "by SIGKILL 3 times" in reason for reason in failed), failed
    assert all(one.state.is_finished() for one in found)
    assert all(path.read_text() == "end\n" for path in directory.glob("trials/*/ends")), "a run ended twice"
    for path in directory.glob("trials/*/progress.csv"):
        column = "misc/total_timesteps"
        # A run that was killed before its first row has none.
        head, *rows = [line.split(",") for line in path.read_text().splitlines()] or [[column]]
        steps = [float(row[head.index(column)]) for row in rows]
        assert steps == sorted(set(steps)), f"{path} repeats steps"
    # Names with a dot are the scratch files of killed writers.
    left = [path for state in ("open", "running") for path in (directory / "cells" / state).glob("[!.]*")]
    assert not left, left
    states = Counter(one.state.name for one in counted)
    return {"trials": trials, "before arguments": len(found) - len(counted), "runs": len(running), **states}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--longest", type=float, default=1.5, help="longest time between two kills, in seconds")
    parser.add_argument("--directory", type=Path)
    args = parser.parse_args()
    directory = (args.directory or Path(tempfile.mkdtemp())) / "search"
    directory.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    counts = trial(directory, args.kills, args.trials, args.real, longest=args.longest)
    print(f"{directory}: nothing lost, none twice, {time.monotonic() - began:.0f} s: {dict(counts)}")


if __name__ == "__main__":
    main()
