"""What every kind of vector environment does alike."""

import pickle
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import Transparent

from tfbaselines.envs import tiny
from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.envs.bare import making
from tfbaselines.envs.monitor import Monitor
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.tiny import ConstantRewardEnv, NaNEnv
from tfbaselines.envs.vec import (
    CloudpickleWrapper,
    DummyVecEnv,
    ShmemVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecEnvObservationWrapper,
    VecFrameStack,
    VecMonitor,
)
from tfbaselines.envs.vec.native_atari import NativeAtariVecEnv
from tfbaselines.envs.wrappers import RewardScaler
from tfbaselines.errors import NotFiniteError

# Workers get the environments of this module without importing it, and TensorFlow with it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

KINDS = [DummyVecEnv, SubprocVecEnv, ShmemVecEnv]


def counting(length, terminates, first=0):
    """A function that makes environments that show the time, counted from `first`, and pay it."""

    def make():
        class Counting(ConstantRewardEnv):
            def __init__(self):
                super().__init__(length)
                self._timeout, self.render_mode = not terminates, "rgb_array"
                self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
                self._shown = np.zeros(2, np.float32)

            def reset(self, **kwargs):
                return super().reset(**kwargs)[0], {"begins": first}

            def _begin(self):
                # The same array each time: whoever keeps an observation must copy it.
                self._shown[:] = first
                return self._shown

            def _react(self, action):
                self._shown += 1
                return self._shown, self._shown[0]

            def render(self):
                return np.full((4, 6, 3), self._shown[0], np.uint8)

        return Counting()

    return make


def cart_pole(seed):
    def make():
        env = gymnasium.make("CartPole-v1", max_episode_steps=15)
        env.reset(seed=seed)
        env.action_space.seed(seed)
        return env

    return make


def parts():
    """An environment that shows several things at once."""

    class Parts(ConstantRewardEnv):
        def __init__(self):
            super().__init__(3)
            picture = spaces.Box(0, 255, (2, 2, 1), np.uint8)
            self.observation_space = spaces.Dict(picture=picture, number=spaces.Discrete(9))

        def _begin(self):
            return {"picture": np.full((2, 2, 1), self._time, np.uint8), "number": self._time}

        def _react(self, action):
            return {"picture": np.full((2, 2, 1), self._time + 1, np.uint8), "number": self._time + 1}, 1.0

    return Parts()


def play(env, steps, seed=0):
    """Everything that resets and steps with seeded actions give."""
    rng = np.random.default_rng(seed)
    return [env.reset(), *(env.step(rng.integers(2, size=env.num_envs)) for _ in range(steps))]


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_begins_in_the_step_in_which_the_last_one_ends(kind):
    env = kind([counting(2, True), counting(3, False, first=10)])
    first, second = env.reset(), env.step(np.zeros(2, np.int64))
    assert first.dtype == np.float32 and first.tolist() == [[0, 0], [10, 10]]
    obs, rewards, dones, infos = second
    assert obs.tolist() == [[1, 1], [11, 11]] and rewards.tolist() == [1, 11] and infos == [{}, {}]
    assert rewards.dtype == np.float32 and dones.dtype == bool and not dones.any()
    obs, rewards, dones, infos = env.step(np.zeros(2, np.int64))
    assert obs.tolist() == [[0, 0], [12, 12]] and rewards.tolist() == [2, 12] and dones.tolist() == [True, False]
    ended = {"final_observation": np.full(2, 2.0), "TimeLimit.truncated": False, "reset_info": {"begins": 0}}
    np.testing.assert_equal(infos, [ended, {}])
    obs, rewards, dones, infos = env.step(np.zeros(2, np.int64))
    assert obs.tolist() == [[1, 1], [10, 10]] and rewards.tolist() == [1, 13] and dones.tolist() == [False, True]
    ended = {"final_observation": np.full(2, 13.0), "TimeLimit.truncated": True, "reset_info": {"begins": 10}}
    np.testing.assert_equal(infos, [{}, ended])
    assert first.tolist() == [[0, 0], [10, 10]] and second[0].tolist() == [[1, 1], [11, 11]]
    assert second[1].tolist() == [1, 11] and second[2].tolist() == [False, False]
    assert env.reset().tolist() == [[0, 0], [10, 10]]
    env.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_infos_of_a_reset_are_kept(kind):
    env = kind([counting(2, True), counting(3, False, first=10)])
    assert env.reset_infos == [{}, {}]
    env.reset()
    assert env.reset_infos == Transparent(env).reset_infos == [{"begins": 0}, {"begins": 10}]
    env.close()


@pytest.mark.parametrize("series", [1, 2, 4])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_all_kinds_give_the_same(kind, series):
    makers = [cart_pole(seed) for seed in range(4)]
    env = kind(makers, in_series=series)
    given = play(env, 40)
    env.close()
    np.testing.assert_equal(given, play(DummyVecEnv(makers), 40))
    assert sum(dones.sum() for _, _, dones, _ in given[1:]) > 4


