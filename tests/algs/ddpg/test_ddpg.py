"""DDPG: every argument's effect, noise of actions and parameters, Spinning Up's form, and what it learns."""

import numpy as np
import pytest
from gymnasium import spaces
from helpers import enough, reward_per_step, vec
from small_environments import CYCLE, Counting, box, counting, still
from small_runs import joined, learn, learn_eagerly, resident_bytes, rows, train, weights

from tfbaselines.algs import ddpg
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.policy.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from tfbaselines.training.callbacks import StopAt

# Arguments.


@pytest.fixture(scope="module")
def default():
    """Three cycles with the defaults."""
    return learn_eagerly("ddpg", box(), 3)


def test_every_kind_of_noise_makes_a_difference(default, eager):
    for noise in ("ou_0.2", "normal_0.2", "none", "adaptive-param_0.5"):
        model = learn("ddpg", box(), 3, noise_type=noise)
        assert weights(model.policy).tolist() != weights(default.policy).tolist(), noise


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"act_noise": 0.3}, {"noise_type": "normal_0.3"}),
        ({"noise_type": None}, {"noise_type": "none"}),
        ({"actor_lr": "constant_1e-4"}, {}),
        ({"return_range": [-1e9, 1e9]}, {}),
        ({"delay_policy_update": 1, "target_noise": 0, "noise_clip": 0.1}, {}),
        ({"nb_epochs": 2, "total_timesteps": None}, {"total_timesteps": 40}),
        ({"update_every": CYCLE, "nb_train_steps": 0, "nb_rollout_steps": 99}, {"update_every": CYCLE}),
    ],
)
def test_other_words_for_the_same(one, other, eager):
    first, second = (weights(learn("ddpg", box(), 3, **own).policy) for own in (one, other))
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("noise_type", "foo"),
        ("noise_type", "ou"),
        ("noise_type", "normal_-1"),
        ("act_noise", -1),
        ("popart", True),
        ("tau", 1.5),
        ("polyak", -0.5),
        ("nb_epochs", -1),
        ("nb_epoch_cycles", 0),
        ("nb_rollout_steps", 0),
        ("nb_train_steps", -1),
        ("nb_eval_steps", -1),
        ("critic_l2_reg", -1),
        ("clip_norm", 0),
        ("param_noise_adaption_interval", 0),
        ("delay_policy_update", 0),
        ("target_noise", -1),
        ("noise_clip", -1),
        ("save_interval", -1),
        ("actor_lr", "quick"),
        ("critic_lr", "quick"),
        ("return_range", (1, -1)),
        ("return_range", 5.0),
    ],
)
def test_bad_arguments_are_named_in_one_line(name, value):
    with pytest.raises(ValueError, match=r"valid|unknown") as error:
        learn("ddpg", still(), **{name: value})
    assert "\n" not in str(error.value)
    assert name in str(error.value) and str(value) in str(error.value)


def test_steps_and_epochs_at_once_are_refused():
    """As in the original."""
    with pytest.raises(ValueError, match="nb_epochs"):
        learn("ddpg", still(), total_timesteps=100, nb_epochs=2)


# Noise.


def noise_of(env, model):
    """What was added to the actions of each environment that always shows the same, in units of their bounds."""
    wanted = model.act(env.reset(), deterministic=True)[0]
    taken = np.stack([one.unwrapped.taken for one in env.envs], 1)
    return model.policy.head.unit_numpy(taken - wanted).reshape(taken.shape) + 0.0


QUIET = {"start_steps": 0, "normalize_observations": False}


def test_normal_noise_is_in_units_of_the_bounds(seen):
    env = still(4, actions=spaces.Box(-5.0, 5.0, (2,), np.float32))
    model = learn("ddpg", env, 40, noise_type="normal_0.2", **QUIET)
    noise = noise_of(env, model)
    assert noise.std() == pytest.approx(0.2, rel=0.1) and abs(noise.mean()) < 0.03
    assert np.abs(np.corrcoef(noise[..., 0].T) - np.eye(4)).max() < 0.2


def test_actions_stay_inside_of_their_bounds(seen):
    low, high = np.array([[-1.0, 2.0]], np.float32), np.array([[3.0, 2.5]], np.float32)
    env = counting(actions=spaces.Box(low, high))
    learn("ddpg", env, 8, noise_type="normal_10")
    taken = np.array(env.envs[0].unwrapped.taken)
    assert taken.shape == (80, 1, 2)
    np.testing.assert_array_equal(taken.min(0), low)
    np.testing.assert_array_equal(taken.max(0), high)


def test_drifting_noise_begins_anew_with_an_episode(seen):
    env = still(length=20)
    model = learn("ddpg", env, 40, noise_type="ou_1.0", **QUIET)
    noise = noise_of(env, model)[:, 0].reshape(20, 20, 2)
    # Steps of 0.1: what they have come to is small at first.
    assert noise[:, 0].std() == pytest.approx(0.1, rel=0.4)
    assert noise[:, -1].std() > 2.5 * noise[:, 0].std()


