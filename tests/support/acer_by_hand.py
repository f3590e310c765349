"""ACER's losses and gradients, computed by hand."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf
from gymnasium import spaces
from helpers import softmax

from tfbaselines.algs.acer.loss import EPSILON, SAMPLED_ACTIONS, DuelingPolicy, continuous_terms, discrete_terms
from tfbaselines.policy.policy import build_policy

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)


ACTIONS = {
    "discrete": spaces.Discrete(3),
    "started": spaces.Discrete(3, start=5),
    "continuous": spaces.Box(-1, 1, (2,)),
}


# The original's names.
LOSS_NAMES = [
    "loss",
    "loss_q",
    "entropy",
    "loss_policy",
    "loss_f",
    "loss_bc",
    "explained_variance",
    "explained_variance_v",
]


TRUST_REGION_NAMES = [
    "norm_grads_q",
    "norm_grads_policy",
    "avg_norm_grads_f",
    "avg_norm_k",
    "avg_norm_g",
    "avg_norm_k_dot_g",
    "avg_norm_adj",
]


def make(kind, network="mlp", seed=0):
    """A policy whose weights are always the same and far from their first values, and what gives its terms."""
    env = SimpleNamespace(observation_space=BOX, action_space=ACTIONS[kind])
    own = {"policy_class": DuelingPolicy} if kind == "continuous" else {"estimate_q": True}
    sizes = {"num_hidden": 6} if network == "mlp" else {"nlstm": 4}
    policy, rng = build_policy(env, network, **own, **sizes), np.random.default_rng(seed)
    for variable in policy.trainable_variables:
        variable.assign(rng.normal(scale=0.6, size=variable.shape))
    return policy, continuous_terms if kind == "continuous" else discrete_terms


def batch_of(policy, count=2, steps=5, seed=1):
    """Sequences with an episode's end and a time limit inside, acted in by other parameters than the policy's."""
    rng = np.random.default_rng(seed)
    over = np.zeros((2, count, steps), np.float32)
    over[0, 0, 1], over[1, -1, 2] = 1.0, 1.0
    mus = rng.normal(scale=0.7, size=(count * steps, policy.head.param_size)).astype(np.float32)
    actions = policy.head.sample_numpy(mus, policy.head.draw_noise(rng, (count * steps,)))
    batch = {
        "obs": rng.normal(size=(count, steps + 1, 3)).astype(np.float32),
        "episode_start": np.concatenate([np.zeros((count, 1), np.float32), over.sum(0)], axis=1),
        "actions": actions.reshape(count, steps, *policy.head.action_shape),
        "rewards": rng.normal(size=(count, steps)).astype(np.float32),
        "terminated": over[0],
        "truncated": over[1],
        "mus": mus.reshape(count, steps, -1),
    }
    if isinstance(policy, DuelingPolicy):
        batch["noise"] = policy.head.draw_noise(rng, (count, steps, 1 + SAMPLED_ACTIONS))
    if policy.recurrent:
        batch["states"] = rng.normal(size=(count, steps, policy.state_size)).astype(np.float32)
    return batch


def tensors(batch):
    return {name: tf.constant(array) for name, array in batch.items()}


def outputs_of(policy, batch):
    """Of every step and the observation after the last, [N, T + 1, ...] of each sequence run by itself."""
    rows = []
    for i in range(len(batch["obs"])):
        memory = (batch["episode_start"][i], batch["states"][i, :1]) if policy.recurrent else ()
        rows.append(policy.forward(tf.constant(batch["obs"][i]), *memory))
    return SimpleNamespace(
        **{name: np.stack([getattr(row, name) for row in rows]).astype(float) for name in ("flat", "value", "features")}
    )


def retrace_by_hand(batch, q, v, weights, gamma):
    targets = np.zeros(q.shape)
    for i in range(len(q)):
        carry = v[i, -1]
        for t in reversed(range(q.shape[1])):
            targets[i, t] = batch["rewards"][i, t] + gamma * (1 - batch["terminated"][i, t]) * carry
            carry = v[i, t] if batch["truncated"][i, t] else weights[i, t] * (targets[i, t] - q[i, t]) + v[i, t]
    return targets


def explained(targets, predictions, valid):
    return 1 - np.var((targets - predictions)[valid]) / np.var(targets[valid])


def statistics_of(k, loss_q, entropy, loss_f, loss_bc, explained_q, explained_v, loss_v=0.0):
    loss_policy = loss_f + loss_bc
    loss = loss_policy - k.ent_coef * entropy + k.q_coef * (loss_q + loss_v)
    values = loss, loss_q, entropy, loss_policy, loss_f, loss_bc, explained_q, explained_v
    return dict(zip(LOSS_NAMES, values, strict=True))


def discrete_by_hand(policy, batch, k):
    """Statistics, the gradient of the policy's loss by the probabilities, those of the critic's by Q and V."""
    outputs = outputs_of(policy, batch)
    f, q_all = softmax(outputs.flat), outputs.value
    v = (f * q_all).sum(-1)
    mu = softmax(batch["mus"].astype(float))
    chosen = batch["actions"] - policy.action_space.start
    steps = list(np.ndindex(chosen.shape))
    q_a = np.array([q_all[i, t, chosen[i, t]] for i, t in steps]).reshape(chosen.shape)
    rho = f[:, :-1] / (mu + EPSILON)
    rho_a = np.array([rho[i, t, chosen[i, t]] for i, t in steps]).reshape(chosen.shape)
    targets = retrace_by_hand(batch, q_a, v, np.minimum(1.0, rho_a), k.gamma)
    valid = batch["truncated"] == 0
    loss_q = entropy = loss_f = loss_bc = 0.0
    slope = np.zeros(f[:, :-1].shape)
    for i, t in np.argwhere(valid):
        probabilities, a = f[i, t], chosen[i, t]
        logs = np.log(probabilities + EPSILON)
        led = min(k.c, rho_a[i, t]) * (targets[i, t] - v[i, t])
        corrections = np.array(
            [
                max(0.0, 1 - k.c / (rho[i, t, b] + EPSILON)) * probabilities[b] * (q_all[i, t, b] - v[i, t])
                for b in range(len(probabilities))
            ]
        )
        loss_q += 0.5 * (targets[i, t] - q_a[i, t]) ** 2
        entropy -= probabilities @ logs
        loss_f -= led * logs[a]
        loss_bc -= corrections @ logs
        slope[i, t] = -(corrections + led * np.eye(len(logs))[a]) / (probabilities + EPSILON)
        slope[i, t] += k.ent_coef * (logs + probabilities / (probabilities + EPSILON))
    n = valid.sum()
    parts = (x / n for x in (loss_q, entropy, loss_f, loss_bc))
    fit = (explained(targets, q_a, valid), explained(targets, v[:, :-1], valid))
    of_q = np.where(valid, k.q_coef * (q_a - targets) / n, 0.0)
    return statistics_of(k, *parts, *fit), slope / n, (of_q, np.zeros_like(of_q))


def gaussian_logp(flat, action):
    mean, logstd = np.split(flat, 2)
    return np.sum(-0.5 * ((action - mean) / np.exp(logstd)) ** 2 - logstd - 0.5 * np.log(2 * np.pi))


def gaussian_slope(flat, action):
    mean, logstd = np.split(flat, 2)
    scaled = (action - mean) / np.exp(logstd)
    return np.concatenate([scaled / np.exp(logstd), scaled**2 - 1])


def continuous_by_hand(policy, batch, k):
    """Statistics, the gradient of the policy's loss by means and log deviations, those of the critic's by Q and V."""
    outputs, width = outputs_of(policy, batch), policy.head.width
    kernel, bias, head, head_bias = (variable.numpy() for variable in policy.trainable_variables[-4:])

    def advantage(features, action):
        return (np.tanh(np.concatenate([features, action]) @ kernel + bias) @ head + head_bias)[0]

    shape, v = batch["rewards"].shape, outputs.value
    q_a, q_other, rho, rho_other = (np.zeros(shape) for _ in range(4))
    others = np.zeros((*shape, width))
    for i, t in np.ndindex(shape):
        flat, mu, features = outputs.flat[i, t], batch["mus"][i, t].astype(float), outputs.features[i, t]
        sampled = flat[:width] + np.exp(flat[width:]) * batch["noise"][i, t]
        others[i, t] = sampled[0]
        middle = np.mean([advantage(features, action) for action in sampled[1:]])
        q_a[i, t], q_other[i, t] = (
            v[i, t] + advantage(features, action) - middle for action in (batch["actions"][i, t], sampled[0])
        )
        rho[i, t], rho_other[i, t] = (
            np.exp(gaussian_logp(flat, action) - gaussian_logp(mu, action))
            for action in (batch["actions"][i, t], sampled[0])
        )
    targets = retrace_by_hand(batch, q_a, v, np.minimum(1.0, rho ** (1 / width)), k.gamma)
    uncut = retrace_by_hand(batch, q_a, v, np.ones(shape), k.gamma)
    valid = batch["truncated"] == 0
    loss_q = loss_v = entropy = loss_f = loss_bc = 0.0
    slope = np.zeros(batch["mus"].shape)
    for i, t in np.argwhere(valid):
        flat, action, other = outputs.flat[i, t], batch["actions"][i, t], others[i, t]
        led = min(k.c, rho[i, t]) * (uncut[i, t] - v[i, t])
        correction = max(0.0, 1 - k.c / rho_other[i, t]) * (q_other[i, t] - v[i, t])
        loss_q += 0.5 * (targets[i, t] - q_a[i, t]) ** 2
        loss_v -= v[i, t] * min(1.0, rho[i, t]) * (targets[i, t] - q_a[i, t])
        entropy += np.sum(flat[width:] + 0.5 * np.log(2 * np.pi * np.e))
        loss_f -= led * gaussian_logp(flat, action)
        loss_bc -= correction * gaussian_logp(flat, other)
        slope[i, t] = -led * gaussian_slope(flat, action) - correction * gaussian_slope(flat, other)
        slope[i, t, width:] -= k.ent_coef
    n = valid.sum()
    parts = (x / n for x in (loss_q, entropy, loss_f, loss_bc))
    fit = (explained(targets, q_a, valid), explained(targets, v[:, :-1], valid))
    of_q = np.where(valid, k.q_coef * (q_a - targets) / n, 0.0)
    return statistics_of(k, *parts, *fit, loss_v / n), slope / n, (of_q, np.minimum(1.0, rho) * of_q)
