"""Trains on each rank of mpirun, and compares all that was learnt: ``python -m equal_ranks JSON``.

JSON is a list of runs: the algorithm, its arguments, the environment among them where it is not Pendulum, and how
ranks exchange. Nothing is compiled, which takes most of so short a run.
"""

import json
import sys

import numpy as np
import tensorflow as tf

from tfbaselines.algs import get
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.make import make_vec_env
from tfbaselines.parallel import mpi

tf.config.run_functions_eagerly(True)
world = mpi.world()
for alg, arguments, exchange in json.loads(sys.argv[1]):
    env = make_vec_env(arguments.pop("env", "Pendulum-v1"), "classic_control", 1, 10_000 * world.rank)
    model = get(alg).learn(env=env, seed=0, run=RunOptions(mpi_exchange=exchange), **arguments)
    one, other = world.gather(model.state())
    np.testing.assert_equal(one, other)
    if world.rank == 0:
        print(alg, "is equal", flush=True)
