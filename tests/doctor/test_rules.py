"""Rules of the doctor: each sees its sign, and none sees one in a run that learns."""

import numpy as np

from tfbaselines.doctor.columns import Copy, Table
from tfbaselines.doctor.evidence import Episodes, Evidence
from tfbaselines.doctor.examine import examine
from tfbaselines.doctor.findings import CAUSES
from tfbaselines.doctor.rules import AGAIN, accepted, rules
from tfbaselines.doctor.settings import Settings

ROWS = 20
RNG = np.random.default_rng(0)
STEPS = np.arange(1.0, ROWS + 1) * 1000
DEFAULTS = {"lr": 3e-4, "gamma": 0.99}
# Columns of a run of ppo2 that learns.
COLUMNS = {
    "misc/total_timesteps": STEPS,
    "loss/approxkl": np.full(ROWS, 0.006) + 1e-3 * RNG.random(ROWS),
    "loss/clipfrac": np.full(ROWS, 0.1),
    "loss/policy_entropy": np.linspace(0.69, 0.4, ROWS),
    "loss/value_loss": np.linspace(2.0, 0.5, ROWS),
    "misc/explained_variance": np.linspace(0.0, 0.9, ROWS),
}
Q = {
    "TotalEnvInteracts": STEPS,
    "AverageQ1Vals": np.linspace(1, 40, ROWS),
    "AverageLogPi": np.linspace(-0.2, 0.8, ROWS),
}
FLAT = 20 + 5 * RNG.random(200)
# Differences of 60 at first, then of 1.
ALIKE = np.r_[np.linspace(50, 110, 20), np.resize([61, 61.5, 62], 200)]
RISING = np.linspace(20, 200, 200) + 5 * RNG.random(200)


def run_of(returns=RISING, lengths=None, columns=(), alg="ppo2", env="Mine-v0", base=COLUMNS, copies=(), **learn):
    """Evidence of a run, with some columns or settings changed; env settings begin with env_."""
    env_settings = {name.removeprefix("env_"): learn.pop(name) for name in list(learn) if name.startswith("env_")}
    config = {"alg": alg, "env": {"env": env} | env_settings, "learn": {"total_timesteps": 20000} | learn}
    columns = {name: np.broadcast_to(values, ROWS).astype(float) for name, values in (base | dict(columns)).items()}
    returns = np.asarray(returns, float)
    lengths = np.asarray(np.abs(returns) if lengths is None else np.broadcast_to(lengths, returns.shape), float)
    episodes = None if copies else Episodes(np.linspace(100, 20000, len(returns)), returns, lengths)
    return Evidence(Settings(config, DEFAULTS), Table(columns, ROWS), list(copies), episodes=episodes)


def copy(returns):
    lengths = np.full(len(returns), 10.0)
    return Copy(returns, lengths, 1, np.stack([returns, lengths], axis=1))


