"""Weight decay and resets of sac, which keep networks able to learn in long runs."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from small_environments import box
from small_runs import EPOCH, learn, rows, stop_after, train

from tfbaselines.algs.sac import Config, plasticity
from tfbaselines.algs.sac.crossq import StatisticsRule
from tfbaselines.algs.sac.plasticity import Decayed
from tfbaselines.config.options import RunOptions
from tfbaselines.errors import UsageError
from tfbaselines.learn.optimizers import Adam


def adam_with_decay_by_a_loop(weights, gradients, lr, decay):
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step, gradient in enumerate(gradients, 1):
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        weights = weights * (1 - lr * decay)
        weights = weights - lr * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return weights


def test_weight_decay_against_a_loop():
    rng = np.random.default_rng(0)
    first = {"matrix": rng.normal(size=(3, 2)), "kernel": rng.normal(size=(2, 2, 1, 3)), "bias": rng.normal(size=3)}
    variables = [keras.Variable(np.float32(value), name=name) for name, value in first.items()]
    gradients = [[rng.normal(size=value.shape) for value in first.values()] for _ in range(4)]
    rule = Decayed(Adam(epsilon=1e-8), 0.5)
    rule.build(variables)
    for one in gradients:
        rule.apply([tf.constant(gradient, tf.float32) for gradient in one], tf.constant(0.1))
    for number, (variable, (name, value)) in enumerate(zip(variables, first.items(), strict=True)):
        own = [one[number] for one in gradients]
        expected = adam_with_decay_by_a_loop(value, own, 0.1, 0.0 if name == "bias" else 0.5)
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("critic", ["plain", "crossq"])
def test_actor_and_critics_decay_and_nothing_else(critic, eager):
    models = [learn("sac", box(2), 4, critic=critic, alpha="auto", weight_decay=decay) for decay in (0.0, 300.0)]
    norms = []
    for model in models:
        groups = {"actor": model.policy.acting_variables, "critic": model.policy.critic_variables}
        norms.append({name: np.mean([np.abs(v).mean() for v in one if v.ndim > 1]) for name, one in groups.items()})
    assert all(norms[1][name] < 0.9 * norms[0][name] for name in norms[0])
    rule = models[1].update.phases[-1 if critic == "plain" else 0].rule
    assert isinstance(rule, Decayed) and isinstance(rule._rule, StatisticsRule) == (critic == "crossq")
    assert not isinstance(models[1].update.phases[0 if critic == "plain" else 2].rule, Decayed)


def resetting(directory, steps, interval, **own):
    return train(directory, "sac", box(2), steps, reset_interval=interval, alpha="auto", **own)


def test_networks_and_optimizers_begin_anew_and_the_replay_stays(eager, tmp_path, monkeypatch):
    seen, take = [], plasticity.Resets.take

    def watched(self):
        model = self._model
        before = [variable.numpy() for variable in model.policy.trainable_variables]
        take(self)
        after = [variable.numpy() for variable in model.policy.trainable_variables]
        same = [np.array_equal(one, other) for one, other in zip(before, after, strict=True)]
        seen.append((self._run.timesteps, all(same), model.update.step, len(model.replay)))
        if not all(same):
            for variable, target in zip(
                model.policy.trainable_variables, model.averaged.policy.trainable_variables, strict=True
            ):
                np.testing.assert_array_equal(variable, target)
            slots = [slot for phase in model.update.state()["slots"].values() for slot in phase.values()]
            # Iterations and moments; the learning rate is the other number.
            assert sum(np.any(slot != 0) for slot in slots) <= len(model.update.phases)
            assert float(self._temperature()) == 1.0 and not any(
                np.array_equal(a, b) for a, b in kernels(before, after)
            )

    monkeypatch.setattr(plasticity.Resets, "take", watched)
    resetting(tmp_path, 12, EPOCH)
    text = (tmp_path / "log.txt").read_text()
    total = max(steps for steps, *_ in seen)
    resets = [steps for steps, same, *_ in seen if not same]
    assert resets == list(range(EPOCH, total - EPOCH + 1, EPOCH)) and len(resets) > 1
    assert all(step == 0 for _, same, step, _ in seen if not same) and seen[-1][2] > 0
    assert all(replayed == steps for steps, _, _, replayed in seen)
    assert text.count("the networks begin anew after") == len(resets)


def kernels(*both):
    return [(one, other) for one, other in zip(*both, strict=True) if one.ndim > 1]


@pytest.mark.parametrize("after", [2, 6])
def test_a_resumed_run_equals_an_uninterrupted_one(after, eager, tmp_path):
    whole = resetting(tmp_path / "whole", 12, EPOCH, weight_decay=0.1)
    resetting(tmp_path / "half", 12, EPOCH, weight_decay=0.1, run=stop_after(after))
    again = {"run": RunOptions(resume=str(tmp_path / "half")), "seed": 99}
    resumed = resetting(tmp_path / "half", 12, EPOCH, weight_decay=0.1, **again)
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(tmp_path / "half").equals(rows(tmp_path / "whole"))


def test_generators_of_environments_go_on(eager):
    random, numpy = plasticity.random, np.random
    random.seed(3), numpy.seed(3)
    expected = random.random(), numpy.random()
    random.seed(3), numpy.seed(3)
    with plasticity.seeded(5):
        random.random(), numpy.random()
    assert (random.random(), numpy.random()) == expected


def test_mistakes():
    for given, message in (
        ({"reset_interval": 100, "total_timesteps": 150}, "reset_interval=100 is not valid: at most half of the run's"),
        ({"reset_interval": 5, "offline": "x.npz"}, "reset_interval=5 is not valid: needs neither reward_signals nor"),
        ({"weight_decay": -1}, "weight_decay=-1"),
    ):
        with pytest.raises(UsageError) as error:
            Config.of(given)
        assert str(error.value).startswith(message), error