def test_drifting_noise_of_several_environments_begins_anew_with_a_cycle(seen):
    env = still(3, length=1000)
    model = learn("ddpg", env, 40, noise_type="ou_1.0", **QUIET)
    noise = noise_of(env, model).reshape(40, CYCLE, 3, 2)
    assert noise[:, 0].std() == pytest.approx(0.1, rel=0.25)
    assert noise[:, -1].std() > 2 * noise[:, 0].std()


@pytest.mark.parametrize(("count", "per_episode"), [(1, True), (2, False)])
def test_noise_of_parameters_is_that_of_an_episode(count, per_episode, seen):
    """The actor is deterministic, and always shown the same: its actions change when the noise does."""
    env = still(count, length=5 if per_episode else 1000)
    learn("ddpg", env, 4, noise_type="adaptive-param_0.3", **QUIET)
    taken = np.array(env.envs[0].unwrapped.taken)
    length = 5 if per_episode else CYCLE
    parts = taken.reshape(-1, length, 2)
    assert (parts == parts[:, :1]).all()
    assert len(np.unique(parts[:, 0], axis=0)) == len(parts) == 40 // length


def test_both_noises_at_once(seen):
    env = still()
    model = learn("ddpg", env, 4, noise_type="adaptive-param_0.3,normal_0.1", **QUIET)
    exploration, _ = model.parts
    assert exploration.perturbed.spec.desired_action_stddev == 0.3
    noise = noise_of(env, model)[:, 0].reshape(4, CYCLE, 2)
    assert (noise.std(axis=1) > 0.03).all() and np.abs(noise.mean(axis=1)).max() > 0.05


@pytest.mark.parametrize(
    ("text", "kind"),
    [("ou_0.1", OrnsteinUhlenbeckActionNoise), ("normal_0.1", NormalActionNoise), ("none", type(None))],
)
def test_the_deterministic_policy_has_none(text, kind, seen):
    model = learn("ddpg", still(), 1, noise_type=text)
    exploration, _ = model.parts
    assert isinstance(exploration._noise.actions, kind)
    obs = still().reset()
    for deterministic in (True, False):
        first, again = (model.act(obs, deterministic=deterministic)[0] for _ in range(2))
        np.testing.assert_array_equal(first, again)


def test_noise_of_parameters_is_around_the_first_ranks_weights(seen):
    """Those that are handed out before the first step."""

    class Second(Communicator):
        rank, size = 1, 2

        def average(self, flat, weight=1.0):
            return flat

        def sum(self, array):
            return 2 * np.asarray(array)

        def broadcast(self, array, root=0):
            return np.full_like(array, 0.5)

        def gather(self, obj):
            return [obj, obj]

    env = still(length=1000)
    model = learn("ddpg", env, 1, comm=Second(), noise_type="adaptive-param_0.001", **QUIET)
    taken = np.array(env.envs[0].unwrapped.taken)
    np.testing.assert_allclose(taken, np.repeat(model.act(env.reset(), deterministic=True)[0], 10, 0), atol=0.05)


# Targets and rates.


def test_rates_follow_their_schedules(seen):
    learn("ddpg", counting(), 4, actor_lr="linear_0.1", critic_lr=lambda left: 2 * left)
    rates = [(one.coefficients["actor_lr"], one.coefficients["critic_lr"]) for one in seen]
    np.testing.assert_allclose(rates, [(0.1, 2.0), (0.075, 1.5), (0.05, 1.0), (0.025, 0.5)])


def test_without_rates_nothing_moves(eager):
    still_there = learn("ddpg", box(), 3, actor_lr=0, critic_lr=0)
    assert weights(still_there.policy).tolist() == weights(learn("ddpg", box(), 0).policy).tolist()


