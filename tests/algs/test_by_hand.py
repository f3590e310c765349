"""Updates that no original has, computed again by hand in float64 from the batches that a run learned from.

Networks have one hidden layer; gradients are written out, and Adam with them.
"""

import copy
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec
from small_environments import Still
from small_runs import learn, samples

from tfbaselines.demos import save_demonstrations
from tfbaselines.envs.vec.observations import MASK, ONLY
from tfbaselines.training.off_policy import OffPolicyModel

CLOSE = {"rtol": 2e-4, "atol": 2e-6}
GAMMA, LR = 0.9, 0.01
BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
ACTIONS = spaces.Box(-2.0, 2.0, (2,), np.float32)


class Dense:
    """Layers with rectified units in between, from their kernels and biases one after the other."""

    def __init__(self, *variables):
        self.kernels, self.biases = variables[0::2], variables[1::2]

    def __call__(self, x):
        self.inputs = []
        for number, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            x = np.maximum(x, 0.0) if number else x
            self.inputs.append(x)
            x = x @ kernel + bias
        return x

    def back(self, slope):
        """Gradients of the variables, and of the inputs, for the slope of the outputs of the latest call."""
        gradients = []
        for number in reversed(range(len(self.kernels))):
            x = self.inputs[number]
            gradients = [x.T @ slope, slope.sum(axis=0), *gradients]
            slope = slope @ self.kernels[number].T
            slope = slope * (x > 0) if number else slope
        return gradients, slope


class Adam:
    def __init__(self, epsilon=1e-8):
        self.epsilon, self.count, self.m, self.v = epsilon, 0, 0.0, 0.0

    def step(self, gradients, rate):
        """The changes of the variables."""
        self.count += 1
        changes = []
        moments = zip(gradients, *((one or [0.0] * len(gradients)) for one in (self.m, self.v)), strict=True)
        self.m, self.v = zip(*((0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2) for g, m, v in moments), strict=True)
        for m, v in zip(self.m, self.v, strict=True):
            corrected = rate * np.sqrt(1 - 0.999**self.count) / (1 - 0.9**self.count)
            changes.append(-corrected * m / (np.sqrt(v) + self.epsilon))
        return changes


def shortened(gradients, bound):
    """Each clipped by its own norm."""
    return [g * min(1.0, bound / max(np.linalg.norm(g), 1e-300)) for g in gradients]


@pytest.fixture
def updates(monkeypatch):
    """Blocks of batches with the weights before and after them."""
    found, train = [], OffPolicyModel.train

    def in_double(tree):
        if isinstance(tree, dict):
            return {name: in_double(part) for name, part in tree.items()}
        return tree.astype(np.float64) if tree.dtype.kind == "f" else np.array(tree)

    def of(policy):
        return [variable.numpy().astype(np.float64) for variable in policy.trainable_variables]

    def watched(model, block, **rates):
        one = SimpleNamespace(before=of(model.policy), target=of(model.averaged.policy), block=in_double(block))
        statistics = train(model, block, **rates)
        one.after, one.rates, one.statistics = of(model.policy), rates, copy.deepcopy(statistics)
        found.append(one)
        return statistics

    monkeypatch.setattr(OffPolicyModel, "train", watched)
    return found


# Q-learning.


class Numbers(gymnasium.Env):
    """Shows and pays other numbers in every step; with a mask two of three actions are allowed."""

    observation_space, action_space = BOX, spaces.Discrete(3)

    def __init__(self, masked=False):
        self.masked, self.random, self.episodes, self.steps = masked, np.random.default_rng(0), 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.episodes = 0, self.episodes + 1
        self.shown = self.random.uniform(-1, 1, 3).astype(np.float32)
        return self.shown, self._info()

    def step(self, action):
        before, self.time = self.shown, self.time + 1
        self.shown, reward = self.random.uniform(-1, 1, 3).astype(np.float32), float(self.random.normal())
        over, cut = self.time == 5, self.episodes % 2 == 0
        self.steps.append((before, action, reward, self.shown, over and not cut, over))
        return self.shown, reward, over and not cut, over and cut, self._info()

    def _info(self):
        mask = np.ones(3, np.int8)
        mask[self.time % 3] = 0
        return {MASK: mask} if self.masked else {}


