"""Every argument of every algorithm makes a difference, and every bound that is declared can be taken.

A small run with another value ends with other weights.
"""

from functools import partial

import numpy as np
import pytest
from small_environments import box, counting
from small_runs import ACTIONS, EVERY, first_kind, learn, own_identity, small, takes, weights

from tfbaselines.algs import get
from tfbaselines.config.bases import ReplayConfig
from tfbaselines.errors import UsageError

# Arguments that a small run's weights do not depend on; tests of the rooms that they belong to have them.
FILES = {"load_path", "save_path", "save_interval", "save_freq", "policy_save_interval", "save_replay_buffer"}
FILES |= {"checkpoint_freq", "checkpoint_path", "logger_kwargs"}
LOGS = {"log_interval", "print_freq", "render", "render_eval", "callback", "run"}
EVALUATION = {"eval_env", "num_test_episodes", "test_every", "nb_eval_steps", "n_test_rollouts", "test_with_polyak"}
LENGTH = {"total_timesteps", "num_iterations", "epochs", "nb_epochs", "max_timesteps", "max_episodes", "max_iters"}
LENGTH |= {"max_seconds", "patience", "stop_max_score", "max_total_reward", "steps_per_epoch", "nb_epoch_cycles"}
LENGTH |= {"n_cycles"}
# It goes the way of max_ep_len; see tests/training/test_tester.py.
EPISODES = {"max_ep_reward"}
PROCESSES = {"comm", "mpi_rank_weight", "num_workers", "worker_kind", "lock", "lock_update", "nprocs", "is_async"}
# Demonstrations, data sets, reward signals, hindsight, traces, networks of images and the user's own functions.
PARTS = {"demo_path", "demo_file", "offline", "bc_alpha", "cql_weight", "cql_threshold", "cql_actions", "pretraining"}
PARTS |= {"reward_signals", "reward_signal_num_update", "replay", "replay_k", "buffer_len", "trace_length"}
PARTS |= {"prev_action", "random_start", "model_fn", "update_fn", "init_fn", "override_params", "vis_encode_type"}
NO_DIFFERENCE = FILES | LOGS | EPISODES | EVALUATION | LENGTH | PROCESSES | PARTS
NO_DIFFERENCE_OF = {
    # Its replay draws from batch_size traces. See tests/algs/acer.
    "acer": {"batch_size", "buffer_size"},
    # It trains a policy without memory here, and its episodes are those of tests.
    "bc": {"sequence_length", "max_ep_len"},
    # hidden_sizes= comes before both; the others belong to demonstrations, or bound what a small run does not reach.
    "her": {"layers", "hidden", "bc_loss", "q_filter", "num_demo", "demo_batch_size", "prm_loss_weight"}
    | {"aux_loss_weight", "clip_return", "clip_pos_returns", "clip_obs", "rollout_batch_size"},
    # A table of a discrete observation has no grid. See tests/algs/qlearning.
    "qlearning": {"grid_size", "low", "high", "bounds_steps"},
    # A small run's line search accepts its first step. tests/golden has searches that go back, and npg.
    "trpo": {"backtrack_iters", "backtrack_coeff", "algo"},
}

