"""ACER learns from traces that are too large for one batch in parts, with the step of the whole."""

import re
from pathlib import Path

import numpy as np
import pytest
from acer_small import MLP, SMALL, box, identity, train, weights
from gymnasium import spaces
from helpers import vec

from tfbaselines.algs import acer
from tfbaselines.algs.acer import traces
from tfbaselines.algs.acer.replay import TrajectoryRunner, part_of
from tfbaselines.algs.acer.traces import Parts, Trace, TraceReplay
from tfbaselines.envs import tiny
from tfbaselines.learn.engine import Engine


def traces_of(env, model, lengths, nsteps=40, seed=0):
    """Traces of a real rollout, of these lengths."""
    batch = TrajectoryRunner(env, model.policy, model.actor, nsteps, np.random.default_rng(seed)).run()
    rng = np.random.default_rng(seed)
    for i in range(len(batch["rewards"])):
        batch["rewards"][i] = rng.normal(size=nsteps)
    return [Trace([traces.between(part_of(batch, 0), 0, nsteps)], 3, length) for length in lengths]


def models(make_env, network, **kwargs):
    """Two alike, and their environments."""
    env = make_env()
    config = acer.Config(**{**SMALL, **kwargs, "network_kwargs": MLP if network == "mlp" else {"nlstm": 4}})
    one, other = (acer.Model(network, env, config) for _ in range(2))
    other.restore(one.state())
    # The average is elsewhere, so that the trust region matters.
    for model in (one, other):
        for number, variable in enumerate(model.averaged.policy.trainable_variables):
            variable.assign(
                variable.numpy() + 0.1 * np.sin(np.arange(variable.numpy().size) + number).reshape(variable.shape)
            )
    return env, one, other


@pytest.mark.parametrize(
    ("make_env", "network", "region"),
    [
        (identity, "mlp", True),
        (identity, "mlp", False),
        (identity, "mlp", "exact"),
        (identity, "lstm", True),
        (box, "mlp", True),
    ],
)
def test_parts_give_the_step_of_the_whole(make_env, network, region, eager, monkeypatch):
    env, one, other = models(make_env, network, trust_region=region, delta=0.01, lr=0.01)
    monkeypatch.setattr(one.policy.head, "draw_noise", lambda rng, shape: np.zeros((*shape, 2), np.float32))
    monkeypatch.setattr(other.policy.head, "draw_noise", lambda rng, shape: np.zeros((*shape, 2), np.float32))
    before = weights(one.policy)
    monkeypatch.undo() if make_env is identity else None
    drawn = traces_of(env, one, (3, 17, 30, 9, 5))
    replay = TraceReplay(env, 5, 5)
    monkeypatch.setattr(traces, "PART_BYTES", replay._nbytes(32))
    parts = Parts(replay._cut(drawn), replay._stacked)
    assert [len(part["rewards"]) for part in parts] == [1, 1, 1, 2]
    for _ in range(3):
        whole = one.train(0.01, replay._stacked(drawn))
        split = other.train(0.01, parts)
    assert np.abs(weights(one.policy) - before).max() > 1e-3
    np.testing.assert_allclose(weights(other.policy), weights(one.policy), atol=1e-5)
    for name in ("loss", "entropy", "loss_q", "loss_policy"):
        assert split[name] == pytest.approx(whole[name], abs=1e-4)
    np.testing.assert_allclose(weights(other.averaged.policy), weights(one.averaged.policy), atol=1e-5)


def test_only_large_batches_are_cut(monkeypatch):
    env = identity()
    model = acer.Model("mlp", env, acer.Config(**SMALL, network_kwargs=MLP))
    runner = TrajectoryRunner(env, model.policy, model.actor, 8, np.random.default_rng(0))
    replay = TraceReplay(env, 5, 6)
    for _ in range(6):
        replay.put(runner.run())
    draw = lambda: replay.sample(np.random.default_rng(1))
    whole = draw()
    assert whole["rewards"].shape == (6, 16)
    monkeypatch.setattr(traces, "PART_BYTES", replay._nbytes(16) * 4)
    parts = draw()
    assert [part["rewards"].shape for part in parts] == [(4, 16), (2, 16)]
    # Every pass gives the same, and together they are the whole.
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate([part["obs"] for part in parts]), whole["obs"])


def test_a_run_learns_in_parts_and_announces_their_size(eager, tmp_path, monkeypatch):
    monkeypatch.setattr(traces, "PART_BYTES", 40_000)
    model = train(tmp_path, identity(2), 8, buffer_len=4, batch_size=5, replay_start=0)
    assert np.isfinite(weights(model.policy)).all()
    text = (tmp_path / "log.txt").read_text()
    assert "a batch of 5 is 0.083 MiB, in parts of at most 0.038 MiB" in text


def test_a_trace_that_exceeds_the_memory_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("tfbaselines.files.available_memory", lambda: 100_000)
    with pytest.raises(ValueError, match=r"learning from a trace of 10 steps would take .*: lower trace_length"):
        train(tmp_path, identity(2), 8, buffer_len=4, batch_size=5, replay_start=0)


class Pictures(tiny.DiscreteIdentityEnv):
    """As large as Atari's stacked frames."""

    def __init__(self):
        super().__init__(4, episode_len=500)
        self.observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
        self.action_space = spaces.Discrete(4)

    def reset(self, **kwargs):
        super().reset(**kwargs)
        return np.zeros((84, 84, 4), np.uint8), {}

    def step(self, action):
        _, reward, terminated, truncated, info = super().step(action)
        return np.zeros((84, 84, 4), np.uint8), reward, terminated, truncated, info


@pytest.mark.slow
def test_whole_episodes_of_pictures_take_bounded_memory(tmp_path, monkeypatch):
    """16 episodes of 500 steps: 0.2 GiB of observations, some 3 GiB while a network learns from them at once."""
    # The highest memory of this process begins anew: tests before this one took some, too.
    Path("/proc/self/clear_refs").write_text("5")
    before, env, seen, in_parts = highest_memory(), vec(Pictures), [], Engine.in_parts
    monkeypatch.setattr(Engine, "in_parts", lambda *args, **kwargs: seen.append(in_parts(*args, **kwargs)) or seen[-1])
    train(tmp_path, env, 10, network="cnn", nsteps=50, buffer_len=2, batch_size=16, replay_start=500, replay_ratio=1)
    assert "a batch of 16 is 0.2 GiB, in parts of at most 64 MiB" in (tmp_path / "log.txt").read_text()
    assert seen and all(np.isfinite(statistics["loss"]) for statistics in seen)
    assert highest_memory() - before < 1.8e9


def highest_memory():
    """In bytes."""
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text()).group(1))
