"""Environments restored in the middle of an episode go on as if nothing had happened, bit for bit."""

import gymnasium
import numpy as np
import pytest
from small_runs import train

from tfbaselines.envs import tiny
from tfbaselines.envs.atari import FrameStack
from tfbaselines.envs.make import build_env, env_type_of, make_env
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.state import episode_state, restore_episode
from tfbaselines.envs.vec import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack, VecMonitor
from tfbaselines.envs.vec.packed import with_action_masks
from tfbaselines.training.checkpoint import load_tree, save_tree, saved_file

MUJOCO = (
    "HalfCheetah Ant Humanoid HumanoidStandup Hopper Walker2d Swimmer Reacher Pusher InvertedPendulum "
    "InvertedDoublePendulum"
)
CLASSIC = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1"]
TOYS = ["Blackjack-v1", "CliffWalkingSlippery-v1", "FrozenLake-v1", "Taxi-v4"]
FAILING = ("NaN", "Crashing")
TINY = [f"tfbaselines/{name}-v0" for name in tiny.ENVIRONMENTS if name not in FAILING]
ATARI = ["PongNoFrameskip-v4", "BreakoutNoFrameskip-v4"]
BEFORE, AFTER = 50, 100


def through_a_file(state, path):
    save_tree(path / "state", {"state": state})
    return load_tree(path / "state")["state"]


def without_times(infos):
    for info in infos:
        info.get("episode", {}).pop("t", None)
    return infos


def assert_goes_on(make, path, before=BEFORE, after=AFTER):
    """Environments that `make` makes from a seed: a fresh one that is restored does what the first one does."""
    env, again = make(1), make(2)
    env.reset()
    actions = [np.stack([env.action_space.sample() for _ in range(env.num_envs)]) for _ in range(before + after)]
    for action in actions[:before]:
        env.step(action)
    again.reset(), again.step(actions[0])
    again.restore(through_a_file(env.state(), path))
    assert again.restored
    ended = 0
    for action in actions[before:]:
        (obs, rewards, dones, infos), other = env.step(action), again.step(action)
        np.testing.assert_equal(other[0], obs)
        assert other[1].tolist() == rewards.tolist() and other[2].tolist() == dones.tolist()
        np.testing.assert_equal(without_times(other[3]), without_times(infos))
        ended += dones.sum()
    again.reset()
    assert not again.restored
    env.close(), again.close()
    return ended


def built(env_id, **config):
    return lambda seed: build_env({"env": env_id, "num_env": 2, "seed": seed, **config})


@pytest.mark.parametrize("env_id", [*CLASSIC, *TOYS, *TINY])
def test_small_environments_go_on(env_id, tmp_path):
    assert_goes_on(built(env_id), tmp_path)


def test_parts_that_are_not_flattened_go_on(tmp_path):
    assert_goes_on(built("Blackjack-v1", flatten=False), tmp_path)


@pytest.mark.parametrize("env_id", [f"{name}-v5" for name in MUJOCO.split()] + ["HalfCheetah-v4", "Humanoid-v4"])
def test_mujoco_goes_on_with_its_normalization(env_id, tmp_path):
    assert_goes_on(built(env_id), tmp_path, before=30, after=200)


@pytest.mark.parametrize("env_id", ["FetchReach-v4", "FetchPush-v4"])
def test_robots_go_on_to_their_goals(env_id, tmp_path):
    pytest.importorskip("gymnasium_robotics")
    assert assert_goes_on(built(env_id, flatten=False), tmp_path, before=20, after=80)


@pytest.mark.parametrize("worker", [None, "dummy"])
@pytest.mark.parametrize("env_id", ATARI)
def test_atari_goes_on_with_its_frames_lives_and_games(env_id, worker, tmp_path, monkeypatch):
    # So that new seeds are drawn, too.
    monkeypatch.setattr("tfbaselines.envs.vec.native_atari.STEPS_BETWEEN_SEEDS", 200)
    ended = assert_goes_on(built(env_id, worker=worker), tmp_path, before=350, after=450)
    assert ended or env_id.startswith("Pong")


@pytest.mark.parametrize("worker", ["subproc", "shmem"])
def test_workers_go_on(worker, tmp_path):
    assert assert_goes_on(built("CartPole-v1", worker=worker), tmp_path)


@pytest.mark.parametrize("kind", [DummyVecEnv, SubprocVecEnv])
def test_a_time_limit_and_the_monitors_go_on(kind, tmp_path):
    def make(seed):
        env = kind([lambda i=i: make_env("Pendulum-v1", "classic_control", 0, i, seed) for i in range(2)])
        env.limit_episodes(37)
        return VecMonitor(VecFrameStack(env, 3))

    assert assert_goes_on(make, tmp_path)


@pytest.mark.parametrize("most", [None, 7.0])
def test_the_running_episode_is_accounted_for_whole(most, tmp_path):
    def make(seed):
        env = DummyVecEnv([lambda: Monitor(tiny.ConstantRewardEnv(), None, allow_early_resets=True)])
        env.limit_episodes(None, most)
        return env

    env, again = make(0), make(0)
    env.reset()
    for _ in range(4):
        env.step([0])
    again.restore(through_a_file(env.state(), tmp_path))
    for _ in range(6 if most is None else 3):
        infos = again.step([0])[-1]
    assert infos[0]["episode"]["r"] == infos[0]["episode"]["l"] == (most or 10)


def test_stacked_lazy_frames_go_on(tmp_path):
    def make(seed):
        return DummyVecEnv([lambda: FrameStack(tiny.ImageClassificationEnv(episode_len=200), 4)])

    assert_goes_on(make, tmp_path)


