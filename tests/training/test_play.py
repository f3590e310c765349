import itertools

import gymnasium
import numpy as np
import pytest
from helpers import vec

from tfbaselines.envs import tiny
from tfbaselines.envs import wrappers as endless
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv
from tfbaselines.policy.policy import build_policy
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.testing import MOST_SILENT_DONES, episodes, even_episodes


class Recording(tiny.FixedSequenceEnv):
    """Keeps the actions of each episode and can be drawn."""

    def __init__(self, episode_len=5):
        super().__init__(n_actions=10, episode_len=episode_len)
        self.actions, self.drawn = [], 0

    def reset(self, **kwargs):
        self.actions.append([])
        return super().reset(**kwargs)

    def step(self, action):
        self.actions[-1].append(int(action))
        return super().step(action)


def recorded(*lengths):
    """An environment per length, and the environments without their wrappers."""
    inner = [Recording(length) for length in lengths]
    makers = iter(inner)
    return vec(lambda: next(makers), len(inner)), inner


def random_model(env, network, scale, seed=0, **kwargs):
    """A policy with normal weights: large ones do what depends on all that is shown and remembered."""
    policy = build_policy(env, network, **kwargs)
    rng = np.random.default_rng(0)
    for variable in policy.trainable_variables:
        variable.assign(rng.normal(0, scale, variable.shape))
    return PolicyModel(policy, rng=np.random.default_rng(seed))


def play(model, env, count, **kwargs):
    return list(itertools.islice(episodes(model, env, **kwargs), count))


def complete(env):
    """Actions of the episodes that were ended; seeding began one that was not played."""
    return [actions for actions in env.actions if len(actions) == env.episode_len]


def test_an_entry_for_each_episode_in_the_order_they_end():
    env, _ = recorded(2, 3)
    played = play(random_model(env, "mlp", 0.3, num_hidden=4), env, 5)
    assert [episode["l"] for episode in played] == [2, 3, 2, 2, 3]
    assert all(episode.keys() >= {"r", "l", "t"} for episode in played)


def test_the_return_is_the_environments_own():
    env, (inner,) = recorded(5)
    played = play(random_model(env, "mlp", 0.3, num_hidden=4), env, 20)
    returns = [sum(np.equal(actions, inner._sequence)) for actions in complete(inner)]
    assert [episode["r"] for episode in played] == returns and len(set(returns)) > 1


@pytest.mark.parametrize("deterministic", [True, False])
def test_only_sampled_actions_depend_on_chance(deterministic):
    seen = []
    for seed in (1, 1, 2):
        env = vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=10))
        model = random_model(env, "mlp", 0.3, seed, num_hidden=4)
        seen.append([episode["r"] for episode in play(model, env, 10, deterministic=deterministic)])
    assert seen[0] == seen[1]
    assert (seen[0] == seen[2]) is deterministic


@pytest.mark.parametrize(
    ("count", "lengths"), [(1, [9]), (2, [2, 9]), (4, [9, 2, 3, 9]), (5, [9, 2, 3, 9, 2]), (6, [9, 2, 3] * 2)]
)
def test_of_every_environment_as_many_episodes_are_taken(count, lengths):
    env, inner = recorded(9, 2, 3)
    played = even_episodes(random_model(env, "mlp", 0.3, num_hidden=4), env, count)
    assert sorted(episode["l"] for episode in played) == sorted(lengths)
    # Not the first that end, which are the short ones; and no step more than it takes.
    assert [episode["l"] for episode in played] != [2] * count
    assert len(complete(inner[0])) == lengths.count(9)


def test_episodes_are_those_that_are_played():
    env, (inner,) = recorded(5)
    played = even_episodes(random_model(env, "mlp", 0.3, num_hidden=4), env, 7)
    returns = [sum(np.equal(actions, inner._sequence)) for actions in complete(inner)]
    assert [episode["r"] for episode in played] == returns and len(returns) == 7 and len(set(returns)) > 1


