"""Advantages, returns and discounted sums against the original runners' numbers."""

import numpy as np
import pytest
from cases import cases, load

from tfbaselines.experience.returns import discount, explained_variance, gae, n_step_returns
from tfbaselines.experience.rollout import env_major


@pytest.mark.parametrize("case", cases("gae_runner_*"))
def test_gae(case):
    a, _ = load(case)
    first = np.zeros_like(a["dones_after_tn"][:1])
    dones_before = np.concatenate([first, a["dones_after_tn"][:-1]])
    gamma, lam = float(a["gamma"]), float(a["lam"])
    advantages = gae(a["rewards_tn"], a["values_tn"], dones_before, a["last_values"], a["last_dones"], gamma, lam)
    np.testing.assert_allclose(env_major(advantages), a["out_advantages"], rtol=1e-5, atol=1e-5)
    returns = advantages.astype(np.float32) + a["values_tn"]
    np.testing.assert_allclose(env_major(returns), a["out_returns"], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(env_major(dones_before), a["out_masks"])
    np.testing.assert_array_equal(env_major(a["obs_tno"][:-1]), a["out_obs"])


@pytest.mark.parametrize("case", cases("gae_runner_*"))
def test_n_step_returns(case):
    a, _ = load(case)
    returns = n_step_returns(a["rewards_tn"], a["dones_after_tn"], a["last_values"], float(a["gamma"]))
    np.testing.assert_allclose(env_major(returns), a["a2c_returns"], rtol=1e-5, atol=1e-5)
    column = n_step_returns(a["dwd_rewards"][:, None], a["dwd_dones"][:, None], np.zeros(1), float(a["gamma"]))
    np.testing.assert_allclose(column[:, 0], a["dwd_out"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", cases("math_util"))
def test_math_util(case):
    a, hyper = load(case)
    np.testing.assert_allclose(discount(a["discount_x"], hyper["discount_gamma"]), a["discount_out"], rtol=1e-5)
    np.testing.assert_allclose(discount(a["y"], hyper["discount1d_gamma"]), a["discount1d"], rtol=1e-5)
    np.testing.assert_allclose(explained_variance(a["ypred"], a["y"]), a["explained_variance"], rtol=1e-5)
    assert np.isnan(explained_variance(a["ypred"], np.ones_like(a["y"])))