def q_learning(env, **own):
    fixed = {"double_q": True, "dueling": False, "hiddens": [], "gamma": GAMMA, "lr": LR, "hidden_sizes": [6]}
    return learn("deepq", vec(lambda: env), 5, **fixed | own)


def softmax(x):
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def expected(outputs, wanted):
    """The loss's slope by the outputs, of values: the Huber loss."""
    return np.clip(outputs - wanted, -1.0, 1.0)


def histogram(outputs, wanted):
    return softmax(outputs) - wanted


def quantiles(outputs, wanted):
    count = outputs.shape[1]
    slope = np.zeros_like(outputs)
    for row, i, j in np.ndindex(len(outputs), count, count):
        u = wanted[row, j] - outputs[row, i]
        slope[row, i] -= abs((i + 0.5) / count - (u < 0)) * np.clip(u, -1.0, 1.0) / count
    return slope


def projected(places, masses, support):
    out, step = np.zeros_like(masses), support[1] - support[0]
    for (row, k), place in np.ndenumerate(places):
        b = (np.clip(place, support[0], support[-1]) - support[0]) / step
        below = min(int(b), len(support) - 2)
        out[row, below] += masses[row, k] * (below + 1 - b)
        out[row, below + 1] += masses[row, k] * (b - below)
    return out


SUPPORT = np.linspace(-2.0, 2.0, 5)
KINDS = {
    "expected": ({}, 1, expected, lambda outputs: outputs[..., 0]),
    "categorical": ({"num_atoms": 5, "v_min": -2.0, "v_max": 2.0}, 5, histogram, lambda x: softmax(x) @ SUPPORT),
    "quantile": ({"num_atoms": 4}, 4, quantiles, lambda outputs: outputs.mean(axis=-1)),
}


def shaped(e):
    return np.sign(e) * np.sqrt(np.abs(e))


@pytest.mark.parametrize("noisy", [False, True], ids=["plain", "noisy"])
@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize("kind", KINDS)
def test_q_learning(kind, masked, noisy, eager, updates):
    own, atoms, slope_of, mean = KINDS[kind]
    own = own | ({} if kind == "expected" else {"distributional": kind})
    q_learning(Numbers(masked), noisy=noisy, prioritized_replay=True, grad_norm_clipping=0.1, **own)
    adam = Adam()
    assert len(updates) >= 4
    for one in updates:
        online = one.before
        for k in range(len(one.block["rewards"])):
            batch = {
                name: part[k] if not isinstance(part, dict) else {n: p[k] for n, p in part.items()}
                for name, part in one.block.items()
            }
            gradients = q_gradients(batch, online, one.target, atoms, slope_of, mean, noisy)
            changes = adam.step(shortened(gradients, 0.1), LR)
            online = [weights + change for weights, change in zip(online, changes, strict=True)]
        for found, wanted in zip(one.after, online, strict=True):
            np.testing.assert_allclose(found, wanted, **CLOSE)


def q_gradients(batch, online, target, atoms, slope_of, mean, noisy):
    def network(variables, noise):
        if not noisy:
            return Dense(*variables), None
        *rest, kernel, bias, kernel_noise, bias_noise = variables
        e = shaped(noise)
        e_in, e_out = e[: len(kernel)], e[len(kernel) :]
        return Dense(*rest, kernel + kernel_noise * np.outer(e_in, e_out), bias + bias_noise * e_out), (e_in, e_out)

    def outputs(net, obs):
        return net(obs).reshape(len(obs), 3, atoms)

    def seen(obs):
        return (obs[ONLY], obs[MASK]) if isinstance(obs, dict) else (obs, np.ones((len(obs), 3)))

    rows = np.arange(len(batch["rewards"]))
    (obs, _), (after, allowed) = seen(batch["obs"]), seen(batch["next_obs"])
    net, e = network(online, batch.get("noise"))
    # Double Q-learning: the online network selects an allowed action, the target network evaluates it.
    best = np.where(allowed == 1, mean(outputs(net, after)), -np.inf).argmax(axis=1)
    following = outputs(network(target, batch.get("target_noise"))[0], after)[rows, best]
    rewards, discount = batch["rewards"][:, None], batch["discount"][:, None]
    wanted = rewards + discount * (SUPPORT[None] if slope_of is histogram else following)
    if slope_of is histogram:
        wanted = projected(wanted, softmax(following), SUPPORT)
    found = outputs(net, obs)
    slope = np.zeros_like(found)
    taken = batch["actions"].astype(int)
    slope[rows, taken] = slope_of(found[rows, taken], wanted) * batch["weights"][:, None] / len(rows)
    gradients, _ = net.back(slope.reshape(len(rows), -1))
    if noisy:
        *_, kernel, bias = gradients
        gradients += [kernel * np.outer(*e), bias * e[1]]
    return gradients