# Another value, and arguments without which it would make no difference. First what several algorithms share.
CHANGES = {
    "max_ep_len": (3, {}),
    "memory_size": (4, {}),
    "sequence_length": (5, {"memory_size": 4, "sequence_length": 6}),
    "replay_size": (12, {}),
    "normalize_observations": (True, {}),
    "traj_limitation": (1, {}),
    "reward_clip": (0.5, {}),
}
PRIORITIZED = {"prioritized_replay": True, "train_freq": 1, "learning_starts": 5}
CATEGORICAL = {"distributional": "categorical"}
LARGE_STEPS = {"pi_lr": 0.1, "train_pi_iters": 4}
CHANGES_OF = {
    "acer": {
        "replay_start": (4 * 10, {}),
        "c": (0.5, {}),
        "delta": (0.0, {}),
        "alpha": (0.0, {}),
        "trust_region": (False, {}),
        "max_grad_norm": (0.1, {}),
    },
    "ddpg": {
        "noise_type": ("normal_0.2", {}),
        "normalize_observations": (False, {}),
        "popart": (True, {"normalize_returns": True}),
        "clip_norm": (1e-3, {}),
        "param_noise_adaption_interval": (1, {}),
        "return_range": ((-0.01, 0.01), {}),
        "act_noise": (0.3, {}),
        "polyak": (0.9, {}),
        "update_every": (5, {}),
        "noise_clip": (0.01, {"target_noise": 1.0}),
    },
    "deepq": {
        "buffer_size": (12, {}),
        "exploration_fraction": (0.9, {}),
        "exploration_final_eps": (0.9, {}),
        "epsilon_start": (0.0, {"exploration_fraction": 0.9}),
        "epsilon_decay": (0.99, {}),
        "learning_starts": (30, {}),
        "prioritized_replay_alpha": (0.1, PRIORITIZED),
        "prioritized_replay_beta0": (1.0, PRIORITIZED),
        "prioritized_replay_beta_iters": (10, PRIORITIZED),
        "prioritized_replay_eps": (1.0, PRIORITIZED),
        "hiddens": ((9,), {}),
        "double_q": (False, {"lr": 0.1, "train_freq": 1, "target_network_update_freq": 7}),
        "grad_norm_clipping": (1e-3, {}),
        "num_atoms": (7, CATEGORICAL),
        "v_min": (-2.0, CATEGORICAL),
        "v_max": (2.0, CATEGORICAL),
    },
    "es": {"num_agents": (6, {})},
    "her": {"gamma": (0.5, {}), "buffer_size": (30, {})},
    "ppo": {"clip_ratio": (0.01, LARGE_STEPS), "target_kl": (1e-8, {"pi_lr": 3e-3, "train_pi_iters": 4})},
    "ppo1": {"clip_param": (0.01, {"optim_stepsize": 0.1})},
    "ppo2": {
        "nsteps": (12, {}),
        "nminibatches": (5, {}),
        "cliprange": (0.01, {"lr": 0.1}),
        "cliprange_vf": (False, {"lr": 0.1, "value_network": "copy"}),
    },
    "qlearning": {"epsilon_min": (0.8, {"epsilon_decay": 0.1})},
    "sac": {
        "target_entropy": (-5.0, {"alpha": "auto"}),
        "train_interval": (5, {}),
        "buffer_init_steps": (20, {}),
        "num_quantiles": (7, {"critic": "tqc"}),
        "drop_quantiles": (3, {"critic": "tqc"}),
        "policy_delay": (2, {}),
        "reset_interval": (10, {}),
    },
}
# Only numbers are normalized, and only actions that are numbers have a deviation and critics of other kinds.
OF_NUMBERS = ("normalize_observations", "init_logstd", "critic", "num_quantiles", "drop_quantiles", "noise_correlation")
# Bounds that one small run takes.
TOGETHER = 6
# Most arguments make a difference in the first updates; the others in a longer run. K-FAC's steps begin with the tenth.
UPDATES = {"acktr": (1, 13), "deepq": (2, 6)}


def other(argument, now):
    """Another value than the present one."""
    if argument.name == "value_network":
        return "copy" if now is None else None
    if argument.choices:
        return next(choice for choice in reversed(argument.choices) if choice != now)
    if isinstance(now, bool):
        return not now
    return now + 1 if argument.kinds[0] == "int" else 0.3 * now + 0.04


def change(alg, name):
    """The value to try, and what it needs."""
    for changes in (CHANGES_OF.get(alg, {}), CHANGES):
        if name in changes:
            return changes[name]
    argument = get(alg).config.arguments()[name]
    return other(argument, small(alg).get(name, argument.default)), {}


@EVERY
def test_every_argument_makes_a_difference(alg, eager):
    lengths = UPDATES.get(alg, (1, 3 if issubclass(get(alg).config, ReplayConfig) else 2))
    plain = {}

    def learned(updates, make_env, arguments):
        return weights(learn(alg, make_env(), updates, **arguments).policy).tolist()

    def differs(name):
        value, needed = change(alg, name)
        numbers = name in OF_NUMBERS and not get(alg).goals
        of_numbers = box if takes(alg, "Box") else partial(counting, actions=ACTIONS[first_kind(alg)])
        make_env = of_numbers if numbers else partial(own_identity, alg)
        for updates in lengths:
            key = updates, numbers, repr(needed)
            if key not in plain:
                plain[key] = learned(updates, make_env, needed)
            try:
                if learned(updates, make_env, needed | {name: value}) != plain[key]:
                    return True
            except UsageError as error:
                # The short run may be shorter than one update of this value.
                if updates == lengths[-1]:
                    pytest.fail(f"{name}={value!r}: {error}")
        return False

    left_out = NO_DIFFERENCE | NO_DIFFERENCE_OF.get(alg, set())
    names = [name for name in get(alg).config.arguments() if name not in left_out]
    assert [name for name in names if not differs(name)] == []


def bounds(alg):
    """Arguments at their declared bounds; next to bounds that are excluded. Those of the run's length are left out."""
    for name, argument in get(alg).config.arguments().items():
        low, above, high = argument.bounds
        if argument.settable and name not in LENGTH:
            yield from (
                (name, value) for value in (low, None if above is None else above + 1e-6, high) if value is not None
            )


@EVERY
def test_every_bound_that_is_declared_can_be_taken(alg, eager):
    """Several at once, for time; where they contradict each other, each alone."""

    def takes(values):
        try:
            policy = learn(alg, own_identity(alg), 1, **values).policy
        except UsageError:
            return False
        assert np.isfinite(weights(policy)).all(), values
        return True

    left = list(bounds(alg))
    while left:
        # A name once.
        together = dict(reversed(left[:TOGETHER]))
        left = [one for one in left if one not in together.items()]
        if not takes(together):
            for name, value in together.items():
                _, needed = (CHANGES | CHANGES_OF.get(alg, {})).get(name, (None, {}))
                takes(needed | {name: value})
