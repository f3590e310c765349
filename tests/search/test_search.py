"""A search: its trials, its files, what it refuses, and what kills leave."""

import json
import os
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import commands
import fake_runs
import pytest
import search_kills

from tfbaselines.cli.sections import below
from tfbaselines.errors import UsageError
from tfbaselines.files import read_document
from tfbaselines.search import __main__ as command_line
from tfbaselines.search import episodes, search, settings
from tfbaselines.search.board import Board
from tfbaselines.search.command import Plan, carry_out
from tfbaselines.search.trials import RETURN, Trials, evaluations, score_of
from tfbaselines.study.store import OPEN, Member, Study
from tfbaselines.training import callbacks

SPACE = {"default": {"lr": {"low": 1e-5, "high": 1.0, "scale": "log"}, "activation": ["tanh", "relu"]}}
WORDS = {"nsteps": "8", "noptepochs": "1"}


def carried_out(directory, trials=16, **budget):
    """A search with runs in no time; its lines, and its result."""
    own = settings.make("ppo2", "CartPole-v1", WORDS, SPACE, **{"num_timesteps": 1000.0, "evaluations": 10} | budget)
    lines = []
    plan = Plan(trials=trials, jobs=3, finalists=1, judge_seeds=0)
    return own, lines, carry_out(directory, own, plan, lines.append, fake_runs.command())


def test_a_search_finds_the_best_rate_and_says_what_mattered(tmp_path):
    own, lines, found = carried_out(tmp_path / "s", seeds=3)
    board = Board(tmp_path / "s", own)
    finished, early = board.trials("COMPLETE"), board.trials("PRUNED")
    assert len(finished) + len(early) == 16 and len(finished) >= 3
    # The first trial has the defaults; the best rate is 1e-3.
    assert board.trials()[0].params == {"lr": 3e-4, "activation": "tanh"}
    assert found.score == max(trial.value for trial in finished) > 80
    for trial in finished:
        scores = trial.user_attrs["scores"]
        assert len(scores) == 3 and trial.value == pytest.approx(sum(scores) / 3)
        # Each evaluation of the first run is reported once, the last ones are its score.
        assert sorted(trial.intermediate_values) == list(range(1, 11))
        assert scores[0] == pytest.approx((trial.intermediate_values[9] + trial.intermediate_values[10]) / 2)
    reasons = " ".join(trial.user_attrs["reason"] for trial in early)
    assert "lost the race" in reasons
    raced = [trial for trial in early if trial.user_attrs["reason"] == "lost the race"]
    assert all(1 <= len(trial.user_attrs["scores"]) < 3 for trial in raced)
    assert re.fullmatch(r"trial \d+: .+; best [\d.]+ \(trial \d+\); 16/16 done", lines[16])
    assert re.search(r"; 8/16 done, about .+ left$", lines[8])
    # --config reads the file, and the report shows its pictures.
    values, _ = below({"config": str(tmp_path / "s" / "best.yaml")}, {})
    assert {"alg": "ppo2", "env": "CartPole-v1", **WORDS, **found.arguments}.items() <= values.items()
    report = (tmp_path / "s" / "report.md").read_text()
    pictures = re.findall(r"\]\((\w+\.png)\)", report)
    assert {"history.png", "importances.png", "slices.png", "evaluations.png"} <= set(pictures)
    assert all((tmp_path / "s" / name).stat().st_size > 1000 for name in pictures)
    importances = board.importances()
    assert importances["lr"] > importances["activation"]
    # The same command does nothing again, and more trials go on from there.
    before = (tmp_path / "s" / "journal.log").read_text()
    assert carried_out(tmp_path / "s", seeds=3)[2] == found
    assert (tmp_path / "s" / "journal.log").read_text() == before
    carried_out(tmp_path / "s", trials=18, seeds=3)
    assert len(Board(tmp_path / "s", own).trials()) == 18
    assert {path.read_text() for path in tmp_path.glob("s/trials/*/ends")} == {"end\n"}


