"""What is put into the replay is what happened in the environments."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec

from tfbaselines.envs.vec import VecEnvWrapper
from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.envs.vec.packed import MASK, VecActionMask
from tfbaselines.rollout.collector import Collector, random_actions

NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float64)
BOUNDED = spaces.Box(np.array([-1.0, 2.0], np.float32), np.array([3.0, 2.5], np.float32))
DISCRETE, MULTI = spaces.Discrete(4, start=-1), spaces.MultiDiscrete([3, 2], start=[1, -4])


class Recording(gymnasium.Env):
    """Shows numbers that are all different, and remembers every step.

    Args:
        length: steps in an episode; every second one is cut by a time limit.
        first: the first number.
        actions: what it takes.
        several: observations have two parts.
    """

    def __init__(self, length, first, actions=BOUNDED, several=False):
        self.action_space, self._several = actions, several
        self.observation_space = spaces.Dict(number=NUMBER, even=spaces.Discrete(2)) if several else NUMBER
        self.length, self.number, self.episodes, self.steps = length, first, 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes += 1
        self.time, self.number = 0, self.number + 1
        return self._show(), self._info()

    def step(self, action):
        before = self.number
        self.time, self.number = self.time + 1, self.number + 1
        over, cut = self.time == self.length, self.episodes % 2 == 0
        self.steps.append((before, np.array(action), before / 8, self.number, over, over and cut))
        return self._show(), before / 8, over and not cut, over and cut, self._info()

    def _show(self):
        number = np.array([self.number], np.float64)
        return {"number": number, "even": self.number % 2} if self._several else number

    def _info(self):
        # The bits of the number, and one choice of every part.
        mask = np.unpackbits(np.uint8(self.number % 256))[-5:]
        mask[[0, 3]] = 1
        return {MASK: mask[:4] if self.action_space is DISCRETE else mask}


def environments(*lengths, **kwargs):
    """Vector environment, and the environments inside."""
    inner = [Recording(length, 1000 * i, **kwargs) for i, length in enumerate(lengths)]
    makers = iter(inner)
    return vec(lambda: next(makers), len(inner)), inner


class Stale(VecEnvWrapper):
    """Every info still has the latest episode of its environment."""

    def reset(self):
        self._latest = [{} for _ in range(self.num_envs)]
        return self.venv.reset()

    def step_wait(self):
        obs, rewards, dones, infos = self.venv.step_wait()
        self._latest = [latest | info for latest, info in zip(self._latest, infos, strict=True)]
        return obs, rewards, dones, self._latest


class Taken:
    """Stands for a replay; remembers what is put into it."""

    def __init__(self):
        self.puts = []

    def put(self, obs, actions, rewards, next_obs, dones, infos, states=None):
        self.puts.append(SimpleNamespace(**{name: value for name, value in locals().items() if name != "self"}))

    def column(self, name):
        return np.stack([getattr(put, name) for put in self.puts])


class Behaving:
    """Actions of one's own choice, numbered, and what they were chosen from."""

    def __init__(self, space=BOUNDED):
        self.space, self.seen = space, []
        space.seed(7)

    def __call__(self, obs, states, masks):
        self.seen.append((obs, states, np.array(masks)))
        actions = np.stack([self.space.sample() for _ in masks])
        # Counts the steps of an episode.
        return actions, None if states is None else np.where(masks[:, None], 0, states) + 1


MEMORYLESS = SimpleNamespace(recurrent=False, initial_state=lambda count: None)
REMEMBERING = SimpleNamespace(
    recurrent=True,
    initial_state=lambda count: np.zeros((count, 2), np.float32),
    after_other_action=lambda states, actions: states,
)


def collector(env, policy=MEMORYLESS, behave=None, **kwargs):
    replay = Taken()
    behave = behave or Behaving(env.action_space)
    return Collector(env, policy, replay, np.random.default_rng(0), behave, **kwargs), replay, behave


