"""What surrounds off-policy learning: what is learnt from and when, tests and checkpoints."""

from collections import defaultdict

import numpy as np
import pytest
from gymnasium import spaces
from loops import for_each
from small_environments import CYCLE, counting, still, taken
from small_runs import EPOCH, joined, learn, rows, train

from tfbaselines.algs import td3
from tfbaselines.learn.engine import Engine
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.training import off_policy
from tfbaselines.training.off_policy import Course

ALGORITHMS = pytest.mark.parametrize("alg", ["td3", "sac", "ddpg"])
GAMMA = 0.5


# What is learnt from.


@ALGORITHMS
@pytest.mark.parametrize("timeout", [False, True])
def test_what_happened_is_learnt_from(alg, timeout, seen):
    learn(alg, counting(2, timeout=timeout), 6, gamma=GAMMA)
    obs, after, rewards, discounts = (joined(seen, name) for name in ("obs", "next_obs", "rewards", "discount"))
    before = np.abs(obs)
    np.testing.assert_array_equal(rewards, before)
    ended = (before + 1) % 5 == 0
    np.testing.assert_array_equal(discounts, GAMMA * ~(ended & (not timeout)))
    # After a time limit values go on from the real last observation, not from the next episode's first.
    goes_on = discounts > 0
    np.testing.assert_array_equal(after[goes_on], before[goes_on] + 1)
    assert (obs < 0).any() and ended.any()


@pytest.mark.parametrize("alg", ["td3", "sac"])
def test_clipped_rewards_are_learnt_from_and_the_logs_tell_the_environments_own(alg, seen, tmp_path):
    found = []
    for clip in (None, 12.5):
        train(tmp_path, alg, counting(first=-20, length=None), 6, reward_clip=clip, max_ep_len=20)
        found.append(joined(seen, "rewards"))
        seen.clear()
    np.testing.assert_array_equal(found[1], np.clip(found[0], -12.5, 12.5))
    assert found[0].min() < -12.5 < 12.5 < found[0].max()
    returns = rows(tmp_path)["AverageEpRet"]
    assert returns.iloc[0] == sum(range(-20, 0)) and returns.iloc[-1] == sum(range(20, 40))


@ALGORITHMS
def test_returns_of_several_steps(alg, seen):
    learn(alg, counting(length=None), 6, gamma=GAMMA, n_step=3)
    before, after = np.abs(joined(seen, "obs")), joined(seen, "next_obs")
    steps = after - before
    # The last steps have no more than happened.
    assert set(steps) == {1, 2, 3} and np.mean(steps == 3) > 0.7
    expected = sum(np.where(k < steps, GAMMA**k * (before + k), 0) for k in range(3))
    np.testing.assert_allclose(joined(seen, "rewards"), expected)
    np.testing.assert_allclose(joined(seen, "discount"), GAMMA**steps)


@ALGORITHMS
def test_the_latest_are_kept(alg, seen):
    learn(alg, counting(length=None), 10, replay_size=15)
    for cycle, one in enumerate(seen, 1):
        assert np.abs(one.block["obs"]).min() >= CYCLE * cycle - 15
    assert np.abs(seen[-1].block["obs"]).min() < CYCLE * 9


@ALGORITHMS
def test_batches_are_as_large_as_asked_for(alg, seen):
    learn(alg, counting(), batch_size=13)
    assert {one.block["rewards"].shape[1] for one in seen} == {13}


@ALGORITHMS
@pytest.mark.parametrize("limit", [3, None])
def test_episodes_are_cut_off_and_do_not_end(alg, limit, seen, tmp_path):
    train(tmp_path, alg, counting(length=None if limit else 8), 8, max_ep_len=limit)
    assert (joined(seen, "discount") > 0).all() == (limit is not None)
    assert rows(tmp_path)["rollout/episode_steps" if alg == "ddpg" else "EpLen"].iloc[-1] == (limit or 8)


# When.


def moments(monkeypatch, env, alg="td3", cycles=6, **kwargs):
    """(steps of environment 0, gradient steps) at each block."""
    moments = []

    def recording(update, block, **coefficients):
        count = len(block["rewards"])
        moments.append((env.envs[0].unwrapped.count, count))
        return defaultdict(lambda: np.zeros(count))

    monkeypatch.setattr(Engine, "block", recording)
    learn(alg, env, cycles, **kwargs)
    return moments


@ALGORITHMS
@pytest.mark.parametrize(("after", "first"), [(0, 10), (10, 10), (11, 20), (40, 40)])
def test_learning_begins_when_the_replay_holds_enough(alg, after, first, monkeypatch):
    assert moments(monkeypatch, counting(), alg, update_after=after)[0] == (first, 2)


