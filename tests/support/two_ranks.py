"""Trains on each rank of mpirun, stops, resumes, writes what each rank has learnt: ``python -m two_ranks ALG ...``.

Nothing is compiled, which takes most of so short a run; tests of each family train compiled on two ranks.
"""

import sys

import tensorflow as tf
from small_runs import learn, own_identity, takes

from tfbaselines.algs import get
from tfbaselines.config.options import RunOptions
from tfbaselines.logs import logger
from tfbaselines.parallel import mpi
from tfbaselines.training.checkpoint import save_tree

tf.config.run_functions_eagerly(True)
world = mpi.world()


def train(alg):
    numbers = not takes(alg, "Discrete")
    own = (
        {"normalize_observations": True} if numbers and "normalize_observations" in get(alg).config.arguments() else {}
    )
    # Whole episodes in ACER's replay, which is saved and taken up in another way than rollouts.
    traces = {"buffer_len": 5, "trace_length": 4}
    kinds = {"sac": {"alpha": "auto"}, "ddpg": {"normalize_returns": True, "popart": True}, "acer": traces}
    own |= kinds.get(alg, {})
    for updates, options in ((2, RunOptions()), (4, RunOptions(resume=alg))):
        logger.configure(alg, ["csv", "log"], comm=world, resume=options.resume is not None)
        logger.get_current().set_comm(None)
        model = learn(alg, own_identity(alg, seed=10_000 * world.rank), updates, run=options, **own)
    save_tree(f"{alg}/rank{world.rank}", {"model": model.state(), "drawn": float(model.rng.random())})


for name in sys.argv[1:]:
    train(name)