def test_every_step_is_put_as_it_happened():
    env, inner = environments(3, 5)
    collecting, replay, behave = collector(env)
    episodes = [*collecting.run(7, 0), *collecting.run(6, 7)]
    for i, one in enumerate(inner):
        assert len(one.steps) == len(replay.puts) == 13
        for put, (before, action, reward, after, done, cut) in zip(replay.puts, one.steps, strict=True):
            assert put.obs[i] == before and put.rewards[i] == reward and put.dones[i] == done
            np.testing.assert_array_equal(put.actions[i], action)
            final = put.infos[i]["final_observation"] if done else put.next_obs[i]
            assert final == after and put.states is None
            assert not done or put.infos[i]["TimeLimit.truncated"] == cut
    # The next step begins where this one led, also from one call to the next.
    np.testing.assert_array_equal(replay.column("obs")[1:], replay.column("next_obs")[:-1])
    assert sorted(episode["l"] for episode in episodes) == [3] * 4 + [5] * 2
    np.testing.assert_array_equal([seen[0] for seen in behave.seen], replay.column("obs"))
    first = np.concatenate([np.ones((1, 2), bool), replay.column("dones")[:-1]])
    np.testing.assert_array_equal([seen[2] for seen in behave.seen], first)


def test_only_an_episode_that_ends_now_is_told():
    env, _ = environments(3, 5)
    collecting, _, _ = collector(Stale(env))
    assert [episode["l"] for episode in collecting.run(10, 0)] == [3, 5, 3, 3, 5]


@pytest.mark.parametrize("several", [False, True])
def test_observations_are_of_the_types_in_which_they_are_stored(several):
    env, _ = environments(3, 5, several=several)
    collecting, replay, behave = collector(env)
    collecting.run(4, 0)
    for obs in (behave.seen[0][0], behave.seen[-1][0], replay.puts[0].obs, replay.puts[-1].next_obs):
        assert (obs["number"] if several else obs).dtype == np.float32
        assert not several or (obs["even"].dtype == np.int64 and np.all(obs["number"][:, 0] % 2 == obs["even"]))


def test_a_run_begins_with_random_steps():
    env, inner = environments(3, 5)
    collecting, replay, behave = collector(env, start_steps=6)
    collecting.run(4, 0)
    assert behave.seen == []
    collecting.run(4, 4)
    assert len(behave.seen) == 2
    np.testing.assert_array_equal(behave.seen[0][0], replay.puts[6].obs)
    actions = replay.column("actions")
    assert all(BOUNDED.contains(action) for action in actions.reshape(-1, 2)) and len(np.unique(actions[:6])) == 24
    np.testing.assert_array_equal(actions[:, 1], [step[1] for step in inner[1].steps])


def test_a_run_that_goes_on_does_not_begin_again_with_random_steps():
    env, _ = environments(3, 5)
    collecting, _, behave = collector(env, start_steps=6)
    collecting.run(4, 10)
    assert len(behave.seen) == 4


@pytest.mark.parametrize("actions", [DISCRETE, MULTI], ids=["discrete", "multidiscrete"])
def test_random_steps_take_what_is_allowed(actions):
    env, inner = environments(3, 5, actions=actions)
    collecting, replay, _ = collector(VecActionMask(env), start_steps=200)
    collecting.run(200, 0)
    chosen = replay.column("actions")
    for i, one in enumerate(inner):
        np.testing.assert_array_equal(chosen[:, i], [step[1] for step in one.steps])
    masks = np.stack([put.obs[MASK] for put in replay.puts])
    for put, row, mask in zip(replay.puts, chosen, masks, strict=True):
        assert put.obs[ONLY].shape == (2, 1)
        for action, allowed in zip(row, mask, strict=True):
            places = [action + 1] if actions is DISCRETE else action - actions.start + [0, 3]
            assert allowed[places].all()
    assert not masks.all() and len(np.unique(chosen.reshape(400, -1), axis=0)) == (4 if actions is DISCRETE else 6)


def test_memory_is_put_as_it_was_before_each_step():
    env, inner = environments(3, 5)
    collecting, replay, behave = collector(env, REMEMBERING, start_steps=4)
    collecting.run(10, 0)
    # Memory counts the steps of an episode, also where actions are random; what it was before is of the last one.
    expected = [[(t - 1) % one.length + 1 if t else 0 for one in inner] for t in range(10)]
    np.testing.assert_array_equal(replay.column("states")[:, :, 0], expected)
    assert replay.column("states").shape == (10, 2, 2) and len(behave.seen) == 10
    np.testing.assert_array_equal([seen[1] for seen in behave.seen], replay.column("states"))
    # What was chosen with the memory in mind is taken only after the random steps.
    fresh = Behaving()
    chosen = [np.stack([fresh.space.sample() for _ in range(2)]) for _ in range(10)]
    same = [np.array_equal(one, other) for one, other in zip(chosen, replay.column("actions"), strict=True)]
    assert same == [False] * 4 + [True] * 6


