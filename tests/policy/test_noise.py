"""Noise for exploration: its distribution, its memory, its size, and how it is asked for."""

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.policy.noise import (
    AdaptiveParamNoiseSpec,
    CorrelatedNoise,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    parse_noise,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def drifting(**kwargs):
    return OrnsteinUhlenbeckActionNoise(np.zeros((3, 2)), np.full((3, 2), 0.5), rng=rng(), **kwargs)


def test_normal_noise_has_its_means_and_deviations():
    mu, sigma = np.array([[1.0, -2.0]]), np.array([[0.5, 3.0]])
    noise = NormalActionNoise(mu, sigma, rng())
    drawn = np.array([noise() for _ in range(4000)])
    assert drawn.shape == (4000, 1, 2)
    np.testing.assert_allclose(drawn.mean(0), mu, atol=0.2)
    np.testing.assert_allclose(drawn.std(0), sigma, rtol=0.05)


def test_drifting_noise_goes_back_to_its_mean():
    noise = OrnsteinUhlenbeckActionNoise(np.full(2, 3.0), np.zeros(2), theta=0.5, dt=0.1, rng=rng())
    np.testing.assert_allclose(noise(), 3 * 0.05)
    for _ in range(300):
        last = noise()
    np.testing.assert_allclose(last, 3.0, rtol=1e-4)


def test_drifting_noise_does_not_change_what_it_gave():
    noise = drifting()
    first = noise()
    kept = first.copy()
    noise()
    noise.reset()
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("x0", [None, np.arange(6.0).reshape(3, 2)])
def test_drifting_noise_starts_again_where_it_is_told(x0):
    noise = drifting(x0=x0)
    moved = noise().copy()
    noise.reset(np.array([True, False, True]))
    x, start = noise.state()["x"], np.zeros((3, 2)) if x0 is None else x0
    np.testing.assert_array_equal(x[[0, 2]], start[[0, 2]])
    np.testing.assert_array_equal(x[1], moved[1])
    noise.reset()
    np.testing.assert_array_equal(noise.state()["x"], start)


def test_restored_noise_goes_on_where_it_was():
    noise, other = drifting(), drifting()
    for _ in range(5):
        noise()
    other.restore(noise.state())
    for one in (noise, other):
        one._rng = rng(7)
    np.testing.assert_array_equal(noise(), other())


def test_noise_of_another_number_of_environments_begins_anew():
    noise, saved = drifting(), {"x": np.ones((5, 2))}
    noise.restore(saved)
    np.testing.assert_array_equal(noise.state()["x"], np.zeros((3, 2)))


def test_normal_noise_remembers_nothing():
    noise = NormalActionNoise(np.zeros(2), np.ones(2), rng())
    assert noise.state() == {}
    noise.restore({})
    noise.reset(np.array([True]))
    np.testing.assert_array_equal(noise(), rng().normal(np.zeros(2), np.ones(2)))


def test_the_size_of_parameters_noise_is_corrected_towards_what_is_wanted():
    spec = AdaptiveParamNoiseSpec(0.1, 0.2, 1.5)
    spec.adapt(0.1)
    assert spec.get_stats() == {"param_noise_stddev": pytest.approx(0.15)}
    spec.adapt(0.3)
    assert spec.current_stddev == pytest.approx(0.1)


HEAD = SquashedGaussianHead(spaces.Box(-1.0, 1.0, (2,), np.float32))
GOES_ON, BEGINS = np.zeros(3, bool), np.ones(3, bool)


def test_correlated_noise_is_standard_normal_and_remembers():
    noise = CorrelatedNoise(HEAD, 0.8, rng())
    drawn = np.array([noise(BEGINS if t == 0 else GOES_ON) for t in range(20000)]).reshape(-1, 6)
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.mean(0), 0.0, atol=0.1)
    np.testing.assert_allclose(drawn.std(0), 1.0, rtol=0.05)
    for lag in (1, 3):
        between = np.corrcoef(drawn[:-lag].T, drawn[lag:].T)[:6, 6:]
        np.testing.assert_allclose(between, np.eye(6) * 0.8**lag, atol=0.05)