@pytest.mark.parametrize("n_step", [1, 3])
def test_returns_of_several_steps(n_step, eager, updates):
    """Of what the environment itself wrote down."""
    env = Numbers()
    q_learning(env, n_step=n_step, buffer_size=1000)
    number = {step[0].tobytes(): t for t, step in enumerate(env.steps)}
    rows = 0
    for one in updates:
        block = one.block
        for place in np.ndindex(block["rewards"].shape):
            t = number[block["obs"][place].astype(np.float32).tobytes()]
            total, discount, age = 0.0, 1.0, 0
            while True:
                _, _, reward, after, terminated, over = env.steps[t + age]
                total += discount * reward
                discount *= 0.0 if terminated else GAMMA
                age += 1
                # The latest steps have no others after them yet.
                if over or age == n_step or block["next_obs"][place].astype(np.float32).tobytes() == after.tobytes():
                    break
            assert age == n_step or over or t + age >= 10
            assert block["actions"][place] == env.steps[t][1]
            np.testing.assert_allclose(
                (block["rewards"][place], block["discount"][place]), (total, discount), rtol=1e-5
            )
            if discount:
                np.testing.assert_array_equal(block["next_obs"][place], after)
            rows += 1
    assert rows >= 32


# Learning from a data set alone.


@pytest.fixture
def data(tmp_path):
    save_demonstrations(tmp_path / "data.npz", samples(BOX, ACTIONS, (10,) * 4), BOX, ACTIONS)
    return str(tmp_path / "data.npz")


class Place(Still):
    observation_space = BOX


def offline(alg, data, **own):
    fixed = {"gamma": GAMMA, "hidden_sizes": [6], "num_update": 1, "normalize_observations": False}
    own = fixed | own
    if alg == "sac":
        del own["normalize_observations"]
    return learn(alg, vec(lambda: Place(ACTIONS)), 4, offline=data, **own)


def parts(variables):
    """The actor's variables and each critic's."""
    return variables[:4] if len(variables[2][0]) else None, variables[-8:-4], variables[-4:]


def joint(obs, actions):
    return np.concatenate([obs, actions], axis=1)


def assert_stepped(adam, before, after, gradients, rate):
    for old, change, new in zip(before, adam.step(gradients, rate), after, strict=True):
        np.testing.assert_allclose(new, old + change, **CLOSE)


def test_td3_with_behavior_cloning(data, eager, updates):
    alpha = 2.0
    offline("td3", data, bc_alpha=alpha, policy_delay=1, pi_lr=LR, q_lr=LR)
    of_critics, of_actor = Adam(), Adam()
    for one in updates:
        batch = {name: part[0] for name, part in one.block.items()}
        obs, actions, rows = batch["obs"], batch["actions"], len(batch["rewards"])
        actor, first, second = parts(one.before)
        targets = parts(one.target)
        following = np.clip(2.0 * np.tanh(Dense(*targets[0])(batch["next_obs"])) + batch["noise"], -2.0, 2.0)
        values = [Dense(*variables)(joint(batch["next_obs"], following))[:, 0] for variables in targets[1:]]
        wanted = batch["rewards"] + batch["discount"] * np.minimum(*values)
        gradients = []
        for variables in (first, second):
            net = Dense(*variables)
            gradients += net.back(2.0 / rows * (net(joint(obs, actions)) - wanted[:, None]))[0]
        _, *critics = parts(one.after)
        assert_stepped(of_critics, [*first, *second], [*critics[0], *critics[1]], gradients, LR)
        # The actor learns from the new critic.
        policy, critic = Dense(*actor), Dense(*critics[0])
        squashed = np.tanh(policy(obs))
        q = critic(joint(obs, 2.0 * squashed))
        weight = alpha / np.abs(q).mean()
        _, slope = critic.back(np.full_like(q, -weight / rows))
        slope = 2.0 * slope[:, 3:] + 2.0 * (squashed - actions / 2.0) / squashed.size
        gradients, _ = policy.back(slope * (1.0 - squashed**2))
        assert_stepped(of_actor, actor, parts(one.after)[0], gradients, LR)