def monitored(length, terminates):
    """The same behind a Monitor, with something around it."""
    return lambda: RewardScaler(Monitor(counting(length, terminates)(), None, allow_early_resets=True), 10.0)


@pytest.mark.parametrize("kind", KINDS)
def test_episodes_are_cut_below_the_monitor_which_tells_of_it(kind):
    env = Transparent(kind([monitored(9, True), monitored(2, True), monitored(3, True)]))
    env.limit_episodes(3)
    env.reset()
    ended = [step for _, *step in (env.step(np.zeros(3, np.int64)) for _ in range(6))]
    assert [dones.tolist() for _, dones, _ in ended] == [[(t + 1) % n == 0 for n in (3, 2, 3)] for t in range(6)]
    for t in (2, 5):
        rewards, _, infos = ended[t]
        assert infos[0]["final_observation"].tolist() == [3, 3] and rewards[0] == 30
        assert infos[0]["episode"]["l"] == 3 and infos[0]["episode"]["r"] == 1 + 2 + 3
        # What ends by itself in that very step is not cut.
        assert [infos[i]["TimeLimit.truncated"] for i in (0, 2)] == [True, False]
    assert ended[1][2][1]["TimeLimit.truncated"] is False and ended[1][2][1]["episode"]["l"] == 2
    env.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("steps", "cut"), [(20, 15), (10, 10)])
def test_a_shorter_limit_that_is_there_already_stays(kind, steps, cut):
    env = kind([cart_pole(0)])
    env.limit_episodes(steps)
    env.reset()
    ends = [env.step([t % 2])[2:] for t in range(cut)]
    env.close()
    assert [bool(dones[0]) for dones, _ in ends] == [False] * (cut - 1) + [True]
    assert ends[-1][1][0]["TimeLimit.truncated"]


@pytest.mark.parametrize("kind", KINDS[:2])
def test_an_episode_is_cut_when_its_return_reaches_a_limit(kind):
    env = Transparent(kind([monitored(9, True), monitored(2, True), monitored(3, True)]))
    env.limit_episodes(None, 6.0)
    env.reset()
    ended = [step for _, *step in (env.step(np.zeros(3, np.int64)) for _ in range(3))]
    env.close()
    # The environments pay 1, 2, 3, ...: before the factor of the outer wrapper.
    assert [dones.tolist() for _, dones, _ in ended] == [[False] * 3, [False, True, False], [True, False, True]]
    infos = ended[-1][2]
    assert [infos[i]["episode"]["r"] for i in (0, 2)] == [6.0, 6.0]
    assert [infos[i]["TimeLimit.truncated"] for i in (0, 2)] == [True, False]


def test_what_cannot_cut_episodes_says_so():
    env = as_vec_env(gymnasium.make_vec("CartPole-v1", 1))
    with pytest.raises(ValueError, match="max_ep_len=5: GymnasiumVecEnv cannot cut episodes, give None"):
        Transparent(env).limit_episodes(5)
    with pytest.raises(ValueError, match=r"max_ep_reward=2\.0: GymnasiumVecEnv cannot cut episodes, give None"):
        Transparent(env).limit_episodes(None, 2.0)
    env.close()


@pytest.mark.parametrize("kind", KINDS)
def test_several_parts_are_shown_as_a_dictionary(kind):
    env = kind([parts] * 2)
    _, *steps = play(env, 3)
    obs, _, dones, infos = steps[1]
    assert obs["picture"].shape == (2, 2, 2, 1) and obs["picture"].dtype == np.uint8 and (obs["picture"] == 2).all()
    assert obs["number"].tolist() == [2, 2] and obs["number"].dtype == np.int64 and not dones.any()
    obs, _, dones, infos = steps[2]
    assert obs["number"].tolist() == [0, 0] and dones.all() and infos[1]["final_observation"]["number"] == 3
    env.close()


@pytest.mark.parametrize("kind", KINDS)
def test_random_streams_are_saved_and_restored(kind):
    env = kind([cart_pole(seed) for seed in range(2)])
    play(env, 20)
    state = env.state()
    expected = play(env, 20)
    env.close()
    again = kind([cart_pole(seed) for seed in (7, 8)])
    again.restore(pickle.loads(pickle.dumps(state)))
    np.testing.assert_equal(play(again, 20), expected)
    again.restore({})
    again.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_environment_that_shows_nan_is_named(kind):
    nan_later = lambda: NaNEnv(after=2)
    env = kind([ConstantRewardEnv, nan_later])
    env.reset()
    env.step(np.zeros(2, np.int64))
    with pytest.raises(NotFiniteError, match=r"^environment 1 \(NaNEnv\): observation at step 2 is not a finite"):
        env.step(np.zeros(2, np.int64))
    env.close()


