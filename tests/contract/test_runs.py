"""Every algorithm's runs: seeds, callbacks, resuming, and what they cost."""

import gc
import shutil
from collections import Counter
from functools import partial

import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from algorithm_pages import unexplained
from helpers import vec
from small_environments import Still
from small_runs import (
    ACTIONS,
    ALGORITHMS,
    EVERY,
    WITH_GOALS,
    WITH_MEMORY,
    Steady,
    first_kind,
    learn,
    own_identity,
    rows,
    small,
    steps_of_update,
    stop_after,
    suited,
    train,
    weights,
)

from tfbaselines import compiling
from tfbaselines.algs import get
from tfbaselines.compiling import compiled
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.make import make_vec_env
from tfbaselines.envs.vec import VecEnv
from tfbaselines.logs.logger import read_csv
from tfbaselines.policy.base import BasePolicy
from tfbaselines.training.checkpoint import Checkpoints
from tfbaselines.training.run import Run

# Updates after which everything has been compiled, and those of the whole run.
LENGTHS = {None: (30, 90), "lstm": (10, 30)}
# test_time_limits.py looks at algorithms with values. Of each kind of run one with memory, which takes ten seconds to
# compile.
COMPILED = [(name, None) for name, one in ALGORITHMS.items() if not one.values or one.goals]
COMPILED += [(name, "lstm") for name in ("ppo2", "ppo", "acer", "sac")]


