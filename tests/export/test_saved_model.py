"""An exported policy answers in a process that has nothing but TensorFlow as the model answers here."""

import subprocess
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from helpers import vec

from tfbaselines.algs import ppo2
from tfbaselines.envs import tiny
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec.observations import MASK, ONLY
from tfbaselines.export import export
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead, SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.training.model import PolicyModel

# Answers the requests, one a line: an exported model, a file of inputs and one for the answers.
SERVE = """
import sys
import numpy as np, tensorflow as tf
for line in sys.stdin:
    exported, inputs, answered = line.rstrip().split("\\t")
    given = np.load(inputs)
    served = tf.saved_model.load(exported).signatures["serving_default"]
    answers = served(**{name: tf.constant(given[name]) for name in given.files})
    np.savez(answered, **{name: value.numpy() for name, value in answers.items()})
    assert "tfbaselines" not in sys.modules
    print("answered", flush=True)
"""

SMALL = {"nsteps": 16, "nminibatches": 1, "noptepochs": 1, "seed": 0}


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """A process that answers with exported models, whichever they are, and has nothing but TensorFlow."""
    pipe = subprocess.PIPE
    place = tmp_path_factory.mktemp("serving")
    process = subprocess.Popen([sys.executable, "-c", SERVE], cwd=place, stdin=pipe, stdout=pipe, text=True)
    yield process
    process.communicate()


@pytest.fixture
def served(serving, tmp_path):
    """The answers of the exported model in a directory to inputs, by their names."""

    def answers(directory, **inputs):
        np.savez(tmp_path / "inputs.npz", **inputs)
        print(directory, tmp_path / "inputs.npz", tmp_path / "answers.npz", sep="\t", file=serving.stdin, flush=True)
        assert serving.stdout.readline() == "answered\n"
        with np.load(tmp_path / "answers.npz") as file:
            return {name: file[name] for name in file.files}

    return answers


@pytest.mark.slow
def test_normalised_continuous_policy(served, tmp_path):
    env = VecNormalize(vec(lambda: tiny.BoxIdentityEnv((3,), episode_len=10)))
    model = ppo2.learn("mlp", env, 64, normalize_observations=True, **SMALL)
    model.export(tmp_path / "served")
    raw = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    answers = served(tmp_path / "served", observations=raw)
    seen = np.clip((raw - env.ob_rms.mean) / np.sqrt(env.ob_rms.var + env.epsilon), -10, 10)
    np.testing.assert_allclose(answers["actions"], model.act(seen, deterministic=True)[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(answers["values"], model.value(seen), rtol=1e-4, atol=1e-6)
    assert np.ptp(answers["values"]) > 0


@pytest.mark.slow
def test_recurrent_policy(served, tmp_path):
    env = vec(lambda: tiny.FixedSequenceEnv(4, episode_len=8))
    model = ppo2.learn("lstm", env, 64, nlstm=8, **SMALL)
    model.export(tmp_path / "served")
    obs = np.asarray([env.reset()[0]] * 3)
    states = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    masks = np.array([0, 1, 0], np.float32)
    answers = served(tmp_path / "served", observations=obs, states=states, masks=masks)
    actions, new_states = model.act(obs, states, deterministic=True, mask=masks)
    np.testing.assert_array_equal(answers["actions"], actions)
    np.testing.assert_allclose(answers["states"], new_states, rtol=1e-4, atol=1e-5)


def test_a_recurrent_policy_converts_to_other_formats(tmp_path):
    """LiteRT's own operations have no loop over time; ONNX takes no output with the name of an input."""
    env = vec(lambda: tiny.FixedSequenceEnv(4, episode_len=8))
    model = ppo2.learn("lstm", env, 16, nlstm=8, **SMALL)
    model.export(tmp_path / "served")
    obs, masks = np.asarray([env.reset()[0]] * 3), np.array([0, 1, 0], np.float32)
    states = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    actions, new_states = model.act(obs, states, deterministic=True, mask=masks)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "served"))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    lite = tf.lite.Interpreter(model_content=converter.convert())
    for signature, output in (("serving_default", "states"), ("onnx", "new_states")):
        runner = lite.get_signature_runner(signature)
        for i in range(3):
            answer = runner(observations=obs[i : i + 1], states=states[i : i + 1], masks=masks[i : i + 1])
            assert answer["actions"] == actions[i]
            np.testing.assert_allclose(answer[output][0], new_states[i], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.MultiBinary(4),
        gymnasium.spaces.MultiDiscrete([3, 2]),
        gymnasium.spaces.Discrete(3),
        gymnasium.spaces.Box(-2, 5, (2,), np.int32),
    ],
)
def test_every_kind_of_action(space, served, tmp_path):
    class Any(gymnasium.Env):
        observation_space, action_space = space, space

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            assert self.action_space.contains(np.asarray(action, self.action_space.dtype)), action
            return self.observation_space.sample(), 1.0, False, False, {}

    env = vec(Any, 2)
    model = ppo2.learn("mlp", env, 64, **SMALL)
    model.export(tmp_path / "served")
    obs = env.reset()
    answers = served(tmp_path / "served", observations=obs)
    expected = model.act(obs, deterministic=True)[0]
    np.testing.assert_array_equal(answers["actions"], expected)
    if isinstance(space, gymnasium.spaces.Box):
        assert answers["actions"].dtype == space.dtype


