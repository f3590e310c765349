"""Noise in an actor's parameters: where it goes, how large it is, and how its size is corrected."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.parallel.mpi import Communicator
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.noise import AdaptiveParamNoiseSpec, PerturbedActor

OBS = np.random.default_rng(1).standard_normal((40, 3)).astype(np.float32)


def make(stddev=0.1, wanted=0.1, comm=None, normalize=False, **network):
    """An actor, and the same with noise."""
    env = SimpleNamespace(
        observation_space=spaces.Box(-np.inf, np.inf, (3,), np.float32),
        action_space=spaces.Box(-10.0, 30.0, (2,), np.float32),
    )

    def one(critics):
        return build_actor_critic(
            env,
            "mlp",
            head=DeterministicHead,
            critics=critics,
            normalize_observations=normalize,
            **{"num_hidden": 64} | network,
        )

    policy, spec = one(1), AdaptiveParamNoiseSpec(stddev, wanted)
    rng = np.random.default_rng(0)
    return policy, PerturbedActor(policy, (one(0), one(0)), spec, rng, comm)


def differences(policy, perturbed):
    pairs = zip(policy.acting_variables, perturbed.policy.acting_variables, strict=True)
    return {variable.path: moved.numpy() - variable.numpy() for variable, moved in pairs}


def test_noise_has_its_deviation():
    policy, perturbed = make(0.3)
    moved = np.concatenate([change.ravel() for change in differences(policy, perturbed).values()])
    assert moved.std() == pytest.approx(0.3, rel=0.05) and abs(moved.mean()) < 0.03


def test_noise_is_drawn_anew_around_what_the_actor_has_become():
    policy, perturbed = make(0.01)
    first = differences(policy, perturbed)
    for variable in policy.acting_variables:
        variable.assign_add(np.ones(variable.shape))
    perturbed.reset()
    for name, change in differences(policy, perturbed).items():
        assert np.abs(change).max() < 0.1 and not np.array_equal(change, first[name])


def test_layer_normalisation_is_left_alone():
    policy, perturbed = make(0.3, layer_norm=True)
    moved = {name: np.abs(change).max() > 0 for name, change in differences(policy, perturbed).items()}
    assert sum(not changed for changed in moved.values()) == 4
    assert all(changed != ("normalization" in name) for name, changed in moved.items())


def test_the_actor_acts_with_the_noise():
    policy, perturbed = make(0.3)
    told, _ = perturbed.actor.choose(OBS, None, None, None)
    wanted = perturbed.policy.head.mode(perturbed.policy.act(perturbed.policy.view(OBS)))
    np.testing.assert_allclose(told, wanted, rtol=1e-4, atol=1e-4)
    own = policy.head.mode(policy.act(policy.view(OBS)))
    assert np.abs(told - own).max() > 0.5


def test_both_see_observations_in_the_same_units():
    policy, perturbed = make(0.0, normalize=True)
    policy.normalizer.update(5 + 3 * OBS)
    perturbed.reset()
    told, _ = perturbed.actor.choose(OBS, None, None, None)
    np.testing.assert_allclose(told, policy.head.mode(policy.act(policy.view(OBS))), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("wanted", "factor"), [(1e-6, 1 / 1.01), (10.0, 1.01)])
def test_the_size_is_corrected_by_how_far_actions_move(wanted, factor):
    _, perturbed = make(0.2, wanted)
    perturbed.adapt({"obs": OBS})
    assert perturbed.spec.current_stddev == pytest.approx(0.2 * factor)


def test_the_distance_is_in_units_of_the_bounds():
    """The output layer's bias alone is moved, by the same for every observation."""
    policy, perturbed = make(0.0)
    for one in (policy, perturbed.policy):
        for variable in one.acting_variables:
            variable.assign(np.zeros(variable.shape))
    perturbed._perturb = lambda copy: copy.acting_variables[-1].assign([0.5, 0.0])
    for variable in perturbed._measuring.acting_variables:
        variable.assign(np.zeros(variable.shape))
    assert perturbed.adapt({"obs": OBS}) == pytest.approx(np.tanh(0.5) / np.sqrt(2), rel=1e-5)


def test_measuring_leaves_the_acting_copy_alone():
    policy, perturbed = make(0.2)
    before = differences(policy, perturbed)
    perturbed.adapt({"obs": OBS})
    for name, change in differences(policy, perturbed).items():
        np.testing.assert_array_equal(change, before[name])


def test_ranks_correct_it_alike():
    class Farther(Communicator):
        """The other rank's actions are moved as far as is wanted, and more."""

        size = 2

        def average(self, flat, weight=1.0):
            return (flat + 7.0) / 2

    _, perturbed = make(0.2, 3.0, comm=Farther())
    assert perturbed.adapt({"obs": OBS}) > 3.5
    assert perturbed.spec.current_stddev < 0.2