@EVERY
def test_one_seed_gives_one_curve(alg, eager, tmp_path):
    """In two environments; a resumed run shows it with one. The algorithm's page explains every column."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        own = {"eval_env": own_identity(alg, 1, 7), "num_test_episodes": 1}
        own = {name: value for name, value in own.items() if name in get(alg).config.arguments()}
        train(tmp_path / name, alg, own_identity(alg, 2, seed), seed=seed, **own)
    assert len(rows(tmp_path / "a")) >= 2
    assert rows(tmp_path / "a").equals(rows(tmp_path / "b"))
    assert not rows(tmp_path / "a").equals(rows(tmp_path / "c"))
    assert not unexplained(alg, read_csv(tmp_path / "a" / "progress.csv").columns)


@EVERY
def test_without_a_seed_every_run_is_another(alg, eager):
    # A table begins with equal values.
    updates = 2 if get(alg).tabular else 0
    one, other = (weights(learn(alg, own_identity(alg), updates, seed=None).policy) for _ in range(2))
    assert one.tolist() != other.tolist()


@EVERY
def test_a_callback_sees_the_run_and_may_end_it(alg, eager, tmp_path):
    seen = []

    def callback(run):
        seen.append((run, run.update, run.timesteps, run.model))
        return run.update < 3

    model = train(tmp_path, alg, own_identity(alg), 8, run=RunOptions(callback=callback))
    runs, updates, steps, models = zip(*seen, strict=True)
    assert isinstance(runs[0], Run) and set(models) == {model} and runs[0].name == alg
    assert updates == (1, 2, 3)
    assert steps == tuple(update * steps_of_update(alg, 1, small(alg)) for update in updates)
    assert Checkpoints(tmp_path / "checkpoints").latest().name == "00003"


# Of eight updates, the third one begins the second lesson and the sixth one the third: not the one before a stop, since
# an episode that begins anew would be in the new lesson.
LESSONS = [{"value": 0.0, "completion_criteria": {"measure": "progress", "threshold": 0.2}}]
LESSONS += [{"value": 1.0, "completion_criteria": {"measure": "progress", "threshold": 0.6}}, {"value": 2.0}]
CURRICULUM = {"environment_parameters": {"bonus": {"curriculum": LESSONS}}}


def assert_as_uninterrupted(directory, alg, updates=8, **kwargs):
    """As many updates at once, and with a stop at half of them; eight of them in the lessons of a curriculum."""
    parameters = CURRICULUM if updates == 8 else None

    def env():
        make = suited(alg, lambda: Still(ACTIONS[first_kind(alg)]))
        return make_vec_env(make, seed=0, flatten_dict_observations=False, env_parameters=parameters)

    whole = train(directory / "whole", alg, env(), updates, **kwargs)
    train(directory / "half", alg, env(), updates, run=stop_after(updates // 2), **kwargs)
    assert 0 < len(rows(directory / "half")) < len(rows(directory / "whole"))
    again = {"run": RunOptions(resume=str(directory / "half")), "seed": 99}
    resumed = train(directory / "half", alg, env(), updates, **kwargs | again)
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(directory / "half").equals(rows(directory / "whole"))
    assert parameters is None or rows(directory / "whole")["lesson/bonus"].iloc[-1] == 2
    assert not np.array_equal(weights(whole.policy), weights(learn(alg, env(), 0, **kwargs).policy))


@EVERY
def test_a_resumed_run_equals_an_uninterrupted_one(alg, eager, tmp_path):
    rates = {name: "linear_1e-2" for name, one in get(alg).config.arguments().items() if "schedule" in one.kinds}
    assert_as_uninterrupted(tmp_path, alg, **rates)


class Walk(Still):
    """Shows where the actions led, as far as they counted, and ends in both ways; an episode can be saved."""

    def reset(self, **kwargs):
        self.episodes = getattr(self, "episodes", 0) + 1
        self.place, info = super().reset(**kwargs)
        return self.place, info

    def step(self, action):
        _, _, over, _, info = super().step(action)
        self.place = np.sin(3.0 * self.place + np.sum(action)).astype(np.float32)
        cut = self.episodes % 2 == 0
        return self.place, float(self.place[0]), over and not cut, over and cut, info

    def get_state(self):
        return {"time": self.time, "place": self.place, "episodes": self.episodes}

    def set_state(self, state):
        self.time, self.place, self.episodes = state["time"], state["place"], state["episodes"]


REPLAYS = [(alg, {}) for alg in ALGORITHMS if "save_replay_buffer" in get(alg).config.arguments()]
REPLAYS += [("acer", {}), ("acer", {"buffer_len": 6, "trace_length": 4}), ("deepq", {"prioritized_replay": True})]
REPLAYS += [("td3", {"n_step": 3, "noise_correlation": 0.9})]


@pytest.mark.parametrize(("alg", "own"), REPLAYS)
def test_a_killed_run_resumes_as_if_nothing_had_happened(alg, own, eager, tmp_path):
    """Killed: another run begins with the files as they were between two checkpoints."""

    def env():
        make = partial(gymnasium.make, WITH_GOALS) if get(alg).goals else partial(Walk, ACTIONS[first_kind(alg)], 7)
        return vec(make, 2)

    def kill(run):
        if run.update == 9:
            shutil.copytree(tmp_path / "whole", tmp_path / "killed", symlinks=True)
        return True

    # Its rows are replaced twice.
    own = {"replay_size": 40, "buffer_size": 40, "replay_start": 10} | own
    own = {name: value for name, value in own.items() if name in get(alg).config.arguments()}
    whole = train(tmp_path / "whole", alg, env(), 12, run=RunOptions(callback=kill, save_minutes=1e-9), **own)
    again = RunOptions(resume=str(tmp_path / "killed"), save_minutes=1e-9)
    resumed = train(tmp_path / "killed", alg, env(), 12, run=again, **own | {"seed": 99})
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(tmp_path / "killed").equals(rows(tmp_path / "whole"))
    assert "the replay" not in (tmp_path / "killed/log.txt").read_text().replace("the replay:", "")


@pytest.mark.parametrize(("alg", "env_id"), [("ppo2", "CartPole-v1"), ("a2c", "CartPole-v1"), ("ddpg", "Pendulum-v1")])
def test_a_resumed_run_goes_on_in_the_environment_beside(alg, env_id, eager, tmp_path):
    """In the middle of its episodes, which go on from update to update."""

    def go(name, **options):
        env, beside = (vec(lambda: gymnasium.make(env_id, max_episode_steps=25), seed=seed) for seed in (0, 7))
        own = {"nb_eval_steps": 10} if alg == "ddpg" else {}
        return train(tmp_path / name, alg, env, 8, eval_env=beside, run=RunOptions(**options), **own)

    def half(run):
        shown.append(run.env)
        return run.update < 4

    shown = []
    go("whole")
    go("half", callback=half)
    # A callback sees the environments of training.
    assert all(isinstance(env, VecEnv) for env in shown)
    go("half", resume=str(tmp_path / "half"))
    seen = rows(tmp_path / "whole").filter(like="eval")
    assert seen.iloc[-1].notna().all() and seen.shape[1] >= 2
    assert rows(tmp_path / "half").equals(rows(tmp_path / "whole"))
    assert "begin anew" not in (tmp_path / "half" / "log.txt").read_text()


@pytest.mark.slow
@WITH_MEMORY
def test_a_resumed_run_with_memory_equals_an_uninterrupted_one(alg, eager, tmp_path):
    assert_as_uninterrupted(tmp_path, alg, 4, network="lstm")


@EVERY
def test_resuming_from_nowhere_is_an_error(alg, tmp_path):
    with pytest.raises(ValueError, match="cannot resume: there is no checkpoint in") as error:
        learn(alg, own_identity(alg), run=RunOptions(resume=str(tmp_path)))
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize(("alg", "network"), COMPILED)
def test_nothing_is_traced_twice_and_memory_stays_flat(alg, network, tmp_path):
    steady = Steady(*LENGTHS[network])
    train(tmp_path, alg, own_identity(alg), LENGTHS[network][1], network, run=RunOptions(callback=steady))
    # Tables are learnt without TensorFlow.
    assert steady.traces() > 0 or get(alg).tabular


def kept():
    """Numbers of graphs, policies, Keras models and programs of XLA in this process."""
    gc.collect()
    graph = type(compiled(tf.ones).get_concrete_function((1,)).graph)
    types = Counter(map(type, gc.get_objects()))
    kinds = {kind: [one for one in types if issubclass(one, kind)] for kind in (graph, BasePolicy, keras.Model)}
    counts = {kind: sum(types[one] for one in found) for kind, found in kinds.items()}
    return counts | {"programs": len(compiling._programs)}


# One of each kind of run and of each engine of steps: the others are made of the same parts.
QUICK_TO_COMPILE = ("deepq", "ppo2", "sac", "qlearning")
SLOW_TO_COMPILE = ("acer", "acktr", "bc", "es", "gail", "her", "trpo", "trpo_mpi")


@pytest.mark.parametrize(
    "alg", [*QUICK_TO_COMPILE, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_TO_COMPILE)]
)
def test_learning_again_in_one_process_keeps_nothing(alg, tmp_path):
    found = []
    for name in ("first", "second"):
        train(tmp_path / name, alg, own_identity(alg), 2)
        found.append(kept())
    assert found[0] == found[1]
    assert rows(tmp_path / "first").equals(rows(tmp_path / "second"))