BOX, CAMERA = gymnasium.spaces.Box(-3, 3, (3,), np.float32), gymnasium.spaces.Box(0, 255, (12, 12, 2), np.uint8)
BOUNDED, MULTI = gymnasium.spaces.Box(-2, 2, (2,), np.float32), gymnasium.spaces.MultiDiscrete([3, 2], start=[1, -4])
ACTOR_CRITICS = {
    "vector": (BOX, BOUNDED, SquashedGaussianHead, {"normalize_observations": True}),
    "deterministic": (BOX, BOUNDED, DeterministicHead, {}),
    "several": ({"camera": CAMERA, "speed": BOX}, BOUNDED, SquashedGaussianHead, {"normalize_observations": True}),
    "memory": ({"camera": CAMERA, "speed": BOX}, MULTI, make_pdtype, {"memory_size": 4}),
    "masked": ({ONLY: BOX, MASK: gymnasium.spaces.MultiBinary(5)}, MULTI, make_pdtype, {}),
}


def actor_critic(obs, action, head, kwargs):
    """A model whose weights are not those of its beginning, and a batch of observations."""
    space = gymnasium.spaces.Dict(obs) if isinstance(obs, dict) else obs
    env = SimpleNamespace(observation_space=space, action_space=action)
    policy = build_actor_critic(env, "dense", head=head, critics=2, hidden_sizes=(8,), **kwargs)
    rng = np.random.default_rng(0)
    for variable in policy.trainable_variables:
        variable.assign(variable + rng.normal(scale=0.2, size=variable.shape))
    space.seed(0)
    samples = [space.sample() for _ in range(6)]
    batch = {name: np.stack([one[name] for one in samples]) for name in obs} if obs is not space else np.stack(samples)
    if MASK in batch:
        batch[MASK][:, [0, 3]] = 1
    if policy.normalizer:
        policy.normalizer.update(batch)
    return PolicyModel(policy), batch


def inputs_of(model, obs):
    """What the served function takes, and the same as the model's arguments."""
    named = {f"observations_{name}": part for name, part in obs.items()} if isinstance(obs, dict) else {}
    named = named or {"observations": obs}
    if not model.policy.recurrent:
        return named, {}
    states = np.random.default_rng(0).normal(size=(6, model.policy.state_size)).astype(np.float32)
    masks = np.array([0, 1, 0, 0, 1, 0], np.float32)
    return named | {"states": states, "masks": masks}, {"state": states, "mask": masks}


def assert_served(answers, model, obs, memory):
    actions, states = model.act(obs, deterministic=True, **memory)
    values = model.value(obs, *memory.values())
    np.testing.assert_allclose(answers["actions"], actions, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(answers["values"], values, rtol=1e-4, atol=1e-5)
    assert ("states" in answers) == (states is not None) and np.ptp(answers["values"]) > 0
    if states is not None:
        np.testing.assert_allclose(answers["states"], states, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ACTOR_CRITICS)
def test_actors_with_critics(kind, tmp_path):
    model, obs = actor_critic(*ACTOR_CRITICS[kind])
    model.export(tmp_path / "served")
    inputs, memory = inputs_of(model, obs)
    function = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    answers = function(**{name: tf.constant(value) for name, value in inputs.items()})
    assert_served({name: value.numpy() for name, value in answers.items()}, model, obs, memory)


@pytest.mark.slow
def test_an_actor_with_critics_needs_nothing_but_tensorflow(served, tmp_path):
    model, obs = actor_critic(*ACTOR_CRITICS["memory"])
    model.export(tmp_path / "served")
    inputs, memory = inputs_of(model, obs)
    assert_served(served(tmp_path / "served", **inputs), model, obs, memory)


def test_parts_of_observations_may_have_any_names(tmp_path):
    model, obs = actor_critic({"front camera": CAMERA, "speed/x": BOX}, BOUNDED, SquashedGaussianHead, {})
    model.export(tmp_path / "served")
    function = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    named = {"observations_front_camera": obs["front camera"], "observations_speed_x": obs["speed/x"]}
    answers = function(**{name: tf.constant(value) for name, value in named.items()})
    np.testing.assert_allclose(answers["values"], model.value(obs), rtol=1e-4, atol=1e-5)


def test_a_place_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for place in ("file/served", "file/below/served"):
        with pytest.raises(ValueError, match=r"cannot export to '.*': a part of its path is a file"):
            export(None, tmp_path / place)


def test_an_export_replaces_an_earlier_one_and_nothing_else(tmp_path):
    env = vec(lambda: tiny.DiscreteIdentityEnv(3))
    model = ppo2.learn("mlp", env, 0, **SMALL)
    model.export(tmp_path / "served")
    model.export(tmp_path / "served")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("precious")
    with pytest.raises(ValueError, match="not an exported model"):
        model.export(tmp_path / "precious")
    assert (tmp_path / "precious" / "file").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "served"]
