import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.vec import DummyVecEnv
from tfbaselines.policy.actor import GraphActor, NumpyActor, Step, make_actor
from tfbaselines.policy.policy import build_policy
from tfbaselines.rollout.rollout import Runner, env_major

DISCRETE = spaces.Discrete(3)


class Counting(gymnasium.Env):
    """Shows (its number, the episode's, the step's) and pays 100, 10 and 1 for them; episodes of a fixed length."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)

    def __init__(self, number=0, length=4, timeout=False, action_space=DISCRETE):
        self.number, self.length, self.timeout, self.action_space = number, length, timeout, action_space
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        reward = self._obs() @ [100, 10, 1]
        self.t += 1
        over = self.t == self.length
        return self._obs(), reward, over and not self.timeout, over and self.timeout, {}

    def _obs(self):
        return np.array([self.number, self.episode, self.t], np.float64)


class Corridor(gymnasium.Env):
    """Shows how many steps are left, of three, as a number."""

    observation_space, action_space = spaces.Discrete(4), DISCRETE

    def reset(self, *, seed=None, options=None):
        self.left = 3
        return self.left, {}

    def step(self, action):
        self.left -= 1
        return self.left, 1.0, False, self.left == 0, {}


def make(network="mlp", nsteps=6, makers=None, maker=make_actor, seed=0, **kwargs):
    """A runner over environments with episodes of 4 and 3 steps, its policy and actor."""
    makers = makers or [lambda: Counting(0, 4), lambda: Counting(1, 3)]
    env = DummyVecEnv([lambda make=make: Monitor(make(), None) for make in makers])
    policy = build_policy(env, network, **({"num_hidden": 8} if network == "mlp" else {"nlstm": 4}), **kwargs)
    actor = maker(policy)
    return Runner(env, policy, actor, nsteps, np.random.default_rng(seed)), policy, actor


def run(runner, count):
    """Copies of the arrays of `count` rollouts, joined."""
    names = ("obs", "actions", "rewards", "values", "neglogps", "episode_start", "timeout_values")
    blocks = [
        {name: getattr(rollout, name).copy() for name in names} for rollout in (runner.run() for _ in range(count))
    ]
    return {name: np.concatenate([block[name] for block in blocks]) for name in names}


def test_rows_are_the_steps_of_each_environment():
    runner, _, _ = make()
    rollout = runner.run()
    expected = [[(0, t // 4, t % 4), (1, t // 3, t % 3)] for t in range(6)]
    np.testing.assert_array_equal(rollout.obs, expected)
    np.testing.assert_array_equal(rollout.rewards, np.array(expected) @ [100, 10, 1])
    types = {name: getattr(rollout, name).dtype for name in ("obs", "rewards", "values", "neglogps", "episode_start")}
    assert types == dict.fromkeys(("obs", "rewards", "values", "neglogps"), np.float32) | {"episode_start": bool}
    assert rollout.actions.shape == rollout.values.shape == rollout.neglogps.shape == (6, 2)
    assert rollout.last_values.shape == rollout.last_episode_start.shape == (2,) and rollout.states is None


def test_episode_start_marks_the_first_observations_of_all_episodes_but_the_runs_first():
    runner, _, _ = make(nsteps=6)
    first, second = runner.run().episode_start.copy(), runner.run()
    np.testing.assert_array_equal(first[:, 0], [False, False, False, False, True, False])
    np.testing.assert_array_equal(first[:, 1], [False, False, False, True, False, False])
    # Environment 1 ended with the first run's last step.
    np.testing.assert_array_equal(second.episode_start[0], [False, True])
    assert second.obs[0, 1, 2] == 0


def test_last_values_belong_to_the_observation_after_the_last_step():
    runner, _, actor = make(nsteps=6)
    rollout = runner.run()
    after = np.array([(0, 1, 2), (1, 2, 0)], np.float32)
    np.testing.assert_allclose(rollout.last_values, actor.value(after), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(rollout.last_episode_start, [False, True])
    np.testing.assert_array_equal(runner.run().obs[0], after)


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_short_runs_go_on_as_one_long_one(network):
    short, whole = make(network, nsteps=3), make(network, nsteps=12)
    whole[1].restore(short[1].state())
    whole[2].refresh()
    parts, expected = run(short[0], 4), run(whole[0], 1)
    for name, value in expected.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("maker", [NumpyActor, GraphActor])
def test_values_and_probabilities_are_the_policys(maker):
    runner, policy, _ = make(maker=maker, value_network="copy")
    rollout = runner.run()
    outputs = policy.forward(env_major(rollout.obs))
    np.testing.assert_allclose(env_major(rollout.values), outputs.value, rtol=1e-4, atol=1e-5)
    neglogps = policy.head.distribution(outputs.flat).neglogp(env_major(rollout.actions))
    np.testing.assert_allclose(env_major(rollout.neglogps), neglogps, rtol=1e-4, atol=1e-5)


def test_both_actors_make_the_same_rollout():
    numpy, graph = make(maker=NumpyActor), make(maker=GraphActor)
    graph[1].restore(numpy[1].state())
    one, other = run(numpy[0], 2), run(graph[0], 2)
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("maker", [NumpyActor, GraphActor])
@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=5),
        spaces.MultiDiscrete([3, 2], start=[1, 2]),
        spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
        spaces.MultiBinary(4),
    ],
    ids=["discrete", "multidiscrete", "box", "multibinary"],
)
def test_environments_get_the_actions_that_are_stored(maker, space):
    given = []

    class Watching(Counting):
        def step(self, action):
            given.append(np.array(action))
            return super().step(action)

    runner, _, _ = make(makers=[lambda: Watching(action_space=space)], maker=maker)
    rollout = runner.run()
    assert rollout.actions.shape == (6, 1, *space.shape) and rollout.actions.dtype == space.dtype
    np.testing.assert_array_equal(rollout.actions[:, 0], given)
    assert all(action.dtype == space.dtype for action in given)


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_one_seed_gives_one_rollout(network):
    first, again, other = (make(network, seed=seed) for seed in (0, 0, 1))
    for _, policy, actor in (again, other):
        policy.restore(first[1].state())
        actor.refresh()
    actions = [run(runner, 3)["actions"] for runner, _, _ in (first, again, other)]
    np.testing.assert_array_equal(actions[0], actions[1])
    assert not np.array_equal(actions[0], actions[2])


@pytest.mark.parametrize("maker", [NumpyActor, GraphActor])
def test_a_time_out_has_the_value_of_the_real_last_observation(maker):
    runner, _, actor = make(makers=[lambda: Counting(0, 4, timeout=True), lambda: Counting(1, 3)], maker=maker)
    rollout = runner.run()
    expected = np.zeros((6, 2))
    expected[3, 0] = actor.value(np.array([[0, 0, 4]], np.float32))[0]
    np.testing.assert_allclose(rollout.timeout_values, expected, rtol=1e-5, atol=1e-6)
    assert expected[3, 0] != 0


def test_time_out_values_of_one_run_do_not_stay_for_the_next():
    runner, _, _ = make(nsteps=3, makers=[lambda: Counting(0, 4, timeout=True)])
    assert [np.count_nonzero(runner.run().timeout_values) for _ in range(3)] == [0, 1, 1]


@pytest.mark.parametrize("timeout", [False, True])
def test_recurrent_rollouts_are_the_policys_sequences(timeout):
    """Values, probabilities, the states handed on and the values of time-outs, all from one pass over the sequences."""
    runner, policy, _ = make("lstm", makers=[lambda k=k: Counting(k, 4 - k, timeout) for k in (0, 1)])
    states = policy.initial_state(2)
    for _ in range(3):
        rollout = runner.run()
        np.testing.assert_allclose(rollout.states, states, rtol=1e-4, atol=1e-5)
        obs, masks = env_major(rollout.obs), env_major(rollout.episode_start)
        outputs = policy.forward(obs, masks, states)
        np.testing.assert_allclose(env_major(rollout.values), outputs.value, rtol=1e-4, atol=1e-5)
        neglogps = policy.head.distribution(outputs.flat).neglogp(env_major(rollout.actions))
        np.testing.assert_allclose(env_major(rollout.neglogps), neglogps, rtol=1e-4, atol=1e-5)
        expected = np.zeros_like(rollout.timeout_values)
        ended = np.concatenate([rollout.episode_start[1:], rollout.last_episode_start[None]])
        for t, i in np.argwhere(ended) if timeout else ():
            before = policy.forward(
                rollout.obs[: t + 1, i], rollout.episode_start[: t + 1, i], states[i : i + 1]
            ).states
            last = rollout.obs[t, i] + np.float32([0, 0, 1])
            expected[t, i] = policy.forward(last[None], np.zeros(1), before).value[0]
        np.testing.assert_allclose(rollout.timeout_values, expected, rtol=1e-4, atol=1e-5)
        states = outputs.states.numpy()


def test_recurrent_last_values_go_on_from_the_last_state():
    runner, policy, _ = make("lstm", nsteps=3)
    rollout = runner.run()
    last_values, states = rollout.last_values.copy(), runner.run().states
    after = np.array([(0, 0, 3), (1, 1, 0)], np.float32)
    np.testing.assert_allclose(last_values, policy.forward(after, [0.0, 1.0], states).value, rtol=1e-4, atol=1e-5)


def test_episodes_are_those_that_ended_in_the_run():
    runner, _, _ = make(nsteps=6)
    lengths = [[episode["l"] for episode in runner.run().episodes] for _ in range(2)]
    assert lengths == [[3, 4, 3], [4, 3, 4, 3]]
    assert runner.run().episodes[0]["r"] == sum(100 * 1 + 10 * 4 + t for t in range(3))


@pytest.mark.parametrize("maker", [NumpyActor, GraphActor])
def test_numbers_as_observations(maker):
    runner, _, actor = make(makers=[Corridor], maker=maker)
    rollout = runner.run()
    np.testing.assert_array_equal(rollout.obs[:, 0], [3, 2, 1] * 2)
    assert rollout.obs.dtype == np.int64
    last = actor.value(np.zeros(1, np.int64))
    np.testing.assert_allclose(rollout.timeout_values[[2, 5], 0], last[0], rtol=1e-5, atol=1e-6)


def cut_and_ended():
    """A rollout in which time limits cut the first environment's episodes, and a termination is the very last step."""
    return make(makers=[lambda: Counting(0, 4, timeout=True), lambda: Counting(1, 3)])[0].run()


