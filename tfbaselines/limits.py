"""The largest values of sizes and counts, by the argument's name: generous, but nothing at them hangs or overflows.

What fits into the memory depends on several of them together, and is checked where arrays are about to be allocated
(tfbaselines/arrays.py).
"""

STEPS = 1e15
SIZE = 10**10
INTERVAL = 10**12

LIMITS: dict[str, float] = {
    # Of a run.
    "seed": 2**32 - 1,
    **dict.fromkeys(("num_timesteps", "total_timesteps"), STEPS),
    **dict.fromkeys(("epochs", "nb_epochs", "nb_epoch_cycles", "steps_per_epoch"), 10**9),
    **dict.fromkeys(
        ("log_interval", "save_interval", "save_freq", "save_video_interval", "save_video_length"), INTERVAL
    ),
    "policy_save_interval": INTERVAL,
    **dict.fromkeys(("print_freq", "checkpoint_freq", "target_network_update_freq"), INTERVAL),
    **dict.fromkeys(("start_steps", "update_after", "buffer_init_steps", "replay_start", "learning_starts"), INTERVAL),
    "keep_checkpoints": 10**6,
    **dict.fromkeys(("save_every", "evaluate_every", "stop_without_gain"), STEPS),
    "evaluate_episodes": 10**4,
    "save_minutes": 10**6,
    # Environments and their steps.
    "num_env": 10**4,
    "num_workers": 256,
    "nprocs": 10**4,
    "max_ep_len": 10**9,
    **dict.fromkeys(("num_test_episodes", "n_test_rollouts"), 10**4),
    "rollout_batch_size": 10**4,
    **dict.fromkeys(("num_iterations", "test_every"), INTERVAL),
    "num_agents": 10**6,
    **dict.fromkeys(("nsteps", "timesteps_per_batch", "timesteps_per_actorbatch"), 10**8),
    **dict.fromkeys(("nb_rollout_steps", "nb_eval_steps", "update_every", "train_interval", "train_freq"), 10**7),
    # Experience.
    **dict.fromkeys(("replay_size", "buffer_size", "buffer_len"), SIZE),
    **dict.fromkeys(("sequence_length", "trace_length"), 10**6),
    "n_step": 1000,
    "replay_k": 10**6,
    **dict.fromkeys(("num_demo", "traj_limitation", "subsample"), 10**6),
    "replay_ratio": 10**4,
    "prioritized_replay_beta_iters": STEPS,
    "grid_size": 10**6,
    "bounds_steps": 10**9,
    # Gradient steps.
    **dict.fromkeys(("batch_size", "demo_batch_size"), 10**7),
    **dict.fromkeys(("n_cycles", "n_batches", "gradient_steps"), 10**6),
    "cql_actions": 10**4,
    "noptepochs": 1000,
    **dict.fromkeys(("train_pi_iters", "train_v_iters", "vf_iters"), 10**6),
    **dict.fromkeys(("cg_iters", "backtrack_iters"), 1000),
    "optim_epochs": 1000,
    **dict.fromkeys(("stats_update", "kfac_update"), 10**6),
    "optim_batchsize": 10**7,
    **dict.fromkeys(("max_iters", "max_episodes"), INTERVAL),
    "nminibatches": 10**5,
    "reward_signal_num_update": 10**6,
    **dict.fromkeys(("g_step", "d_step"), 10**6),
    **dict.fromkeys(("BC_max_iter", "patience"), INTERVAL),
    **dict.fromkeys(("num_update", "nb_train_steps", "param_noise_adaption_interval"), 10**6),
    **dict.fromkeys(("policy_delay", "delay_policy_update"), 10**6),
    # Networks.
    **dict.fromkeys(("num_layers", "layers"), 100),
    **dict.fromkeys(("num_hidden", "hidden", "hidden_sizes", "hiddens", "nlstm", "memory_size", "depths"), 2**14),
    **dict.fromkeys(("adversary_hidden_size", "encoding_size"), 2**14),
    "convs": 2**12,
    "num_atoms": 1000,
}

# Numbers in a list, such as the sizes of layers.
LONGEST_LIST = 100


def limit_of(name: str) -> float:
    """The largest value of an argument, infinite where none is set."""
    return LIMITS.get(name, float("inf"))
