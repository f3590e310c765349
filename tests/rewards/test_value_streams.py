"""Each reward signal has returns of its own discount; advantages are summed by strength."""

import numpy as np
import pytest

from tfbaselines.config.groups import parse_signals
from tfbaselines.rewards import ValueStreams
from tfbaselines.rollout.rollout import GO_ON, TIME_OUT, Rollout, gae

T, N, LAM = 7, 3, 0.8


class Paid:
    """Pays numbers that were drawn before; keeps what it learns from."""

    name, strength, gamma = "rnd", 0.25, 0.5

    def __init__(self, paid, ends=GO_ON):
        self.paid, self.ends, self.log = paid, ends, []

    def take_in(self, batch):
        self.log.append("take_in")

    def rewards(self, obs, actions, next_obs, episode_start, terminated):
        self.log.append("rewards")
        return self.paid

    def update(self, batch, indices):
        self.log.append(indices)
        return {"loss": 3.0}


@pytest.fixture
def rollout():
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return rng.normal(size=shape).astype(np.float32)

    starts, ends = rng.random((T, N)) < 0.3, np.array([True, False, True])
    ended = np.concatenate([starts[1:], ends[None]])
    truncated = ended & (np.arange(T)[:, None] < 3)
    return Rollout(
        obs=drawn(T, N, 2),
        actions=np.zeros((T, N), np.int64),
        rewards=drawn(T, N),
        values=drawn(T, N, 2),
        neglogps=drawn(T, N),
        episode_start=starts,
        truncated=truncated,
        timeout_values=drawn(T, N, 2) * truncated[..., None],
        last_values=drawn(N, 2),
        last_episode_start=ends,
        next_obs=drawn(T, N, 2),
        end_values=drawn(T, N, 2) * ended[..., None],
    )


def streams(signal, reward_signal_num_update=None):
    given = {"extrinsic": {"strength": 2.0, "gamma": 0.9}, "rnd": {"strength": 0.25, "gamma": 0.5}}
    return ValueStreams(
        parse_signals(given), [signal], np.random.default_rng(0), lambda row: row, reward_signal_num_update
    )


def returns_of(rollout, gamma):
    return rollout.advantages(gamma, LAM) + rollout.values


@pytest.mark.parametrize("ends", [GO_ON, TIME_OUT])
def test_returns_of_each_signal(rollout, ends):
    signal = Paid(np.random.default_rng(1).normal(size=(T, N)).astype(np.float32), ends)
    before = rollout.rewards.copy(), rollout.episode_start.copy(), rollout.timeout_values.copy()
    found = streams(signal).estimates(rollout, returns_of)
    assert signal.log == ["take_in", "rewards"]
    values, last, starts = rollout.values, rollout.last_values, rollout.episode_start
    own = rollout.rewards + 0.9 * rollout.timeout_values[..., 0]
    extrinsic = gae(own, values[..., 0], starts, last[:, 0], rollout.last_episode_start, 0.9, LAM)
    own, begins, last_begins = signal.paid + 0.5 * rollout.end_values[..., 1], starts, rollout.last_episode_start
    if ends == GO_ON:
        own, begins, last_begins = signal.paid, np.zeros((T, N)), np.zeros(N)
    rnd = gae(own, values[..., 1], begins, last[:, 1], last_begins, 0.5, LAM)
    np.testing.assert_allclose(found["advantages"], 2.0 * extrinsic + 0.25 * rnd, rtol=1e-5, atol=1e-5)
    expected = np.stack([extrinsic, rnd], -1) + values
    np.testing.assert_allclose(found["returns"], expected, rtol=1e-5, atol=1e-5)
    for array, now in zip(before, (rollout.rewards, rollout.episode_start, rollout.timeout_values), strict=True):
        np.testing.assert_array_equal(array, now)


@pytest.mark.parametrize(("given", "steps"), [(None, 6), (1, 1), (4, 4), (20, 20)])
def test_steps_of_the_signals(rollout, given, steps):
    signal = Paid(np.ones((T, N), np.float32))
    own = streams(signal, given)
    own.estimates(rollout, returns_of)
    row = own.learn(parts=3, epochs=2)
    indices = signal.log[-1]
    assert indices.shape == (steps, T * N // 3)
    # Every minibatch of an epoch has other rows.
    assert np.unique(indices[:3]).size == indices[:3].size
    assert row["rnd/loss"] == 3.0 and row["rnd/reward"] == 1.0
    assert row["extrinsic/reward"] == pytest.approx(rollout.rewards.mean())
    assert row["extrinsic/value"] == pytest.approx(rollout.values[..., 0].mean())
    assert {"extrinsic/explained_variance", "rnd/explained_variance", "rnd/value"} < row.keys()
