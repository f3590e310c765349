"""The search of evolution strategies: noise from seeds, shaped returns, and the gradient's estimate."""

import numpy as np
import pytest

from tfbaselines.algs.es.es import ascent, centered_ranks, noise, standardized

SIZE = 1000


def test_noise_is_a_function_of_seed_and_member():
    one = noise(5, 3, SIZE, False)
    np.testing.assert_array_equal(one, noise(5, 3, SIZE, False))
    assert one.dtype == np.float32 and abs(one.mean()) < 0.1 and one.std() == pytest.approx(1.0, abs=0.1)
    for other in (noise(6, 3, SIZE, False), noise(5, 4, SIZE, False)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_every_second_member_mirrors_the_one_before_it():
    drawn = [noise(5, member, SIZE, True) for member in range(4)]
    np.testing.assert_array_equal(drawn[1], -drawn[0])
    np.testing.assert_array_equal(drawn[3], -drawn[2])
    assert abs(np.corrcoef(drawn[0], drawn[2])[0, 1]) < 0.15


def test_standardised_returns():
    shaped = standardized(np.array([1.0, 2.0, 3.0, 10.0]))
    assert shaped.mean() == pytest.approx(0.0, abs=1e-12) and shaped.std() == pytest.approx(1.0)
    assert shaped.argsort().tolist() == [0, 1, 2, 3]
    assert standardized(np.full(4, 7.3)).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("returns", "ranks"),
    [
        ([30.0, -5.0, 1e9], [0.0, -0.5, 0.5]),
        ([1.0, 2.0, 2.0, 3.0, 4.0], [-0.5, -0.125, -0.125, 0.25, 0.5]),
        ([7.0, 7.0, 7.0], [0.0, 0.0, 0.0]),
        ([7.0], [0.0]),
    ],
)
def test_centered_ranks(returns, ranks):
    assert centered_ranks(np.array(returns)).tolist() == pytest.approx(ranks)


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_estimate_is_the_weighted_sum_of_the_noise(mirrored):
    weights = np.random.default_rng(0).normal(size=6)
    wanted = sum(w * noise(9, i, SIZE, mirrored).astype(np.float64) for i, w in enumerate(weights)) / (6 * 0.2)
    np.testing.assert_allclose(ascent(weights, 9, SIZE, 0.2, mirrored), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_estimate_is_near_the_gradient(mirrored):
    """Of a linear return, whose gradient is known."""
    slope, sigma, members = np.random.default_rng(1).normal(size=20), 0.1, 4000
    scores = np.array([slope @ (sigma * noise(2, i, 20, mirrored)) for i in range(members)])
    found = ascent(scores, 2, 20, sigma, mirrored)
    assert np.linalg.norm(found - slope) < 0.2 * np.linalg.norm(slope)
