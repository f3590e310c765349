"""Cases of the speed comparison: one dictionary per case, for our side and for the peer's.

A case with a 'peer' names the class that it is compared with, from stable_baselines3 or sbx, by default PPO; None
for none; with 'peer_learn' it takes these arguments, in its own names, in place of those that follow from ours. The
first 'warmup' steps are not counted: by default one update's.

A case with an 'original' has no peer that is alive: it is compared with what OpenAI baselines on TensorFlow 1 did, by
the ratio of the two machines' yardsticks.

Only the standard library is imported here: the peer's process loads this file by its path.
"""


def off_policy(alg, peer, hidden_sizes, batch_size, **further):
    """One gradient step for each step of HalfCheetah, from step 1,000 on; both sides compile and fill before that."""
    learn = {
        "hidden_sizes": hidden_sizes,
        "batch_size": batch_size,
        "start_steps": 1000,
        "update_after": 1000,
        "update_every": 50,
        "num_test_episodes": 0,
    }
    if alg == "ddpg":
        learn |= {"polyak": 0.995, "act_noise": 0.1, "critic_l2_reg": 0.0, "normalize_observations": False}
        learn |= {"actor_lr": 1e-3, "critic_lr": 1e-3, "nb_epoch_cycles": 40}
    else:
        learn |= {"steps_per_epoch": 2000, "alpha": "auto"} if alg == "sac" else {"steps_per_epoch": 2000}
    return {
        "alg": alg,
        "peer": peer,
        "env": "HalfCheetah-v5",
        "num_env": 1,
        "network": "dense",
        "steps": 6000,
        "warmup": 2000,
        "normalize": False,
        "learn": learn | further,
    }


def a2c(env, num_env, network, steps):
    """Five steps of every environment in an update; the peer's other defaults are ours."""
    learn = {"nsteps": 5, "gamma": 0.99, "lr": 7e-4, "lrschedule": "constant", "ent_coef": 0.01}
    if network == "mlp":
        learn["value_network"] = "copy"
    return {
        "alg": "a2c",
        "peer": "stable_baselines3:A2C",
        "env": env,
        "num_env": num_env,
        "network": network,
        "steps": steps,
        "warmup": 50 * 5 * num_env,
        "normalize": False,
        "learn": learn,
        "peer_learn": {"n_steps": 5, "gamma": 0.99, "learning_rate": 7e-4, "ent_coef": 0.01},
    }


# DQN on CartPole with the peer's own network and its tuned learning rate and exploration, but a gradient step for each
# environment step.
DQN_CARTPOLE = {
    "alg": "deepq",
    "peer": "stable_baselines3:DQN",
    "env": "CartPole-v1",
    "num_env": 1,
    "network": "dense",
    "steps": 20_000,
    "warmup": 2000,
    "normalize": False,
    "learn": {
        "hidden_sizes": (64, 64),
        "hiddens": (),
        "dueling": False,
        "double_q": False,
        "lr": 2.3e-3,
        "gamma": 0.99,
        "buffer_size": 100_000,
        "batch_size": 32,
        "learning_starts": 1000,
        "train_freq": 1,
        "target_network_update_freq": 500,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
    },
}

# The peer's settings for Atari, with a replay that is soon filled.
DQN_PONG = DQN_CARTPOLE | {
    "env": "PongNoFrameskip-v4",
    "network": "cnn",
    "steps": 8000,
    "learn": {
        "hiddens": (),
        "dueling": False,
        "double_q": False,
        "lr": 1e-4,
        "gamma": 0.99,
        "buffer_size": 5000,
        "batch_size": 32,
        "learning_starts": 1000,
        "train_freq": 4,
        "target_network_update_freq": 1000,
        "exploration_fraction": 0.1,
        "exploration_final_eps": 0.01,
    },
}


def of_pixels(case):
    """Return True if a case's network has convolutions."""
    return case["network"] in ("cnn", "conv_only")


def steps_per_update(case):
    """Count the environment steps from one update to the next."""
    learn = case["learn"]
    if "nsteps" in learn:
        return case["num_env"] * learn["nsteps"]
    # Names of the steps argument in off-policy, baselines' on-policy and Spinning Up's on-policy algorithms.
    names = ("train_freq", "update_every", "timesteps_per_batch", "steps_per_epoch")
    return next(learn[name] for name in names if name in learn)


# Numbers of ppo2 on CartPole.
CARTPOLE = {
    "nsteps": 128,
    "nminibatches": 4,
    "noptepochs": 4,
    "gamma": 0.99,
    "lam": 0.95,
    "lr": 3e-4,
    "cliprange": 0.2,
    "ent_coef": 0.0,
}

