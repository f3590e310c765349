"""The penalty of conservative critics, against plain loops in numpy."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.sac.offline import conservative_gaps, sampled_actions
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype

SEEN = spaces.Box(-1.0, 1.0, (3,), np.float32)
BOUNDED = spaces.Box(np.array([[-1.0, 2.0]], np.float32), np.array([[3.0, 2.5]], np.float32))
ROWS, COUNT = 5, 4


class Spaces:
    def __init__(self, actions):
        self.observation_space, self.action_space = SEEN, actions


def policy_of(actions, head):
    tf.keras.utils.set_random_seed(0)
    return build_actor_critic(Spaces(actions), "dense", head=head, critics=2, hidden_sizes=[8])


def batch_of(policy, actions, rng):
    obs = rng.uniform(-1, 1, (ROWS, 3)).astype(np.float32)
    return {"obs": tf.constant(obs), "now": policy.view(tf.constant(obs)), "actions": tf.constant(actions)}


def test_the_penalty_of_continuous_actions_against_a_loop():
    rng = np.random.default_rng(1)
    policy = policy_of(BOUNDED, SquashedGaussianHead)
    taken = rng.uniform(BOUNDED.low, BOUNDED.high, (ROWS, 1, 2)).astype(np.float32)
    batch = batch_of(policy, taken, rng)
    uniform = rng.uniform(-1, 1, (ROWS, COUNT, 2)).astype(np.float32)
    noise = rng.normal(size=(ROWS, COUNT, 2)).astype(np.float32)
    sampled, density = sampled_actions(policy, batch["now"], tf.constant(uniform), tf.constant(noise))
    batch |= {"sampled": sampled, "log_density": density}
    values = policy.q(batch["now"], batch["actions"])
    flat, centre, limit = policy.act(batch["now"]).numpy(), policy.head.center, policy.head.limit
    for critic, gap in enumerate(conservative_gaps(policy, batch, values)):
        expected = 0.0
        for row in range(ROWS):
            one = policy.view(batch["obs"][row : row + 1])
            mean, std = flat[row, :2], np.exp(np.clip(flat[row, 2:], -20, 2))
            terms = []
            for k in range(COUNT):
                x = np.tanh(mean + std * noise[row, k])
                logp = np.sum(-0.5 * noise[row, k] ** 2 - np.log(std * np.sqrt(2 * np.pi)) - np.log(1 - x**2))
                for unit, log_density in ((uniform[row, k], np.log(0.25)), (x, logp)):
                    q = policy.q(one, tf.constant((centre + limit * unit)[None, None], tf.float32))[critic]
                    terms.append(float(q[0]) - log_density)
            expected += (np.log(np.sum(np.exp(terms))) - np.log(2 * COUNT) - float(values[critic][row])) / ROWS
        np.testing.assert_allclose(gap, expected, rtol=1e-4)


def test_samples_estimate_the_integral():
    """log of the integral of exp Q over the actions in units of their bounds, on a fine grid and from samples."""
    rng = np.random.default_rng(2)
    space = spaces.Box(-2.0, 2.0, (1,), np.float32)
    policy = policy_of(space, SquashedGaussianHead)
    batch = batch_of(policy, np.zeros((ROWS, 1), np.float32), rng)
    count = 4000
    uniform = rng.uniform(-1, 1, (ROWS, count, 1)).astype(np.float32)
    noise = rng.normal(size=(ROWS, count, 1)).astype(np.float32)
    sampled, density = sampled_actions(policy, batch["now"], tf.constant(uniform), tf.constant(noise))
    values = policy.q(batch["now"], batch["actions"])
    gaps = conservative_gaps(policy, batch | {"sampled": sampled, "log_density": density}, values)
    grid = np.tile(np.linspace(-2, 2, 2001, dtype=np.float32)[None, :, None], (ROWS, 1, 1))
    for gap, q, value in zip(gaps, policy.q_of_several(batch["now"], tf.constant(grid)), values, strict=True):
        integral = np.log(np.exp(q.numpy()).mean(axis=1) * 2.0)
        np.testing.assert_allclose(gap, np.mean(integral - value.numpy()), atol=0.02)


@pytest.mark.parametrize("space", [spaces.Discrete(3, start=5), spaces.MultiDiscrete([3, 2], start=[1, -4])])
def test_the_penalty_of_discrete_actions_against_a_loop(space):
    rng = np.random.default_rng(3)
    policy = policy_of(space, make_pdtype)
    space.seed(0)
    actions = np.array([space.sample() for _ in range(ROWS)])
    batch = batch_of(policy, actions, rng)
    starts, widths = np.ravel(space.start), [space.n] if isinstance(space, spaces.Discrete) else list(space.nvec)
    for q, gap in zip(policy.q_all(batch["now"]), conservative_gaps(policy, batch, []), strict=True):
        expected = 0.0
        for row in range(ROWS):
            joint = {}
            for choice in np.ndindex(*widths):
                places = np.cumsum([0, *widths[:-1]]) + choice
                joint[choice] = float(sum(q[row, place] for place in places))
            taken = tuple(int(a) - int(s) for a, s in zip(np.ravel(actions[row]), starts, strict=True))
            expected += (np.log(np.sum(np.exp(list(joint.values())))) - joint[taken]) / ROWS
        np.testing.assert_allclose(gap, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["mlp", "memory"])
def test_values_of_several_actions_are_those_of_each(kind):
    own = {"memory_size": 4} if kind == "memory" else {}
    policy = build_actor_critic(Spaces(BOUNDED), "dense", head=SquashedGaussianHead, critics=2, hidden_sizes=[8], **own)
    rng = np.random.default_rng(4)
    obs = tf.constant(rng.uniform(-1, 1, (ROWS, 3)), tf.float32)
    memory = (tf.zeros(ROWS), tf.zeros((1, policy.state_size))) if own else ()
    view = policy.view(obs, *memory)
    actions = tf.constant(rng.uniform(BOUNDED.low, BOUNDED.high, (ROWS, COUNT, 1, 2)), tf.float32)
    each = [policy.q(view, actions[:, k]) for k in range(COUNT)]
    for critic, q in enumerate(policy.q_of_several(view, actions)):
        np.testing.assert_allclose(q, np.stack([one[critic] for one in each], axis=1), rtol=1e-4, atol=1e-6)