@pytest.mark.parametrize(("gamma", "lam"), [(0.9, 0.8), (1.0, 1.0), (0.9, 0.0), (0.0, 0.5)])
def test_advantages_are_sums_of_discounted_errors(gamma, lam):
    rollout = cut_and_ended()
    assert rollout.truncated.sum() == 1 and rollout.ended[[3, 2, 5], [0, 1, 1]].all() and rollout.ended.sum() == 3
    values = np.concatenate([rollout.values, rollout.last_values[None]]).astype(float)
    expected = np.zeros((7, 2))
    for t in reversed(range(6)):
        for i in range(2):
            after = rollout.timeout_values[t, i] if rollout.ended[t, i] else values[t + 1, i]
            expected[t, i] = rollout.rewards[t, i] + gamma * after - values[t, i]
            expected[t, i] += 0 if rollout.ended[t, i] else gamma * lam * expected[t + 1, i]
    advantages = rollout.advantages(gamma, lam)
    assert advantages.dtype == np.float32 and rollout.timeout_values[3, 0] != 0
    np.testing.assert_allclose(advantages, expected[:-1], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("gamma", [0.9, 1.0, 0.0])
def test_n_step_returns_go_on_to_the_end_or_the_last_value(gamma):
    rollout = cut_and_ended()
    expected = np.concatenate([np.zeros((6, 2)), rollout.last_values[None]])
    for t in reversed(range(6)):
        for i in range(2):
            after = rollout.timeout_values[t, i] if rollout.ended[t, i] else expected[t + 1, i]
            expected[t, i] = rollout.rewards[t, i] + gamma * after
    returns = rollout.n_step_returns(gamma)
    assert returns.dtype == np.float32
    np.testing.assert_allclose(returns, expected[:-1], rtol=1e-5)


@pytest.mark.parametrize(("network", "maker"), [("mlp", NumpyActor), ("mlp", GraphActor), ("lstm", make_actor)])
def test_probabilities_that_nobody_wants_are_left_out(network, maker):
    runner, policy, actor = make(network, maker=maker)
    rng, other = np.random.default_rng(0), make(network, maker=maker)[0]._env
    bare = Runner(other, policy, actor, 6, rng, keep_neglogps=False)
    kept, left_out = runner.run(), bare.run()
    assert kept.neglogps.any() and left_out.neglogps is None
    for name in ("obs", "actions", "rewards", "values", "episode_start", "last_values"):
        np.testing.assert_allclose(getattr(left_out, name), getattr(kept, name), rtol=1e-6, err_msg=name)
    assert kept.batch(policy.recurrent).keys() - left_out.batch(policy.recurrent).keys() == {"neglogpacs"}


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_a_batch_has_the_rows_of_one_environment_after_the_other(network):
    runner, policy, _ = make(network)
    runner.run()
    rollout = runner.run()
    batch = rollout.batch(policy.recurrent, returns=rollout.rewards + 1)
    names = {"obs": "obs", "actions": "actions", "values": "values", "neglogpacs": "neglogps"}
    expected = {name: getattr(rollout, attribute) for name, attribute in names.items()}
    expected["returns"] = rollout.rewards + 1
    if policy.recurrent:
        expected["episode_start"] = rollout.episode_start.astype(np.float32)
        np.testing.assert_array_equal(batch["states"], rollout.states)
        assert batch["obs"].shape == (2, 6, 3) and batch["episode_start"].dtype == np.float32
    assert batch.keys() == expected.keys() | ({"states"} if policy.recurrent else set())
    for name, array in expected.items():
        rows = np.concatenate([array[:, 0], array[:, 1]])
        np.testing.assert_array_equal(batch[name].reshape(rows.shape), rows, err_msg=name)
        assert not np.shares_memory(batch[name], array)


def test_an_actor_needs_only_to_act_step_by_step():
    """Anything with `step` and `value` will do; nothing asks of which class it is."""

    class Plain:
        def step(self, obs, states, episode_start, noise):
            return Step(np.full(2, 1), obs[:, 2] + 0.5, None, np.full(2, 0.25, np.float32))

        def value(self, obs, states=None, episode_start=None):
            return obs[:, 2] + 0.5

    runner, _, _ = make(makers=[lambda: Counting(0, 4, timeout=True), lambda: Counting(1, 3)], maker=lambda _: Plain())
    rollout = runner.run()
    np.testing.assert_array_equal(rollout.values, rollout.obs[..., 2] + 0.5)
    assert rollout.timeout_values[3, 0] == 4.5 and (rollout.neglogps == 0.25).all() and (rollout.actions == 1).all()


def test_env_major_orders_rows_by_environment_then_time():
    array = np.arange(24).reshape(3, 2, 4)
    np.testing.assert_array_equal(env_major(array), np.concatenate([array[:, 0], array[:, 1]]))
    np.testing.assert_array_equal(env_major(array[:, :, 0]), [0, 8, 16, 4, 12, 20])


class Cut(gymnasium.Env):
    """Random numbers that the actions move; its state can be saved."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32), DISCRETE

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = self.np_random.normal(size=2).astype(np.float32), 0
        return self.at.copy(), {}

    def step(self, action):
        self.at = self.at + np.float32(action) + self.np_random.normal(size=2).astype(np.float32)
        self.time += 1
        return self.at.copy(), float(self.at[0]), self.time % 5 == 0, self.time % 7 == 0, {}

    def get_state(self):
        return {"at": self.at, "time": self.time}

    def set_state(self, state):
        self.at, self.time = state["at"], state["time"]


ARRAYS = [
    "obs",
    "actions",
    "rewards",
    "values",
    "neglogps",
    "episode_start",
    "truncated",
    "timeout_values",
    "last_values",
]


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_a_restored_runner_goes_on_in_the_same_episodes(network):
    original, _, _ = make(network, makers=[Cut, Cut])
    assert original.state() == {}
    original.run()
    env_state, state = original._env.state(), original.state()
    rng_state = original._rng.bit_generator.state
    expected = [{name: np.array(getattr(rollout, name)) for name in ARRAYS} for rollout in (original.run(),)]
    again = make(network, makers=[Cut, Cut], seed=5)[0]
    # The same parameters, which the model would restore.
    again._actor = original._actor
    again._env.restore(env_state), again.restore(state)
    again._rng.bit_generator.state = rng_state
    rollout = again.run()
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(rollout, name), expected[0][name], err_msg=name)
    assert (rollout.states is None) == (network == "mlp")


def test_where_the_environments_begin_anew_so_does_the_runner():
    original, again = make()[0], make()[0]
    original.run()
    again._env.restore(original._env.state()), again.restore(original.state())
    assert not again._env.restored
    assert again.run().obs[0, :, 2].tolist() == [0, 0]
    again.restore({})
