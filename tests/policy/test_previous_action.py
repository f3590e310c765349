"""The previous action as an input of memory: in acting, in sequences, at an episode's start and in what is saved."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from helpers import vec
from small_environments import box
from small_runs import demonstrations_for, learn, stop_after, train, weights

from tfbaselines.algs import get
from tfbaselines.config.options import RunOptions
from tfbaselines.errors import UsageError
from tfbaselines.evaluate import evaluate
from tfbaselines.learn.losses import evaluated
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.policy import build_policy
from tfbaselines.policy.previous_action import PreviousActionCritics, PreviousActionPolicy

SEEN = spaces.Box(-1.0, 1.0, (2,), np.float32)
KINDS = {
    "Discrete": (spaces.Discrete(3, start=5), 3),
    "MultiDiscrete": (spaces.MultiDiscrete([3, 2], start=[1, -4]), 5),
    "MultiBinary": (spaces.MultiBinary(3), 3),
    "Box": (spaces.Box(-2.0, 2.0, (2,), np.float32), 2),
}


class Places:
    def __init__(self, actions):
        self.observation_space, self.action_space = SEEN, actions


class Alternate(gymnasium.Env):
    """Pays for an action that differs from the previous one, which is not shown; episodes of ten steps."""

    observation_space, action_space = SEEN, spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.last = 0, None
        return np.zeros(2, np.float32), {}

    def step(self, action):
        reward = float(self.last is not None and action != self.last)
        self.time, self.last = self.time + 1, action
        return np.zeros(2, np.float32), reward, self.time == 10, False, {}


def check_sequence(policy, actions_of, width):
    """Compare acting step by step with the outputs for a sequence; the observations are random."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(2, 5, 2)).astype(np.float32)
    taken = np.array([[actions_of.sample() for _ in range(5)] for _ in range(2)])
    starts = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0]], np.float32)
    states = policy.initial_state(2)
    states[:, -width:] = 0.5
    batch = {"obs": obs, "actions": taken, "episode_start": starts, "states": states}
    _, whole = evaluated(policy, {name: tf.constant(array) for name, array in batch.items()})
    flats, values, now = [], [], tf.constant(states)
    for t in range(5):
        outputs = policy.forward(obs[:, t], starts[:, t], now)
        now = policy.after_action(outputs.states, taken[:, t])
        np.testing.assert_array_equal(policy.after_other_action(outputs.states.numpy(), taken[:, t]), now)
        flats.append(outputs.flat)
        values.append(outputs.value)
    np.testing.assert_allclose(np.stack(flats, 1).reshape(10, -1), whole.flat, atol=1e-5)
    np.testing.assert_allclose(np.stack(values, 1).ravel(), whole.value, atol=1e-5)
    np.testing.assert_allclose(now, whole.states, atol=1e-5)
    # It matters within an episode, and not at its start.
    other = {**batch, "actions": np.roll(taken, 1, axis=0)}
    if not np.array_equal(taken[0, 2], taken[1, 2]):
        _, changed = evaluated(policy, {name: tf.constant(array) for name, array in other.items()})
        differs = (np.abs(changed.flat.numpy() - whole.flat.numpy()).max(axis=1) > 1e-7).reshape(2, 5)
        assert not differs[:, 0].any() and not differs[0, 3] and differs[1, 3:].all()


@pytest.mark.parametrize("value_network", [None, "copy"])
@pytest.mark.parametrize("kind", KINDS)
def test_acting_step_by_step_is_what_a_sequence_gives(kind, value_network, eager):
    actions_of, width = KINDS[kind]
    build = lambda **own: build_policy(Places(actions_of), "lstm", value_network, nlstm=4, **own)
    policy = build(policy_class=PreviousActionPolicy)
    assert policy.state_size == build().state_size + width
    check_sequence(policy, actions_of, width)


@pytest.mark.parametrize("kind", ["Discrete", "MultiDiscrete", "Box"])
def test_actors_with_critics_see_it_too(kind, eager):
    actions_of, width = KINDS[kind]
    heads = {"head": SquashedGaussianHead if kind == "Box" else make_pdtype}
    own = heads | {"critics": 2, "memory_size": 8, "num_layers": 1, "num_hidden": 4}
    policy = build_actor_critic(Places(actions_of), "mlp", policy_class=PreviousActionCritics, **own)
    assert policy.state_size == 16 + width
    check_sequence(policy, actions_of, width)