def test_new_seeds_and_the_last_policies_choose_among_the_best_trials(tmp_path, monkeypatch):
    """Luck made the third and the last one the best; one of the others fails on its new seed."""
    own = settings.make("ppo2", "CartPole-v1", WORDS, SPACE, num_timesteps=1000.0, evaluations=5, seeds=1)
    settings.keep(tmp_path, own)
    board = Board(tmp_path, own)
    # The last policies have 100 (1 - |log10(lr) + 3|), and the one of the first trial's own seed has got worse.
    returns = {
        "00000-s0": 97.0,
        "00000-s1": 115.0,
        "00002-s0": 52.0,
        "00002-s1": 67.0,
        "00004-s0": 0.0,
        "00004-s1": 15.0,
    }
    played = []

    def evaluate(command, **_):
        played.append(os.path.basename(command[3]))
        assert command[-3:] == ["--episodes=100", "--num_env=10", "--seed=2000"]
        return subprocess.CompletedProcess(command, 0, json.dumps({"mean": returns[played[-1]]}), "")

    monkeypatch.setattr(episodes, "subprocess", SimpleNamespace(run=evaluate))
    for lr, score in (("1e-3", 99.0), ("1e-2", 40.0), ("3e-3", 120.0), ("0.6", 98.0), ("1e-4", 110.0)):
        number = board.ask(first=False)
        (tmp_path / f"trials/0000{number}-s0").mkdir(parents=True)
        board.note(number, "words", {"lr": lr})
        board.finish(number, [score])
    lines, plan = [], Plan(trials=5, finalists=4, judge_seeds=0)
    for _ in range(2):
        found = carry_out(tmp_path, own, plan, lines.append, fake_runs.command())
    assert found.arguments == {"lr": "1e-3"} and found.score == pytest.approx((97.0 + 115.0) / 2)
    assert sorted(played) == sorted(returns)
    assert lines[1:3] == ["finals: trials 2, 4, 0, 3 on 1 more seeds each", lines[2]]
    assert lines[2].startswith("finals: trial 0 has 106, trial 2 has 59.5") and "trial 3" not in lines[2]
    assert sorted(path.name for path in (tmp_path / "finals/trials").iterdir()) == [f"0000{i}-s1" for i in (0, 2, 3, 4)]
    assert {path.read_text() for path in tmp_path.glob("finals/trials/*/ends")} == {"end\n"}
    assert "# trial 0: mean return 106 over 2 seeds of the search" in (tmp_path / "best.yaml").read_text()
    assert "| 0 | 106 | 97 | 115 |" in (tmp_path / "report.md").read_text()


def test_a_run_is_pruned_and_a_number_that_is_not_finite_ends_a_trial(tmp_path):
    own = settings.make("ppo2", "CartPole-v1", WORDS, SPACE, num_timesteps=1000.0, evaluations=10, seeds=1)
    board = Board(tmp_path, own)
    for value in range(5):
        number = board.ask(first=False)
        assert board.report(number, dict.fromkeys(range(1, 11), 100.0 + value)) is False
        board.finish(number, [100.0 + value])
    number = board.ask(first=False)
    # Not before 30 % of the run, and the median of the others is 102.
    assert not board.report(number, {1: 0.0, 2: 0.0}) and not board.report(number, {3: 103.0})
    number = board.ask(first=False)
    assert board.report(number, {3: 101.0})
    # Another process finishes it.
    Board(tmp_path, own).end_early(number, [], "pruned")
    assert board.trials()[number].state.name == "PRUNED" and board.best().value == 104.0
    # A line that a crash has cut off is dropped.
    journal = tmp_path / "journal.log"
    text = journal.read_text()
    journal.write_text(text + '{"op_code":4,"worker')
    assert len(Board(tmp_path, own).trials()) == 7 and journal.read_text() == text