class Masked(tiny.DiscreteIdentityEnv):
    """Only the action that is wanted is allowed."""

    def reset(self, **kwargs):
        obs, _ = super().reset(**kwargs)
        return obs, {"action_mask": np.eye(10, dtype=np.int8)[obs]}

    def step(self, action):
        obs, *rest = super().step(action)
        return obs, *rest[:3], {"action_mask": np.eye(10, dtype=np.int8)[obs]}

    def get_state(self):
        return {"wanted": self._wanted, "time": np.array([self._time])}

    def set_state(self, state):
        self._wanted, self._time = state["wanted"], int(state["time"][0])


def test_an_environment_of_the_users_own_takes_part_by_two_methods(tmp_path):
    assert_goes_on(lambda seed: with_action_masks(DummyVecEnv([Masked] * 2)), tmp_path)


class Unknown(tiny.DiscreteIdentityEnv):
    """Of no module that is known, without methods."""


class Remembering(gymnasium.Wrapper):
    """A wrapper that nobody knows."""


class Unsavable(Masked):
    """What it gives cannot be saved."""

    def get_state(self):
        return {"all": object()}


class Playing(Masked):
    """Its get_state is for something else."""

    def get_state(self, player):
        return {"of": player}


class Raising(Masked):
    def get_state(self):
        raise AttributeError(f"nothing here at {self._time}")


class Foreign(Unknown):
    """Draws from a generator of its own, of the given class of numpy, behind `np_random`, as dm_control's do."""

    def __init__(self, kind):
        self._drawing = np.random.RandomState() if kind == "RandomState" else np.random.default_rng()
        super().__init__()

    @property
    def np_random(self):
        return self._drawing

    def _draw(self):
        return int(self._drawing.uniform() * 1e6) % 10


@pytest.mark.parametrize(
    "make",
    [
        *(Unknown, Unsavable, Playing, Raising),
        lambda: Remembering(tiny.DiscreteIdentityEnv()),
        lambda: Foreign("RandomState"),
        lambda: Foreign("Generator"),
    ],
)
def test_where_the_state_cannot_be_taken_the_random_generators_are_restored_all_the_same(make, tmp_path):
    env, again = DummyVecEnv([make]), DummyVecEnv([make])
    env.reset(), again.reset()
    state = through_a_file(env.state(), tmp_path)
    assert state["episodes"] == [None]
    again.restore(state)
    assert not again.restored and again.reset().tolist() == env.reset().tolist()


class FailingOnce(Raising):
    """Of a name of its own: what failed before is not told again."""


class Refusing(Masked):
    def set_state(self, state):
        raise LookupError("no such\nstate")


def test_methods_that_fail_are_told_once(capsys):
    env = DummyVecEnv([FailingOnce] * 2)
    env.reset()
    for _ in range(3):
        env.step([0, 0])
        assert env.state()["episodes"] == [None, None]
    assert capsys.readouterr().err == (
        "tfbaselines: warning: get_state() of FailingOnce failed (AttributeError: nothing here at 1): a resumed run "
        "begins another episode\n"
    )
    env = DummyVecEnv([Refusing] * 2)
    env.reset()
    for _ in range(2):
        env.restore(env.state())
        assert not env.restored
    assert capsys.readouterr().err == (
        "tfbaselines: warning: set_state() of Refusing failed (LookupError: no such state): a resumed run begins "
        "another episode\n"
    )


class Failing(tiny.DiscreteIdentityEnv):
    def get_state(self):
        raise RuntimeError("not now")

    def set_state(self, state):
        raise RuntimeError("not now")


def test_a_run_is_saved_whose_environment_cannot_be(tmp_path):
    train(tmp_path / "log", "qlearning", DummyVecEnv([Failing]), 4)
    assert load_tree(saved_file(tmp_path / "log"))


def test_the_state_of_another_environment_or_a_damaged_one_is_not_taken():
    cart_pole = gymnasium.make("CartPole-v1")
    cart_pole.reset()
    state = episode_state(cart_pole)
    assert restore_episode(cart_pole, state)
    for wrong in (
        {},
        {"layers": None},
        {"layers": [["CartPoleEnv", {}]]},
        episode_state(gymnasium.make("Pendulum-v1")),
    ):
        assert not restore_episode(cart_pole, wrong)
    monitor = Monitor(cart_pole, None, allow_early_resets=True)
    monitor.reset()
    monitor.step(0)
    for flag in (-1, 10**30, "x", True):
        state = episode_state(monitor)
        assert restore_episode(monitor, state)
        state["layers"][0][1]["_needs_reset"] = flag
        assert not restore_episode(monitor, state), flag
        monitor.step(0)
    ant = gymnasium.make("Ant-v5")
    ant.reset()
    state = episode_state(ant)
    state["layers"][-1][1]["integration"] = np.zeros(3)
    assert not restore_episode(ant, state)
    pong = gymnasium.make("PongNoFrameskip-v4")
    pong.reset()
    state = episode_state(pong)
    assert restore_episode(pong, state)
    state["layers"][-1][1]["ale"][50] ^= 1
    assert not restore_episode(pong, state)


def test_older_states_and_those_of_other_numbers_of_environments_begin_anew():
    env, more = build_env({"env": "CartPole-v1", "seed": 0}), build_env({"env": "CartPole-v1", "seed": 0, "num_env": 2})
    env.reset()
    for state in ({}, {"random": env.state()["random"]}, env.state()):
        more.restore(state)
        assert not more.restored
    more.reset()
    assert env_type_of("CartPole-v1")[0] == "classic_control" and isinstance(more, VecEnv)
