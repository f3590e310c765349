"""Episodes of members: each its own, in turn where there are fewer environments, with the sums of what was observed."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec

from tfbaselines.algs.es.population import Trials
from tfbaselines.envs import wrappers as endless
from tfbaselines.envs.vec import VecEnv
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.policy import DirectPolicy

MOVES = spaces.Box(-np.inf, np.inf, (1,), np.float32)


class Paying(gymnasium.Env):
    """Pays the action; an episode ends when the first observed number is used up.

    Args:
        lengths: of its episodes, one after the other.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = MOVES

    def __init__(self, lengths):
        self.lengths, self.episode = lengths, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.left = self.lengths[self.episode % len(self.lengths)]
        return np.float32([self.left]), {}

    def step(self, action):
        self.left -= 1
        return np.float32([self.left]), float(action[0]), self.left <= 0, False, {}


class Numbered:
    """A population whose members do what their parameter says."""

    def __init__(self, rows):
        self.now = np.zeros(rows, np.float32)
        self.placed = []

    def place(self, row, parameters):
        self.placed.append((row, float(parameters[0])))
        self.now[row] = parameters[0]

    def ready(self):
        pass

    def choose(self, obs, states, episode_start):
        return self.now[:, None].copy(), None


def environments(count, lengths=(3,)):
    return vec(lambda: Paying(lengths), count)


def policy(normalized=False):
    network = get_network_builder("mlp")(num_layers=1, num_hidden=2)
    return DirectPolicy(Paying.observation_space, MOVES, network, normalize_observations=normalized)


def run(env, members, **kwargs):
    population = Numbered(env.num_envs)
    trials = Trials(env, policy(**kwargs), population)
    return trials, population, trials.run(members, lambda member: np.float32([member]))


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_every_member_is_paid_for_what_it_does(count):
    trials, _, found = run(environments(count), [10, 11, 12, 13, 14])
    assert [one.score for one in found] == [30.0, 33.0, 36.0, 39.0, 42.0]
    # Environments without a member rest.
    assert trials.steps == 15
    assert sorted(episode["r"] for episode in trials.episodes) == [30.0, 33.0, 36.0, 39.0, 42.0]
    assert {episode["l"] for episode in trials.episodes} == {3}


def test_an_environment_that_is_done_takes_the_next_member():
    """The first environment's episodes are longer."""
    lengths = iter([[6], [2]])
    env = vec(lambda: Paying(next(lengths)), 2)
    trials, population, found = run(env, [1, 2, 3, 4])
    assert population.placed == [(0, 1.0), (1, 2.0), (1, 3.0), (1, 4.0)]
    assert [one.score for one in found] == [6.0, 4.0, 6.0, 8.0] and trials.steps == 12


def test_environments_that_cannot_rest_are_stepped(monkeypatch):
    env = environments(2)
    monkeypatch.setattr(type(env), "rest", VecEnv.rest)
    trials, _, found = run(env, [10, 11, 12])
    assert [one.score for one in found] == [30.0, 33.0, 36.0] and trials.steps == 12
    assert len(trials.episodes) == 3


def test_no_members_take_no_steps():
    trials, _, found = run(environments(2), [])
    assert found == [] and trials.steps == 0 and trials.episodes == []


def test_observations_are_summed_for_each_member():
    _, _, found = run(environments(2, lengths=[3]), [1, 2, 3], normalized=True)
    for one in found:
        # 3, 2 and 1 were shown to act on.
        assert one.sums == ({"all": [6.0]}, {"all": [14.0]}, 3)
    _, _, found = run(environments(2), [1, 2])
    assert [one.sums for one in found] == [None, None]


@pytest.mark.parametrize("lengths", [(1000,), (3, 1000)])
def test_an_episode_without_end_is_said(lengths, monkeypatch):
    """Also where those of other environments do end."""
    monkeypatch.setattr(endless, "LONGEST_EPISODE", 20)
    each = iter(lengths)
    env = vec(lambda: Paying([next(each)]), len(lengths))
    with pytest.raises(ValueError, match="an episode has not ended within 20 steps: give max_ep_len"):
        run(env, list(range(20)))


def test_memory_is_cleared_between_members():
    seen = []

    def choose(obs, states, episode_start):
        seen.append((states.copy(), episode_start.copy()))
        return np.zeros((1, 1), np.float32), states + 1.0

    population = SimpleNamespace(place=lambda row, own: None, ready=lambda: None, choose=choose)
    remembering = SimpleNamespace(normalizer=None, initial_state=lambda rows: np.zeros((rows, 2), np.float32))
    Trials(environments(1), remembering, population).run([0, 1], lambda member: np.zeros(1))
    assert [start.tolist() for _, start in seen] == [[True], [False], [False]] * 2
    assert [states[0, 0] for states, _ in seen] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
