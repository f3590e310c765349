"""Parameters of environments: files of samplers and curricula, and how their values reach an environment."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.parameterized import ParameterizedEnv
from tfbaselines.envs.parameters import Criterion, Curriculum, Sampler, decoded, encoded, read_parameters
from tfbaselines.envs.state import full_state, restore_full_state
from tfbaselines.errors import UsageError, WorkerError

SAMPLERS = """
resampling-interval: 300
gravity:
  sampler-type: uniform
  min_value: 7
  max_value: 12
wind:
  sampler-type: gaussian
  mean: 1.0
  st_dev: 0.5
scale:
  sampler-type: multirange_uniform
  intervals: [[0, 1], [5, 8]]
"""

LATER = """
behaviors:
  Any:
    trainer_type: ppo
environment_parameters:
  height: 2.5
  mass:
    sampler_type: uniform
    sampler_parameters: {min_value: 1, max_value: 2}
  wall:
    curriculum:
      - name: Low
        completion_criteria: {measure: progress, behavior: Any, threshold: 0.2, require_reset: true}
        value: 1.0
      - name: High
        value: {sampler_type: gaussian, sampler_parameters: {mean: 4, st_dev: 0, seed: 3}}
"""

OLDER = {
    "measure": "reward",
    "thresholds": [0.1, 0.3],
    "min_lesson_length": 5,
    "signal_smoothing": False,
    "parameters": {"distance": [1, 2, 4], "speed": [1.5, 2, 3]},
}


def test_files_of_both_forms(tmp_path):
    sampler, later, older, several = (tmp_path / name for name in ("s.yaml", "l.yaml", "c.json", "m.yaml"))
    sampler.write_text(SAMPLERS)
    later.write_text(LATER)
    older.write_text(json.dumps(OLDER, indent="\t"))
    several.write_text(json.dumps({"Brain": OLDER}))
    read = read_parameters(sampler)
    assert read.interval == 300 and read.curricula == ()
    assert read.fixed == {
        "gravity": Sampler("uniform", (7, 12)),
        "wind": Sampler("gaussian", (1.0, 0.5)),
        "scale": Sampler("multirange_uniform", ((0, 1), (5, 8))),
    }
    assert decoded(json.loads(json.dumps(encoded(read.fixed)))) == read.fixed
    read = read_parameters(f"{later}, {older}")
    wall, older_form = read.curricula
    assert wall == Curriculum(
        "wall", (Criterion(0.2, "progress", 0, True),), {"wall": (1.0, Sampler("gaussian", (4, 0)))}
    )
    assert older_form.criteria == (Criterion(0.1, "reward", 5, False), Criterion(0.3, "reward", 5, False))
    mass = Sampler("uniform", (1, 2))
    assert read.values([0, 1]) == {"height": 2.5, "mass": mass, "wall": 1.0, "distance": 2, "speed": 2}
    assert read.of_last_lesson().fixed == read.values() == read.values([1, 2])
    assert read_parameters(read.as_text()) == read
    assert read_parameters(several).curricula[0].name == "Brain" and read_parameters(OLDER).curricula == (older_form,)


def test_samplers_draw_from_their_distributions():
    rng = np.random.default_rng(0)
    uniform, gaussian, ranges = (
        np.array([sampler.draw(rng) for _ in range(2000)])
        for sampler in (
            Sampler("uniform", (7, 12)),
            Sampler("gaussian", (1.0, 0.5)),
            Sampler("multirange_uniform", ((0, 1), (5, 8))),
        )
    )
    assert 7 <= uniform.min() < 7.1 and 11.9 < uniform.max() <= 12
    assert abs(gaussian.mean() - 1) < 0.05 and abs(gaussian.std() - 0.5) < 0.05
    inside = (ranges <= 1) | (ranges >= 5)
    # Ranges count by their lengths.
    assert inside.all() and abs((ranges <= 1).mean() - 0.25) < 0.04


WRONG = {
    "thresholds must": ({"measure": "reward", "parameters": {"a": [1]}}, "'thresholds' is missing"),
    "length": (
        {**OLDER, "thresholds": [0.1]},
        "parameter 'distance' has 3 values for 1 thresholds: one for each of the 2",
    ),
    "measure": ({**OLDER, "measure": "rewards"}, "measure='rewards' is not valid: did you mean 'reward'"),
    "key": ({**OLDER, "min_lesson_lenght": 3}, "unknown key 'min_lesson_lenght': did you mean 'min_lesson_length'"),
    "smoothing": ({**OLDER, "signal_smoothing": 3}, "signal_smoothing=3 is not valid: true or false"),
    "progress": ({**OLDER, "measure": "progress", "thresholds": [2, 3]}, "threshold=2 is not valid: progress is"),
    "kind": ({"a": {"sampler-type": "unifrom"}}, "unknown sampler-type 'unifrom': did you mean 'uniform'"),
    "type": ({"a": {"sampler_type": "uniform"}}, "'sampler-type' is missing: did you mean it by 'sampler_type'"),
    "bounds": (
        {"a": {"sampler-type": "uniform", "min_value": 3, "max_value": 1}},
        "max_value=1 is not valid: not below",
    ),
    "argument": ({"a": {"sampler-type": "gaussian", "mean": 3}}, "'st_dev' of the sampler gaussian is missing"),
    "pairs": ({"a": {"sampler-type": "multirange_uniform", "intervals": [[1, 2, 3]]}}, r"intervals has \[1, 2, 3\]"),
    "interval": ({"resampling-interval": 0.5}, "resampling-interval=0.5 is not valid"),
    "no interval": (
        {"resampling_interval": 5},
        "unknown key 'resampling_interval': did you mean 'resampling-interval'",
    ),
    "value": ({"environment_parameters": {"a": "much"}}, "value='much' is not valid: a number, or a sampler"),
    "lessons": (
        {"environment_parameters": {"a": {"curriculum": [{"value": 1}, {"value": 2}]}}},
        "'completion_criteria' is",
    ),
    "later key": (
        {"environment_parameters": {"a": {"sampler": 1}}},
        "unknown key 'sampler': did you mean 'sampler_type'",
    ),
    "empty": ({}, "has no parameters of environments"),
}


def test_a_wrong_file_is_one_line_that_names_the_key(tmp_path):
    for document, words in WRONG.values():
        with pytest.raises(UsageError, match=words) as error:
            read_parameters(document)
        assert "\n" not in str(error.value)
    path = tmp_path / "twice.json"
    path.write_text(json.dumps(OLDER))
    with pytest.raises(UsageError, match="'distance' is in two files"):
        read_parameters([path, path])


class Room(gymnasium.Env):
    """The observation is what its parameters are; `width` is an argument, `height` an attribute, `depth` an option."""

    observation_space = spaces.Box(-100, 100, (4,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, width=1.0):
        self._width = width
        self.height = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._depth = (options or {}).get("depth", 1.0)
        self._time = 0
        return self._obs(), {}

    def _obs(self):
        return np.array([self._width, self.height, self._depth, self.np_random.random()])

    def step(self, action):
        self._time += 1
        return self._obs(), 0.0, self._time == 3, False, {}

    def get_state(self):
        return {"depth": self._depth, "time": self._time}

    def set_state(self, state):
        self._depth, self._time = state["depth"], state["time"]


class Told(Room):
    def set_parameters(self, values):
        self._width, self.height = values["wide"], values["high"]


PARAMETERS = {
    "environment_parameters": {
        "width": {"curriculum": [{"value": 2.0, "completion_criteria": {"threshold": 1}}, {"value": 3.0}]},
        "height": {"sampler_type": "uniform", "sampler_parameters": {"min_value": 5, "max_value": 9}},
        "options.depth": 4.0,
    }
}


def episodes(env, count):
    """Observations of steps, in rows by episode."""
    env.reset()
    return [[env.step(np.zeros(env.num_envs, int))[0] for _ in range(3)] for _ in range(count)]


def test_values_reach_the_environment_at_its_resets():
    env = make_vec_env(Room, num_env=2, seed=3, env_parameters=PARAMETERS)
    assert env.parameters.curricula[0].name == "width"
    env.reset()
    last = env.step([0, 0])[0]
    assert np.array_equal(last[:, [0, 2]], [[2, 4], [2, 4]]) and 5 <= last[0, 1] <= 9 and last[0, 1] != last[1, 1]
    state = [full_state(one) for one in env.envs]
    env.set_parameters(env.parameters.values([1]))
    obs = [env.step([0, 0])[0] for _ in range(2)]
    # The episode under way keeps its parameters; the next one has the lesson's.
    assert np.array_equal(obs[0][:, 1:3], last[:, 1:3]) and obs[0][0, 0] == 2 and (obs[1][:, 0] == 3).all()
    assert obs[1][0, 1] != last[0, 1]
    # Restored in the middle of an episode of the first lesson, another environment goes on as this one did.
    other = make_vec_env(Room, num_env=2, seed=8, env_parameters=PARAMETERS)
    other.reset()
    assert all(restore_full_state(one, saved) for one, saved in zip(other.envs, state, strict=True))
    other.set_parameters(env.parameters.values([1]))
    assert np.array_equal([other.step([0, 0])[0] for _ in range(2)], obs)
    told = ParameterizedEnv(lambda arguments: Told(), None, {"wide": 7, "high": 8})
    assert told.reset(seed=0)[0][:2].tolist() == [7, 8]


def test_an_interval_of_steps_between_draws():
    sampler = {"sampler-type": "uniform", "min_value": 5, "max_value": 9}
    env = make_vec_env(Room, num_env=1, seed=0, env_parameters={"resampling-interval": 6, "height": sampler})
    heights = [rows[0][0, 1] for rows in episodes(env, 6)]
    assert heights[0] == heights[1] != heights[2] == heights[3] != heights[4] == heights[5]


def test_worker_processes_take_lessons_too():
    own = make_vec_env(Room, num_env=2, seed=3, env_parameters=PARAMETERS)
    processes = make_vec_env(Room, num_env=2, seed=3, worker="subproc", env_parameters=PARAMETERS)
    try:
        assert np.array_equal(episodes(own, 2), episodes(processes, 2))
        for env in (own, processes):
            env.set_parameters(env.parameters.values([1]))
        rows = episodes(own, 2)
        assert np.array_equal(rows, episodes(processes, 2)) and rows[0][0][0, 0] == 3
    finally:
        processes.close()


def test_a_parameter_that_the_environment_lacks_names_the_nearest():
    for name, words in {
        "hight": "Room has no parameter 'hight': did you mean 'height'",
        "time": "Room has no parameter 'time': it has width, height",
    }.items():
        with pytest.raises(UsageError, match=words):
            make_vec_env(Room, env_parameters={"environment_parameters": {name: 1.0}})
    with pytest.raises(WorkerError, match="with size=7 the observation_space is another one"):
        make_vec_env(
            "tfbaselines.envs.tiny:tfbaselines/SparseMaze-v0", env_parameters={"environment_parameters": {"size": 7}}
        ).reset()
    with pytest.raises(UsageError, match="was made without them"):
        make_vec_env("CartPole-v1").set_parameters({"gravity": 3.0})
