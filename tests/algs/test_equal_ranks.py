"""Two ranks with reward signals, with pretraining, with data sets and with whole episodes end with equal models."""

import json

import pytest
from commands import SUPPORT, run_on_ranks
from small_runs import DEMONSTRATIONS

PENDULUM = str(DEMONSTRATIONS / "pendulum.npz")
SIGNALS = {"extrinsic": {}, "curiosity": {}, "rnd": {"encoding_size": 8}}
WITH_GAIL = SIGNALS | {"gail": {"demo_path": PENDULUM}}
CLONING = {"demo_path": PENDULUM, "batch_size": 8}
ON_POLICY = {"network": "mlp", "nsteps": 20, "nminibatches": 2, "noptepochs": 2, "num_layers": 1, "num_hidden": 8}
ON_POLICY |= {"total_timesteps": 40}
OFF_POLICY = {"network": "dense", "hidden_sizes": [16], "batch_size": 16, "update_every": 10, "total_timesteps": 20}
OFF_POLICY |= {"num_test_episodes": 0, "num_update": 3}
ONLINE = OFF_POLICY | {"start_steps": 10, "update_after": 10, "total_timesteps": 30, "alpha": "auto"}
OFFLINE = OFF_POLICY | {"offline": PENDULUM}
# Whole episodes: those of one rank are longer than the other's.
EPISODES = {"env": "CartPole-v1", "network": "mlp", "num_layers": 1, "num_hidden": 8, "nsteps": 8, "replay_ratio": 2}
EPISODES |= {"buffer_len": 5, "replay_start": 16, "trust_region": "exact", "delta": 1e-4, "lr": 0.01}
EPISODES |= {"total_timesteps": 80}
RUNS = [
    ("ppo2", ON_POLICY | {"reward_signals": SIGNALS}, "auto"),
    ("ppo2", ON_POLICY | {"pretraining": CLONING}, "batches"),
    ("sac", ONLINE | {"reward_signals": WITH_GAIL}, "auto"),
    ("sac", ONLINE | {"pretraining": CLONING}, "gradients"),
    ("td3", OFFLINE, "auto"),
    ("sac", OFFLINE | {"cql_threshold": 1.0, "alpha": "auto"}, "auto"),
    ("acer", EPISODES, "auto"),
]


@pytest.mark.slow
def test_two_ranks_learn_one_model(tmp_path):
    status, out, err = run_on_ranks("equal_ranks", json.dumps(RUNS), cwd=tmp_path, PYTHONPATH=SUPPORT)
    assert status == 0, err
    assert [line for line in out.splitlines() if line.endswith("is equal")] == [f"{alg} is equal" for alg, *_ in RUNS]


@pytest.mark.slow
@pytest.mark.parametrize("network", [["--network=lstm"], ["--num_hidden=100"]], ids=["sequences", "100 units"])
def test_compiled_gradients_of_two_ranks_stay_equal(network, tmp_path):
    """The run itself compares its ranks, and fails where they differ in the last bit."""
    words = ["--alg=a2c", "--env=CartPole-v1", "--num_env=4", "--num_timesteps=4000", "--seed=0", "--log_path=log"]
    status, _, err = run_on_ranks("tfbaselines.run", *words, *network, cwd=tmp_path)
    assert status == 0, err
    assert "ranks exchange batches" in (tmp_path / "log/log.txt").read_text()
