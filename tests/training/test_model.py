"""What learn() returns acts as the originals' models do, and keeps everything a trained policy needs."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec
from small_environments import Seeing

from tfbaselines.algs import ppo2, sac
from tfbaselines.envs import tiny
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec import VecFrameStack
from tfbaselines.errors import NotFiniteError, UsageError
from tfbaselines.learn.optimizers import with_targets
from tfbaselines.policy.policy import build_policy
from tfbaselines.training.checkpoint import load_tree, save_tree
from tfbaselines.training.model import PolicyModel
from tfbaselines.training.observations import Observations, space_of, space_tree
from tfbaselines.training.off_policy import OffPolicyModel

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
SMALL = {"nsteps": 16, "nminibatches": 1, "noptepochs": 1, "seed": 0}


def box(normalized=False):
    env = vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=10), 2)
    return VecNormalize(env) if normalized else env


@pytest.fixture(scope="module")
def model():
    return ppo2.learn("mlp", box(), 64, **SMALL)


def test_step_gives_what_the_originals_give(model):
    obs = np.zeros((2, 2), np.float32)
    actions, values, states, neglogps = model.step(obs)
    assert actions.shape == (2, 2)
    assert values.shape == neglogps.shape == (2,)
    assert states is None
    assert model.initial_state is None
    np.testing.assert_allclose(values, model.value(obs), rtol=1e-5, atol=1e-6)


def test_one_observation_is_a_batch_of_one_as_in_the_originals(model):
    obs = np.array([0.3, -0.2], np.float32)
    actions, values, states, neglogps = model.step(obs)
    assert actions.shape == (1, 2) and values.shape == neglogps.shape == (1,) and states is None
    np.testing.assert_array_equal(model.value(obs), model.value(obs[None]))


def test_one_observation_gives_one_action(model):
    obs = np.array([0.3, -0.2], np.float32)
    action, state = model.act(obs, deterministic=True)
    assert action.shape == (2,)
    assert state is None
    np.testing.assert_allclose(action, model.act(obs[None], deterministic=True)[0][0], rtol=1e-6, atol=1e-6)
    assert not np.array_equal(model.act(obs)[0], model.act(obs)[0])


def test_actions_of_a_box_of_integers_are_in_it():
    whole = spaces.Box(-3, 3, (2,), np.int32)
    env = SimpleNamespace(observation_space=BOX, action_space=whole, num_envs=1)
    model = PolicyModel(build_policy(env, "mlp", num_hidden=4))
    actions, _ = model.act(np.zeros((50, 2), np.float32))
    assert all(whole.contains(action) for action in actions)


def test_a_wrong_shape_is_named(model):
    with pytest.raises(ValueError, match=r"obs.shape=\(4, 3\)"):
        model.act(np.zeros((4, 3), np.float32))


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        ("abc", r"obs='abc' is not valid: one observation of shape \(2,\)"),
        ((np.zeros(4), {}), r"of reset\(\) and step\(\) the first value"),
        ((np.zeros(4), 1), r"flattened: gymnasium.spaces.flatten\(env.observation_space, obs\)"),
        ({"a": np.zeros(4)}, r"observations have the shape \(2,\), and no parts; .* gymnasium.spaces.flatten\("),
        (object(), "obs=<object"),
    ],
)
def test_what_is_no_observation_is_said_so(obs, message, model):
    with pytest.raises(ValueError, match=message):
        model.act(obs)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_numbers_that_nothing_follows_from_are_refused(bad, model):
    with pytest.raises(NotFiniteError, match=f"^obs has a number that is not finite: {bad}$"):
        model.predict(np.array([0.0, bad]))


def test_parts_that_an_observation_lacks_are_named():
    env = SimpleNamespace(observation_space=spaces.Dict(a=BOX, b=BOX), action_space=spaces.Discrete(2), num_envs=1)
    model = PolicyModel(build_policy(env, "mlp", num_hidden=4))
    whole = {"a": np.zeros(2), "b": np.zeros(2)}
    assert model.act(whole)[0].shape == () and model.act({name: x[None] for name, x in whole.items()})[0].shape == (1,)
    with pytest.raises(ValueError, match="obs lacks b: it has a"):
        model.act({"a": np.zeros(2)})
    with pytest.raises(ValueError, match=r"obs lacks a, b: it has 0.a"):
        model.act(({"a": np.zeros(2)}, {}))
    with pytest.raises(ValueError, match="is not valid: a dictionary of a, b"):
        model.act(np.zeros(2))


def test_a_recurrent_model_is_given_its_state_back():
    env = vec(lambda: tiny.FixedSequenceEnv(4, episode_len=8), 3)
    model = ppo2.learn("lstm", env, 48, nlstm=4, **SMALL)
    obs = env.reset()
    assert model.initial_state.shape == (1, 8)
    _, state = model.act(obs)
    again = model.act(obs, state, deterministic=True)[1]
    fresh = model.act(obs, state, deterministic=True, mask=np.ones(3, bool))[1]
    np.testing.assert_allclose(fresh, model.act(obs, deterministic=True)[1], rtol=1e-5, atol=1e-6)
    assert np.abs(again - fresh).max() > 1e-4
    with pytest.raises(ValueError, match=r"^state.shape=\(3, 8\) is not valid: that of 1 observations is \(1, 8\)"):
        model.predict(obs[0], state)
    alone = model.predict(obs[0], state[:1], episode_start=True, deterministic=True)[1]
    np.testing.assert_allclose(alone, fresh[:1], rtol=1e-5, atol=1e-6)


def test_the_environments_statistics_travel_with_the_model(tmp_path):
    env = box(normalized=True)
    model = ppo2.learn("mlp", env, 64, **SMALL)
    model.save(tmp_path / "model")
    other = box(normalized=True)
    loaded = ppo2.learn("mlp", other, 0, load_path=tmp_path / "model", **SMALL)
    assert other.ob_rms.count == pytest.approx(env.ob_rms.count)
    np.testing.assert_allclose(other.ret_rms.var, env.ret_rms.var)
    for one, two in zip(model.policy.trainable_variables, loaded.policy.trainable_variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())
    for one, two in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_a_trained_model_hands_its_statistics_to_the_next_environment():
    model = PolicyModel(build_policy(SimpleNamespace(observation_space=BOX, action_space=BOX), "mlp", num_hidden=4))
    trained, played = box(normalized=True), box(normalized=True)
    model.attach(trained)
    trained.reset()
    model.attach(box())
    # One that scales nothing loses nothing.
    model.attach(played)
    assert played.ob_rms.count == pytest.approx(2.0, abs=1e-3)
    np.testing.assert_array_equal(played.ob_rms.mean, trained.ob_rms.mean)


def test_further_optimisers_are_saved_under_their_names(tmp_path):
    models = []
    for seed in (0, 1):
        env = SimpleNamespace(observation_space=BOX, action_space=BOX)
        own = PolicyModel(build_policy(env, "mlp", num_hidden=4))
        own.optimizers["critic"] = keras.optimizers.Adam()
        own.optimizers["critic"].build(own.policy.trainable_variables)
        rng = np.random.default_rng(seed)
        gradients = [rng.normal(size=variable.shape) for variable in own.policy.trainable_variables]
        own.optimizers["critic"].apply(gradients, own.policy.trainable_variables)
        models.append(own)
    one, other = models
    one.save(tmp_path / "model")
    assert "critic" in load_tree(tmp_path / "model")["model"]
    other.load(tmp_path / "model")
    for variable, loaded in zip(one.optimizers["critic"].variables, other.optimizers["critic"].variables, strict=True):
        np.testing.assert_array_equal(variable.numpy(), loaded.numpy())


def test_everything_learnt_is_a_variable_of_the_model():
    env = SimpleNamespace(observation_space=BOX, action_space=BOX)
    policy, averaged = with_targets(lambda: build_policy(env, "mlp", num_hidden=4), 0.9)
    plain, with_average = PolicyModel(policy), PolicyModel(policy, averaged=averaged)
    own, targets = policy.trainable_variables, averaged.policy.trainable_variables
    assert [id(one) for one in plain.variables()] == [id(one) for one in own]
    assert [id(one) for one in with_average.variables()] == [id(one) for one in [*own, *targets]]
    for learns, count in ((True, 1), (False, 0)):
        critic, follows = with_targets(lambda: sac.make_policy("dense", env, sac.Config.of({"hidden_sizes": [4]})), 0.9)
        temperature = sac.Temperature(0.2, -2.0 if learns else None)
        update = sac.make_update(critic, follows, temperature)
        model = OffPolicyModel(critic, follows, update, temperature.variables)
        extra = model.variables()[len(critic.trainable_variables) + len(follows.policy.trainable_variables) :]
        assert len(extra) == count and all(one is temperature.log_alpha for one in extra)


def test_copies_follow_once_the_parameters_are_there():
    env = SimpleNamespace(observation_space=BOX, action_space=BOX)
    model = PolicyModel(build_policy(env, "mlp", num_hidden=4))
    before = model.value(np.ones((2, 2), np.float32))
    for variable in model.policy.trainable_variables:
        variable.assign(variable + 0.5)
    model.ready()
    after = model.value(np.ones((2, 2), np.float32))
    expected = model.policy.forward(np.ones((2, 2), np.float32)).value
    np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(after - before).min() > 1e-3


def test_a_failed_load_changes_nothing(model, tmp_path):
    model.save(tmp_path / "model")
    tree = load_tree(tmp_path / "model")
    tree["format"] = "another"
    save_tree(tmp_path / "foreign", tree)
    before = [variable.numpy() for variable in model.policy.trainable_variables]
    with pytest.raises(ValueError, match="not a model saved by tfbaselines"):
        model.load(tmp_path / "foreign")
    for variable, value in zip(model.policy.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_a_saved_file_can_be_read_without_the_library(tmp_path, model):
    """It is an npz of arrays with one JSON entry; nothing in it is pickled."""
    import json

    model.save(tmp_path / "model")
    with np.load(tmp_path / "model", allow_pickle=False) as file:
        tree = json.loads(file["tree.json"].tobytes())
        assert all(file[name].dtype != object for name in file.files)
    assert tree["model"]["policy"]["action_space"]["type"] == "Box"


def test_observations_are_gathered_only_for_a_running_mean():
    plain, normalized = (ppo2.learn("mlp", box(), 0, normalize_observations=which, **SMALL) for which in (False, True))
    gathered = []

    def observations():
        gathered.append(1)
        return np.full((3, 2), 5.0, np.float32)

    plain.observe(observations)
    assert not gathered
    before = normalized.policy.normalizer.mean.copy()
    normalized.observe(observations)
    assert len(gathered) == 1 and (normalized.policy.normalizer.mean > before).all()


def test_frames_that_were_put_together_are_said():
    frames = spaces.Box(0, 255, (8, 8, 1), np.uint8)
    env = VecFrameStack(vec(lambda: Seeing(frames, spaces.Discrete(2))), 4)
    observations = Observations(env.observation_space, env.action_space)
    observations.attach(env)
    restored = Observations(env.observation_space, env.action_space)
    restored.restore(observations.state(), {})
    with pytest.raises(UsageError, match=r"'N', 8, 8, 4\): 4 frames together, as make_vec_env and VecFrameStack\(4\)"):
        restored.batch(restored.named(np.zeros((1, 8, 8, 1), np.uint8)))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.float32([-1, 0]), np.float32([1, np.inf])),
        spaces.Box(0, 255, (4, 4, 3), np.uint8),
        spaces.Tuple([spaces.Discrete(3, start=2), spaces.Dict(b=spaces.MultiBinary((2, 2)), a=BOX)]),
        spaces.MultiDiscrete([3, 2], start=[1, -4]),
    ],
)
def test_a_space_comes_back_from_a_file(space, tmp_path):
    save_tree(tmp_path / "space", space_tree(space))
    assert space_of(load_tree(tmp_path / "space")) == space
