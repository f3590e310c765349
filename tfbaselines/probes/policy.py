"""Signs in a policy: its units, its actions over observations of the environment, and its memory."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from gymnasium import spaces

from tfbaselines.doctor.findings import number
from tfbaselines.envs.vec.packed import opened
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.encoding import networks_part, without_mask
from tfbaselines.probes.signs import Sign, array_of

# Share of a layer's units that are dead or saturated from which on the layer is a fault.
FEW_LEFT, MANY = 0.95, 0.7
# Share of the range of actions below which a standard deviation is small.
SMALL, TINY = 0.05, 0.01
# Deviation of a policy without randomness of its own, in float32.
NOTHING = 5e-7
# Observations that are examined at once.
MOST_ROWS = 512
# Actions that are sampled for a standard deviation.
SAMPLES = 64


def units(policy: BasePolicy, obs: np.ndarray) -> dict[str, np.ndarray]:
    """Return the outputs [B, ...] of layers with an activation, by name, for feed-forward networks of one input."""
    found: dict[str, np.ndarray] = {}
    rows = networks_part(policy.preprocess(obs[:MOST_ROWS]), without_mask(opened(policy.observation_space)))
    if isinstance(rows, dict):
        return found
    for place, module in enumerate(policy.modules):
        if not isinstance(module, keras.Model) or len(module.inputs) != 1:
            continue
        layers = [layer for layer in module.layers if getattr(layer, "activation", None) is not None]
        if not layers or tuple(module.input_shape[1:]) != tuple(rows.shape[1:]):
            continue
        outputs = keras.Model(module.inputs, [layer.output for layer in layers])(rows)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        for layer, output in zip(layers, outputs, strict=True):
            found[f"{place}/{layer.name} ({layer.activation.__name__})"] = np.asarray(output)
    return found


def unit_signs(outputs: dict[str, np.ndarray], fresh: bool) -> Iterator[Sign]:
    """Judge units that never or always do the same; `fresh` is a network before training."""
    worst: tuple[float, str] = (0.0, "")
    for name, array in outputs.items():
        flat = array.reshape(-1, array.shape[-1])
        if "relu" in name:
            worst = max(worst, (float((flat <= 0).all(0).mean()), name))
        elif "tanh" in name or "sigmoid" in name:
            still = (np.abs(flat) > 0.99).all(0) if "tanh" in name else ((flat > 0.99) | (flat < 0.01)).all(0)
            worst = max(worst, (float(still.mean()), name))
    share, name = worst
    if share >= MANY:
        when = "before training" if fresh else "after training"
        dead = "relu" in name
        certainty = (0.96 if fresh else 0.8) if share >= FEW_LEFT else (0.8 if fresh else 0.55)
        kind, certainty = ("dead", certainty) if dead else ("saturated", certainty / 2)
        yield Sign("dead_units", f"{share:.0%} {kind} in {name} {when}", certainty)


def spread(policy: BasePolicy, actor: Any, obs: np.ndarray) -> np.ndarray | None:
    """Return the deviation of sampled actions at one observation, as a share of half the range [k].

    None if actions are not a bounded Box, or if the policy samples none.
    """
    space = policy.action_space
    if not isinstance(space, spaces.Box) or not space.is_bounded() or policy.recurrent:
        return None
    batch = np.repeat(obs[:1], SAMPLES, axis=0)
    noise = policy.head.draw_noise(np.random.default_rng(0), (SAMPLES,))
    actions = actor.choose(batch, None, None, noise)[0]
    half = (space.high - space.low) / 2
    return (np.asarray(actions).std(0) / half).ravel()


def deviation_signs(share: np.ndarray | None) -> Iterator[Sign]:
    """Judge the deviation of a fresh policy's actions; 0 is a policy without randomness of its own."""
    if share is None or share.max() < NOTHING:
        return
    if share.max() < SMALL:
        certainty = 0.95 if share.max() < TINY else 0.75
        yield Sign("first_deviation", f"{share.max():.2g} of half the range before training", certainty)


def spread_signs(share: np.ndarray | None) -> Iterator[Sign]:
    """Judge the deviation of a trained policy's actions."""
    if share is not None and NOTHING <= share.max() < 0.003:
        yield Sign("no_spread", f"{share.max():.2g} of half the range", 0.55)


def action_signs(actions: np.ndarray, space: spaces.Space) -> Iterator[Sign]:
    """Judge the most likely actions [B, ...] over many observations."""
    rows = np.asarray(actions).reshape(len(actions), -1)
    if isinstance(space, spaces.Box):
        if not space.is_bounded():
            return
        low, high = space.low.ravel(), space.high.ravel()
        margin = 0.01 * (high - low)
        bound = (rows <= low + margin) | (rows >= high - margin)
        share = float(bound.mean())
        same = np.ptp(rows, axis=0).max() < margin.min()
        if same:
            yield Sign("one_action", "the same for every observation", 0.45)
        elif share > 0.97:
            yield Sign("at_bounds", f"{share:.0%} of the actions are at their bounds", 0.4)
    elif len(np.unique(rows, axis=0)) == 1:
        yield Sign("one_action", "the same for every observation", 0.45)


def memory_signs(policy: BasePolicy, actor: Any, obs: np.ndarray) -> Iterator[Sign]:
    """Judge whether actions depend on the memory of a recurrent policy."""
    count = min(len(obs), 64)
    rng = np.random.default_rng(0)
    zero = policy.initial_state(count)
    states, start = zero, np.ones(count, bool)
    for _ in range(8):
        states = actor.choose(obs[rng.permutation(len(obs))[:count]], states, start, None)[1]
        start = np.zeros(count, bool)
    noise = policy.head.draw_noise(rng, (count,))
    values = [actor.step(obs[:count], memory, start, noise) for memory in (zero, states)]
    moved = float(np.abs(np.asarray(values[0].neglogps) - np.asarray(values[1].neglogps)).max())
    moved = max(moved, float(np.abs(np.asarray(values[0].actions, float) - np.asarray(values[1].actions, float)).max()))
    change = float(np.abs(states - zero).max())
    if moved < 1e-6:
        yield Sign("memory", f"the memory changes by {number(change)}, and no action changes with it", 0.85)


def weight_signs(variables: list[Any]) -> Iterator[Sign]:
    """Judge the sizes of weights."""
    arrays = [array_of(variable) for variable in variables]
    wrong = sum(not np.isfinite(array).all() for array in arrays)
    if wrong:
        yield Sign("weights", f"{wrong} of {len(arrays)} arrays are not finite", 0.97)
        return
    largest = max((float(np.abs(array).max(initial=0.0)) for array in arrays), default=0.0)
    if largest > 1e3:
        yield Sign("weights", f"they reach {number(largest)}", 0.6)