def test_the_sampler_is_the_search_not_the_process(tmp_path):
    own = settings.make("ppo2", "CartPole-v1", WORDS, SPACE, num_timesteps=1000.0)
    one, other = Board(tmp_path / "a", own), Board(tmp_path / "b", own)
    for _ in range(3):
        one.ask(first=False)
    for _ in range(3):
        # A new process each time.
        other = Board(tmp_path / "b", own)
        other.ask(first=False)
    found = [trial.params for trial in one.trials()]
    assert found == [trial.params for trial in other.trials()] and found[0] != found[1]


def test_the_score_of_a_run(tmp_path):
    assert RETURN == callbacks.RETURN
    rows = "TotalEnvInteracts\tevaluation/return\n50\tnan\n120\t1.0\n180\t1.0\n230\t2.0\n500\t5.0\n6"
    (tmp_path / "progress.txt").write_text(rows)
    assert evaluations(tmp_path, 100) == {1: 1.0, 2: 2.0, 5: 5.0}
    assert score_of({number: float(number) for number in range(1, 11)}) == 9.5
    assert score_of({1: 3.0}) == 3.0
    (tmp_path / "progress.txt").write_text("")
    assert evaluations(tmp_path, 100) == {} == evaluations(tmp_path / "none", 100)


def test_bad_input_is_one_line_and_nothing_is_lost(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.yaml").write_text("default:\n  lrr: [1, 2]\n")
    words = ["--alg=ppo2", "--env=CartPole-v1", "--trials=1"]
    mistakes = {
        "unknown algorithm 'ppo3': did you mean 'ppo'": ["--alg=ppo3"],
        "environment 'CartPol-v1'": ["--env=CartPol-v1"],
        "unknown argument --nstep of ppo2": ["--nstep=4"],
        "nsteps='a' is not valid": ["--nsteps=a"],
        "unknown argument --lrr of ppo2": ["--space=space.yaml"],
        "trials=0 is not valid: at least 1": ["--trials=0"],
        "timeout=-1.0 is not valid: minutes above 0": ["--timeout=-1"],
        "num_timesteps=0.0 is not valid": ["--num_timesteps=0"],
        "--evaluate_every is not an argument of a search's runs": ["--evaluate_every=10"],
    }
    for message, flags in mistakes.items():
        assert command_line.main([*words, *flags]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1, error
    assert not (tmp_path / "logs").exists()
    with pytest.raises(SystemExit):
        command_line.main(["--alg=ppo2"])
    assert "the following arguments are required: --env" in capsys.readouterr().err


def test_a_directory_of_another_search_is_refused(tmp_path):
    directory = tmp_path / "s"

    def begin(env="CartPole-v1", words=WORDS, space=SPACE, **budget):
        return settings.keep(directory, settings.make("ppo2", env, words, space, **budget))

    assert begin() and not begin()
    for message, other in {
        "another search, with env=CartPole-v1, not Acrobot-v1: give another --log_path": {"env": "Acrobot-v1"},
        "another search, with nsteps=8, not None": {"words": {"noptepochs": 1}},
        "another search, with seeds=3, not 2": {"seeds": 2},
        "a search in another space (lr)": {"space": {"default": {**SPACE["default"], "lr": [1e-3]}}},
    }.items():
        with pytest.raises(UsageError) as error:
            begin(**other)
        assert message in str(error.value)
    kept = read_document(directory / "search.json", 10**6)
    (directory / "search.json").write_text(json.dumps(kept | {"version": "9.9"}))
    with pytest.raises(UsageError, match=r"a search of tfbaselines 9\.9, and this is "):
        begin()
    (directory / "search.json").write_text("{")
    with pytest.raises(UsageError, match="is damaged"):
        begin()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    with pytest.raises(UsageError, match="is not the directory of a search, and not empty"):
        search("ppo2", "CartPole-v1", log_path=tmp_path / "mine")


def test_without_optuna(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert command_line.main(["--alg=ppo2", "--env=CartPole-v1"]) == 2
    assert capsys.readouterr().err.endswith('a search needs Optuna: pip install "tfbaselines[search]"\n')


def test_kills_lose_no_trial_and_repeat_none(tmp_path):
    """search_kills.py has the long form, with runs of ppo2."""
    counts = search_kills.trial(tmp_path / "s", kills=3, trials=8, seconds=0.2, longest=1.5, seed=1)
    assert counts["kills"] == 3 and counts["COMPLETE"] + counts["PRUNED"] == 8


def test_two_processes_share_a_search_and_its_judgement(tmp_path, monkeypatch):
    evaluated = tmp_path / "evaluated"

    def evaluate(command, **_):
        with open(evaluated, "a") as file:
            file.write(f"{os.path.basename(command[3])}\n")
        time.sleep(0.05)
        return subprocess.CompletedProcess(command, 0, '{"mean": 1.0}', "")

    monkeypatch.setattr(episodes, "subprocess", SimpleNamespace(run=evaluate))
    monkeypatch.setattr("tfbaselines.search.command.write_report", lambda *_: None)
    own = settings.make("ppo2", "CartPole-v1", WORDS, SPACE, num_timesteps=1000.0, evaluations=5, seeds=2)
    directory, plan = tmp_path / "s", Plan(trials=6, judge_seeds=2)
    pid, found = os.fork(), None
    try:
        found = carry_out(directory, own, plan, lambda line: None, fake_runs.command(0.02))
    finally:
        if pid == 0:
            os._exit(found is None or found.judged is None)
    assert os.waitpid(pid, 0)[1] == 0 and found.judged.best == found.judged.defaults == [1.0, 1.0]
    trials = Board(directory, own).trials()
    assert len(trials) == 6 and all(trial.state.is_finished() and trial.user_attrs["words"] for trial in trials)
    # A trial that has ended twice is an error of this function.
    assert len(search_kills.journal(directory)) == 6
    assert {path.read_text() for path in directory.glob("*/*/ends")} == {"end\n"}
    judged = sorted(path.name for path in (directory / "judge/runs").iterdir())
    in_finals = {path.name[:5] for path in (directory / "finals/trials").iterdir()}
    runs = [f"{number}-s{seed}" for number in in_finals for seed in range(4)] + judged
    assert sorted(evaluated.read_text().split()) == sorted(runs) and len(judged) == 4


def test_the_command_as_it_is_typed(tmp_path):
    words = ["--alg=qlearning", "--env=FrozenLake-v1", "--trials=2", "--seeds=1", "--jobs=2", "--judge_seeds=1"]
    words += ["--num_timesteps=400", "--evaluations=2", "--evaluate_episodes=2", "--judge_episodes=2"]
    status, out, err = commands.run("tfbaselines.search", *words, cwd=tmp_path)
    assert status == 0, err
    assert re.search(r"2/2 done\nfinals: .+\nfinals: .+\njudging trial", out)
    assert "arguments: logs/search/qlearning-FrozenLake-v1/best.yaml" in out
    text = (tmp_path / "logs/search/qlearning-FrozenLake-v1/best.yaml").read_text()
    assert "# on 1 unseen seeds: " in text and "# defaults on the same seeds: " in text
    report = (tmp_path / "logs/search/qlearning-FrozenLake-v1/report.md").read_text()
    assert "| 1000000 | " in report


def test_cells_of_dead_workers_go_on_before_new_trials_begin(tmp_path):
    own = settings.make("ppo2", "CartPole-v1", WORDS, SPACE, num_timesteps=1000.0, evaluations=5, seeds=1)
    settings.keep(tmp_path / "s", own)
    study = Study.create(tmp_path / "s")
    board, lines = Board(tmp_path / "s", own), []
    Trials(study, board, 1, say=lines.append).fill(1)
    pid = os.fork()
    if pid == 0:
        # A worker that dies leaves its claim.
        claim = Member(study).__enter__().claim()
        os._exit(claim.cell.name != "00000-s0")
    assert os.waitpid(pid, 0)[1] == 0 and study.names(OPEN) == []
    carry_out(tmp_path / "s", own, Plan(trials=3, finalists=1, judge_seeds=0), lines.append, fake_runs.command())
    ended = [line.partition(":")[0] for line in lines if line.startswith("trial ")]
    assert ended == ["trial 0", "trial 1", "trial 2"]