SAME, OTHERS = RNG.normal(size=100), RNG.normal(size=(4, 100))
# A run for each rule that has its sign.
SIGNS = {
    "rate_high": {"lr": 0.1},
    "rate_low": {"lr": "linear_1e-8"},
    "discount_low": {"gamma": 0.5},
    "discount_one": {"gamma": 1.0},
    "bonus_high": {"ent_coef": 5.0},
    "exploration_off": {"alg": "deepq", "exploration_final_eps": 0.0, "exploration_fraction": 0.0},
    "deviation_setting": {"init_logstd": -7.0},
    "clip_setting": {"cliprange": 0.001},
    "target_still": {"alg": "sac", "polyak": 1.0},
    "target_fast": {"alg": "deepq", "target_network_update_freq": 1},
    "replay_setting": {"alg": "deepq", "buffer_size": 10, "batch_size": 32},
    "starts_late": {"alg": "deepq", "learning_starts": 50_000},
    "setting_far": {"noptepochs": 5000},
    "scale_setting": {"env_reward_scale": 1e6},
    "no_episodes": {"returns": []},
    "rewards_large": {"returns": 1e5 * RISING, "lengths": RISING},
    "rewards_small": {"returns": 1e-5 * RISING, "lengths": RISING},
    "sign_turned": {"returns": -RISING, "env": "CartPole-v1"},
    "ends_sooner": {"returns": -RISING[::-1]},
    "returns_equal": {"returns": np.full(50, 7.0), "lengths": 7.0},
    "copies_equal": {"copies": [copy(SAME + 0.1 * other) for other in OTHERS]},
    "own_limit": {"lengths": np.minimum(RISING, 100), "env": "CartPole-v1"},
    "only_limits": {"returns": FLAT, "lengths": 200.0},
    "returns_fell": {"returns": np.concatenate([RISING, RISING[::-1]])},
    "episodes_alike": {"returns": ALIKE, "alg": "td3"},
    "below_random": {"returns": np.linspace(-200, -900, 200), "env": "LunarLander-v3", "lengths": 200.0},
    "no_effect": {"returns": FLAT, "columns": {"misc/explained_variance": 0.8}},
    "returns_flat": {"returns": FLAT},
    "plateau": {"returns": np.minimum(RISING, 80) + 5 * RNG.random(200), "env": "CartPole-v1"},
    "not_finite": {"columns": {"loss/value_loss": np.where(STEPS > 12000, np.nan, 1.0)}},
    "kl_low": {"returns": FLAT, "columns": {"loss/approxkl": 1e-8}},
    "kl_high": {"columns": {"loss/approxkl": 1.0}},
    "clipped": {"columns": {"loss/clipfrac": 0.7}},
    "certain_at_start": {"columns": {"loss/policy_entropy": -5.0}},
    "entropy_collapsed": {"returns": FLAT, "columns": {"loss/policy_entropy": [0.7, *[0.001] * (ROWS - 1)]}},
    "entropy_still": {"returns": FLAT, "columns": {"loss/policy_entropy": 0.693}},
    "entropy_rises": {"returns": FLAT, "columns": {"loss/policy_entropy": np.linspace(1.4, 5, ROWS)}},
    "nothing_explained": {"returns": FLAT, "columns": {"misc/explained_variance": -0.5}},
    "value_loss_huge": {"columns": {"loss/value_loss": 1e7}},
    "gradient_held_back": {
        "alg": "a2c",
        "returns": FLAT,
        "columns": {"loss/value_loss": 50.0},
        "epsilon": 1e-5,
        "max_grad_norm": 0.5,
    },
    "noise_followed": {"returns": FLAT, "columns": {"misc/explained_variance": 0.0}},
    "q_diverged": {"alg": "sac", "base": Q, "columns": {"AverageQ1Vals": np.geomspace(1, 1e7, ROWS)}},
    "q_still": {"alg": "sac", "returns": FLAT, "base": Q, "columns": {"AverageQ1Vals": 0.1}},
    "actions_certain": {"alg": "sac", "base": Q, "columns": {"AverageLogPi": 9.0}},
    "actions_uniform": {"alg": "sac", "returns": FLAT, "base": Q, "columns": {"AverageLogPi": -0.69}},
    "exploration_stays": {"alg": "deepq", "returns": FLAT, "base": {"steps": STEPS, "% time spent exploring": 90.0}},
    "exploration_none": {"alg": "deepq", "base": {"steps": STEPS, "% time spent exploring": 0.0}},
    "rate_ended": {"returns": FLAT, "columns": {"lr": [*np.linspace(1e-3, 1e-5, ROWS - 4), *[0.0] * 4]}},
    "too_early": {"returns": FLAT, "env": "HalfCheetah-v5"},
    "reward_spreads_slowly": {"returns": [*[-200] * 150, *range(-199, -149)], "lengths": 200, "n_step": 1},
}


def seen(**changed):
    return {found.rule: found for found in examine(run_of(**changed), "logs/x").findings}


def test_each_rule_sees_its_sign_and_says_what_to_do():
    assert list(SIGNS) == [rule.name for rule in rules()]
    for name, changed in SIGNS.items():
        findings = seen(**changed)
        assert name in findings, f"{name}: {list(findings)}"
        found = findings[name]
        assert found.value and found.meaning and found.check.startswith("tfbaselines ")
        assert set(found.causes) <= set(CAUSES) and 1 <= len(found.causes) <= 3
        assert "{" not in found.check + found.remedy


