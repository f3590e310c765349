"""Signs in demonstrations and data sets: whether they fit the environment, and whether a policy can imitate them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tfbaselines.demos import Demonstrations
from tfbaselines.demos.cloning import Cloning, CloningOptions
from tfbaselines.doctor.findings import number
from tfbaselines.parallel import mpi
from tfbaselines.probes.prediction import LEAST_ROWS, explained
from tfbaselines.probes.signs import Sign
from tfbaselines.probes.walks import Walk

# Steps that are compared, and steps of the batch that is fitted.
MOST, BATCH = 4000, 64
# Gradient steps on the batch.
STEPS = 600
# First observations this many deviations from those of the environment, or this many times as wide, are others.
FAR, WIDE = 6.0, 8.0
# Explained share of actions below which they do not depend on observations.
NONE = 0.03
# Share of the actions that a policy reproduces, 0 for a constant action, 1 for all: too little, and a clear difference.
LOW, CLEAR = 0.3, 0.3


class Source(NamedTuple):
    """An argument that names demonstrations, and its value."""

    argument: str
    path: str


def source_of(arguments: Any) -> Source | None:
    """Return the demonstrations or the data set that a run's arguments name; None if it has none."""
    signals = getattr(arguments, "signals", None) or {}
    named = [
        ("demo_path", getattr(arguments, "demo_path", None)),
        ("offline", getattr(arguments, "offline", None)),
        ("pretraining", getattr(getattr(arguments, "cloning", None), "demo_path", None)),
        *(("reward_signals", getattr(signal, "demo_path", None)) for signal in signals.values()),
    ]
    return next((Source(argument, path) for argument, path in named if path), None)


def return_signs(episodes: Demonstrations, random: Walk, expert: bool) -> Iterator[Sign]:
    """Compare the returns of demonstrations with those of random actions; data sets need no expert."""
    if len(random.returns) < 4 or not episodes.rewards.any():
        return
    shown, chance = float(episodes.returns.mean()), float(random.returns.mean())
    error = float(random.returns.std() / np.sqrt(len(random.returns)))
    if shown <= chance + 2 * error:
        value = f"{number(shown)} in the mean, random actions return {number(chance)}"
        yield Sign("demonstrated_returns", value, 0.9 if expert else 0.5)


def start_signs(episodes: Demonstrations, random: Walk) -> Iterator[Sign]:
    """Compare the first observations of demonstrated episodes with those of the environment."""
    first = episodes.obs[episodes.episode_start].reshape(len(episodes.lengths), -1).astype(np.float64)
    begins = random.obs[random.first]
    if len(first) < 3 or len(begins) < 3 or first.shape[1] != begins.shape[1]:
        return
    deviation = np.maximum(begins.std(0), 0.02 * (random.obs.std(0) + 1e-9))
    apart = np.abs(first.mean(0) - begins.mean(0)) / deviation
    wide = first.std(0) / deviation
    if apart.max() > FAR or wide.max() > WIDE:
        place = int(np.argmax(np.maximum(apart / FAR, wide / WIDE)))
        value = (
            f"number {place} begins at {number(first[:, place].mean())} with a deviation of "
            f"{number(first[:, place].std())}, in the environment at {number(begins[:, place].mean())} with "
            f"{number(begins[:, place].std())}"
        )
        yield Sign("demonstrated_observations", value, 0.92)


def _columns(episodes: Demonstrations, space: spaces.Space) -> tuple[np.ndarray, np.ndarray]:
    """Return observations [T, n] and actions [T, k] as rows of numbers; discrete actions are one-hot."""
    actions = episodes.actions.reshape(len(episodes), -1)
    if isinstance(space, spaces.Discrete):
        actions = np.eye(int(space.n))[actions[:, 0] - int(space.start)]
    return episodes.obs.reshape(len(episodes), -1).astype(np.float64), actions.astype(np.float64)


