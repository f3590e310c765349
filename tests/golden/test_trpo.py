"""Conjugate gradient, Fisher-vector products and whole iterations of TRPO against the original's numbers."""

import json
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from cases import cases, group, load
from gymnasium import spaces
from weights import assert_close, assign

from tfbaselines.algs import trpo_mpi
from tfbaselines.algs.trpo_mpi.trpo_mpi import ADAM_EPSILON, make_step
from tfbaselines.envs.monitor import Monitor
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.exchange import joined
from tfbaselines.learn.losses import squared_value_loss, with_outputs
from tfbaselines.learn.natural_gradient import conjugate_gradient
from tfbaselines.learn.optimizers import Adam
from tfbaselines.policy.policy import build_policy
from tfbaselines.rollout.rollout import gae, standardized

CASES = cases("trpo_*")
COMPILED = cases("trpo_box_normobs") + cases("trpo_discrete_linesearch")
ITERATIONS = ("it0", "it1")

# How near the policy's parameters after a step must be, where the original's own are not as near to the truth: there,
# ten iterations of the conjugate gradient multiply rounding by a hundred. In float64, the step from the same weights
# is 0.8e-5 away from the original's; the same ten iterations in NumPy's float32, with the gradient moved by one
# rounding, end up to 3.7e-5 away from it (200 draws); ours, by processor, 1.5e-5 to 2.7e-5. The parameters are near 1.
POLICY_TOLERANCE = {("trpo_box_normobs", "it1"): 1e-4}


def config_of(hyper):
    names = ("max_kl", "cg_iters", "cg_damping", "ent_coef", "vf_stepsize", "vf_iters", "gamma", "lam")
    return trpo_mpi.Config(**{name: hyper[name] for name in names})


def make_policy(arrays, hyper, weights="w0"):
    obs, actions = arrays["it0/seg_ob"], arrays["it0/seg_ac"]
    names = json.loads(str(arrays["pi_var_names_json"]))
    n = int(arrays[next(key for key in arrays if key.startswith("w0/") and key.endswith("pi.pi.b"))].size)
    box = any("logstd" in name for name in names)
    env = SimpleNamespace(
        observation_space=spaces.Box(-np.inf, np.inf, obs.shape[1:], np.float32),
        action_space=spaces.Box(-1.0, 1.0, actions.shape[1:], np.float32) if box else spaces.Discrete(n),
    )
    policy = build_policy(env, hyper["network"], "copy", **hyper["network_kwargs"])
    assign(policy.trainable_variables, group(arrays, weights))
    return policy


def flat(variables):
    return joined([variable.value for variable in variables]).numpy()


def batch_of(arrays, it):
    names = {"obs": "seg_ob", "actions": "seg_ac", "advantages": "atarg_standardised"}
    return {name: arrays[f"{it}/{theirs}"] for name, theirs in names.items()}


@pytest.mark.parametrize(
    ("name", "iterations", "tolerance"),
    [("x_iters10", 10, 1e-10), ("x_iters50_tol1e6", 50, 1e-6), ("x_iters3", 3, 1e-10)],
)
def test_conjugate_gradient(name, iterations, tolerance):
    arrays, _ = load("cg")
    matrix = tf.constant(arrays["A"])
    x = conjugate_gradient(lambda p: tf.linalg.matvec(matrix, p), tf.constant(arrays["b"]), iterations, tolerance)
    np.testing.assert_allclose(x, arrays[name], rtol=1e-9, atol=1e-9)


