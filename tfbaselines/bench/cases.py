"""What the speed comparison runs: one dictionary per case, read by our side and by the peer's alike.

A case with an 'original' has no peer that is alive: it is compared with what OpenAI baselines on TensorFlow 1 did, by
the ratio of the two machines' yardsticks.

Only the standard library is imported here: the peer's process loads this file by its path.
"""

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
        "learn": {
            "nsteps": 128,
            "nminibatches": 4,
            "noptepochs": 4,
            "gamma": 0.99,
            "lam": 0.95,
            "lr": 3e-4,
            "cliprange": 0.2,
            "ent_coef": 0.0,
            "value_network": "copy",
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
        "warmup": 20,
        "original": {"steps_per_second": 142, "matmul_seconds": 0.054},
        "learn": {"nsteps": 20, "replay_ratio": 4, "replay_start": 200, "lrschedule": "constant"},
    },
}