@pytest.mark.parametrize("learned", [False, True], ids=["fixed weight", "learned weight"])
def test_conservative_critics(learned, data, eager, updates):
    alpha, count = 0.3, 3
    own = {"cql_threshold": 1.0} if learned else {}
    offline("sac", data, alpha=alpha, lr=LR, cql_weight=2.0, cql_actions=count, **own)
    adam, log_weight = Adam(), np.log(2.0)
    for one in updates:
        batch = {name: part[0] for name, part in one.block.items()}
        obs, rows = batch["obs"], len(batch["rewards"])
        actor, first, second = parts(one.before)
        targets = parts(one.target)

        def drawn(obs, noise, actor=actor):
            mean, logstd = np.split(Dense(*actor)(obs), 2, axis=1)
            logstd = np.clip(logstd, -20.0, 2.0)
            u = mean + np.exp(logstd) * noise
            normal = -0.5 * noise**2 - logstd - 0.5 * np.log(2.0 * np.pi)
            return np.tanh(u), (normal - np.log(1.0 - np.tanh(u) ** 2)).sum(axis=1)

        following, logp = drawn(batch["next_obs"], batch["noise_next"])
        values = [Dense(*variables)(joint(batch["next_obs"], 2.0 * following))[:, 0] for variables in targets[1:]]
        wanted = batch["rewards"] + batch["discount"] * (np.minimum(*values) - alpha * logp)
        # Uniform actions and the policy's, each weighted by one over its density.
        many = np.repeat(obs, count, axis=0)
        own_actions, own_logp = drawn(many, batch["noise_several"].reshape(-1, 2))
        tried = np.concatenate([batch["uniform"], own_actions.reshape(rows, count, 2)], axis=1)
        density = np.concatenate([np.full((rows, count), -2 * np.log(2.0)), own_logp.reshape(rows, count)], axis=1)
        places = joint(np.repeat(obs, 2 * count, axis=0), 2.0 * tried.reshape(-1, 2))
        weight, gradients, gaps = np.exp(log_weight), [], []
        for variables in (first, second):
            net = Dense(*variables)
            q = net(places).reshape(rows, 2 * count) - density
            spread, _ = net.back((weight / rows * softmax(q)).reshape(-1, 1))
            own_q = net(joint(obs, batch["actions"]))
            data_slope, _ = net.back((own_q - wanted[:, None] - weight) / rows)
            gradients += [one + other for one, other in zip(spread, data_slope, strict=True)]
            soft = np.log(np.exp(q).mean(axis=1))
            gaps.append((soft - own_q[:, 0]).mean())
        np.testing.assert_allclose(one.statistics["LossCQL"][0], np.mean(gaps), rtol=1e-4)
        np.testing.assert_allclose(one.statistics["CQLWeight"][0], weight, rtol=1e-5)
        before, after = [*first, *second], [*parts(one.after)[1], *parts(one.after)[2]]
        if learned:
            gradients, before = [*gradients, np.mean(gaps) * -1.0 + 1.0], [*before, log_weight]
            changes = adam.step(gradients, LR)
            log_weight += changes[-1]
            for old, change, new in zip(before[:-1], changes[:-1], after, strict=True):
                np.testing.assert_allclose(new, old + change, **CLOSE)
        else:
            assert_stepped(adam, before, after, gradients, LR)