def test_iterates_of_conjugate_gradient():
    arrays, _ = load("cg")
    matrix = tf.constant(arrays["A"])
    for count, expected in enumerate(arrays["iterates_iters10"]):
        x = conjugate_gradient(lambda p: tf.linalg.matvec(matrix, p), tf.constant(arrays["b"]), count)
        np.testing.assert_allclose(x, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("it", ITERATIONS)
@pytest.mark.parametrize("case", CASES)
def test_advantages(case, it):
    arrays, hyper = load(case)
    part = {name: arrays[f"{it}/seg_{name}"][:, None] for name in ("rew", "vpred", "new")}
    last = arrays[f"{it}/seg_nextvpred"]
    advantages = gae(part["rew"], part["vpred"], part["new"], last, np.zeros(1), hyper["gamma"], hyper["lam"])
    assert_close(advantages[:, 0], arrays[f"{it}/seg_adv"])
    assert_close(advantages[:, 0] + part["vpred"][:, 0], arrays[f"{it}/seg_tdlamret"])
    assert_close(standardized(arrays[f"{it}/seg_adv"]), arrays[f"{it}/atarg_standardised"])


class Recorded(gymnasium.Env):
    """Gives recorded rewards; an episode ends ahead of a step that begins one."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(2)

    def __init__(self, rewards, begins):
        self.steps = list(zip(rewards, begins[1:], strict=True))[::-1]

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        reward, over = self.steps.pop()
        return 0, float(reward), bool(over), False, {}


@pytest.mark.parametrize("case", CASES)
def test_episodes_are_counted_as_there(case):
    """Over both iterations, as an episode may go on from the first to the second."""
    arrays, _ = load(case)
    joined_of = {name: np.concatenate([arrays[f"{it}/{name}"] for it in ITERATIONS]) for name in ("seg_rew", "seg_new")}
    ended = arrays["it1/seg_nextvpred"] == 0
    env = Monitor(Recorded(joined_of["seg_rew"], [*joined_of["seg_new"], ended]), None)
    env.reset()
    for _ in joined_of["seg_rew"]:
        _, _, over, _, _ = env.step(0)
        if over:
            env.reset()
    returns, lengths = (
        np.concatenate([arrays[f"{it}/{name}"] for it in ITERATIONS]) for name in ("ep_rets", "ep_lens")
    )
    np.testing.assert_allclose(env.get_episode_rewards(), returns, rtol=0, atol=1e-5 * np.abs(returns).max())
    np.testing.assert_array_equal(env.get_episode_lengths(), lengths)


def made(case, it):
    """The arrays of a case, its policy and step as they were before an iteration, and the iteration's batch."""
    arrays, hyper = load(case)
    policy = make_policy(arrays, hyper, f"w{it[-1]}")
    step = make_step(policy, config_of(hyper))
    batch = {name: tf.constant(array) for name, array in batch_of(arrays, it).items()}
    batch = with_outputs(policy, batch | {"ent_coef": tf.constant(hyper["ent_coef"], tf.float32)})
    return arrays, hyper, policy, step, batch


@pytest.mark.parametrize("it", ITERATIONS)
@pytest.mark.parametrize("case", CASES)
def test_gradient_and_fisher_vector_products(case, it):
    arrays, hyper, policy, step, batch = made(case, it)
    theta = arrays[f"{it}/theta_before"]
    assert_close(flat(policy.acting_variables), theta)
    losses, g = np.split(step.gradient(batch).numpy(), [-theta.size])
    assert_close(losses, arrays[f"{it}/lossbefore"])
    assert_close(g, arrays[f"{it}/g"])
    for vector, expected in (("fvp_test_vec", "fvp_test_out"), ("g", "fvp_of_g")):
        vector = arrays[f"{it}/{vector}"]
        product = step.product(batch, tf.constant(vector)).numpy() + hyper["cg_damping"] * vector
        assert_close(product, arrays[f"{it}/{expected}"])


@pytest.mark.parametrize("it", ITERATIONS)
@pytest.mark.parametrize("case", CASES)
def test_length_of_the_step_and_line_search(case, it):
    """Given the original's direction, which in the ill-conditioned cases nobody repeats; see test_iterations."""
    arrays, hyper, _, step, batch = made(case, it)
    direction = arrays[f"{it}/stepdir"]
    shs = 0.5 * direction @ (step.product(batch, tf.constant(direction)).numpy() + hyper["cg_damping"] * direction)
    np.testing.assert_allclose(shs, arrays[f"{it}/shs"], rtol=1e-4)
    shortening = np.sqrt(shs / hyper["max_kl"])
    np.testing.assert_allclose(shortening, arrays[f"{it}/lm"], rtol=1e-4)
    improvement = arrays[f"{it}/g"] @ direction / shortening
    np.testing.assert_allclose(improvement, arrays[f"{it}/expectedimprove"], rtol=1e-3, atol=1e-7)
    theta, full = (tf.constant(arrays[f"{it}/{name}"]) for name in ("theta_before", "fullstep"))
    tried = []

    def measured(parameters):
        tried.append(parameters)
        return step.measure(batch, parameters)

    after, last, part, _ = step.search.run(
        measured, theta, full, tf.constant(arrays[f"{it}/lossbefore"]), hyper["max_kl"]
    )
    assert_close(tried[-1], arrays[f"{it}/theta_last_try"])
    assert_close(after, arrays[f"{it}/theta_after"])
    assert_close(last, arrays[f"{it}/meanlosses_after"])
    moved = not np.array_equal(arrays[f"{it}/theta_before"], arrays[f"{it}/theta_after"])
    assert float(part) == (arrays[f"{it}/stepsize_final"] if moved else 0.0)


@pytest.mark.parametrize("case", CASES)
def test_iterations(case):
    """Two iterations, the policy's step first and then the value function's, from the weights before the first.

    With a damping of 0.001 the condition number of F is above 1,000, and ten iterations of the conjugate gradient
    multiply rounding: in float64 the original's own direction moves by up to 6. There each iteration begins with the
    original's weights, and the losses after the step need only be near.
    """
    arrays, hyper = load(case)
    config, policy = config_of(hyper), make_policy(arrays, hyper)
    step, ill = make_step(policy, config), case.endswith("linesearch")
    loss = partial(squared_value_loss, policy)
    fit = Engine([Phase("value", loss, policy.value_variables, Adam(epsilon=ADAM_EPSILON))])
    for it in ITERATIONS:
        if ill:
            assign(policy.trainable_variables, group(arrays, f"w{it[-1]}"))
        taken = step(batch_of(arrays, it), config.max_kl, ent_coef=config.ent_coef)
        assert_close(list(taken.before.values()), arrays[f"{it}/lossbefore"])
        assert list(taken.last) == json.loads(str(arrays["loss_names_json"]))
        if ill:
            assert taken.part == arrays[f"{it}/stepsize_final"]
            np.testing.assert_allclose(list(taken.last.values()), arrays[f"{it}/meanlosses_after"], rtol=0.1)
        else:
            assert_close(list(taken.last.values()), arrays[f"{it}/meanlosses_after"])
            tolerance = POLICY_TOLERANCE.get((case, it), 1e-5)
            assert_close(flat(policy.acting_variables), arrays[f"{it}/theta_after"], tolerance=tolerance)
        rows = arrays[f"{it}/vf_minibatch_indices"].astype(np.int32)
        if rows.size:
            data = {"obs": arrays[f"{it}/seg_ob"], "returns": arrays[f"{it}/seg_tdlamret"]}
            fit.minibatches(data, rows, lr=config.vf_stepsize)
        assert_close(flat(policy.value_variables), arrays[f"{it}/vf_theta_after"])