@pytest.mark.parametrize("deterministic", [True, False])
def test_even_episodes_depend_on_chance_when_they_are_sampled(deterministic):
    seen = []
    for seed in (1, 2):
        env = vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=10), 2)
        model = random_model(env, "mlp", 0.3, seed, num_hidden=4)
        seen.append([episode["r"] for episode in even_episodes(model, env, 10, deterministic=deterministic)])
    assert (seen[0] == seen[1]) is deterministic


def test_environments_without_a_monitor_are_named():
    ends = []

    class Silent(tiny.ConstantRewardEnv):
        def reset(self, **kwargs):
            ends.append(1)
            return super().reset(**kwargs)

    env = DummyVecEnv([lambda: Silent(1)] * 5)
    model = random_model(env, "mlp", 0.3, num_hidden=4)
    for run in (lambda: next(episodes(model, env)), lambda: even_episodes(model, env, 3)):
        ends.clear()
        with pytest.raises(ValueError, match="infos have no episodes: put a Monitor around each environment"):
            run()
        # Lost lives, which are no episodes either, are fewer.
        assert MOST_SILENT_DONES < len(ends) < MOST_SILENT_DONES + 20


@pytest.mark.parametrize("lengths", [(1000,), (5, 1000)])
def test_episodes_that_never_end_are_said(lengths, monkeypatch, capsys):
    """Also where those of other environments do end."""
    monkeypatch.setattr(endless, "LONG_EPISODE", 10)
    monkeypatch.setattr(endless, "LONGEST_EPISODE", 20)
    env, _ = recorded(*lengths)
    model = random_model(env, "mlp", 0.3, num_hidden=4)
    for run in (lambda: play(model, env, 20), lambda: even_episodes(model, env, 3)):
        with pytest.raises(ValueError, match=r"^an episode has not ended within 20 steps: give max_ep_len"):
            run()
        assert "warning: an episode has not ended within 10 steps: if it never does" in capsys.readouterr().err
    # The steps of several episodes are not added up.
    monkeypatch.setattr(endless, "LONGEST_EPISODE", 4)
    env, _ = recorded(5)
    assert len(play(random_model(env, "mlp", 0.3, num_hidden=4), env, 3)) == 3


def test_lost_lives_are_counted_from_one_episode_to_the_next(monkeypatch):
    class Lives(gymnasium.Wrapper):
        """A life is lost with every step, and an episode has four."""

        over = True

        def reset(self, **kwargs):
            self.shown, info = self.env.reset(**kwargs) if self.over else (self.shown, {})
            return self.shown, info

        def step(self, action):
            self.shown, reward, self.over, _, info = self.env.step(action)
            return self.shown, reward, True, False, info

    monkeypatch.setattr("tfbaselines.training.testing.MOST_SILENT_DONES", 4)
    monitored = lambda: Monitor(tiny.FixedSequenceEnv(episode_len=4), None)
    env = DummyVecEnv([lambda: Lives(monitored())])
    model = random_model(env, "mlp", 0.3, num_hidden=4)
    assert [episode["l"] for episode in play(model, env, 5)] == [4] * 5


def test_memory_begins_anew_with_each_episode():
    """Nothing is shown, so that the most likely actions depend on memory alone: all episodes are alike."""
    env, inner = recorded(4, 7)
    play(random_model(env, "lstm", 2.0, nlstm=8), env, 12, deterministic=True)
    for one in inner:
        first, *others = complete(one)
        assert len(others) >= 3 and all(actions == first for actions in others)
        assert len(set(first)) > 1, "the memory must make a difference, or this test says nothing"
    short, long = (complete(one)[0] for one in inner)
    assert long[: len(short)] == short


def test_episodes_are_shown_when_asked_for(monkeypatch):
    env, _ = recorded(3)
    shown = []
    monkeypatch.setattr(env, "render", lambda: shown.append(1))
    model = random_model(env, "mlp", 0.3, num_hidden=4)
    play(model, env, 2)
    assert shown == []
    play(model, env, 2, render=True)
    assert len(shown) == 6