def test_commands_that_mend_have_the_flags_that_the_algorithm_takes():
    assert accepted(f"{AGAIN} --lr=1e-4 --noptepochs=4", ["lr", "gamma"]) == f"{AGAIN} --lr=1e-4"
    assert accepted(f"{AGAIN} --noptepochs=4", ["lr"]) == ""
    assert accepted(f"{AGAIN} --reward_scale=0.01", ["lr"]) == f"{AGAIN} --reward_scale=0.01"
    assert accepted(f"{AGAIN} --lr=1e-4", []) == f"{AGAIN} --lr=1e-4"
    # The toy's algorithm has no max_grad_norm.
    assert seen(columns={"loss/value_loss": np.where(STEPS > 12000, np.nan, 1.0)})["not_finite"].remedy.endswith(
        "--lr=1e-4"
    )


def test_a_run_that_learns_has_no_finding():
    assert seen() == {}
    assert seen(env="CartPole-v1") == {}
    assert seen(alg="sac", base=Q) == {}
    # Values cannot explain the returns of a solved task, which are equal.
    solved = np.r_[np.linspace(0.0, 0.9, ROWS // 2), np.full(ROWS // 2, -1.0)]
    assert seen(columns={"misc/explained_variance": solved}) == {}
    assert seen(copies=[copy(np.linspace(0, 50, 100) + other) for other in OTHERS]) == {}


def test_steps_of_a_file_have_no_episodes():
    assert "no_episodes" in seen(returns=[])
    assert seen(returns=[], alg="bc", base={"total_timesteps": STEPS}) == {}
    assert "no_episodes" not in seen(returns=[], alg="sac", base=Q, offline="data.npz")


def test_settings_near_the_known_ones_are_no_findings():
    for learn in ({"lr": 3e-4}, {"lr": "linear_2e-3"}, {"gamma": 0.95}, {"ent_coef": 0.05}, {"cliprange": 0.3}):
        assert seen(**learn) == {}, learn


def test_ddpg_without_noise_explores_nothing():
    assert "exploration_off" in seen(alg="ddpg", noise_type="none")
    assert "exploration_off" not in seen(alg="ddpg", noise_type="ou_0.2")
    assert "exploration_off" not in seen(alg="ddpg", noise_type="none", act_noise=0.1)


def test_rules_of_columns_that_are_lacking_are_left_out():
    report = examine(run_of(base={"total_timesteps": STEPS}), "logs/x")
    assert "kl" in report.lacking
    assert "kl_low" in [rule.name for rule in report.left_out]
    assert "Nothing found" in report.as_text() and "No column for kl" in report.as_text()


def test_commands_on_runs_that_name_modules_trust_them():
    (found,) = examine(run_of(lr=0.1, env="mine:Mine-v0"), "logs/x").findings
    assert found.remedy.endswith(" --trust") and found.check == "tfbaselines doctor logs/x --probe --trust"


def test_equal_returns_of_unequal_episodes_do_not_count_as_a_solved_task():
    solved = {"returns": np.full(50, 500.0), "env": "CartPole-v1"}
    assert "returns_equal" not in seen(lengths=500.0, **solved)
    assert "returns_equal" in seen(lengths=np.arange(50.0, 100.0), **solved)


def test_rewards_spread_slowly_only_where_targets_look_one_step_ahead():
    sign = SIGNS["reward_spreads_slowly"]
    assert "reward_spreads_slowly" not in seen(**(sign | {"n_step": 8}))
    soon = [*[-200] * 40, *range(-199, -39)]
    assert "reward_spreads_slowly" not in seen(**(sign | {"returns": soon}))


def test_episodes_that_became_alike_are_no_sign_where_they_are_better_than_the_first_ones():
    assert seen(returns=ALIKE)["episodes_alike"].certainty < 0.9
    assert seen(returns=ALIKE, env="Humanoid-v5", lengths=14.0)["episodes_alike"].certainty >= 0.9
    assert "episodes_alike" not in seen(returns=np.r_[ALIKE[:20], ALIKE[20:] + 60])
    assert "episodes_alike" not in seen(returns=np.r_[ALIKE[:20], 50 + 10 * (ALIKE[20:] - 61)])
