"""New goals are achieved later in the same episode, as a plain list of episodes shows."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.replay.hindsight import HindsightReplay

BOX = spaces.Box(-np.inf, np.inf, (1,), np.float64)
SPACE = spaces.Dict(observation=BOX, achieved_goal=BOX, desired_goal=BOX)


def reward(achieved, desired, info):
    """Tells both arguments; asserts that whole batches come in."""
    assert achieved.shape == desired.shape == (len(achieved), 1) and info == {}
    return achieved[:, 0] + desired[:, 0] / 1e4


def make(count=2, size=60, replay_k=4, **kwargs):
    env = SimpleNamespace(num_envs=count, observation_space=SPACE, action_space=BOX)
    return HindsightReplay(env, size, 0.9, compute_reward=reward, replay_k=replay_k, **kwargs)


def shown(number, goal):
    return {"observation": [number + 0.25], "achieved_goal": [number], "desired_goal": [goal]}


def stacked(observations):
    return {name: np.array([one[name] for one in observations]) for name in SPACE}


class Diary:
    """Environments whose achieved goals are all different, and the goals achieved in each episode."""

    def __init__(self, replay, lengths, truncated=True):
        self.replay, self.lengths, self.truncated = replay, lengths, truncated
        self.numbers = [1000 * i for i in range(replay.num_envs)]
        self.episodes = [[[number]] for number in self.numbers]

    def run(self, steps):
        for _ in range(steps):
            before, after, infos, dones = [], [], [], []
            for i, episodes in enumerate(self.episodes):
                before.append(shown(self.numbers[i], -i))
                self.numbers[i] += 1
                episodes[-1].append(self.numbers[i])
                last = shown(self.numbers[i], -i)
                dones.append(len(episodes[-1]) > self.lengths[(len(episodes) - 1) % len(self.lengths)])
                infos.append({"TimeLimit.truncated": self.truncated, "final_observation": last} if dones[i] else {})
                if dones[i]:
                    self.numbers[i] += 1
                    episodes.append([self.numbers[i]])
                after.append(shown(self.numbers[i], -i))
            rewards = np.full(len(before), -7.0)
            self.replay.put(stacked(before), np.zeros((2, 1)), rewards, stacked(after), np.array(dones), infos)

    def later(self, number):
        """Goals achieved after the step from one, in its episode."""
        episodes = [episode for one in self.episodes for episode in one]
        episode = next(episode for episode in episodes if number in episode[:-1])
        return episode[episode.index(number) + 1 :]


def rows_of(batch):
    names = ("achieved_goal", "desired_goal")
    columns = [batch["obs"][name].ravel() for name in names] + [batch["next_obs"]["desired_goal"].ravel()]
    return zip(*(column.tolist() for column in columns), batch["rewards"].ravel().tolist(), strict=True)


@pytest.mark.parametrize("truncated", [True, False])
@pytest.mark.parametrize("steps", [9, 23, 90])
def test_new_goals_are_achieved_later_in_the_episode(steps, truncated):
    replay = make()
    diary = Diary(replay, (4, 7, 1), truncated)
    diary.run(steps)
    batch = replay.sample(np.random.default_rng(0), 10, 400)
    assert batch["rewards"].shape == (10, 400) and batch["obs"]["observation"].shape == (10, 400, 1)
    found = {}
    for number, goal, next_goal, paid in rows_of(batch):
        assert goal == next_goal
        if goal <= 0 and goal != number + 1:
            assert paid == -7
            continue
        after = diary.later(number)
        assert goal in after and paid == pytest.approx(after[0] + goal / 1e4)
        found.setdefault(number, set()).add(goal)
    assert len(found) == len(replay)
    # Each of them comes up.
    assert all(goals == set(diary.later(number)) for number, goals in found.items())


def test_rewards_for_new_goals_are_clipped_as_stored_ones_are():
    plain, clipped = make(), make(reward_clip=5.5)
    for replay in (plain, clipped):
        Diary(replay, (4, 7, 1)).run(30)
    paid, bounded = (one.sample(np.random.default_rng(0), 1, 400)["rewards"] for one in (plain, clipped))
    np.testing.assert_array_equal(bounded, np.clip(paid, -5.5, 5.5))
    assert (paid == -7).any() and paid.max() > 1000


def test_what_follows_an_end_has_the_new_goal_too():
    replay = make(keep_ends=True)
    Diary(replay, (4, 7, 1), truncated=False).run(30)
    batch = replay.sample(np.random.default_rng(0), 1, 400)
    new = batch["rewards"] != -7
    goals, achieved = batch["obs"]["desired_goal"], batch["next_obs"]["achieved_goal"]
    np.testing.assert_array_equal(batch["following"]["desired_goal"][new], goals[new])
    # The first observation of the next episode, or what the step achieved.
    begins = batch["following"]["achieved_goal"] - achieved
    assert set(begins.ravel()) == {0, 1} and new.any()


@pytest.mark.parametrize("replay_k", [0, 1, 4])
def test_so_many_rows_have_a_new_goal(replay_k):
    replay = make(replay_k=replay_k)
    Diary(replay, (5,)).run(30)
    rewards = replay.sample(np.random.default_rng(0), 1, 6000)["rewards"]
    assert np.mean(rewards != -7) == pytest.approx(replay_k / (1 + replay_k), abs=0.02)


def test_an_episode_longer_than_the_replay():
    replay = make(size=10)
    diary = Diary(replay, (17,))
    for steps in (12, 5, 3, 13):
        diary.run(steps)
        for number, goal, _, paid in rows_of(replay.sample(np.random.default_rng(0), 1, 300)):
            assert paid == -7 or goal in diary.later(number)


@pytest.mark.parametrize("size", [60, 14])
def test_after_loading_goals_are_of_the_episodes_that_were_saved(size, tmp_path):
    replay, other = make(), make(size=size)
    diary = Diary(replay, (4, 7, 1))
    diary.run(23)
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay")
    new = Diary(other, (3,))
    new.numbers = [500, 1500]
    new.episodes = [[[500]], [[1500]]]
    new.run(5)
    old, fresh = 0, 0
    for number, goal, _, paid in rows_of(other.sample(np.random.default_rng(0), 1, 1000)):
        if paid != -7:
            source = new if number % 1000 >= 500 else diary
            assert goal in source.later(number)
            old, fresh = old + (source is diary), fresh + (source is new)
    assert old > 50 and fresh > 50


def test_episodes_that_go_on_after_loading(tmp_path):
    """Goals of an open episode may come from both sides of the stop, and of no other episode."""
    replay, other = make(), make()
    diary = Diary(replay, (4, 30))
    diary.run(12)
    replay.save(tmp_path / "replay")
    other.load(tmp_path / "replay", episodes_continue=True)
    diary.replay = other
    diary.run(9)
    across = 0
    for number, goal, _, paid in rows_of(other.sample(np.random.default_rng(0), 1, 2000)):
        if paid != -7:
            assert goal in diary.later(number)
            across += number % 1000 < 12 <= goal % 1000
    assert across > 50


def test_the_latest_transitions():
    replay = make(replay_k=1)
    diary = Diary(replay, (5,))
    diary.run(20)
    batch = replay.sample_latest(np.random.default_rng(0), 6)
    numbers = batch["obs"]["achieved_goal"].ravel() % 1000
    assert len(numbers) == 12 and numbers.min() >= min(one % 1000 for one in diary.numbers) - 8
    assert 0 < np.mean(batch["rewards"] != -7) < 1
    # No more than there are.
    assert len(make_one_step().sample_latest(np.random.default_rng(0), 6)["rewards"]) == 12


def make_one_step():
    replay = make()
    Diary(replay, (5,)).run(1)
    return replay