CASES = {
    "halfcheetah": {
        "env": "HalfCheetah-v5",
        "num_env": 1,
        "network": "mlp",
        "steps": 40 * 2048,
        "normalize": True,
        "learn": {
            "nsteps": 2048,
            "nminibatches": 32,
            "noptepochs": 10,
            "gamma": 0.99,
            "lam": 0.95,
            "lr": 3e-4,
            "cliprange": 0.2,
            "ent_coef": 0.0,
            "value_network": "copy",
        },
    },
    "cartpole": {
        "env": "CartPole-v1",
        "num_env": 8,
        "network": "mlp",
        "steps": 300 * 1024,
        "normalize": False,
        "learn": CARTPOLE | {"value_network": "copy"},
    },
    # An LSTM of 128 units below the policy and the values, on both sides.
    "cartpole-lstm": {
        "alg": "ppo2",
        "peer": "sb3_contrib:RecurrentPPO",
        "env": "CartPole-v1",
        "num_env": 8,
        "network": "lstm",
        "steps": 40 * 1024,
        "normalize": False,
        "learn": CARTPOLE,
        "peer_learn": {
            "n_steps": 128,
            "batch_size": 256,
            "n_epochs": 4,
            "gamma": 0.99,
            "gae_lambda": 0.95,
            "learning_rate": 3e-4,
            "clip_range": 0.2,
            "ent_coef": 0.0,
            "policy_kwargs": {
                "net_arch": [],
                "lstm_hidden_size": 128,
                "shared_lstm": True,
                "enable_critic_lstm": False,
            },
        },
    },
    "pong": {
        "env": "PongNoFrameskip-v4",
        "num_env": 8,
        "network": "cnn",
        "steps": 16 * 1024,
        "normalize": False,
        "learn": {
            "nsteps": 128,
            "nminibatches": 4,
            "noptepochs": 4,
            "gamma": 0.99,
            "lam": 0.95,
            "lr": 2.5e-4,
            "cliprange": 0.1,
            "ent_coef": 0.01,
        },
    },
    # Counted while four updates in five are from the replay. Its original ran where the yardstick took these seconds.
    "acer-pong": {
        "alg": "acer",
        "env": "PongNoFrameskip-v4",
        "num_env": 8,
        "network": "cnn",
        "steps": 60 * 160,
        "warmup": 20 * 160,
        "original": {"steps_per_second": 142, "matmul_seconds": 0.054},
        "learn": {"nsteps": 20, "replay_ratio": 4, "replay_start": 200, "lrschedule": "constant"},
    },
    "sac": off_policy("sac", "stable_baselines3:SAC", (256, 256), 256),
    "sac-sbx": off_policy("sac", "sbx:SAC", (256, 256), 256),
    "sac-batch100": off_policy("sac", "stable_baselines3:SAC", (256, 256), 100),
    "td3": off_policy("td3", "stable_baselines3:TD3", (400, 300), 256),
    "ddpg": off_policy("ddpg", "stable_baselines3:DDPG", (400, 300), 256),
    "a2c-cartpole": a2c("CartPole-v1", 8, "mlp", 6000 * 40),
    "a2c-pong": a2c("PongNoFrameskip-v4", 16, "cnn", 250 * 80),
    # Fisher-vector products on a fifth of the batch, and the value function in minibatches of 64, on both sides.
    "trpo": {
        "alg": "trpo_mpi",
        "peer": "sb3_contrib:TRPO",
        "env": "HalfCheetah-v5",
        "num_env": 1,
        "network": "mlp",
        "steps": 40 * 1024,
        "warmup": 2 * 1024,
        "normalize": True,
        "learn": {
            "timesteps_per_batch": 1024,
            "max_kl": 0.01,
            "cg_iters": 10,
            "cg_damping": 0.1,
            "gamma": 0.99,
            "lam": 0.98,
            "vf_iters": 5,
            "vf_stepsize": 1e-3,
            "normalize_observations": False,
        },
        "peer_learn": {
            "n_steps": 1024,
            "batch_size": 64,
            "target_kl": 0.01,
            "cg_max_steps": 10,
            "cg_damping": 0.1,
            "gamma": 0.99,
            "gae_lambda": 0.98,
            "n_critic_updates": 5,
            "learning_rate": 1e-3,
            "sub_sampling_factor": 5,
        },
    },
    # 80 steps on the whole batch; neither side stops them early.
    "ppo": {
        "alg": "ppo",
        "peer": "stable_baselines3:PPO",
        "env": "HalfCheetah-v5",
        "num_env": 1,
        "network": "dense",
        "steps": 10 * 4000,
        "warmup": 4000,
        "normalize": False,
        "learn": {
            "steps_per_epoch": 4000,
            "hidden_sizes": [64, 64],
            "activation": "tanh",
            "clip_ratio": 0.2,
            "pi_lr": 3e-4,
            "train_pi_iters": 80,
            "train_v_iters": 80,
            "target_kl": 1e6,
            "num_test_episodes": 0,
        },
        "peer_learn": {
            "n_steps": 4000,
            "batch_size": 4000,
            "n_epochs": 80,
            "clip_range": 0.2,
            "learning_rate": 3e-4,
            "gae_lambda": 0.97,
        },
    },
    "deepq-cartpole": DQN_CARTPOLE,
    # A gradient step for each step of each environment; those of a step of all are one compiled call.
    "deepq-cartpole-8": DQN_CARTPOLE | {"num_env": 8, "steps": 40_000},
    # One gradient step per environment step, eight at a time.
    "deepq-cartpole-together": DQN_CARTPOLE | {"learn": DQN_CARTPOLE["learn"] | {"train_freq": 8, "gradient_steps": 8}},
    # To be compared with deepq-cartpole, in the same run.
    "deepq-cartpole-prioritized": DQN_CARTPOLE
    | {"peer": None, "learn": DQN_CARTPOLE["learn"] | {"prioritized_replay": True}},
    "deepq-pong": DQN_PONG,
    # One gradient step per environment step; both of a vector step are one compiled call.
    "deepq-pong-8": DQN_PONG | {"num_env": 8, "steps": 16_000},
    # Not for its speed but for growth_mib: most of its steps are taken after the replay is full.
    "sac-memory": {
        **off_policy("sac", None, (32, 32), 32, replay_size=20_000, num_update=5),
        "env": "Pendulum-v1",
        "steps": 420_000,
        "warmup": 20_000,
    },
}
