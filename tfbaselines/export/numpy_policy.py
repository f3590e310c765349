"""Act with a policy that tfbaselines exported. This file and policy.npz need numpy alone.

policy = load("policy.npz")
action, states = policy.act(observation)            # and act(observation, states) if the policy has a memory
"""

import json

import numpy as np


def load(path):
    """Read a policy from policy.npz."""
    with np.load(path, allow_pickle=False) as arrays:
        weights = {name: arrays[name] for name in arrays.files}
    return Policy(json.loads(weights.pop("program").tobytes()), weights)


class Policy:
    """A policy: a list of operations on rows of numbers, and their weights by name."""

    def __init__(self, program, weights):
        self.program = program
        self.weights = weights

    def act(self, observations, states=None, masks=None, noise=None):
        """Compute actions.

        Args:
            observations: one observation or a batch [N, ...]; a dictionary if observations have several parts.
            states: memory [N, S] that the call before returned; None at the start of episodes.
            masks: [N] 1 for each observation that is the first of an episode; None for none.
            noise: [N, ...] noise for sampled actions; None for the most likely actions.

        Returns:
            The action or actions, and the new memory (None without).
        """
        program, inputs = self.program, self.program["inputs"]
        parts = observations if isinstance(observations, dict) else {inputs[0]["part"]: observations}
        arrays = [np.asarray(parts[part["part"]], np.float32) for part in inputs]
        single = arrays[0].ndim == len(inputs[0]["shape"])
        count = 1 if single else len(arrays[0])
        values = {part["value"]: array.reshape(count, -1) for part, array in zip(inputs, arrays, strict=True)}
        if program["state"]:
            size = program["state"]["size"]
            memory = np.zeros((count, size)) if states is None else np.reshape(states, (count, size))
            keep = 1.0 if masks is None else 1.0 - np.reshape(masks, (count, 1))
            values[program["state"]["value"]] = np.asarray(memory * keep, np.float32)
        ending = program["act" if noise is None else "sample"]
        if noise is not None:
            values[program["noise"]["value"]] = np.asarray(noise, np.float32).reshape(count, -1)
        for operation in program["body"] + ending["operations"]:
            weights = {role: self.weights[name] for role, name in operation["weights"].items()}
            rows = [values[number] for number in operation["inputs"]]
            values[operation["output"]] = OPERATIONS[operation["kind"]](*rows, **operation["settings"], **weights)
        shape = program["action"]["shape"]
        actions = values[ending["action"]].reshape(count, *shape).astype(program["action"]["dtype"])
        new_states = values[ending["state"]] if program["state"] else None
        return (actions[0] if single else actions), new_states


def dense(x, rows, width, units, kernel, bias):
    return (x.reshape(-1, width) @ kernel + bias).reshape(len(x), -1)


def windows(x, fill, image, out, size, strides, pads, dilation=(1, 1)):
    """Cut windows [N, rows, columns, channels, window rows, window columns] out of images."""
    reach = [(size[k] - 1) * dilation[k] + 1 for k in (0, 1)]
    needed = [(out[k] - 1) * strides[k] + reach[k] for k in (0, 1)]
    around = [(pads[k], max(needed[k] - image[k] - pads[k], 0)) for k in (0, 1)]
    x = np.pad(x.reshape(-1, *image), ((0, 0), *around, (0, 0)), constant_values=fill)
    cut = np.lib.stride_tricks.sliding_window_view(x, reach, (1, 2))
    cut = cut[:, :: strides[0], :: strides[1], :, :: dilation[0], :: dilation[1]]
    return cut[:, : out[0], : out[1]]


def conv2d(x, image, out, kernel, bias, **settings):
    cut = windows(x, 0.0, image, out, **settings)
    return (np.tensordot(cut, kernel, ((4, 5, 3), (0, 1, 2))) + bias).reshape(len(x), -1)


def pool2d(x, how, **settings):
    if how == "max":
        return windows(x, -np.inf, **settings).max(axis=(4, 5)).reshape(len(x), -1)
    inside = windows(np.ones_like(x), 0.0, **settings).sum(axis=(4, 5))
    return (windows(x, 0.0, **settings).sum(axis=(4, 5)) / inside).reshape(len(x), -1)


def layer_norm(x, width, gamma, beta, epsilon):
    groups = x.reshape(len(x), -1, width)
    centered = groups - groups.mean(axis=2, keepdims=True)
    variance = np.square(centered).mean(axis=2, keepdims=True)
    return (centered / np.sqrt(variance + epsilon) * gamma + beta).reshape(len(x), -1)


def affine(x, minus, times, plus):
    minus, times, plus = (np.resize(weight, x.shape[1]) for weight in (minus, times, plus))
    return (x - minus) * times + plus


def clip(x, low, high):
    return np.clip(x, np.resize(low, x.shape[1]), np.resize(high, x.shape[1]))


def softmax(x, width):
    groups = x.reshape(len(x), -1, width)
    powers = np.exp(groups - groups.max(axis=2, keepdims=True))
    return (powers / powers.sum(axis=2, keepdims=True)).reshape(len(x), -1)


def one_hot(x, sizes, starts):
    encoded = np.zeros((len(x), sum(sizes)), np.float32)
    places = x.astype(np.int64) - starts + np.cumsum([0, *sizes[:-1]])
    encoded[np.arange(len(x))[:, None], places] = 1.0
    return encoded


def argmax(x, sizes, starts):
    parts = np.split(x, np.cumsum(sizes)[:-1], axis=1)
    return np.stack([part.argmax(axis=1) for part in parts], axis=1) + starts


def concat(*parts, rows, widths):
    return np.concatenate([part.reshape(len(part), rows, -1) for part in parts], axis=2).reshape(len(parts[0]), -1)


def erf(x):
    """Approximate the error function within 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    t = 1.0 / (1.0 + 0.3275911 * np.abs(x))
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.sign(x) * (1.0 - series * np.exp(-x * x))


FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 0.5 * np.tanh(0.5 * x) + 0.5,
    "exp": np.exp,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "softplus": lambda x: np.logaddexp(0.0, x),
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "erf": erf,
    "step": lambda x: (x > 0).astype(np.float32),
    "round": np.rint,
}
COMBINATIONS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
OPERATIONS = {
    "dense": dense,
    "conv2d": conv2d,
    "pool2d": pool2d,
    "layer_norm": layer_norm,
    "affine": affine,
    "clip": clip,
    "activation": lambda x, name: FUNCTIONS[name](x),
    "softmax": softmax,
    "weighted_sum": lambda x, width, weights: x.reshape(len(x), -1, width) @ weights,
    "combine": lambda x, y, how: COMBINATIONS[how](x, y),
    "concat": concat,
    "slice": lambda x, begin, end: x[:, begin:end],
    "one_hot": one_hot,
    "gather": lambda x, table, strides, width: table[x.astype(np.int64) @ np.array(strides)],
    "argmax": argmax,
}
