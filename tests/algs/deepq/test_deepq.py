"""deepq: every argument's effect, its public names, schedules, targets, the best model, and what it learns."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import mean_return, reward_per_step, vec
from small_environments import CYCLE, Masked, Seeing, counting, identity, still
from small_runs import learn, learn_eagerly, rows, train, weights

import tfbaselines
from tfbaselines import algs as registry
from tfbaselines.algs import deepq
from tfbaselines.algs.deepq import buffers as interface
from tfbaselines.algs.deepq.prioritized import PrioritizedReplay
from tfbaselines.algs.deepq.q_network import NoisyDense
from tfbaselines.cli.command_line import parse, split
from tfbaselines.cli.sections import tuned_sections
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.envs.vec.observations import MASK, ONLY
from tfbaselines.learn.optimizers import with_targets
from tfbaselines.replay import Replay

THREE = spaces.Discrete(3)
PRIORITISED = {"prioritized_replay": True}
RAINBOW = parse({"alg": "deepq"} | tuned_sections("deepq")["rainbow"], registry.ALGORITHMS).learn
# A gradient step for each step.
EACH = {"train_freq": 1, "learning_starts": 5, "target_network_update_freq": 7}


@pytest.fixture(scope="module")
def default():
    """Six cycles with the defaults."""
    return learn_eagerly("deepq", identity(), 6)


def differ(one, other):
    return weights(one.policy).tolist() != weights(other.policy).tolist()


@pytest.mark.parametrize(
    "same",
    [
        {"lr": "constant_5e-4"},
        {"print_freq": None},
        {"checkpoint_freq": None},
        {"save_replay_buffer": False},
        {"max_ep_len": None},
        {"checkpoint_path": "nowhere"},
    ],
)
def test_other_words_for_the_same(same, default, eager, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not differ(learn("deepq", identity(), 6, **same), default)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon_decay": 0.9, "exploration_fraction": 0.5}, "epsilon_decay=0.9 is not valid: None with"),
        ({"num_atoms": 5}, "num_atoms=5 is not valid: needs distributional"),
        ({"v_min": -1.0}, "v_min=-1.0 is not valid: it bounds the returns of"),
        ({"distributional": "quantile", "v_max": 1.0}, "v_max=1.0 is not valid: it bounds the returns of"),
        ({"distributional": "categorical", "v_min": 3.0, "v_max": 2.0}, "v_min=3.0 is not valid: below v_max=2.0"),
        ({"distributional": "categorical", "num_atoms": 1}, "num_atoms=1 is not valid: at least 2"),
        ({"distributional": "quantiles"}, "did you mean 'quantile'"),
        ({"noisy": True, "param_noise": True}, "noisy=True is not valid: param_noise=True is given too"),
        ({"hiddens": (0,)}, "hiddens=(0,) is not valid"),
        ({"network": "lstm"}, "not recurrent"),
        ({"layer_nrom": True}, "did you mean 'layer_norm'"),
    ],
)
def test_mistakes(arguments, words):
    with pytest.raises(ValueError) as error:
        learn("deepq", identity(), **arguments)
    assert words in str(error.value) and "\n" not in str(error.value)


# The original's interface.


def test_its_public_names():
    assert tfbaselines.deepq.learn is deepq.learn
    for name in ("ReplayBuffer", "PrioritizedReplayBuffer", "LinearSchedule", "PiecewiseSchedule", "ConstantSchedule"):
        assert name in interface.__all__
    assert all(getattr(deepq, name) is getattr(interface, name) for name in interface.__all__)
    assert all(getattr(tfbaselines.deepq, name) is getattr(interface, name) for name in interface.__all__)
    with pytest.raises(ValueError, match=r"call learn\(network, env, total_timesteps=0, load_path=path\)"):
        deepq.load_act("model.pkl")


def test_env_may_come_before_network(default, eager):
    own = {"buffer_size": 200, "learning_starts": 10, "train_freq": CYCLE, "target_network_update_freq": 20}
    own |= {"hiddens": (8,), "hidden_sizes": (8,), "batch_size": 8}
    model = deepq.learn(identity(), "dense", 0, 5e-4, 6 * CYCLE, **own)
    assert not differ(model, default)


def test_the_model_can_be_called(default):
    obs = identity(6).reset()
    greedy = default.act(obs, deterministic=True)[0]
    np.testing.assert_array_equal(default(obs, stochastic=False), greedy)
    many = np.stack([default(obs, update_eps=1.0) for _ in range(40)])
    assert default.policy.head.epsilon == 1.0 and all(len(set(column)) > 1 for column in many.T)
    np.testing.assert_array_equal(default(obs, update_eps=0.0), greedy)
    assert default(obs[:1])[0] == greedy[0]


def test_layer_norm_is_of_the_layers_above_the_network(eager):
    model = learn("deepq", identity(), 0, network="mlp", layer_norm=True)
    names = [variable.path for variable in model.policy.trainable_variables if "normalization" in variable.path]
    assert len(names) == 4 and all(name.startswith(("action", "state")) for name in names)


def test_the_callback_sees_each_step_and_stops_training(eager, tmp_path):
    seen = []

    def callback(lcl, glb):
        seen.append((lcl["t"], len(lcl["episode_rewards"]), lcl["num_episodes"], glb))
        return lcl["t"] >= 24

    model = train(tmp_path, "deepq", identity(), 8, callback=callback, train_freq=2)
    # The cycle of two steps in which it stops is finished.
    assert [t for t, *_ in seen] == list(range(26))
    assert seen[-1][1:] == (3, 3, {}) and model.update.step == 8


def test_rows_come_every_so_many_episodes(eager, tmp_path):
    train(tmp_path, "deepq", counting(length=5, actions=THREE), 10, print_freq=4)
    found = rows(tmp_path)
    assert set(found) == {"steps", "episodes", "mean 100 episode reward", "% time spent exploring"}
    assert found["episodes"].tolist() == [4, 8, 12, 16, 20] and found["steps"].tolist() == [20, 40, 60, 80, 100]
    # The first tenth of the steps.
    assert found["% time spent exploring"].tolist() == [2] * 5


@pytest.mark.parametrize("print_freq", [None, 50])
def test_a_run_of_fewer_episodes_has_one_row(print_freq, eager, tmp_path):
    train(tmp_path, "deepq", counting(length=5, actions=THREE), 10, print_freq=print_freq)
    assert rows(tmp_path)["episodes"].tolist() == [20]


def test_tests_of_the_greedy_policy(eager, tmp_path):
    own = {"eval_env": identity(seed=7), "num_test_episodes": 2}
    train(tmp_path, "deepq", identity(), 4, **own)
    assert np.isfinite(rows(tmp_path)["mean test reward"]).all()


# Schedules.


def test_epsilon_and_beta_change_over_time():
    config = deepq.Config(total_timesteps=1000, exploration_fraction=0.2, exploration_final_eps=0.1)
    assert [config.epsilon(t) for t in (0, 100, 200, 999)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert [config.beta(t) for t in (0, 500, 1000)] == pytest.approx([0.4, 0.7, 1.0])
    assert deepq.Config(prioritized_replay_beta_iters=10).beta(20) == 1.0
    assert deepq.Config(exploration_fraction=0.0).epsilon(0) == 0.02


def test_epsilon_may_start_lower_and_decay_by_a_factor():
    config = deepq.Config(total_timesteps=1000, exploration_fraction=0.2, exploration_final_eps=0.1, epsilon_start=0.5)
    assert [config.epsilon(t) for t in (0, 100, 200)] == pytest.approx([0.5, 0.3, 0.1])
    config = deepq.Config(epsilon_start=0.8, epsilon_decay=0.5, exploration_final_eps=0.15)
    assert [config.epsilon(t) for t in range(4)] == pytest.approx([0.8, 0.4, 0.2, 0.15])


@pytest.mark.parametrize("noise", [{}, {"param_noise": True}, {"noisy": True}])
def test_observations_are_normalized_wherever_the_network_computes(noise, eager, tmp_path):
    """The statistics are of all steps, the mirror in numpy and the graph agree, and a saved model keeps them."""
    env = counting(length=5, first=1000, actions=THREE)
    model = learn("deepq", env, 4, normalize_observations=True, **noise)
    normalizer = model.policy.normalizer
    assert float(normalizer.std[0]) > 0 and abs(float(normalizer.mean[0])) > 100
    obs = np.linspace(-1050, 1050, 7, dtype=np.float32)[:, None]
    values = model.policy.forward(obs).flat.numpy()
    np.testing.assert_array_equal(model.act(obs, deterministic=True)[0], values.argmax(axis=-1))
    model.save(tmp_path / "model")
    again = learn("deepq", env, 0, normalize_observations=True, load_path=str(tmp_path / "model"), **noise)
    np.testing.assert_array_equal(again.policy.forward(obs).flat.numpy(), values)


@pytest.mark.parametrize(
    ("train_freq", "gradient_steps", "num_envs", "collected", "taken"),
    [
        (1, 1, 1, 1, 1),
        (4, 1, 1, 4, 1),
        (4, 1, 2, 2, 1),
        (4, 1, 8, 1, 2),
        (1, 1, 3, 1, 3),
        (8, 8, 1, 8, 8),
        (256, 128, 1, 256, 128),
        (8, 4, 2, 4, 4),
        (2, 3, 4, 1, 6),
    ],
)
def test_gradient_steps_for_each_step_whatever_num_envs(train_freq, gradient_steps, num_envs, collected, taken):
    course = deepq.course_of(deepq.Config(train_freq=train_freq, gradient_steps=gradient_steps), num_envs)
    assert (course.collected, course.gradient_steps) == (collected, taken)


def test_gradient_steps_of_a_training_are_one_call(seen):
    learn("deepq", counting(actions=THREE), 6, train_freq=6, gradient_steps=4, learning_starts=11)
    assert [one.count for one in seen] == [4] * 9


def test_learning_begins_after_learning_starts(seen):
    learn("deepq", counting(actions=THREE), 6, train_freq=1, learning_starts=7)
    assert len(seen) == 60 - 7 and all(one.count == 1 for one in seen)
    seen.clear()
    # Also where the replay holds less.
    learn("deepq", counting(actions=THREE), 6, train_freq=1, learning_starts=30, buffer_size=10)
    assert len(seen) == 30


def test_weights_of_a_prioritised_replay_are_annealed(seen):
    learn("deepq", counting(actions=THREE), 6, **PRIORITISED, train_freq=1)
    assert all("weights" in one.block for one in seen)
    model = learn("deepq", counting(actions=THREE), 6, **PRIORITISED, train_freq=1)
    assert isinstance(model.replay, PrioritizedReplay) and model.replay.beta == pytest.approx(1.0)
    assert type(learn("deepq", counting(actions=THREE), 6).replay) is Replay


def test_errors_become_priorities(eager):
    model = learn("deepq", identity(), 6, **PRIORITISED, **EACH)
    found = model.replay._arrays["priorities"]
    assert len(np.unique(found[found > 0])) > 10


def test_the_target_is_copied_every_so_many_steps(eager):
    same = []

    def watch(run):
        same.append(weights(run.model.policy).tolist() == weights(run.model.averaged.policy).tolist())

    own = {"train_freq": 2, "learning_starts": 8, "target_network_update_freq": 6, "lr": 1e-2}
    learn("deepq", identity(), 3, run=RunOptions(callback=watch), **own)
    # In steps 12, 18, 24 and 30; before learning begins both are equal.
    assert [2 * k + 2 for k, one in enumerate(same) if one] == [2, 4, 6, 8, 12, 18, 24, 30]


# Targets.


def update_of(masked=False, **own):
    obs = spaces.Box(-1, 1, (2,), np.float32)
    space = spaces.Dict({ONLY: obs, MASK: spaces.MultiBinary(3)}) if masked else obs
    env = vec(lambda: Seeing(obs, THREE))
    env.observation_space = space
    config = deepq.Config(hiddens=(4,), **own)
    policy, averaged = with_targets(lambda: deepq.make_policy("mlp", env, config), 0.0)
    for number, variable in enumerate(averaged.policy.trainable_variables):
        variable.assign(np.random.default_rng(number).normal(size=variable.shape))
    return policy, averaged.policy, deepq.make_update(policy, averaged, config)


def batch_of(next_obs):
    zeros = np.zeros(8, np.float32)
    return {"obs": next_obs, "next_obs": next_obs, "actions": zeros, "rewards": zeros, "discount": zeros + 0.5}


@pytest.mark.parametrize("double_q", [True, False])
def test_the_next_action_is_an_allowed_one(double_q):
    rng = np.random.default_rng(0)
    policy, target, update = update_of(masked=True, double_q=double_q)
    mask = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1]] * 2, np.int8)
    obs = {ONLY: rng.normal(size=(8, 2)).astype(np.float32), MASK: mask}
    found = update.prepared(batch_of(obs))["targets"].numpy()[:, 0]
    own, its = (np.where(mask, one.forward(obs).flat.numpy(), -np.inf) for one in (policy, target))
    best = (own if double_q else its).argmax(axis=1)
    np.testing.assert_allclose(found, 0.5 * its[np.arange(8), best], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("distributional", ["categorical", "quantile"])
def test_distributions_are_of_the_action_with_the_best_mean(distributional):
    ends = {"v_min": -4.0, "v_max": 4.0} if distributional == "categorical" else {}
    policy, target, update = update_of(distributional=distributional, num_atoms=5, **ends)
    obs = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
    best = policy.forward(obs).flat.numpy().argmax(axis=1)
    outputs = target.outputs(target.preprocess(obs)).numpy()[np.arange(8), best]
    found = update.prepared(batch_of(obs))["targets"].numpy()
    if distributional == "quantile":
        np.testing.assert_allclose(found, 0.5 * outputs, rtol=1e-5, atol=1e-6)
    else:
        # Half the return is on the inner three points.
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-5)
        assert np.abs(found[:, [0, 4]]).max() < 1e-6


def test_noisy_layers_get_noise_of_their_own_in_every_step(seen):
    model = learn("deepq", counting(actions=THREE), 6, noisy=True, train_freq=1)
    noise = np.concatenate([one.block["noise"] for one in seen])
    assert noise.shape[1] == model.policy.q_head.noise_size and noise.std() == pytest.approx(1.0, abs=0.1)
    assert not np.array_equal(seen[0].block["noise"], seen[0].block["target_noise"])


def test_noise_is_learnt(eager):
    start, model = (learn("deepq", identity(), updates, noisy=True, **EACH) for updates in (0, 6))
    pairs = zip(start.policy.trainable_variables, model.policy.trainable_variables, strict=True)
    assert all(not np.array_equal(one.numpy(), other.numpy()) for one, other in pairs)
    assert any(isinstance(layer, NoisyDense) for layer in model.policy.modules)


@pytest.mark.parametrize("own", [{"param_noise": True}, {"noisy": True}, RAINBOW], ids=["param", "noisy", "rainbow"])
def test_resumed_runs_equal_uninterrupted_ones(own, eager, tmp_path):
    own = own | EACH | {"buffer_size": 60, "hiddens": (8,), "batch_size": 8}
    env = lambda: still(actions=THREE)
    whole = train(tmp_path / "whole", "deepq", env(), 2, **own)
    train(tmp_path / "half", "deepq", env(), 2, run=RunOptions(callback=lambda run: run.update < 10), **own)
    again = {"run": RunOptions(resume=str(tmp_path / "half")), "seed": 99}
    resumed = train(tmp_path / "half", "deepq", env(), 2, **own | again)
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(tmp_path / "half").equals(rows(tmp_path / "whole"))


@pytest.mark.parametrize("own", [{"param_noise": True}, {"distributional": "categorical"}, {"noisy": True}])
def test_only_allowed_actions_are_chosen_whatever_explores(own, eager):
    """The environments refuse the others."""
    learn("deepq", vec(lambda: Masked(spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(3, start=5)), 2), 6, **own)


# Games.


def test_games_have_defaults_of_their_own():
    arguments = parse(split(["--alg=deepq", "--env=PongNoFrameskip-v4"]), registry.ALGORITHMS)
    config = deepq.Config.of(arguments.learn)
    assert arguments.network == "conv_only"
    assert (config.lr, config.buffer_size, config.train_freq, config.gamma) == (1e-4, 10_000, 4, 0.99)
    assert config.prioritized_replay and config.dueling and config.target_network_update_freq == 1000
    assert parse(split(["--alg=deepq", "--env=CartPole-v1"]), registry.ALGORITHMS).network == "mlp"


def test_rainbows_settings_are_arguments():
    config = deepq.Config(**RAINBOW)
    assert config.noisy and config.prioritized_replay and config.distributional and config.dueling and config.double_q
    assert config.n_step == 3 and config.epsilon(0) == 0.0


# Learning.


@pytest.mark.slow
def test_identity():
    env = vec(lambda: tiny.DiscreteIdentityEnv(10, episode_len=100), 4)
    model = deepq.learn("mlp", env, 0, total_timesteps=4000, gamma=0.9)
    assert reward_per_step(model, env) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    "own",
    [{"param_noise": True}, {"distributional": "quantile", "num_atoms": 20}, RAINBOW],
    ids=["param_noise", "quantile", "rainbow"],
)
def test_every_part_learns_what_is_shown(own):
    """The right one of four, told by the observation."""
    short = {"learning_starts": 200, "train_freq": 1, "buffer_size": 5000, "target_network_update_freq": 100}
    own = own | short | {"lr": 2e-3, "gamma": 0.5, "n_step": 1, "hiddens": (32,)}
    # Steps of several environments are learnt from in one compiled call, but the noise adapts in each.
    num_envs, steps = (1, 800) if "param_noise" in own else (4, 1300)
    env = vec(lambda: tiny.DiscreteIdentityEnv(4, episode_len=20), num_envs)
    model = deepq.learn("mlp", env, 0, total_timesteps=steps, num_hidden=32, **own)
    assert reward_per_step(model, env, 400) > 0.9


@pytest.mark.slow
def test_cartpole():
    """347 of 500 with this seed, and 479 after twice as many steps."""
    env = vec(lambda: gymnasium.make("CartPole-v1"))
    own = {"gamma": 0.99, "lr": 1e-3, "n_step": 3, "batch_size": 64, "target_network_update_freq": 250}
    assert mean_return(deepq.learn("mlp", env, 0, total_timesteps=5000, **own), env) > 200
