"""ACKTR's losses, gradients, factors, momenta and weights over 18 updates against the original's numbers."""

import json

import numpy as np
import pytest
import tensorflow as tf
from cases import Spaces, cases, group, load
from weights import assign

from tfbaselines.algs import acktr
from tfbaselines.learn.exchange import joined
from tfbaselines.training.on_policy import OnPolicyRun

CASES = cases("acktr_*")
NAMES = ("ent_coef", "is_async", "kfac_clip", "lr", "lrschedule", "max_grad_norm", "nsteps")
NAMES += ("total_timesteps", "value_network", "vf_coef", "vf_fisher_coef")


def assert_close(actual, expected, name):
    """Within 1e-4 of the array's largest number: rounding grows from call to call, in the original too."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4 * np.max(np.abs(expected)), err_msg=name)


class Golden:
    """The original's numbers by variable: `w` is a kernel, `b` a bias."""

    def __init__(self, arrays):
        self.before, self.covariances = group(arrays, "traj"), group(arrays, "cov_at_weights_before")
        self.gradients = group(arrays, "grad_at_weights_before")
        self.pairing = json.loads(str(arrays["factor_pairing_json"]))

    def weights(self, calls, suffix=""):
        return joined([self.before[name + suffix][calls] for name in self.pairing]).numpy()

    def names_of_factors(self):
        """In the order of each variable."""
        return [[*pair["fprop"], *pair["bprop"]] for pair in self.pairing.values()]


@pytest.fixture(params=CASES)
def case(request):
    arrays, hyper = load(request.param)
    config = acktr.Config.of({name: hyper[name] for name in NAMES} | hyper["network_kwargs"])
    env = Spaces(hyper["nenv"], arrays)
    run = OnPolicyRun(acktr.ALGORITHM, hyper["network"], env, config)
    assign(run.policy.trainable_variables, group(arrays, "w0"))
    names = {"obs": "obs", "actions": "actions", "values": "values", "returns": "rewards", "noise": "vf_fisher_noise"}
    return arrays, run, {name: arrays[key] for name, key in names.items()}


def flat(run):
    return joined([variable.value for variable in run.policy.trainable_variables]).numpy()


def by_variable(step, run, matrices):
    """Factors [n, n] by the numbers of each variable's."""
    numbers = [step._factors.numbers_of(variable) for variable in run.policy.trainable_variables]
    return [[matrices[number] for number in own] for own in numbers]


def split(step, vector):
    sizes = step._factors.sizes
    parts = np.split(vector, np.cumsum([size * size for size in sizes])[:-1])
    return [part.reshape(size, size) for part, size in zip(parts, sizes, strict=True)]


def assert_factors(step, run, vector, golden, name):
    """Each variable's factors, end to end in a vector, are those that a function of their names gives."""
    found = by_variable(step, run, split(step, vector))
    for own, names in zip(found, golden.names_of_factors(), strict=True):
        for matrix, key in zip(own, names, strict=True):
            assert_close(matrix, name(key), key)


def test_updates(case):
    arrays, run, batch = case
    golden, step = Golden(arrays), acktr.make_step(run)
    # K-FAC's steps begin with the tenth call, gradient descent's end with the eleventh.
    applied = arrays["kfac_step_applied"].tolist(), arrays["cold_step_applied"].tolist()
    assert applied == ([False] * 9 + [True] * 9, [True] * 11 + [False] * 7)
    tensors = {name: tf.constant(array) for name, array in batch.items()}
    for call, lr in enumerate(arrays["lr_used"]):
        run.clock.update += 1
        rates = run.rates(run.clock.fraction_after_update)
        np.testing.assert_allclose(rates["lr"], lr, rtol=1e-12)
        (gradient, factors), _ = step.measure(tensors)
        expected = joined([golden.gradients[name][call] for name in golden.pairing])
        assert_close(gradient, expected, f"gradient {call}")
        assert_factors(step, run, factors.numpy(), golden, lambda key, call=call: golden.covariances[key][call])
        statistics = step(batch, **rates)
        assert_close(list(statistics.values())[:3], arrays["losses"][call], f"losses {call}")
        divergence = step.natural(gradient, tf.constant(lr, tf.float32))[1]
        assert_close(divergence, golden.before["KFAC.vFv"][call + 1], f"divergence {call}")
        assert_after(step, run, golden, call + 1)


def assert_after(step, run, golden, calls):
    """Weights, averages, momenta and decompositions after so many calls."""
    assert_close(flat(run), golden.weights(calls), f"weights {calls}")
    assert_factors(step, run, step.averages.numpy(), golden, lambda key: golden.before[key][calls])
    assert_close(step.velocity, golden.weights(calls, ".Momentum"), f"velocity {calls}")
    assert_close(step.cold_velocity, golden.weights(calls, ".Momentum_1"), f"cold velocity {calls}")
    if calls < 10:
        # Nothing was decomposed yet.
        assert not step.eigen.numpy().any()
        return
    products = np.concatenate([np.ravel((q * e) @ q.numpy().T) for e, q in step._decompositions()])

    def product(key):
        e, q = (golden.before[f"KFAC_FAC.{key}.{letter}"][calls] for letter in "eQ")
        return (q * np.where(e > 1e-6, e, 0.0)) @ q.T

    assert_factors(step, run, products, golden, product)
