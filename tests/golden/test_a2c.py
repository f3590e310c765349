"""A2C's losses, weights, mean squares and learning rates after one and three updates against the original's numbers."""

import numpy as np
import pytest
from cases import Spaces, cases, group, load
from weights import assert_close, assert_equal, assign

from tfbaselines.algs import a2c
from tfbaselines.config.schedules import FRACTION_SCHEDULES
from tfbaselines.learn.exchange import joined
from tfbaselines.learn.optimizers import RMSProp
from tfbaselines.training.on_policy import OnPolicyRun

CASES = [case for case in cases("a2c_*") if case != "a2c_schedules"]


def make_run(arrays, hyper):
    """The run before its first rollout, with the golden weights."""
    names = ("alpha", "epsilon", "ent_coef", "vf_coef", "lr", "lrschedule", "max_grad_norm", "nsteps")
    arguments = {name: hyper[name] for name in (*names, "total_timesteps", "value_network")}
    config = a2c.Config.of(arguments | hyper["network_kwargs"])
    run = OnPolicyRun(a2c.ALGORITHM, hyper["network"], Spaces(hyper["nenv"], arrays), config)
    assign(run.policy.trainable_variables, group(arrays, "w0"))
    return run


def make_batch(arrays):
    """The rollout as the loss takes it."""
    names = {"obs": "obs", "actions": "actions", "values": "values", "returns": "rewards"}
    batch = {name: arrays[key] for name, key in names.items()}
    if "states" not in arrays:
        return batch
    batch["episode_start"] = arrays["masks"].astype(np.float32)
    rows = len(arrays["states"])
    batch = {name: array.reshape(rows, -1, *array.shape[1:]) for name, array in batch.items()}
    return batch | {"states": arrays["states"]}


@pytest.mark.parametrize("case", CASES)
def test_three_updates(case):
    arrays, hyper = load(case)
    run = make_run(arrays, hyper)
    optimizer = RMSProp(run.config.alpha, run.config.epsilon)
    step = a2c.make_step(run, optimizer)
    for call in range(3):
        run.clock.update += 1
        rates = run.rates(run.clock.fraction_after_update)
        np.testing.assert_allclose(rates["lr"], arrays["lr_used"][call], rtol=1e-12)
        statistics = step(make_batch(arrays), **rates)
        np.testing.assert_allclose(list(statistics.values()), arrays["losses"][call], rtol=1e-5, atol=1e-5)
        if call in (0, 2):
            assert_equal(run.policy.trainable_variables, group(arrays, f"w{call + 1}"))
    (squares,) = optimizer.variables
    assert_close(squares.numpy(), joined(group(arrays, "rms_ms3").values()).numpy())


@pytest.mark.parametrize("shape", FRACTION_SCHEDULES)
def test_schedules(shape):
    arrays, hyper = load("a2c_schedules")
    fractions = 1.0 - np.arange(50) / hyper["nvalues"]
    values = [hyper["v"] * FRACTION_SCHEDULES[shape](fraction) for fraction in fractions.tolist()]
    np.testing.assert_allclose(values, arrays[f"value/{shape}"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(values, arrays[f"value_steps/{shape}"], rtol=1e-6, atol=1e-9)
