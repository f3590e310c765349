"""Rows of agents that die and appear at different times: what a trainer sees, and that it learns from no others."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.ppo2.ppo2 import loss
from tfbaselines.envs.vec import VecEnv
from tfbaselines.errors import NotFiniteError, UsageError, WorkerError
from tfbaselines.multi.agents import Agents
from tfbaselines.multi.behaviors import naming
from tfbaselines.multi.rows import BehaviorVecEnv
from tfbaselines.policy.policy import build_policy
from tfbaselines.replay import Replay
from tfbaselines.rollout.rollout import Runner

BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)
# Steps of an episode: the agents that act, and how the step ends each: with t(ermination) or c(ut by a time limit).
EPISODE = [("a_0 a_1 b", ""), ("a_0 a_1 b", "a_1:t"), ("a_0 b", ""), ("a_0 a_1 b", "a_0:c"), ("a_1 b", "a_1:c b:t")]


class Scripted:
    """The observation is the time, with 10 per episode; the reward is the time too."""

    possible_agents = ("a_0", "a_1", "b")

    def __init__(self):
        self.agents, self.episodes, self.taken = [], 0, []

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.time, self.episodes, self.agents = 0, self.episodes + 1, ["a_0", "a_1", "b"]
        return self._obs(self.agents), {agent: {} for agent in self.agents}

    def _obs(self, agents):
        return {agent: np.array([10 * self.episodes + self.time], np.float32) for agent in agents}

    def step(self, actions):
        acting, ends = EPISODE[self.time]
        assert set(actions) == set(acting.split()) == set(self.agents)
        self.taken.append(actions)
        self.time += 1
        ends = dict(end.split(":") for end in ends.split())
        later = EPISODE[self.time][0].split() if self.time < len(EPISODE) else []
        seen = {*acting.split(), *later}
        flags = [{agent: ends.get(agent) == kind for agent in acting.split()} for kind in "tc"]
        self.agents = later
        rewards = dict.fromkeys(acting.split(), float(self.time))
        return self._obs(seen), rewards, *flags, {agent: {} for agent in seen}


def rows_of(behavior="a", count=1, make=Scripted):
    agents = Agents(make, count, naming([]))
    env = BehaviorVecEnv([f"row {i}" for i in range(2 * count)], agents.spaces(behavior), True, lambda: None)
    return agents, env


def play(agents, env, steps):
    """What a trainer of the behavior a sees: valid, observations, rewards, dones and infos, step by step."""
    begun = agents.reset()
    env.take(begun["a"])
    seen = [(env.valid, env.reset())]
    seen = [(env.valid.tolist(), seen[0][1][:, 0].tolist())]
    for step in range(steps):
        env.step_async(np.array([step % 2, 1]))
        count = len(agents.rows["b"])
        env.take(agents.step({"a": env.actions, "b": [0] * count})["a"])
        obs, rewards, dones, infos = env.step_wait()
        seen.append((env.valid.tolist(), obs[:, 0].tolist(), rewards.tolist(), dones.tolist(), infos))
    return seen


def test_what_a_trainer_sees_of_agents_that_die_and_appear():
    agents, env = rows_of()
    seen = play(agents, env, 6)
    valid, obs, rewards, dones, infos = zip(*seen[1:], strict=True)
    assert seen[0] == ([True, True], [10, 10])
    # a_1 is dead for one step and appears in the same episode; a_0 is cut, and waits for the next episode.
    assert valid == ([True, True], [True, False], [True, True], [False, True], [True, True], [True, True])
    assert [row[1] for row in dones] == [False, True, True, False, True, False]
    assert [row[0] for row in dones] == [False, False, False, True, True, False]
    assert [row[0] for row in rewards] == [1, 2, 3, 4, 0, 1] and [row[1] for row in rewards] == [1, 2, 0, 4, 5, 1]
    assert obs[4] == [20, 20] and obs[2] == [13, 13]
    assert [
        ("episode" in info, info.get("TimeLimit.truncated")) for info in (infos[1][1], infos[2][1], infos[4][0])
    ] == [
        (True, False),
        (False, None),
        (False, None),
    ]
    cut = infos[3][0]
    assert cut["TimeLimit.truncated"] and cut["final_observation"].tolist() == [14]
    assert (cut["episode"]["r"], cut["episode"]["l"]) == (10, 4)
    # The second life of a_1 has two steps; it and b end the episode together.
    assert (infos[4][1]["episode"]["r"], infos[4][1]["episode"]["l"]) == (9, 2)
    assert infos[4][1]["final_observation"].tolist() == [15]


class Played(VecEnv):
    """The rows of the behavior a, for a runner or a collector."""

    def __init__(self, count=1):
        self.agents, self.inner = rows_of(count=count)
        super().__init__(2 * count, self.inner.observation_space, self.inner.action_space)

    @property
    def valid(self):
        return self.inner.valid

    def reset(self):
        self.inner.take(self.agents.reset()["a"])
        return self.inner.reset()

    def step_async(self, actions):
        self.inner.step_async(actions)
        others = [0] * len(self.agents.rows["b"])
        self.inner.take(self.agents.step({"a": self.inner.actions, "b": others})["a"])

    def step_wait(self):
        return self.inner.step_wait()


def test_a_rollout_knows_its_valid_steps_and_bootstraps_across_no_pause():
    env = Played()
    policy = build_policy(env, "mlp", num_layers=1, num_hidden=4)
    actor = SimpleNamespace(
        step=lambda obs, states, starts, noise: SimpleNamespace(
            values=obs[:, 0], neglogps=np.zeros(2), states=None, actions=np.zeros(2, int)
        ),
        value=lambda obs, states=None, starts=None: obs[:, 0],
    )
    rollout = Runner(env, policy, actor, 5, np.random.default_rng(0)).run()
    assert rollout.valid.tolist() == [[True, True], [True, True], [True, False], [True, True], [False, True]]
    advantages = rollout.advantages(gamma=0.5, lam=1.0)
    # a_0: rewards 1 to 4, and half the value 14 of its last observation. a_1: 1 and 2; then 4, 5 and half of 15.
    a_0 = [1 + 0.5 * (2 + 0.5 * (3 + 0.5 * (4 + 0.5 * 14))), 2 + 0.5 * (3 + 0.5 * 11), 3 + 0.5 * 11, 4 + 0.5 * 14]
    assert (advantages + rollout.values)[:4, 0].tolist() == a_0
    returns = (advantages + rollout.values)[:, 1]
    assert returns[[0, 1, 3, 4]].tolist() == [1 + 0.5 * 2, 2, 4 + 0.5 * (5 + 0.5 * 15), 5 + 0.5 * 15]
    assert rollout.counted(rollout.obs)[:, 0].tolist() == [10, 11, 12, 13, 10, 11, 13, 14]


def test_ppo2_learns_from_valid_rows_alone():
    """The loss and its gradient are those of the valid rows, whatever the others hold."""
    space = SimpleNamespace(observation_space=BOX, action_space=spaces.Discrete(3))
    policy, rng = build_policy(space, "mlp", num_layers=1, num_hidden=4), np.random.default_rng(0)
    batch = {
        "obs": rng.normal(size=(6, 1)).astype(np.float32),
        "actions": rng.integers(3, size=6),
        **{name: rng.normal(size=6).astype(np.float32) for name in ("returns", "values", "neglogpacs")},
    }
    valid = np.array([1, 0, 1, 1, 0, 1], bool)

    def computed(rows):
        with tf.GradientTape() as tape:
            value, statistics = loss(policy, {name: tf.constant(x) for name, x in rows.items()}, 0.2, 0.1, 0.5)
        gradient = tape.gradient(value, [variable.value for variable in policy.trainable_variables])
        flat = np.concatenate([np.ravel(part) for part in gradient])
        return np.concatenate([flat, [float(one) for one in statistics.values()]])

    alone = computed({name: array[valid] for name, array in batch.items()})
    spoilt = {name: np.where(valid.reshape(-1, *[1] * (x.ndim - 1)), x, x.dtype.type(2)) for name, x in batch.items()}
    for rows in (batch, spoilt):
        np.testing.assert_allclose(computed(rows | {"valid": valid.astype(np.float32)}), alone, atol=1e-5)
    assert np.abs(computed(batch) - alone).max() > 1e-3


def test_a_replay_draws_valid_steps_alone():
    env = Played()
    replay, rng = Replay(env, 40, gamma=0.5, state_size=1), np.random.default_rng(0)
    obs = env.reset()
    for _ in range(10):
        valid = env.valid.copy()
        next_obs, rewards, dones, infos = env.step(np.zeros(2, int))
        # Rows that do not count hold a reward that shows.
        rewards = np.where(valid, rewards, -99)
        replay.put(obs, np.zeros(2, int), rewards, next_obs, dones, infos, np.zeros((2, 1)), valid)
        obs = next_obs
    batch = replay.sample(rng, 20, 50)
    assert batch["rewards"].min() == 1 and set(batch["obs"].ravel()) == {10, 11, 12, 13, 14, 20, 21, 22, 23, 24}
    # 10 valid steps of each time but for the two that are missing of each pair.
    counts = np.unique(batch["obs"], return_counts=True)[1]
    assert counts.max() < 3 * counts.min()
    cut = batch["obs"].ravel() == 13
    assert set(batch["next_obs"].ravel()[cut & (batch["rewards"].ravel() == 4)]) == {14}
    sequences = replay.sample_sequences(rng, 4, 20, 3)
    rows = sequences["rewards"].reshape(80, 4)
    counted = sequences["valid"].reshape(80, 4)
    assert (rows[:, 0] != -99).all() and (rows == -99).any() and not counted[rows == -99].any()
    assert replay.latest(5)[0].min() > 0 and len(replay.latest(5)[0]) == 8
    assert replay.any_valid


def test_errors_of_environments_name_the_agent():
    class Another(Scripted):
        def observation_space(self, agent):
            return spaces.Box(0, 1, (2 if agent == "a_1" else 1,), np.float32)

    with pytest.raises(UsageError, match="behavior 'a': the agents a_0 and a_1 have different spaces"):
        Agents(Another, 1, naming([])).spaces("a")

    class Gone(Scripted):
        def step(self, actions):
            obs, *rest = super().step(actions)
            obs.pop("a_0")
            return obs, *rest

    class NaN(Scripted):
        def step(self, actions):
            obs, rewards, *rest = super().step(actions)
            return obs, rewards | {"a_0": np.nan}, *rest

    class Failing(Scripted):
        def step(self, actions):
            raise RuntimeError("no\nmore")

    for make, kind, words in (
        (Gone, UsageError, "agent a_0 is gone, but neither terminated nor truncated"),
        (NaN, NotFiniteError, "row 0: reward at step 1 is not a finite number"),
        (Failing, WorkerError, "failed in step: RuntimeError: no more"),
    ):
        with pytest.raises(kind, match=words):
            play(*rows_of(make=make), 1)
    with pytest.raises(UsageError, match="makes dict, which is no parallel environment of PettingZoo"):
        Agents(dict, 1, naming([]))
    one = Scripted()
    with pytest.raises(UsageError, match="returns the same environment again"):
        Agents(lambda: one, 2, naming([]))