def test_correlated_noise_follows_its_formula_and_begins_anew_with_an_episode():
    noise, plain = CorrelatedNoise(HEAD, 0.6, rng()), rng()
    last = np.zeros((3, 2))
    for begins in (BEGINS, GOES_ON, np.array([False, True, False]), GOES_ON):
        drawn = HEAD.draw_noise(plain, (3,))
        last = np.where(begins[:, None], drawn, 0.6 * last + 0.8 * drawn)
        np.testing.assert_allclose(noise(begins), last, rtol=1e-5)


def test_noise_without_correlation_is_the_heads_and_with_all_of_it_one_draw_an_episode():
    noise, plain = CorrelatedNoise(HEAD, 0.0, rng()), rng()
    for _ in range(3):
        np.testing.assert_array_equal(noise(GOES_ON), HEAD.draw_noise(plain, (3,)))
    assert noise.state() == {"exploration_noise": None}
    noise = CorrelatedNoise(HEAD, 1.0, rng())
    first = noise(BEGINS)
    np.testing.assert_array_equal(noise(GOES_ON), first)
    assert not (noise(BEGINS) == first).any()


def test_restored_correlated_noise_goes_on_unless_the_number_of_environments_differs():
    noise, other = CorrelatedNoise(HEAD, 0.9, rng()), CorrelatedNoise(HEAD, 0.9, rng(5))
    noise(BEGINS)
    other.restore(noise.state())
    other._rng = rng(7)
    noise._rng = rng(7)
    np.testing.assert_array_equal(noise(GOES_ON), other(GOES_ON))
    other._rng = rng(7)
    np.testing.assert_array_equal(other(np.zeros(4, bool)), HEAD.draw_noise(rng(7), (4,)))
    other.restore({})
    assert other.state() == {"exploration_noise": None}


@pytest.mark.parametrize("text", [None, "none", "none,none", " none"])
def test_no_noise(text):
    assert parse_noise(text, (2, 3), rng()) == (None, None)


@pytest.mark.parametrize(
    ("text", "kind"), [("normal_0.3", NormalActionNoise), (" ou_0.3 ", OrnsteinUhlenbeckActionNoise)]
)
def test_noise_of_actions(text, kind):
    spec, noise = parse_noise(text, (2, 3), rng())
    assert spec is None and type(noise) is kind
    drawn = np.array([noise() for _ in range(2000)])
    assert drawn.shape == (2000, 2, 3)
    steps = drawn if kind is NormalActionNoise else np.diff(drawn, axis=0) / 0.1
    assert steps.std() == pytest.approx(0.3, rel=0.05)
    # Each environment's, and each component's, is drawn for itself.
    assert np.abs(np.corrcoef(steps.reshape(-1, 6).T) - np.eye(6)).max() < 0.1


def test_noise_of_parameters_starts_from_what_is_wanted():
    spec, noise = parse_noise("adaptive-param_0.3", (2, 3), rng())
    assert noise is None
    assert (spec.initial_stddev, spec.desired_action_stddev, spec.current_stddev) == (0.3, 0.3, 0.3)


def test_both_kinds_at_once():
    spec, noise = parse_noise("adaptive-param_0.2, ou_0.1,none", (1, 1), rng())
    assert spec.current_stddev == 0.2 and isinstance(noise, OrnsteinUhlenbeckActionNoise)


@pytest.mark.parametrize(
    "text", ["foo", "normal", "normal_", "normal_x", "_0.2", "0.2", "normal_-1", "ou_nan", "ou_0.1,foo_0.2", "ou,"]
)
def test_other_words_are_refused(text):
    with pytest.raises(ValueError, match=r"noise_type=.* is not valid: 'adaptive-param_X'") as error:
        parse_noise(text, (1,), rng())
    assert "\n" not in str(error.value)