def test_the_ends_of_episodes_are_told():
    env, _ = environments(3, 5)
    told = []
    collecting, replay, _ = collector(env, on_end=lambda dones: told.append(dones.tolist()))
    collecting.run(6, 0)
    assert told == [[True, False], [False, True], [True, False]]
    assert [put.dones.tolist() for put in replay.puts if put.dones.any()] == told


def test_rewards_are_scaled_for_the_replay_alone():
    env, inner = environments(3)
    collecting, replay, _ = collector(env, reward_scale=0.25)
    (episode,) = collecting.run(3, 0)
    rewards = [step[2] for step in inner[0].steps]
    np.testing.assert_array_equal(replay.column("rewards")[:, 0], np.multiply(rewards, 0.25))
    assert episode["r"] == sum(rewards)


def test_environments_are_shown_when_asked_for(monkeypatch):
    env, _ = environments(3)
    shown = []
    monkeypatch.setattr(env, "render", lambda: shown.append(1))
    collector(env)[0].run(2, 0)
    assert shown == []
    collector(env, render=True)[0].run(2, 0)
    assert shown == [1, 1]


@pytest.mark.parametrize("space", [DISCRETE, MULTI], ids=["discrete", "multidiscrete"])
def test_random_choices_are_equally_likely(space):
    actions = random_actions(space, np.random.default_rng(0), 6000)
    assert actions.shape == (6000, *space.shape) and all(space.contains(action) for action in actions)
    _, counts = np.unique(actions.reshape(6000, -1), axis=0, return_counts=True)
    assert len(counts) == (4 if space is DISCRETE else 6)
    np.testing.assert_allclose(counts, 6000 / len(counts), rtol=0.1)


def test_random_numbers_fill_their_bounds():
    actions = random_actions(BOUNDED, np.random.default_rng(0), 5000)
    assert actions.dtype == np.float32 and all(BOUNDED.contains(action) for action in actions)
    np.testing.assert_allclose(actions.min(axis=0), BOUNDED.low, atol=0.01)
    np.testing.assert_allclose(actions.max(axis=0), BOUNDED.high, atol=0.01)
    np.testing.assert_allclose(actions.mean(axis=0), [1.0, 2.25], atol=0.05)


def test_random_choices_are_equally_likely_among_those_allowed():
    masks = np.tile([1, 0, 1, 0], (4000, 1))
    values, counts = np.unique(random_actions(DISCRETE, np.random.default_rng(0), 4000, masks), return_counts=True)
    assert values.tolist() == [-1, 1] and abs(counts[0] - 2000) < 150
    masks = np.tile([0, 1, 1, 0, 1], (4000, 1))
    actions = random_actions(MULTI, np.random.default_rng(0), 4000, masks)
    values, counts = np.unique(actions, axis=0, return_counts=True)
    assert values.tolist() == [[2, -3], [3, -3]] and abs(counts[0] - 2000) < 150


class Going(Recording):
    """Its state can be saved."""

    def get_state(self):
        return {"number": self.number, "time": self.time, "episodes": self.episodes}

    def set_state(self, state):
        self.number, self.time, self.episodes = state["number"], state["time"], state["episodes"]


@pytest.mark.parametrize("several", [False, True])
def test_a_restored_collector_goes_on_in_the_same_episodes(several):
    policy = SimpleNamespace(recurrent=True, initial_state=lambda count: np.zeros((count, 1), np.float32))

    def make():
        env = vec(lambda: Going(5, 0, several=several), 2)
        replay = Taken()
        return env, Collector(env, policy, replay, np.random.default_rng(0), Behaving()), replay

    env, original, _ = make()
    assert original.state() == {}
    original.run(7, 0)
    env_state, state = env.state(), original.state()
    other_env, again, taken = make()
    other_env.restore(env_state), again.restore(state)
    # The environments' action space is Behaving's too, and was restored.
    again._behave = Behaving()
    again.run(6, 7)
    expected = Taken()
    original._replay, original._behave = expected, Behaving()
    original.run(6, 7)
    for put, other in zip(expected.puts, taken.puts, strict=True):
        for info in (*put.infos, *other.infos):
            info.get("episode", {}).pop("t", None)
        np.testing.assert_equal(vars(other), vars(put))
