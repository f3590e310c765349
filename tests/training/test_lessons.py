"""Lessons of a curriculum: when they begin, on one rank and on several, and what an agent learns from them."""

import json
import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tfbaselines.algs import ppo2
from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.parameters import read_parameters
from tfbaselines.logs import logger
from tfbaselines.logs.logger import read_csv
from tfbaselines.logs.statistics import Episodes
from tfbaselines.run import main
from tfbaselines.training.lessons import Lessons

MAZE = "tfbaselines.envs.tiny:tfbaselines/SparseMaze-v0"
CURRICULUM = {
    "measure": "reward",
    "thresholds": [0.5, 0.5],
    "min_lesson_length": 4,
    "signal_smoothing": False,
    "parameters": {"distance": [1, 2, 3]},
}


class OfRank:
    """A rank that gathers what the others have, which the test says."""

    def __init__(self, others=()):
        self.size, self.others = 1 + len(others), others

    def gather(self, own):
        return [own, *self.others]


def run_of(comm=None, fraction_left=1.0):
    """What lessons read from a run, and the values that its environments got."""
    values = []
    env = SimpleNamespace(set_parameters=lambda given: values.append(given["distance"]))
    own = {"episodes": Episodes(), "env": env, "envs": [env], "columns": {}, "comm": comm or OfRank()}
    own["paused"] = nullcontext
    of_all = {"episodes_of_all_ranks": False, "steps_of_all": lambda: 0}
    return SimpleNamespace(**own, **of_all, fraction_left=fraction_left, values=values)


def end(run, lessons, *returns):
    run.episodes.extend([{"r": value, "l": 1} for value in returns])
    lessons(run)
    return run.columns["lesson"]


def test_a_lesson_ends_when_its_latest_episodes_pass_the_threshold():
    run, lessons = run_of(), Lessons(read_parameters(CURRICULUM))
    lessons.begin(run)
    assert run.values == [1] and run.columns == {"lesson": 0}
    # Three episodes are too few, and a mean at the threshold is not above it.
    assert [end(run, lessons, 1, 1, 1), end(run, lessons, -1), end(run, lessons, 0.5, 1)] == [0, 0, 0]
    assert end(run, lessons, 1, 1) == 1 and run.values == [1, 2]
    # Its successor counts its own episodes, also after a resume; without news nothing begins.
    assert end(run, lessons, 1, 1) == 1
    again, resumed = Lessons(read_parameters(CURRICULUM)), run_of()
    again.restore(json.loads(json.dumps(lessons.state())))
    resumed.episodes.count = run.episodes.count
    again.begin(resumed)
    assert resumed.values == [2]
    assert [end(resumed, again, 1), end(resumed, again), end(resumed, again, 1), end(resumed, again, 1)] == [1, 1, 2, 2]
    assert resumed.values == [2, 3]


def test_a_smoothed_return_and_progress():
    smoothed = Lessons(read_parameters(CURRICULUM | {"min_lesson_length": 1, "signal_smoothing": True}))
    run = run_of()
    smoothed.begin(run)
    # 0.75 of 0.6 alone is 0.45; with a quarter of that it is 0.5625.
    assert [end(run, smoothed, 0.6), end(run, smoothed, 0.6)] == [0, 1]
    by_progress = Lessons(read_parameters(CURRICULUM | {"measure": "progress", "min_lesson_length": 0}))
    for fraction_left, lesson in ((0.6, 0), (0.45, 1), (0.45, 2)):
        run = run_of(fraction_left=fraction_left)
        by_progress.begin(run)
        assert end(run, by_progress) == lesson


def test_ranks_agree_on_the_lesson():
    """This one has two good episodes, and the other two that pull the mean over or under the threshold."""
    for others, lesson in (((2, [1, 1]), 1), ((2, [-3, -3]), 0), ((0, []), 0)):
        run, lessons = run_of(OfRank([others])), Lessons(read_parameters(CURRICULUM))
        lessons.begin(run)
        assert end(run, lessons, 1, 1) == lesson


def maze(curriculum):
    parameters = None
    if curriculum:
        parameters = CURRICULUM | {"thresholds": [0.7] * 3, "min_lesson_length": 20}
        parameters |= {"parameters": {"distance": [2, 6, 16, 38]}}
    return make_vec_env(MAZE, num_env=8, seed=0, env_kwargs={"size": 20}, env_parameters=parameters)


def test_a_curriculum_solves_a_maze_that_the_flat_task_does_not(tmp_path):
    options = {"nsteps": 64, "ent_coef": 0.01, "lr": 1e-3, "log_interval": 1, "seed": 0, "total_timesteps": 9000}
    for curriculum in (False, True):
        with logger.scoped_configure(str(tmp_path / str(curriculum)), ["csv"]):
            ppo2.learn("mlp", maze(curriculum), num_hidden=32, **options)
    flat, taught = (read_csv(tmp_path / str(one) / "progress.csv") for one in (False, True))
    assert flat["eprewmean"].iloc[-1] == 0 and "lesson" not in flat
    assert taught["lesson"].iloc[-1] == 3 and taught["eprewmean"].iloc[-1] > 0.9


def test_the_command_line_reads_and_keeps_the_files(tmp_path, capsys):
    sampler, curriculum = tmp_path / "s.yaml", tmp_path / "c.json"
    sampler.write_text("resampling-interval: 50\nepisode_len: {sampler-type: uniform, min_value: 8, max_value: 9}\n")
    curriculum.write_text(json.dumps(CURRICULUM | {"thresholds": [-1, -1], "min_lesson_length": 1}))
    log = tmp_path / "log"
    words = [f"--env={MAZE}", "--nsteps=64", "--num_hidden=4", "--log_interval=1", "--noptepochs=1", "--seed=0"]
    main([*words, f"--env_parameters={sampler},{curriculum}", f"--log_path={log}", "--num_timesteps=128"])
    sampler.unlink()
    curriculum.unlink()
    # Resumed, the run has the files' content; an evaluation is in the last lesson.
    main([f"--resume={log}", "--num_timesteps=256"])
    assert read_csv(log / "progress.csv")["lesson"].tolist() == [1, 2, 2, 2]
    config = json.loads((log / "config.json").read_text())
    last = read_parameters(config["env"]["env_parameters"]).of_last_lesson()
    assert last.interval == 50 and last.values()["distance"] == 3
    config["given"]["env_parameters"] = str(sampler)
    (log / "config.json").write_text(json.dumps(config))
    for given, message in {
        f"--resume={log}": "'env_parameters' of 'given' is not the content of files",
        f"--env_parameters={sampler}": "s.yaml' cannot be read (no such file or directory)",
        "--sampler=s.yaml": "unknown argument --sampler of ppo2 with network mlp: it is --env_parameters=FILE here",
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            main([given])
