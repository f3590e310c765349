"""Critics of several reward signals: what each goes towards, and what the actor ascends."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.sac.loss import Choices, SampledActions, Temperature
from tfbaselines.algs.sac.signals import SignalLosses
from tfbaselines.learn.losses import views
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype

RNG = np.random.default_rng(0)
ROWS, ALPHA = 6, 0.3
NAMES = ["extrinsic", "gail", "rnd"]
STRENGTHS = [2.0, 0.5, 0.25]
SPACES = [spaces.Box(-2.0, 1.0, (2,), np.float32), spaces.Discrete(3, start=4)]


def drawn(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def make(space):
    env = SimpleNamespace(observation_space=spaces.Box(-np.inf, np.inf, (3,), np.float32), action_space=space)
    head = SquashedGaussianHead if isinstance(space, spaces.Box) else make_pdtype
    return build_actor_critic(env, "dense", head=head, critics=2, streams=3, hidden_sizes=(4,))


def losses_of(policy, target, strengths, goes_on):
    actions = Choices(policy) if policy.discrete else SampledActions(policy)
    strengths = dict(zip(NAMES, strengths, strict=True))
    return SignalLosses(policy, target, Temperature(ALPHA), actions, strengths=strengths, goes_on=goes_on)


@pytest.fixture(params=SPACES, ids=["box", "discrete"])
def given(request):
    policy, target = make(request.param), make(request.param)
    critics = losses_of(policy, target, STRENGTHS, [False, False, True])
    batch = {name: drawn(ROWS, 3) for name in ("obs", "next_obs", "following", "rewards")}
    batch |= {"discount": np.float32(RNG.random((ROWS, 3))), "noise_next": drawn(ROWS, 2)}
    batch["actions"] = np.array([request.param.sample() for _ in range(ROWS)])
    batch = {name: tf.constant(array) for name, array in batch.items()}
    return policy, target, critics, batch | views(policy, batch)


def soft_value(policy, target, k, obs, noise):
    """min q_k' - alpha log pi / sum of strengths, expected over the policy's actions."""
    view = policy.view(obs)
    share = ALPHA / sum(STRENGTHS)
    if policy.discrete:
        logits = policy.act(view).numpy().astype(float)
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        least = np.minimum(*(q.numpy() for q in target.q_all(view)[2 * k : 2 * k + 2]))
        return (np.exp(logp) * (least - share * logp)).sum(-1)
    actions, logp = policy.head.sample(policy.act(view), noise)
    return np.minimum(*(q.numpy() for q in target.q(view, actions)[2 * k : 2 * k + 2])) - share * logp.numpy()


def test_each_signal_has_returns_of_its_own(given):
    """Those of the third go on in the next episode."""
    policy, target, critics, batch = given
    found = critics.prepare(batch)["targets"]
    for k, after in enumerate(("next_obs", "next_obs", "following")):
        value = soft_value(policy, target, k, batch[after], batch["noise_next"])
        expected = batch["rewards"][:, k] + batch["discount"][:, k] * value
        np.testing.assert_allclose(found[:, k], expected, rtol=1e-4, atol=1e-5)


def test_the_actor_ascends_the_sum_by_strength(given):
    policy, _, critics, batch = given
    loss, _ = critics.actor_loss(batch | {"noise": batch["noise_next"]})
    own = [soft_value(policy, policy, k, batch["obs"], batch["noise_next"]) for k in range(3)]
    expected = sum(strength * one for strength, one in zip(STRENGTHS, own, strict=True))
    np.testing.assert_allclose(-loss, expected.mean(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("counted", [False, True])
def test_the_loss_is_of_all_critics(given, counted):
    policy, _, critics, batch = given
    batch |= {"targets": tf.constant(drawn(ROWS, 3))}
    counts = np.ones((ROWS, 3), np.float32)
    if counted:
        counts[:2, 1] = counts[3, 2] = 0.0
        batch |= {"valid": tf.ones(ROWS), "counts": tf.constant(counts)}
    q = np.array([one.numpy() for one in policy.q(batch["now"], batch["actions"])]).reshape(3, 2, ROWS)
    losses = 0.5 * (q - batch["targets"].numpy().T[:, None]) ** 2 * counts.T[:, None]
    losses = losses.sum(-1) / counts.sum(0)[:, None]
    total, statistics = critics.critic_loss(batch)
    assert float(total) == pytest.approx(losses.sum(), rel=1e-4)
    assert float(statistics["LossQ1"]) == pytest.approx(losses[:, 0].sum(), rel=1e-4)
    assert float(statistics["gail/q_loss"]) == pytest.approx(losses[1].sum(), rel=1e-4)
    least = (q.min(1) * counts.T).sum(-1) / counts.sum(0)
    assert [float(statistics[f"{name}/value"]) for name in NAMES] == pytest.approx(least, rel=1e-4)
    assert float(statistics["Q1Vals"]) == pytest.approx(np.mean(STRENGTHS @ q[:, 0]), rel=1e-4)
    assert set(critics.columns) < set(statistics)


def test_without_any_strength_there_is_no_share_of_the_entropy():
    policy = make(SPACES[1])
    critics = losses_of(policy, make(SPACES[1]), [0.0] * 3, [False] * 3)
    batch = {name: tf.constant(drawn(ROWS, 3)) for name in ("obs", "next_obs", "rewards", "discount")}
    assert np.isfinite(critics.prepare(batch)["targets"]).all()
