"""Every kind of update on each rank of mpirun, in both ways of exchange: ``python -m two_ways`` writes WAY-RANK.npz."""

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.learn import exchange
from tfbaselines.learn.engine import Engine, Merged, Phase
from tfbaselines.learn.natural_gradient import LineSearch, NaturalGradient
from tfbaselines.learn.optimizers import Adam
from tfbaselines.parallel import mpi

ROWS, WIDTH = 12, 3


class Fit:
    """A linear fit; each rank has rows of its own, of which `joined` has all."""

    def __init__(self, ranks):
        self.weights = keras.Variable(np.linspace(-1.0, 1.0, WIDTH), dtype="float32")
        rngs = [np.random.default_rng(rank) for rank in ranks]
        self.data = {
            "x": np.concatenate([rng.normal(size=(ROWS, WIDTH)) for rng in rngs]).astype(np.float32),
            "y": np.concatenate([rng.normal(size=ROWS) for rng in rngs]).astype(np.float32),
        }

    def loss(self, batch):
        error = tf.linalg.matvec(batch["x"], self.weights.value) - batch["y"]
        square = tf.reduce_mean(tf.square(error))
        return square, {"square": square}

    def measure(self, batch):
        return {"gain": -self.loss(batch)[0], "kl": tf.reduce_mean(tf.square(batch["x"] @ self.weights.value[:, None]))}


def updated(fit, jit, comm):
    """The weights after each kind of update in turn, and what each says of itself."""
    weights, ranks = [fit.weights], len(fit.data["y"]) // ROWS
    steps = np.arange(ROWS).reshape(-1, 4)
    # Minibatches of the joined data hold what those of all ranks do.
    indices = np.concatenate([steps + ROWS * rank for rank in range(ranks)], 1).astype(np.int32)
    found = []

    engine = Engine([Phase("fit", fit.loss, weights, Adam(), max_grad_norm=0.5)], jit=jit, comm=comm)
    found.append(engine.minibatches(fit.data, indices, lr=0.1)["square"])
    after = [fit.weights.numpy()]

    vector = Merged(lambda batch: tf.reduce_mean(batch["x"], 0), lambda mean: fit.weights.assign_add(mean))
    phases = [
        Phase("fit", fit.loss, weights, Adam()),
        Phase("again", lambda b: (fit.loss(b)[0], {"again": fit.weights.value[0]}), weights, Adam(), every=2),
    ]
    block = {name: array[None].repeat(3, 0) for name, array in fit.data.items()}
    blocks = Engine(phases, merged=vector, jit=jit, comm=comm)
    found += blocks.block(block, lr=0.1)["square"].tolist()
    after.append(fit.weights.numpy())

    phase = Phase("fit", fit.loss, weights, Adam(), steps=3, until="square", most=0.1)
    outcome = Engine([phase], jit=jit, comm=comm).repeat(fit.data, lr=0.1)
    found += [outcome.before["square"], outcome.after["square"], outcome.steps[0]]
    after.append(fit.weights.numpy())

    search = LineSearch(tries=5, shrink=0.5, margin=1000.0)
    trust = {"cg_iters": 5, "damping": 0.1, "search": search}
    taken = NaturalGradient(fit.measure, weights, **trust, jit=jit, comm=comm)(fit.data, max_kl=0.1)
    found += [taken.part, taken.tried, taken.before["gain"], taken.last["gain"]]
    return np.array([*after, fit.weights.numpy()]), np.array(found, np.float64)


if __name__ == "__main__":
    world = mpi.world()
    for jit in (True, False):
        for kind in ("batches", "gradients"):
            exchange.set_exchange(kind)
            after, found = updated(Fit([world.rank]), jit, world)
            np.savez(f"{kind}-{jit}-{world.rank}.npz", after=after, found=found)
        if world.rank == 0:
            after, found = updated(Fit(range(world.size)), jit, mpi.Communicator())
            np.savez(f"joined-{jit}.npz", after=after, found=found)
    assert len(exchange.news()) == 16
