import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from helpers import noise_from_uniform

from tfbaselines.policy.distributions import LOG_2PI, make_pdtype

SPACES = {
    "discrete": spaces.Discrete(4),
    "discrete from -2": spaces.Discrete(4, start=-2),
    "multidiscrete": spaces.MultiDiscrete([3, 2, 4]),
    "multidiscrete from 1": spaces.MultiDiscrete([3, 2], start=[1, -4]),
    "box": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "table": spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
    "number": spaces.Box(-np.inf, np.inf, (), np.float32),
    "multibinary": spaces.MultiBinary(3),
    "bits": spaces.MultiBinary([2, 3]),
}
all_spaces = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


def parameters(head, rows=11, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, head.param_size)).astype(np.float32)


def noise_of(head, rows=11):
    return head.draw_noise(np.random.default_rng(1), (rows,))


def softmax(logits):
    exp = np.exp(logits - logits.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def parts_of(space, flat):
    """The probabilities of each categorical part."""
    sizes = [space.n] if isinstance(space, spaces.Discrete) else space.nvec
    return [softmax(logits) for logits in np.split(flat.astype(np.float64), np.cumsum(sizes)[:-1], axis=-1)]


def entropy_and_divergence(space, p, q):
    """Entropy of p and KL(p || q) by their closed forms."""
    if isinstance(space, spaces.Box):
        (mean, logstd), (mean_q, logstd_q) = (np.split(flat.astype(np.float64), 2, axis=-1) for flat in (p, q))
        squares = np.exp(2 * logstd) + np.square(mean - mean_q)
        divergence = logstd_q - logstd + squares / (2 * np.exp(2 * logstd_q)) - 0.5
        return (logstd + 0.5 * (LOG_2PI + 1)).sum(-1), divergence.sum(-1)
    if isinstance(space, spaces.MultiBinary):
        a, b = (1 / (1 + np.exp(-flat.astype(np.float64))) for flat in (p, q))
        pairs = [(np.stack([a, 1 - a], -1), np.stack([b, 1 - b], -1))]
        sums = [(-(x * np.log(x)).sum((-2, -1)), (x * np.log(x / y)).sum((-2, -1))) for x, y in pairs]
    else:
        pairs = zip(parts_of(space, p), parts_of(space, q), strict=True)
        sums = [(-(x * np.log(x)).sum(-1), (x * np.log(x / y)).sum(-1)) for x, y in pairs]
    return np.sum(sums, axis=0)


@all_spaces
def test_numpy_gives_what_the_graph_gives(space):
    head = make_pdtype(space)
    flat, noise = parameters(head), noise_of(head)
    distribution = head.distribution(tf.constant(flat))
    actions = head.sample_numpy(flat, noise)
    np.testing.assert_allclose(actions, distribution.sample(tf.constant(noise)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(head.mode_numpy(flat), distribution.mode(), rtol=1e-6, atol=1e-6)
    neglogps = head.neglogp_numpy(flat, actions)
    np.testing.assert_allclose(neglogps, distribution.neglogp(tf.constant(actions)), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(distribution.logp(actions), -distribution.neglogp(actions))


@all_spaces
def test_actions_belong_to_the_space(space):
    head = make_pdtype(space)
    flat, noise = parameters(head), noise_of(head)
    for actions in (head.sample_numpy(flat, noise), head.mode_numpy(flat)):
        assert actions.shape == (len(flat), *head.action_shape) and actions.dtype == head.action_dtype
        assert all(space.contains(np.asarray(action)) for action in actions)


@all_spaces
def test_the_heads_mode_noise_samples_the_mode(space):
    head = make_pdtype(space)
    flat = parameters(head)
    noise = np.full((len(flat), *head.noise_shape), head.mode_noise, np.float32)
    np.testing.assert_array_equal(head.sample_numpy(flat, noise), head.mode_numpy(flat))


@all_spaces
def test_no_action_is_likelier_than_the_mode(space):
    head = make_pdtype(space)
    flat = parameters(head, rows=200)
    best = head.neglogp_numpy(flat, head.mode_numpy(flat))
    sampled = head.neglogp_numpy(flat, head.sample_numpy(flat, noise_of(head, 200)))
    assert (best <= sampled + 1e-5).all() and (best < sampled).any()


@all_spaces
def test_entropy_and_divergence_have_their_closed_forms(space):
    head = make_pdtype(space)
    p, q = parameters(head), parameters(head, seed=7)
    distributions = [head.distribution(tf.constant(flat)) for flat in (p, q)]
    entropy, divergence = entropy_and_divergence(space, p, q)
    np.testing.assert_allclose(distributions[0].entropy(), entropy, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(distributions[0].kl(distributions[1]), divergence, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(distributions[0].kl(distributions[0]), 0, atol=1e-5)


@all_spaces
def test_the_mean_surprise_of_samples_is_the_entropy(space):
    head, rows = make_pdtype(space), 20_000
    flat = np.repeat(parameters(head, rows=1), rows, axis=0)
    neglogps = head.neglogp_numpy(flat, head.sample_numpy(flat, noise_of(head, rows)))
    entropy, _ = entropy_and_divergence(space, flat[:1], flat[:1])
    assert abs(neglogps.mean() - entropy[0]) < 5 * neglogps.std() / np.sqrt(rows)


@pytest.mark.parametrize("name", ["discrete from -2", "multidiscrete from 1"])
def test_categories_come_as_often_as_their_probabilities(name):
    space, rows = SPACES[name], 20_000
    head = make_pdtype(space)
    flat = np.repeat(parameters(head, rows=1), rows, axis=0)
    actions = head.sample_numpy(flat, noise_of(head, rows)).reshape(rows, -1) - space.start
    for column, probabilities in zip(actions.T, parts_of(space, flat[:1]), strict=True):
        frequencies = np.bincount(column, minlength=probabilities.size) / rows
        np.testing.assert_allclose(frequencies, probabilities[0], atol=0.02)


@pytest.mark.parametrize("name", ["box", "table", "multibinary", "bits"])
def test_samples_have_the_distributions_mean_and_deviation(name):
    head, rows = make_pdtype(SPACES[name]), 20_000
    flat = np.repeat(parameters(head, rows=1), rows, axis=0)
    actions = head.sample_numpy(flat, noise_of(head, rows)).reshape(rows, -1)
    distribution = head.distribution(tf.constant(flat[:1]))
    np.testing.assert_allclose(actions.mean(0), distribution.mean[0], atol=0.05)
    np.testing.assert_allclose(actions.std(0), distribution.std[0], rtol=0.03)


def test_the_mean_of_a_categorical_is_its_probabilities():
    head = make_pdtype(SPACES["discrete"])
    flat = parameters(head)
    np.testing.assert_allclose(head.distribution(tf.constant(flat)).mean, softmax(flat), rtol=1e-5)


@pytest.mark.parametrize("name", ["discrete", "multidiscrete", "multibinary"])
def test_uniform_noise_stands_for_the_noise_that_is_drawn(name):
    head, rng = make_pdtype(SPACES[name]), np.random.default_rng(2)
    ours = noise_from_uniform(head, rng.random((20_000, *head.noise_shape)))
    drawn, points = noise_of(head, 20_000), [0.1, 0.5, 0.9]
    np.testing.assert_allclose(np.quantile(ours, points, 0), np.quantile(drawn, points, 0), atol=0.1)


@all_spaces
def test_noise_depends_on_the_generator_alone(space):
    head = make_pdtype(space)
    first, again, other = (head.draw_noise(np.random.default_rng(seed), (5, 2)) for seed in (0, 0, 1))
    assert first.shape == (5, 2, *head.noise_shape) and first.dtype == np.float32
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["discrete", "multidiscrete", "multibinary"])
def test_extreme_logits_neither_overflow_nor_warn(name):
    head = make_pdtype(SPACES[name])
    flat = parameters(head) * 1000
    actions = head.sample_numpy(flat, noise_of(head))
    neglogps = head.neglogp_numpy(flat, actions)
    assert np.isfinite(neglogps).all()
    np.testing.assert_allclose(neglogps, head.distribution(tf.constant(flat)).neglogp(actions), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("space", [spaces.Tuple([spaces.Discrete(2)]), spaces.Dict(a=spaces.Discrete(2))])
def test_other_spaces_are_refused(space):
    with pytest.raises(ValueError, match="accepted are Discrete, MultiDiscrete, MultiBinary and Box"):
        make_pdtype(space)


def test_a_table_of_categories_is_refused():
    with pytest.raises(ValueError, match="nvec of rank 1"):
        make_pdtype(spaces.MultiDiscrete([[2, 3], [4, 2]]))
