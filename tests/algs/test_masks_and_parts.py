"""Action masks and observations of several parts, with on-policy algorithms and with searches."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

import tfbaselines
from tfbaselines.algs import get
from tfbaselines.envs.vec import DummyVecEnv
from tfbaselines.envs.vec.packed import with_packed_observations
from tfbaselines.policy.policy import build_policy

IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
SMALL = {"nsteps": 8, "nminibatches": 2, "noptepochs": 2, "total_timesteps": 32, "seed": 0}


class Guarded(gymnasium.Env):
    """Refuses what its mask forbids: all but two of five actions, which change with time.

    Args:
        where: of the mask: 'obs', 'infos', or 'steps', without one after a reset, where anything goes.
        kind: of the observations beside it.
    """

    action_space = spaces.Discrete(5, start=2)

    def __init__(self, where="obs", kind="vector"):
        self.where = where
        self.parts = {"vector": {"vector": VECTOR}, "image": {"image": IMAGE, "vector": VECTOR}}[kind]
        mask = {"action_mask": spaces.Box(0, 1, (5,), np.int8)} if where == "obs" else {}
        self.observation_space = spaces.Dict({**self.parts, **mask}) if where == "obs" or kind == "image" else VECTOR
        self.random = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        obs, info = self._show()
        return obs, {} if self.where == "steps" else info

    def step(self, action):
        assert self.where == "steps" or self.mask[action - 2], "a forbidden action"
        self.time += 1
        obs, info = self._show()
        return obs, float(action == 2 + self.time % 5), self.time == 6, False, info

    def _show(self):
        self.mask = np.zeros(5, np.int8)
        self.mask[[self.time % 5, (self.time + 2) % 5]] = 1
        sample = {name: self.random.uniform(0, 1, part.shape).astype(part.dtype) for name, part in self.parts.items()}
        if self.where == "obs":
            return {**sample, "action_mask": self.mask}, {}
        return (sample if isinstance(self.observation_space, spaces.Dict) else sample["vector"]), {
            "action_mask": self.mask
        }


def masked_policy(network="mlp", **own):
    env = with_packed_observations(DummyVecEnv([lambda: Guarded("obs", own.pop("kind", "vector"))]))
    return env, build_policy(env, network)


def test_forbidden_actions_have_no_probability_and_no_entropy():
    env, policy = masked_policy()
    mask = np.array([[1, 0, 0, 1, 0], [0, 0, 1, 0, 0]], np.int8)
    obs = env.observation_space.pack({"vector": np.ones((2, 3)), "action_mask": mask})
    distribution = policy.head.distribution(policy.forward(obs).flat)
    probabilities = np.exp(-np.stack([distribution.neglogp(tf.fill((2,), action)) for action in range(2, 7)], axis=1))
    assert (probabilities[mask == 0] == 0.0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(probabilities[0, [0, 3]], 0.5, atol=0.02)
    np.testing.assert_allclose(distribution.entropy(), [np.log(2), 0.0], atol=1e-3)
    assert np.isfinite(distribution.kl(distribution)).all()
    # The mask is not seen by the network.
    assert policy.network.input_shape == (None, 3)


@pytest.mark.parametrize("where", ["obs", "infos"])
@pytest.mark.parametrize("kind", ["vector", "image"])
def test_ppo2_learns_with_masks(where, kind):
    env = DummyVecEnv([lambda: Guarded(where, kind)] * 2)
    model = tfbaselines.ppo2.learn("mlp", env, num_hidden=8, **SMALL)
    obs = env.reset()
    mask = np.stack([one.mask for one in env.envs])
    seen = obs if isinstance(obs, dict) else {"all": obs}
    seen = seen | {"action_mask": mask}
    for deterministic in (True, False):
        actions, _ = model.act(seen, deterministic=deterministic)
        assert mask[[0, 1], actions - 2].all()
        alone, _ = model.act({name: part[0] for name, part in seen.items()}, deterministic=deterministic)
        assert mask[0, alone - 2]
    assert model.step(seen)[0].shape == (2,) and model.value(seen).shape == (2,)


@pytest.mark.parametrize("where", ["obs", "infos"])
@pytest.mark.parametrize(("alg", "own"), [("es", {"num_agents": 4, "num_hidden": 8}), ("qlearning", {"grid_size": 3})])
def test_searches_take_allowed_actions(alg, own, where):
    """Bounds of unbounded observations too come from steps that are allowed."""

    class Unbounded(Guarded):
        def __init__(self):
            super().__init__(where)
            unbounded = spaces.Box(-np.inf, np.inf, (3,), np.float32)
            parts = {"vector": unbounded, "action_mask": spaces.MultiBinary(5)}
            self.observation_space = spaces.Dict(parts) if where == "obs" else unbounded

    network = "table" if alg == "qlearning" else "mlp"
    options = {"num_iterations": 3, "test_every": 1, "num_test_episodes": 2, "eval_env": Unbounded, "seed": 0}
    model = getattr(tfbaselines, alg).learn(network, [Unbounded, Unbounded], **options, **own)
    mask = np.array([[0, 0, 1, 0, 1], [1, 0, 0, 0, 0]], np.int8)
    seen = {"vector" if where == "obs" else "all": np.ones((2, 3), np.float32), "action_mask": mask}
    assert mask[[0, 1], model.act(seen, deterministic=True)[0] - 2].all()


def test_masks_must_come_with_resets_and_fit():
    with pytest.raises(ValueError, match="infos of reset have none"):
        tfbaselines.ppo2.learn("mlp", lambda: Guarded("steps"), **SMALL)
    env = Guarded("obs")
    env.observation_space = spaces.Dict(vector=VECTOR, action_mask=spaces.MultiBinary(4))
    with pytest.raises(ValueError, match="the actions have 5 choices"):
        tfbaselines.ppo2.learn("mlp", lambda: env, **SMALL)
    env.action_space = spaces.MultiBinary(4)
    for place in ("obs", "infos"):
        if place == "infos":
            env.where, env.observation_space = place, VECTOR
        with pytest.raises(ValueError, match="masks are for Discrete and MultiDiscrete actions, not MultiBinary"):
            tfbaselines.ppo2.learn("mlp", lambda: env, **SMALL)


@pytest.mark.parametrize(("network", "width"), [("mlp", 64), ("cnn_small", 128 + 3), ("lstm", 128)])
def test_images_are_encoded_and_vectors_stand_beside(network, width):
    env, policy = masked_policy(network, kind="image")
    rows = env.reset()
    outputs = policy.forward(rows, *((np.zeros(1), policy.initial_state(1)) if policy.recurrent else ()))
    assert outputs.features.shape == (1, width) and policy.convolutional
    assert policy.recurrent == (network == "lstm")
    if network == "lstm":
        assert outputs.states.shape == (1, 256)


def test_memory_with_an_image_network_is_one_line():
    with pytest.raises(ValueError, match="network='lstm'"):
        masked_policy("cnn_lstm", kind="image")


class Pair(gymnasium.Env):
    """A Tuple of an image and a vector."""

    observation_space = spaces.Tuple((IMAGE, VECTOR))
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.time += 1
        return self.observation_space.sample(), 0.0, self.time == 5, False, {}


@pytest.mark.parametrize("alg", ["ppo2", "sac", "td3", "ddpg", "acktr"])
def test_tuple_observations(alg, eager):
    from small_runs import small

    algorithm = get(alg)
    model = algorithm.learn("dense" if alg in ("sac", "td3", "ddpg") else "mlp", Pair, **small(alg), total_timesteps=20)
    names = ["0", "1"]
    obs = dict(zip(names, Pair.observation_space.sample(), strict=True))
    assert model.act(obs)[0].shape == (1,)
    assert model.act(tuple(obs.values()))[0].shape == (1,)


def test_an_exported_policy_takes_the_parts(tmp_path):
    env = DummyVecEnv([lambda: Guarded("obs", "image")])
    model = tfbaselines.ppo2.learn("mlp", env, num_hidden=8, **SMALL)
    model.export(tmp_path / "served")
    obs = env.reset()
    serve = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    arguments = {f"observations_{name}": tf.constant(part) for name, part in obs.items()}
    served = serve(**arguments)
    np.testing.assert_array_equal(served["actions"], model.act(obs, deterministic=True)[0])
    np.testing.assert_allclose(served["values"], model.value(obs), atol=1e-6)


def test_actions_stay_within_their_bounds():
    class Tight(Pair):
        observation_space = VECTOR
        action_space = spaces.Box(np.float32(-0.01), np.float32(0.02), (2,), np.float32)

    model = tfbaselines.ppo2.learn("mlp", Tight, **SMALL)
    obs = np.ones((50, 3), np.float32)
    for deterministic in (True, False):
        actions, _ = model.act(obs, deterministic=deterministic)
        assert all(map(Tight.action_space.contains, actions))
    assert np.abs(model.step(obs)[0]).max() > 0.02