@pytest.mark.parametrize(("own", "count"), [({}, 2), ({"num_update": None}, 10), ({"num_update": 7}, 7)])
def test_gradient_steps_of_a_cycle(own, count, monkeypatch):
    assert moments(monkeypatch, counting(), **own) == [(CYCLE * cycle, count) for cycle in range(1, 7)]


def test_without_gradient_steps_there_is_only_acting(monkeypatch):
    assert moments(monkeypatch, counting(), num_update=0) == []


@ALGORITHMS
def test_steps_of_a_cycle_are_shared_out_over_environments(alg, monkeypatch):
    own = {} if alg == "ddpg" else {"num_update": None}
    found = moments(monkeypatch, counting(3), alg, update_every=10, **own)
    # Three of each, which is nine.
    assert found == [(3 * cycle, 9) for cycle in range(2, 7)]


def test_a_cycle_has_at_least_one_step_of_each(monkeypatch):
    found = moments(monkeypatch, counting(3), update_every=1, num_update=None, total_timesteps=18)
    assert found == [(cycle, 3) for cycle in range(4, 7)]


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_blocks_have_a_bounded_size(batches, monkeypatch):
    """Two observations of one number in each of eight rows."""
    monkeypatch.setattr(off_policy, "BLOCK_BYTES", 8 * 2 * 4 * batches)
    found = moments(monkeypatch, counting(), num_update=8, cycles=2)
    assert found == [(CYCLE * cycle, batches) for cycle in (1, 2) for _ in range(8 // batches)]


@ALGORITHMS
@pytest.mark.parametrize("count", [1, 3])
def test_actions_are_random_at_first(alg, count, seen):
    env, own = counting(count), {"start_steps": 14}
    if alg == "ddpg":
        own |= {"noise_type": "none", "update_every": CYCLE, "normalize_observations": False}
    model = learn(alg, env, 8, **own | ({"act_noise": 0.0} if alg == "td3" else {}))
    first = -(-14 // count)
    for i in range(count):
        actions = taken(env, i)
        random, chosen = actions[:first], actions[first:]
        assert random.min() >= -1 and random.max() <= 3 and random.std(axis=0).min() > 0.3
        if alg != "sac":
            counts = np.arange(len(actions))
            obs = np.where(counts % 5 == 0, -counts, counts).astype(np.float32)[:, None]
            wanted, _ = model.act(obs, deterministic=True)
            np.testing.assert_allclose(chosen, wanted[first:], rtol=1e-4, atol=1e-4)
            assert np.abs(random - wanted[:first]).max() > 0.5


@ALGORITHMS
def test_the_number_of_epochs_tells_when_no_steps_are_given(alg, seen, tmp_path):
    epochs = {"nb_epochs" if alg == "ddpg" else "epochs": 3}
    env = counting()
    train(tmp_path, alg, env, total_timesteps=None, **epochs)
    assert len(rows(tmp_path)) == 3 and len(taken(env)) == 3 * EPOCH


@pytest.mark.parametrize("alg", ["td3", "sac"])
def test_the_last_epoch_may_be_a_part_of_one(alg, seen, tmp_path):
    train(tmp_path, alg, counting(), 5)
    assert rows(tmp_path)[["Epoch", "TotalEnvInteracts"]].values.tolist() == [[1, 20], [2, 40], [3, 50]]


def test_no_rank_learns_before_every_rank_can(monkeypatch):
    class Waiting(Communicator):
        """The other rank has not got enough."""

        size = 2

        def gather(self, obj):
            return [obj, False] if isinstance(obj, bool) else [obj, obj]

    assert moments(monkeypatch, counting(), comm=Waiting()) == []


# With memory.


@ALGORITHMS
def test_policies_with_memory_learn_from_sequences(alg, seen):
    memory = {"network": "lstm", "nlstm": 4} if alg == "ddpg" else {"memory_size": 8, "sequence_length": 6}
    if alg == "ddpg":
        memory |= {"noise_type": "none", "replay_size": 500, "nb_train_steps": 2}
    model = learn(alg, counting(2), 8 if alg == "ddpg" else 6, **memory)
    length = 64 if alg == "ddpg" else 6
    obs = seen[-1].block["obs"].reshape(-1, length + 1)
    np.testing.assert_array_equal(np.abs(obs), np.abs(obs[:, :1]) + np.arange(length + 1))
    assert seen[-1].block["states"].shape == (2, 8, model.policy.state_size)
    assert np.abs(seen[-1].block["states"]).max() > 0
    masks = seen[-1].block["episode_start"].reshape(-1, length + 1)
    np.testing.assert_array_equal(masks, np.abs(obs) % 5 == 0)


@pytest.mark.parametrize("alg", ["td3", "sac"])
def test_sequences_are_waited_for(alg, monkeypatch):
    found = moments(monkeypatch, counting(), alg, memory_size=4, sequence_length=25)
    assert found[0] == (30, 2)


@pytest.mark.parametrize("alg", ["td3", "sac"])
def test_sequences_longer_than_the_replay_are_refused(alg):
    with pytest.raises(ValueError, match=r"sequence_length=300 is not valid: .* raise replay_size"):
        learn(alg, counting(), memory_size=4, sequence_length=300)


# Statistics of observations.


@ALGORITHMS
def test_observations_are_normalised_by_what_was_seen(alg, seen, tmp_path):
    model = learn(alg, counting(2, length=None), 8, normalize_observations=True)
    shown = np.concatenate([[0], np.arange(1, 80 if alg == "ddpg" else 40)])
    assert model.policy.normalizer.mean == pytest.approx(shown.mean(), rel=0.01)
    assert model.policy.normalizer.std == pytest.approx(shown.std(), rel=0.01)
    assert model.averaged.policy.normalizer is model.policy.normalizer


def test_they_are_left_as_they_are_unless_asked_for(seen):
    assert learn("td3", counting()).policy.normalizer is None
    assert learn("ddpg", counting(), normalize_observations=False).policy.normalizer is None


# Tests.


# Checkpoints.


# Settings.


@ALGORITHMS
@for_each(
    ("name", "value"),
    [
        ("batch_size", 0),
        ("replay_size", 0),
        ("n_step", 0),
        ("max_ep_len", 0),
        ("start_steps", -1),
        ("update_after", -1),
        ("update_after", 201),
        ("update_every", 0),
        ("num_test_episodes", -1),
        ("total_timesteps", -1),
        ("gamma", 1.1),
        ("gamma", float("nan")),
        ("network", "dens"),
    ],
)
def test_bad_arguments_are_named_in_one_line(alg, name, value):
    with pytest.raises(ValueError, match=r"valid|unknown") as error:
        learn(alg, still(), **{name: value})
    assert "\n" not in str(error.value)
    assert name in str(error.value) and str(value) in str(error.value)


@pytest.mark.parametrize("alg", ["td3", "sac"])
@for_each(
    ("name", "value"),
    [
        ("steps_per_epoch", 0),
        ("epochs", -1),
        ("save_freq", -1),
        ("num_update", -1),
        ("sequence_length", 0),
        ("polyak", 1.5),
        ("memory_size", 7),
        ("memory_size", 0),
        ("vis_encode_type", "resnt"),
        ("logger_kwargs", {"output_dri": "x"}),
        ("hidden_sizes", [0]),
    ],
)
def test_bad_arguments_of_spinning_up_are_named_too(alg, name, value):
    with pytest.raises(ValueError, match=r"valid|unknown") as error:
        learn(alg, still(), **{name: value})
    assert "\n" not in str(error.value)
    assert name in str(error.value)


@ALGORITHMS
def test_other_words_are_unknown_arguments(alg):
    with pytest.raises(ValueError, match=r"unknown argument 'hiden_sizes'.*did you mean 'hidden_sizes'"):
        learn(alg, still(), hiden_sizes=[8])


@ALGORITHMS
@for_each("space", [spaces.MultiBinary(2), spaces.Box(-np.inf, np.inf, (2,), np.float32)])
def test_other_actions_are_refused(alg, space):
    with pytest.raises(ValueError, match="actions") as error:
        learn(alg, still(actions=space))
    assert "\n" not in str(error.value) and str(space) in str(error.value)


@pytest.mark.parametrize("alg", ["td3", "ddpg"])
@for_each("space", [spaces.Discrete(3), spaces.MultiDiscrete([2, 2])])
def test_choices_are_for_sac(alg, space):
    with pytest.raises(ValueError, match="continuous actions need bounds") as error:
        learn(alg, still(actions=space))
    assert "\n" not in str(error.value)


def test_a_replay_larger_than_the_memory_is_refused():
    with pytest.raises(ValueError, match=r"the replay would take .* GiB"):
        learn("td3", still(), replay_size=9e9)


def test_the_course_over_several_environments():
    course = Course.of(td3.Config(steps_per_epoch=4000, update_every=50), 4)
    # Fifty does not divide by four: twelve of each, 48 in a cycle, and as many gradient steps.
    assert (course.collected, course.gradient_steps, course.cycles_per_epoch) == (12, 48, 83)
    assert (course.steps, Course.of(td3.Config(total_timesteps=7.0), 4).steps) == (400_000, 7)
    assert Course.of(td3.Config(num_update=3, save_freq=2), 4).gradient_steps == 3
    # Shorter than a cycle: an epoch has at least one, and a cycle one step of each.
    short = Course.of(td3.Config(steps_per_epoch=1, update_every=1), 4)
    assert (short.collected, short.gradient_steps, short.cycles_per_epoch) == (1, 4, 1)