@pytest.mark.parametrize("same", [{"tau": 0.1}, {"polyak": 0.9}])
def test_targets_keep_a_part_of_themselves(same, eager):
    start = weights(learn("ddpg", box(), 0).policy)
    model = learn("ddpg", box(), 1, nb_train_steps=1, actor_lr=0.1, critic_lr=0.1, **same)
    expected = 0.9 * start + 0.1 * weights(model.policy)
    np.testing.assert_allclose(weights(model.averaged.policy), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("deviation", [0.0, 0.4])
def test_the_targets_noise_is_in_units_of_the_bounds(deviation, seen):
    env = counting(actions=spaces.Box(-5.0, 5.0, (2,), np.float32))
    learn("ddpg", env, 20, target_noise=deviation, noise_clip=0.5)
    if not deviation:
        assert "noise" not in seen[0].block
        return
    noise = joined(seen, "noise")
    assert np.abs(noise).max() == 2.5 and np.mean(np.abs(noise) == 2.5) == pytest.approx(0.21, abs=0.08)


def test_statistics_of_returns_belong_to_the_model(eager, tmp_path):
    model = learn("ddpg", box(), 3, normalize_returns=True, popart=True)
    # Every gradient step's batch of eight was taken in.
    assert model.policy.returns.state()[2] == pytest.approx(6 * 8, rel=1e-3)
    assert float(model.policy.returns.mean) < -0.1
    model.save(tmp_path / "model")
    loaded = learn("ddpg", box(), 0, seed=9, load_path=tmp_path / "model", normalize_returns=True, popart=True)
    obs = box().reset()
    np.testing.assert_allclose(loaded.value(obs), model.value(obs), rtol=1e-5, atol=1e-6)


def test_without_popart_they_are_those_of_a_batch_in_each_cycle(eager):
    model = learn("ddpg", box(), 3, normalize_returns=True)
    assert model.policy.returns.state()[2] == pytest.approx(3 * 8, rel=1e-3)


def test_two_critics(eager):
    model, obs = learn("ddpg", box(), 2, twin_q=True), box(5).reset()
    view = model.policy.view(obs)
    one, other = (q.numpy() for q in model.policy.q(view, model.policy.head.mode(model.policy.act(view))))
    assert not np.array_equal(one, other)
    np.testing.assert_allclose(model.value(obs), np.minimum(one, other), rtol=1e-4, atol=1e-6)


# Networks and observations.


@pytest.mark.parametrize("layer_norm", [True, False])
def test_layer_normalisation(layer_norm, eager):
    model = learn("ddpg", box(), 2, network="mlp", num_layers=2, num_hidden=5, layer_norm=layer_norm)
    assert len(model.policy.trainable_variables) == (20 if layer_norm else 12)


@pytest.mark.parametrize("noise", ["none", "adaptive-param_0.2", "ou_0.2"])
def test_memory(noise, eager, tmp_path):
    own = {"nlstm": 3, "noise_type": noise, "replay_size": 500, "batch_size": 2}
    model = train(tmp_path, "ddpg", box(), 3, network="lstm", **own)
    assert model.policy.state_size == 12
    assert np.isfinite(rows(tmp_path)["train/loss_critic"].iloc[-1])
    assert np.isfinite(weights(model.policy)).all()


@pytest.mark.parametrize("noise", ["none", "adaptive-param_0.2"])
def test_several_observations_at_once(noise, eager, tmp_path):
    class Several(Counting):
        observation_space = spaces.Dict(
            image=spaces.Box(0, 255, (12, 12, 1), np.uint8), vector=spaces.Box(-9.0, 9.0, (3,), np.float32)
        )

        def reset(self, **kwargs):
            super().reset(**kwargs)
            return self.observation_space.sample(), {}

        def step(self, action):
            _, *rest = super().step(action)
            return self.observation_space.sample(), *rest

    train(tmp_path, "ddpg", vec(Several, 2), 2, noise_type=noise)
    log = rows(tmp_path)
    assert np.isfinite(log[["reference_Q_mean", "rollout/Q_mean", "train/loss_critic"]]).all(axis=None)


# Compiled.


@pytest.mark.slow
def test_with_popart_nothing_is_traced_twice_and_memory_stays_flat(tmp_path):
    sizes, traces, own = [], [], {"normalize_returns": True, "popart": True, "twin_q": True}

    def watch(run):
        sizes.append(resident_bytes())
        traces.append(run.model.update.traces())

    train(tmp_path, "ddpg", box(), 250, nb_epoch_cycles=50, run=RunOptions(callback=watch), **own)
    assert traces[5] == traces[-1] == 1
    assert sizes[-1] - sizes[100] < 2**23
    assert np.isfinite(rows(tmp_path)).all(axis=None)


# Learning.


class ConstantReward(tiny.ConstantRewardEnv):
    """The same with continuous actions."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)


@pytest.mark.slow
def test_with_popart_time_outs_are_bootstrapped():
    """Reward 1 for ever, cut every 10 steps: the value is 1 / (1 - gamma), far above what a cut would give."""
    env = vec(ConstantReward)
    own = {
        "normalize_returns": True,
        "popart": True,
        "gamma": 0.9,
        "critic_lr": 1e-2,
        "tau": 0.05,
        "nb_train_steps": 50,
        "critic_l2_reg": 0.0,
    }
    model = learn("ddpg", env, 150, **own)
    np.testing.assert_allclose(model.value(env.reset()), 10.0, rtol=0.1)


@pytest.mark.slow
def test_identity():
    """The original's test and bar."""
    env = vec(lambda: tiny.BoxIdentityEnv((1,), episode_len=100))
    stop = RunOptions(callback=StopAt(enough(-0.1)))
    model = ddpg.learn("mlp", env, seed=0, total_timesteps=30_000, gamma=0.9, layer_norm=True, run=stop)
    assert reward_per_step(model, env) >= -0.1


def test_step_takes_the_arguments_of_the_original(eager):
    model = learn("ddpg", box(), 1, noise_type="normal_0.5")
    obs = box().reset()
    actions, values, states, _ = model.step(obs, apply_noise=False, compute_Q=False)
    np.testing.assert_array_equal(actions, model.act(obs, deterministic=True)[0])
    assert values is None and states is None
    noisy, values, _, _ = model.step(obs, apply_noise=True)
    assert not np.array_equal(noisy, actions)
    np.testing.assert_array_equal(values, model.value(obs))