def test_a_network_without_memory_is_refused():
    for alg in ("ppo2", "a2c", "vpg", "ppo", "sac", "acer"):
        with pytest.raises(UsageError, match="prev_action=True is not valid: needs a network with memory"):
            learn(alg, vec(Alternate), 1, "mlp", prev_action=True)


@pytest.mark.parametrize("alg", ["vpg", "ppo"])
def test_an_epoch_learns_with_it(alg, eager):
    before, after = (learn(alg, vec(Alternate), n, "lstm", prev_action=True).policy for n in (0, 1))
    assert (weights(before) != weights(after)).any() and isinstance(after, PreviousActionPolicy)


@pytest.mark.parametrize("alg", ["sac", "td3"])
def test_replayed_states_end_with_the_action_that_was_taken(alg, eager):
    """Random and noisy actions are other ones than the policy chose."""
    env = vec(Alternate) if alg == "sac" else box()
    model = learn(alg, env, 3, "mlp", memory_size=4, prev_action=True, sequence_length=2)
    rows = model.replay.gather_sequences(np.arange(20), 1)
    actions = np.asarray(rows["actions"])[::2]
    encoded = np.eye(2)[actions] if alg == "sac" else actions
    np.testing.assert_allclose(rows["states"][1:, -encoded.shape[1] :], encoded[:-1], atol=1e-6)
    assert np.unique(encoded, axis=0).shape[0] > 1


def test_acer_learns_with_it(eager):
    for env in (vec(Alternate), box()):
        before, after = (learn("acer", env, n, "lstm", prev_action=True, nlstm=4).policy for n in (0, 3))
        assert (weights(before) != weights(after)).any() and isinstance(after, PreviousActionPolicy)


@pytest.mark.parametrize("alg", ["ppo2", "a2c"])
def test_a_run_is_saved_resumed_exported_and_acts(alg, eager, tmp_path):
    own = {"prev_action": True} | (
        {"pretraining": {"demo_path": demonstrations_for(vec(Alternate)), "sequence_length": 3}}
    )
    own = own if alg == "ppo2" else {"prev_action": True}
    whole = train(tmp_path / "whole", alg, vec(Alternate), 2, "lstm", **own)
    train(tmp_path / "parts", alg, vec(Alternate), 2, "lstm", run=stop_after(1), **own)
    options = RunOptions(resume=str(tmp_path / "parts"))
    resumed = train(tmp_path / "parts", alg, vec(Alternate), 2, "lstm", run=options, **own)
    np.testing.assert_array_equal(weights(whole.policy), weights(resumed.policy))
    assert (weights(whole.policy) != 0).any()
    whole.save(tmp_path / "model")
    again = learn(alg, vec(Alternate), 0, "lstm", load_path=str(tmp_path / "model"), **own)
    obs, state = np.zeros((1, 2), np.float32), whole.initial_states(1)
    for _ in range(4):
        (action, new), (other, _) = (one.act(obs, state, deterministic=True) for one in (whole, again))
        np.testing.assert_array_equal(action, other)
        np.testing.assert_array_equal(new[:, -2:], np.eye(2, dtype=np.float32)[action])
        state = new
    assert len(evaluate(whole, vec(Alternate), episodes=2)["returns"]) == 2
    if alg != "ppo2":
        return
    tf.config.run_functions_eagerly(False)
    whole.export(str(tmp_path / "served"))
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    state = whole.initial_states(1)
    for _ in range(3):
        action, new = whole.act(obs, state, deterministic=True)
        results = served(observations=tf.constant(obs), states=tf.constant(state), masks=tf.zeros(1))
        np.testing.assert_array_equal(results["actions"], action)
        np.testing.assert_allclose(results["states"], new, atol=1e-6)
        state = new


@pytest.mark.slow
def test_it_learns_what_only_the_previous_action_shows():
    own = {"nsteps": 64, "nminibatches": 1, "noptepochs": 4, "lr": 1e-2, "nlstm": 8, "ent_coef": 0.0, "seed": 0}
    model = get("ppo2").learn("lstm", vec(Alternate, 4), total_timesteps=64 * 4 * 20, prev_action=True, **own)
    assert evaluate(model, vec(Alternate), episodes=1, deterministic=True)["mean"] == 9.0
