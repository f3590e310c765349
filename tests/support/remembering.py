"""A run whose model only writes down what is done with it."""

import hashlib
import os
from types import SimpleNamespace

import keras
import numpy as np

from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.config.config import Config
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.training.clock import Plan
from tfbaselines.training.run import Run

ALGORITHM = Algorithm(Config, "", EVERY_KIND)


class Remembering:
    """A model of a policy's, a target's and a temperature's variables, and a table."""

    def __init__(self, events=None):
        self.events = [] if events is None else events
        self.kernel, self.target = (keras.Variable(np.float32([[k, k]])) for k in (1.0, 2.0))
        self.log_alpha, self.table = keras.Variable(np.float32(3.0)), np.full((2, 2), 4.0)
        self.observations = SimpleNamespace(scales=False)
        self.policy = SimpleNamespace(parameter_groups={"pi": [self.kernel]})

    def variables(self):
        return [self.kernel, self.target, self.log_alpha, self.table]

    def values(self):
        return [np.array(variable).ravel().tolist() for variable in self.variables()]

    def attach(self, env, config=None, rng=None):
        self.events.append(("attach", env, config))

    def load(self, path, only_acts=False):
        self.events.append(("load", path))

    def take(self, tree, path):
        self.events.append(("take", os.path.basename(path)))

    def ready(self):
        self.events.append(("ready", self.values()))

    def tree(self):
        return {"kernel": self.kernel.numpy()}


class Place:
    """What a run asks of environments."""

    restored = True

    @property
    def unwrapped(self):
        return self

    def state(self):
        return {}

    def restore(self, state):
        pass

    def merge_statistics(self, comm):
        pass


class SecondOfTwo(Communicator):
    """Rank 1: rank 0 has 100 more of everything, and the parameters that `theirs` gives."""

    rank, size = 1, 2

    def __init__(self, events=None, theirs=None):
        self.events, self.theirs = [] if events is None else events, theirs

    def broadcast(self, array, root=0):
        self.events.append("broadcast")
        return array + 100

    def gather(self, obj):
        first = obj
        if isinstance(obj, str) and self.theirs is not None:
            flat = np.concatenate([np.ravel(variable) for variable in self.theirs.variables()])
            first = hashlib.sha256(flat.tobytes()).hexdigest()
        return [first, obj]


def make_run(updates=3, comm=None, options=None, **arguments):
    config = Config(seed=0, comm=comm, run=options, **arguments)
    return Run(ALGORITHM, Place(), config, Plan(total_timesteps=10 * updates, steps_per_update=10))


def go(run, model, **kwargs):
    with run:
        run.start(model, **kwargs)
        for _ in run.updates():
            run.finish_update(dict)
