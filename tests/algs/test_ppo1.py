"""ppo1: its loss against the formula in numpy, what it hands to its steps, and the limits that it alone has."""

import numpy as np
import pytest
from small_environments import identity

from tfbaselines.algs import ppo1
from tfbaselines.policy.policy import build_policy

SMALL = {"timesteps_per_actorbatch": 64, "max_iters": 3, "optim_epochs": 2, "num_hidden": 8, "seed": 0}


def learn(**kwargs):
    return ppo1.learn("mlp", identity(), **SMALL | kwargs)


@pytest.fixture
def steps(monkeypatch, eager):
    """The data, rows of minibatches and rates of every call of the gradient steps."""
    seen, make = [], ppo1.BatchRun.gradient_steps

    def recording(run, *args, **kwargs):
        step = make(run, *args, **kwargs)

        def recorded(data, rows, **rates):
            seen.append((data, rows, rates))
            return step(data, rows, **rates)

        return recorded

    monkeypatch.setattr(ppo1.BatchRun, "gradient_steps", recording)
    return seen


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.mark.parametrize(("clip", "entcoeff"), [(0.2, 0.0), (0.01, 0.1)])
def test_the_loss_is_the_formula(clip, entcoeff):
    rng, size = np.random.default_rng(0), 32
    policy = build_policy(identity(), "mlp", num_hidden=8)
    for variable in policy.trainable_variables:
        variable.assign(rng.standard_normal(variable.shape))
    batch = {
        "obs": rng.integers(0, 4, size),
        "actions": rng.integers(0, 4, size),
        "advantages": rng.standard_normal(size).astype(np.float32),
        "returns": rng.standard_normal(size).astype(np.float32),
        "flat": rng.standard_normal((size, 4)).astype(np.float32),
    }
    outputs = policy.forward(batch["obs"])
    now, old, each = log_softmax(outputs.flat.numpy()), log_softmax(batch["flat"]), np.arange(size)
    ratio = np.exp(now[each, batch["actions"]] - old[each, batch["actions"]])
    bounded = np.clip(ratio, 1 - clip, 1 + clip)
    entropy = -(np.exp(now) * now).sum(-1).mean()
    expected = {
        "pol_surr": -np.minimum(ratio * batch["advantages"], bounded * batch["advantages"]).mean(),
        "pol_entpen": -entcoeff * entropy,
        "vf_loss": ((outputs.value.numpy() - batch["returns"]) ** 2).mean(),
    }
    loss, parts = ppo1.loss(policy, batch, clip, entcoeff)
    np.testing.assert_allclose(loss, sum(expected.values()), rtol=1e-5)
    expected |= {"kl": (np.exp(old) * (old - now)).sum(-1).mean(), "ent": entropy}
    assert parts.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_every_epoch_sees_each_row_once_with_advantages_of_unit_deviation(steps):
    learn(optim_batchsize=16, optim_epochs=3)
    assert len(steps) == 3
    for data, rows, _ in steps:
        assert data.keys() == {"obs", "actions", "advantages", "returns", "flat"}
        assert rows.shape == (3 * 4, 16)
        for epoch in rows.reshape(3, 64):
            assert sorted(epoch) == list(range(64))
        assert (rows.reshape(3, 64)[0] != rows.reshape(3, 64)[1]).any()
        np.testing.assert_allclose([data["advantages"].mean(), data["advantages"].std()], [0, 1], atol=1e-5)


def test_probabilities_of_before_the_update_are_kept(steps):
    model = learn(max_iters=1, optim_epochs=4, optim_stepsize=1e-2)
    ((data, _, _),) = steps
    # The last layer of a new policy is all but zero; after the update it is not.
    assert np.abs(data["flat"]).max() < 0.1
    assert np.abs(model.policy.forward(data["obs"]).flat.numpy() - data["flat"]).max() > 0.01


def test_clip_and_stepsize_fall_together(steps):
    def rates():
        return [(one["lr"], one["clip_param"]) for _, _, one in steps]

    learn(optim_stepsize=1e-3, clip_param=0.3)
    np.testing.assert_allclose(rates(), [(1e-3 * left, 0.3 * left) for left in (1.0, 2 / 3, 1 / 3)])
    steps.clear()
    learn(optim_stepsize=1e-3, clip_param=0.3, schedule="constant")
    assert rates() == [(1e-3, 0.3)] * 3


def test_limits(eager):
    seen = []
    count = {"callback": lambda names, _: seen.append(names["timesteps_so_far"]), "max_iters": 0}
    learn(max_timesteps=192, **count)
    assert seen == [0, 64, 128]
    seen.clear()
    learn(max_seconds=1e-3, schedule="constant", **count)
    assert seen == [0]
    # More than what total_timesteps is without any limit.
    assert ppo1.Config(max_timesteps=2e6).most_timesteps(64) == 2_000_000
    with pytest.raises(ValueError, match=r"^schedule='linear' is not valid: needs total_timesteps"):
        learn(max_seconds=1.0, max_iters=0)