@pytest.mark.parametrize("kind", [*KINDS, NativeAtariVecEnv])
def test_a_wrong_number_of_actions_is_refused_and_nothing_is_lost(kind):
    env = kind("pong", 2) if kind is NativeAtariVecEnv else kind([ConstantRewardEnv] * 2)
    env.reset()
    for count in (1, 3):
        with pytest.raises(ValueError, match=f"actions for {count} environments were given, there are 2"):
            env.step(np.zeros(count, np.int64))
    assert env.step(np.zeros(2, np.int64))[1].shape == (2,)
    env.close()


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_tiled(kind):
    env = kind([counting(9, True, first) for first in (10, 20)])
    env.reset()
    assert [picture[0, 0, 0] for picture in env.get_images()] == [10, 20]
    picture = Transparent(env).render(mode="rgb_array")
    assert picture.shape == (8, 6, 3) and (picture[:4] == 10).all() and (picture[4:] == 20).all()
    with pytest.raises(ValueError, match="mode='ansi' is not valid"):
        env.render(mode="ansi")
    env.close()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_environments_without_pictures_say_how_to_get_them():
    with pytest.raises(ValueError, match=r"no pictures of .*CartPole.*'render_mode': 'rgb_array'"):
        DummyVecEnv([cart_pole(0)]).render(mode="rgb_array")


def test_environments_that_cannot_give_pictures_say_so():
    class Blind(tiny.DiscreteIdentityEnv):
        def render(self):
            return None

    def blind():
        env = Blind(2)
        env.render_mode = "rgb_array"
        return env

    with pytest.raises(ValueError, match=r"no pictures of .*: its render\(\) returns NoneType, not an array"):
        DummyVecEnv([blind]).render(mode="rgb_array")
    words = "no pictures of Plain-v0: it takes no render_mode"
    with pytest.raises(ValueError, match=words), making("Plain-v0", "own", {"render_mode": "rgb_array"}):
        tiny.DiscreteIdentityEnv(2, render_mode="rgb_array")


def test_a_wrapper_passes_on_what_it_does_not_change():
    inner = DummyVecEnv([cart_pole(0)])
    inner.normalization = lambda: {"some": 1}
    env = Transparent(Transparent(inner))
    assert env.unwrapped is inner and env.envs is inner.envs and env.num_envs == 1
    assert env.action_space is inner.action_space and env.observation_space is inner.observation_space
    assert env.normalization() == {"some": 1} and str(env.state()) == str(inner.state())
    inner.restored = True
    assert env.restored
    for name in ("_buffer", "no_such_thing"):
        with pytest.raises(AttributeError, match=name):
            getattr(env, name)


def test_a_wrapper_closes_the_inside_once():
    closed = []
    inner = DummyVecEnv([ConstantRewardEnv])
    inner.close_extras = lambda: closed.append(1)
    env = Transparent(inner)
    env.close(), env.close()
    assert closed == [1] and env.closed and inner.closed


class Negative(VecEnvObservationWrapper):
    def process(self, obs):
        return -obs


def test_an_observation_wrapper_changes_the_real_last_one_too():
    env = Negative(DummyVecEnv([counting(2, True, first=1)] * 2))
    assert env.reset().tolist() == [[-1, -1]] * 2
    env.step(np.zeros(2, np.int64))
    obs, _, _, infos = env.step(np.zeros(2, np.int64))
    assert obs.tolist() == [[-1, -1]] * 2 and infos[1]["final_observation"].tolist() == [-3, -3]


class Plain(VecEnv):
    """Two environments as a script for the originals writes them: infos have no last observations."""

    def __init__(self, cut=False):
        super().__init__(2, spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(2))
        self._time, self._info = 0, {"TimeLimit.truncated": True} if cut else {}

    def reset(self):
        return np.zeros((2, 1), np.float32)

    def step_async(self, actions):
        self._time += 1

    def step_wait(self):
        over = self._time % 3 == 0
        infos = [dict(self._info) if over else {} for _ in range(2)]
        return np.full((2, 1), self._time % 3, np.float32), np.ones(2), np.full(2, over), infos


@pytest.mark.parametrize("wrap", [VecNormalize, lambda env: VecFrameStack(env, 2), Negative, VecMonitor])
def test_infos_may_lack_the_last_observation(wrap):
    env = wrap(Plain())
    env.reset()
    dones = [env.step([0, 0])[2].tolist() for _ in range(6)]
    assert dones == [[False] * 2, [False] * 2, [True] * 2] * 2


def test_a_time_limit_without_the_last_observation_is_one_line(eager):
    # Here, as every worker of other tests imports this module.
    from tfbaselines.algs import a2c, deepq

    for algorithm, arguments in ((a2c, {}), (deepq, {"learning_starts": 10})):
        algorithm.learn("mlp", Plain(), total_timesteps=20, **arguments)
        with pytest.raises(ValueError, match="the infos of a step that ends an episode have no 'final_observation'"):
            algorithm.learn("mlp", Plain(cut=True), total_timesteps=20, **arguments)


def test_closures_are_pickled():
    number = 3
    copy = pickle.loads(pickle.dumps(CloudpickleWrapper(lambda x: x + number)))
    assert copy.x(4) == 7
