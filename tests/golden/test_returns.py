"""Advantages, returns and discounted sums against the original runners' numbers."""

import numpy as np
import pytest
from cases import cases, load
from weights import assert_close

from tfbaselines.compat import helpers
from tfbaselines.rollout.rollout import discount, env_major, explained_variance, gae, n_step_returns


@pytest.mark.parametrize("case", cases("gae_runner_*"))
def test_gae(case):
    a, _ = load(case)
    first = np.zeros_like(a["dones_after_tn"][:1])
    dones_before = np.concatenate([first, a["dones_after_tn"][:-1]])
    gamma, lam = float(a["gamma"]), float(a["lam"])
    advantages = gae(a["rewards_tn"], a["values_tn"], dones_before, a["last_values"], a["last_dones"], gamma, lam)
    assert_close(env_major(advantages), a["out_advantages"])
    returns = advantages.astype(np.float32) + a["values_tn"]
    assert_close(env_major(returns), a["out_returns"])
    np.testing.assert_array_equal(env_major(dones_before), a["out_masks"])
    np.testing.assert_array_equal(env_major(a["obs_tno"][:-1]), a["out_obs"])


@pytest.mark.parametrize("case", cases("gae_runner_*"))
def test_n_step_returns(case):
    a, _ = load(case)
    returns = n_step_returns(a["rewards_tn"], a["dones_after_tn"], a["last_values"], float(a["gamma"]))
    assert_close(env_major(returns), a["a2c_returns"])
    undiscounted = n_step_returns(a["rewards_tn"], a["dones_after_tn"], a["last_values"], 0.0)
    assert_close(env_major(undiscounted), a["a2c_returns_gamma0"])
    for name in ("values", "actions"):
        np.testing.assert_array_equal(env_major(a[f"{name}_tn"]), a[f"a2c_{name}"])
    column = n_step_returns(a["dwd_rewards"][:, None], a["dwd_dones"][:, None], np.zeros(1), float(a["gamma"]))
    assert_close(column[:, 0], a["dwd_out"])


@pytest.mark.parametrize("case", cases("math_util"))
def test_math_util(case):
    a, hyper = load(case)
    assert_close(discount(a["discount_x"], hyper["discount_gamma"]), a["discount_out"])
    assert_close(discount(a["y"], hyper["discount1d_gamma"]), a["discount1d"])
    assert_close(explained_variance(a["ypred"], a["y"]), a["explained_variance"])
    assert np.isnan(explained_variance(a["ypred"], np.ones_like(a["y"])))
    bounded = helpers.discount_with_boundaries(a["discount_x"], a["dwb_new"][:, None], hyper["dwb_gamma"])
    assert_close(bounded, a["dwb_out"])
    assert_close(helpers.ncc(a["ypred"], a["y"]), a["ncc"])
