"""A run whose replay is handed in: importance weights and row numbers reach learning, and errors become priorities."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import vec

from tfbaselines.algs import td3
from tfbaselines.algs.deepq.prioritized import PrioritizedReplay
from tfbaselines.envs import tiny
from tfbaselines.learn.optimizers import with_targets
from tfbaselines.replay import Replay
from tfbaselines.training.off_policy import Course, OffPolicyModel, OffPolicyRun

ALPHA, EPSILON, BATCH = 0.6, 1e-3, 8


class Learning:
    """A few cycles of TD3; what each block had, and what learning from it returned."""

    def __init__(self, make_replay, lr=1e-3, cycles=3, **arguments):
        env = vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=7), 2)
        own = {"total_timesteps": 20 * cycles, "replay_size": 100, "batch_size": BATCH, "start_steps": 20, "seed": 0}
        own |= {"update_after": 20, "update_every": 20, "num_update": 4, "num_test_episodes": 0, "hidden_sizes": [4]}
        config = td3.Config.of(own | {"q_lr": lr, "pi_lr": lr, "policy_delay": 1} | arguments)
        self.replay, self.blocks, self.statistics, self.priorities = make_replay(env), [], [], []
        with OffPolicyRun(td3.ALGORITHM, env, config, Course.of(config, env.num_envs)) as run:
            policy, averaged = with_targets(lambda: td3.make_policy("dense", env, config), config.polyak)
            # One that is far from its targets, so that errors differ.
            for variable in policy.critic_variables:
                variable.assign(variable + 1.0)
            update = td3.make_update(policy, averaged, config)
            self.model = OffPolicyModel(policy, averaged, update, replay=self.replay)

            def explore(obs, states, episode_start):
                return self.model.actor.choose(obs, states, episode_start, None)

            for steps in run.cycles(self.model, explore, dict):
                for block in run.blocks(steps):
                    block["noise"] = np.zeros((*block["rewards"].shape, policy.head.width), np.float32)
                    self.blocks.append(dict(block))
                    self.statistics.append(run.train(block))
                    if isinstance(self.replay, PrioritizedReplay):
                        self.priorities.append(self.replay._arrays["priorities"].copy())


def prioritised(env):
    return PrioritizedReplay(env, 100, 0.99, alpha=ALPHA, epsilon=EPSILON)


def test_new_errors_become_the_priorities_of_their_rows(monkeypatch):
    reported = []
    own = PrioritizedReplay.update_priorities

    def reporting(replay, rows, errors):
        reported.append((rows, errors))
        own(replay, rows, errors)

    monkeypatch.setattr(PrioritizedReplay, "update_priorities", reporting)
    learning = Learning(prioritised)
    assert len(reported) == len(learning.blocks) == 3
    for block, (rows, errors), statistics, priorities in zip(
        learning.blocks, reported, learning.statistics, learning.priorities, strict=True
    ):
        np.testing.assert_array_equal(rows, block["rows"])
        assert errors.shape == rows.shape == block["weights"].shape == (4, BATCH)
        assert "td_errors" not in statistics and errors.std() > 0
        # Of a row that was drawn twice, the last error counts.
        latest = dict(zip(rows.ravel().tolist(), errors.ravel().tolist(), strict=True))
        for row, error in latest.items():
            step, env = divmod(row, 2)
            assert priorities[step % len(priorities), env] == pytest.approx((error + EPSILON) ** ALPHA, rel=1e-4)


def test_errors_are_the_first_critics_distances_from_its_targets(monkeypatch):
    reported = []
    monkeypatch.setattr(PrioritizedReplay, "update_priorities", lambda _, rows, errors: reported.append(errors))
    learning = Learning(prioritised, lr=0.0, polyak=1.0, cycles=1)
    model, (block,), (errors,) = learning.model, learning.blocks, reported
    for k in range(4):
        batch = {name: tf.constant(array[k]) for name, array in block.items() if name != "rows"}
        prepared = model.update.prepared(batch)
        q1, _ = model.policy.q(prepared["now"], prepared["actions"])
        np.testing.assert_allclose(errors[k], np.abs(q1 - prepared["targets"]), rtol=1e-4, atol=1e-5)


def test_importance_weights_reach_the_critics_loss(monkeypatch):
    """With all weights halved it is half as large."""
    whole = Learning(prioritised, lr=0.0, cycles=1).statistics[0]["LossQ"]
    own = PrioritizedReplay.sample

    def halved(replay, *arguments):
        batch = own(replay, *arguments)
        return batch | {"weights": batch["weights"] / 2}

    monkeypatch.setattr(PrioritizedReplay, "sample", halved)
    np.testing.assert_allclose(Learning(prioritised, lr=0.0, cycles=1).statistics[0]["LossQ"], whole / 2, rtol=1e-5)


def test_rows_with_large_errors_are_drawn_more_often():
    """In the first cycle all are as likely; in later ones the frequencies are those of the priorities."""
    learning = Learning(prioritised, cycles=2)
    priorities = learning.priorities[-1]
    drawn = learning.replay.sample(np.random.default_rng(0), 500, BATCH)["rows"].ravel()
    counts = np.bincount(drawn, minlength=40)[:40]
    expected = priorities[:20].ravel() / priorities[:20].sum() * len(drawn)
    assert np.ptp(expected) > 20
    assert np.abs(counts - expected).max() < 6 * np.sqrt(expected.max())


def test_uniform_replays_report_no_errors(monkeypatch):
    monkeypatch.setattr(Replay, "update_priorities", pytest.fail, raising=False)
    learning = Learning(lambda env: Replay(env, 100))
    assert len(learning.statistics) == 3
    for block, statistics in zip(learning.blocks, learning.statistics, strict=True):
        assert "weights" not in block and "td_errors" not in statistics
        assert statistics["LossQ"].shape == (4,)


def test_the_replay_of_the_run_and_of_its_model_is_the_one_handed_in():
    learning = Learning(prioritised)
    assert learning.model.replay is learning.replay and len(learning.replay) == 60