def action_signs(episodes: Demonstrations, space: spaces.Space) -> Iterator[Sign]:
    """Judge whether actions belong to the steps beside which they are recorded.

    An observation and the next one show the action between them. If the pair a step sooner or later shows it much
    better, the actions are shifted.
    """
    obs, actions = _columns(episodes, space)
    starts = episodes.episode_start
    # Steps with two others before and after them in their episode.
    inside = np.ones(len(obs), bool)
    for shift in (-1, 0, 1, 2):
        inside &= ~np.roll(starts, -shift)
    rows = np.flatnonzero(inside[2:-2]) + 2
    rows = rows[np.random.default_rng(0).permutation(len(rows))[:MOST]]
    if len(rows) < LEAST_ROWS:
        return
    shares = {
        shift: explained(np.concatenate([obs[rows + shift], obs[rows + shift + 1]], axis=1), actions[rows])
        for shift in (-1, 0, 1)
    }
    best = max((-1, 1), key=lambda shift: shares[shift])
    if shares[best] > 0.6 and 1 - shares[best] < 0.3 * (1 - shares[0]):
        value = (
            f"{shares[0]:.0%} explained by the step beside them, {shares[best]:.0%} by the step "
            f"{'before' if best < 0 else 'after'}"
        )
        yield Sign("demonstrated_actions", value, 0.93)
        return
    alone = explained(obs[rows], actions[rows])
    if alone < NONE:
        yield Sign("demonstrated_actions", f"{alone:.0%} explained by the observation", 0.6)


def reproduced(model: Any, episodes: Demonstrations, rows: np.ndarray) -> float:
    """Return the share of the actions in some rows that the likeliest ones reproduce.

    It is 1 for all, and 0 for as many as the best constant action of all episodes reproduces.
    """
    every = episodes.actions.reshape(len(episodes), -1)
    likely = np.asarray(model.act(episodes.obs[rows], None, True)[0]).reshape(len(rows), -1)
    if every.dtype.kind == "f":
        missed = np.square(likely - every[rows]).mean()
        of_constant = every.var(0).mean()
    else:
        missed = (likely != every[rows]).any(1).mean()
        of_constant = 1 - np.unique(every, axis=0, return_counts=True)[1].max() / len(every)
    return float(1 - missed / of_constant) if of_constant > 0 else float(missed == 0)


def imitation_signs(model: Any, episodes: Demonstrations, held_out: float) -> Iterator[Sign]:
    """Judge how well a trained policy reproduces what it learned from, and the rows that validated it."""
    rows = np.arange(len(episodes))
    every = max(2, round(1 / held_out)) if held_out else 0
    held = rows % every == every - 1 if every else np.zeros(len(rows), bool)
    chosen = [part[np.random.default_rng(0).permutation(len(part))[:MOST]] for part in (rows[~held], rows[held])]
    learned = reproduced(model, episodes, chosen[0])
    if learned < LOW:
        yield Sign("imitation", f"{max(0.0, learned):.0%} of what a constant action misses", 0.6)
    elif len(chosen[1]) > 30 and learned - (other := reproduced(model, episodes, chosen[1])) > CLEAR:
        value = f"{learned:.0%} of the steps that it learned from, {max(0.0, other):.0%} of those held out"
        yield Sign("few_demonstrations", value, 0.75)


def batch_signs(model: Any, episodes: Demonstrations, lr: float) -> Iterator[Sign]:
    """Clone one fixed batch with a fresh policy, and judge whether the updates fit it."""
    rows = np.random.default_rng(0).permutation(len(episodes))[:BATCH]
    # One pass over copies of the batch is one call.
    copies = np.tile(rows, STEPS)
    batch = Demonstrations(
        obs=episodes.obs[copies],
        actions=episodes.actions[copies],
        rewards=episodes.rewards[copies],
        lengths=np.ones(len(copies), np.int64),
        terminated=np.ones(len(copies), bool),
    )
    options = CloningOptions(batch_size=len(rows), held_out=0.0)
    cloning = Cloning(model.policy, model.policy.trainable_variables, batch, options, mpi.Communicator())
    cloning.begin()
    cloning.one_pass(np.random.default_rng(0), lr)
    model.ready()
    share = reproduced(model, episodes, rows)
    if share < LOW:
        yield Sign("cloned_batch", f"{max(0.0, share):.0%} of what a constant action misses, after {STEPS} steps", 0.8)
