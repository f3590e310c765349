"""On-policy algorithms learn what the originals' tests ask of them, with those tests' arguments."""

import gymnasium
import pytest
from helpers import IDENTITY, enough, mean_return, reward_per_step, vec

from tfbaselines.algs import get
from tfbaselines.config.options import RunOptions
from tfbaselines.training.callbacks import StopAt

STEPS = 30_000
OF_IDENTITY = {
    "ppo2": {"lr": 1e-3, "nsteps": 64, "ent_coef": 0.0},
    "a2c": {},
    "acktr": {},
    "trpo_mpi": {"timesteps_per_batch": 100, "cg_iters": 10, "lam": 1.0, "max_kl": 0.01},
}
SPINNING_UP = {"steps_per_epoch": 2000, "hidden_sizes": [64, 64], "activation": "tanh", "num_env": 4}
OF_CARTPOLE = {
    "ppo2": ("ppo2", {"gamma": 1.0, "value_network": "copy"}),
    "a2c": ("a2c", {"gamma": 1.0, "nsteps": 32, "value_network": "copy", "lr": 0.05}),
    "acktr": ("acktr", {"gamma": 1.0, "nsteps": 32, "value_network": "copy", "is_async": False}),
    "trpo_mpi": ("trpo_mpi", {"gamma": 1.0}),
    "ppo1": ("ppo1", {}),
    "trpo": ("trpo", SPINNING_UP | {"network": "dense", "total_timesteps": 40_000}),
    "npg": ("trpo", SPINNING_UP | {"network": "dense", "total_timesteps": 40_000, "algo": "npg"}),
}


def learn(alg, env, bound, **arguments):
    """A run that ends once it has learnt; the means of the logs lag behind the policy."""
    arguments = {"network": "mlp", "total_timesteps": STEPS, "seed": 0} | arguments
    return get(alg).learn(env=env, run=RunOptions(callback=StopAt(bound)), **arguments)


# CartPole has one choice; all of them take several choices at once in the same place.
IDENTITIES = [(alg, kind) for alg in OF_IDENTITY for kind in IDENTITY if kind == "Box" or alg == "ppo2"]


@pytest.mark.slow
@pytest.mark.parametrize(("alg", "kind"), IDENTITIES)
def test_identity(alg, kind):
    maker, bar = IDENTITY[kind]
    env = vec(maker)
    assert reward_per_step(learn(alg, env, enough(bar), gamma=0.9, **OF_IDENTITY[alg]), env) >= bar


@pytest.mark.slow
@pytest.mark.parametrize("case", OF_CARTPOLE)
def test_cartpole(case):
    alg, arguments = OF_CARTPOLE[case]
    env = vec(lambda: gymnasium.make("CartPole-v1", disable_env_checker=True), arguments.get("num_env", 1))
    own = {name: value for name, value in arguments.items() if name != "num_env"}
    assert mean_return(learn(alg, env, 130.0, **own), env) >= 100
