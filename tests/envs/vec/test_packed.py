"""Observations of several parts as rows of bytes, and back; Tuple and nested observations by names."""

import copy
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import Transparent

from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.envs.tiny import BoxIdentityEnv, ConstantRewardEnv
from tfbaselines.envs.vec import DummyVecEnv, SubprocVecEnv
from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.envs.vec.packed import (
    MASK,
    PackedSpace,
    VecActionMask,
    opened,
    with_action_masks,
    with_packed_observations,
)

# Workers get the environments of this module without importing it, and TensorFlow with it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

PARTS = spaces.Dict(
    image=spaces.Box(0, 255, (3, 2, 1), np.uint8),
    vector=spaces.Box(-9.0, 9.0, (2, 2), np.float64),
    one=spaces.Discrete(4, start=-1),
    several=spaces.MultiDiscrete([3, 2]),
    bits=spaces.MultiBinary(3),
)


class Several(gymnasium.Env):
    """Random observations of a space; an episode has two steps."""

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, space):
        self.observation_space = copy.deepcopy(space)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(7 if seed is None else seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.time += 1
        return self.observation_space.sample(), 1.0, self.time == 2, False, {}


def batch(count=5):
    PARTS.seed(3)
    rows = [PARTS.sample() for _ in range(count)]
    return {name: np.stack([row[name] for row in rows]) for name in PARTS.spaces}


def test_parts_come_out_as_they_went_in():
    # Here, as the workers of another test import this module.
    import tensorflow as tf

    from tfbaselines.policy.encoding import describe_space, encode

    space, obs = PackedSpace(PARTS), batch()
    rows = space.pack(obs)
    assert rows.shape == (5, 6 + 16 + 4 + 8 + 3) == (5, *space.shape) and rows.dtype == np.uint8
    for name, part in space.unpack(rows).items():
        np.testing.assert_allclose(part, obs[name], rtol=1e-7, err_msg=name)
    inside = tf.function(lambda rows: encode(rows, space), jit_compile=True)(rows)
    for name, part in encode({name: tf.constant(part) for name, part in obs.items()}, PARTS).items():
        np.testing.assert_array_equal(inside[name], tf.cast(part, inside[name].dtype), err_msg=name)
    assert inside["image"].dtype == tf.uint8 and inside["one"].shape == (5, 4)
    assert describe_space(space) == describe_space(PARTS)


def test_environments_show_rows():
    plain = DummyVecEnv([lambda: Several(PARTS)] * 2)
    env = with_packed_observations(DummyVecEnv([lambda: Several(PARTS)] * 2))
    assert opened(env.observation_space) == PARTS and with_packed_observations(env) is env
    obs, rows = plain.reset(), env.reset()
    for _ in range(3):
        np.testing.assert_array_equal(rows, env.observation_space.pack(obs))
        obs, _, dones, infos = plain.step(np.zeros((2, 1)))
        rows, _, _, packed = env.step(np.zeros((2, 1)))
        for i in np.flatnonzero(dones):
            last = {name: np.asarray(part)[None] for name, part in infos[i]["final_observation"].items()}
            np.testing.assert_array_equal(packed[i]["final_observation"], env.observation_space.pack(last)[0])
    box = DummyVecEnv([lambda: Several(spaces.Box(0, 1, (2,)))])
    assert with_packed_observations(box) is box


def test_a_part_that_is_not_supported_is_named():
    with pytest.raises(ValueError, match="observation part 'word', Text"):
        PackedSpace(spaces.Dict(word=spaces.Text(3)))


TUPLE = spaces.Tuple((PARTS["image"], spaces.Dict(left=PARTS["vector"], right=PARTS["one"])))


@pytest.mark.parametrize("kind", [DummyVecEnv, SubprocVecEnv])
def test_tuple_and_nested_observations_are_a_dict_by_place(kind):
    env = kind([lambda: Several(TUPLE)] * 2)
    try:
        assert list(env.observation_space.spaces) == ["0", "1.left", "1.right"]
        obs = env.reset()
        assert obs["0"].shape == (2, 3, 2, 1) and obs["1.left"].shape == (2, 2, 2) and obs["1.right"].shape == (2,)
    finally:
        env.close()


def test_what_is_flattened():
    vectors = spaces.Tuple((PARTS["vector"], PARTS["one"]))
    assert as_vec_env(lambda: Several(vectors)).observation_space.shape == (8,)
    masked = spaces.Dict(vector=PARTS["vector"], action_mask=spaces.MultiBinary(3))
    for space in (TUPLE, masked):
        assert isinstance(as_vec_env(lambda space=space: Several(space)).observation_space, spaces.Dict)
    assert list(as_vec_env(lambda: Several(vectors), flatten=False).observation_space.spaces) == ["0", "1"]


KINDS = [DummyVecEnv, SubprocVecEnv]
FOUR = spaces.Discrete(4, start=-2)


def masking(first, actions=FOUR, form=list, at_end=True, at_start=True, in_between=True, several=False):
    """A function that makes environments that show the time, counted from `first`, and its bits as a mask.

    Args:
        first: at an episode's start.
        actions: what they take.
        form: of a mask, from its numbers.
        at_end: whether the last info has a mask.
        at_start: whether a reset's info has one.
        in_between: whether the others have one.
        several: observations are dictionaries.
    """

    def make():
        class Masking(gymnasium.Env):
            def __init__(self):
                self.action_space = actions
                time = spaces.Box(-np.inf, np.inf, (1,), np.float32)
                self.observation_space = spaces.Dict(time=time, late=spaces.Discrete(2)) if several else time

            def reset(self, **kwargs):
                super().reset(**kwargs)
                self.time = first
                return self._show(), self._info(at_start)

            def step(self, action):
                self.time += 1
                over = self.time == first + 3
                return self._show(), 0.0, over, False, self._info(at_end if over else in_between)

            def _show(self):
                time = np.array([self.time], np.float32)
                return {"time": time, "late": int(self.time > 3)} if several else time

            def _info(self, told):
                return {MASK: form(bits(self.time))} if told else {}

        return Masking()

    return make


def bits(time):
    return np.unpackbits(np.uint8(time))[-4:].tolist()


def step(env):
    return env.step(np.zeros(env.num_envs, np.int64))


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_is_that_of_the_observation_beside_it(kind):
    env = VecActionMask(kind([masking(1), masking(8)]))
    assert env.observation_space[ONLY] == env.venv.observation_space and env.observation_space[MASK].n == 4
    seen = [env.reset(), *(step(env)[0] for _ in range(2))]
    last, _, dones, infos = step(env)
    for obs, times in zip([*seen, last], [(1, 8), (2, 9), (3, 10), (1, 8)], strict=True):
        assert obs[ONLY].tolist() == [[times[0]], [times[1]]]
        assert obs[MASK].tolist() == [bits(times[0]), bits(times[1])] and obs[MASK].dtype == np.int8
        assert all(part.shape[0] == 2 for part in obs.values())
    assert dones.all()
    finals = [info["final_observation"] for info in infos]
    assert [final[ONLY].tolist() for final in finals] == [[4], [11]]
    assert [final[MASK].tolist() for final in finals] == [bits(4), bits(11)]
    assert all(env.observation_space.contains(final) for final in finals)
    assert step(env)[0][MASK].tolist() == [bits(2), bits(9)] and env.reset()[MASK].tolist() == [bits(1), bits(8)]
    env.close()


def test_after_the_last_step_nothing_is_forbidden_unless_it_is_told():
    env = VecActionMask(DummyVecEnv([masking(1, at_end=False)]))
    env.reset()
    *_, (obs, _, _, infos) = (step(env) for _ in range(3))
    assert infos[0]["final_observation"][MASK].tolist() == [1, 1, 1, 1] and obs[MASK].tolist() == [bits(1)]


def test_several_parts_have_the_mask_beside_them():
    env = VecActionMask(DummyVecEnv([masking(2, several=True)]))
    assert set(env.observation_space) == {"time", "late", MASK}
    assert env.reset()[MASK].tolist() == [bits(2)]
    *_, (obs, _, _, infos) = (step(env) for _ in range(3))
    assert {name: part.tolist() for name, part in obs.items()} == {"time": [[2]], "late": [0], MASK: [bits(2)]}
    final = infos[0]["final_observation"]
    assert (final["time"], final["late"], final[MASK].tolist()) == (5, 1, bits(5))


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        lambda mask: np.array(mask, bool),
        lambda mask: np.array([mask], np.float64),
        lambda mask: (mask[:1], np.array(mask[1:])),
        lambda mask: [np.array(mask[:2], bool), mask[2:]],
    ],
    ids=["list", "tuple", "booleans", "table", "parts", "parts of booleans"],
)
def test_masks_of_any_form_are_rows_of_numbers(form):
    env = VecActionMask(DummyVecEnv([masking(13, spaces.MultiDiscrete([1, 3]), form)]))
    for obs, time in ((env.reset(), 13), (step(env)[0], 14)):
        assert obs[MASK].tolist() == [bits(time)] and obs[MASK].dtype == np.int8


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"at_start": False}, "an info has no 'action_mask': it is needed after every step and reset"),
        ({"in_between": False}, "an info has no 'action_mask': it is needed after every step and reset"),
        ({"form": lambda mask: mask[:3]}, "an 'action_mask' has 3 entries, the actions have 4 choices"),
        ({"actions": spaces.MultiDiscrete([4, 3])}, "an 'action_mask' has 4 entries, the actions have 7 choices"),
    ],
)
def test_masks_that_cannot_be_are_named(kwargs, message):
    env = VecActionMask(DummyVecEnv([masking(1, **kwargs)]))
    with pytest.raises(ValueError, match=message):
        env.reset(), step(env)


def test_a_mask_is_missed_after_the_start_of_a_later_episode_too():
    env = VecActionMask(DummyVecEnv([masking(1)]))
    env.reset()
    step(env), step(env)
    reset = env.venv.envs[0].reset
    env.venv.envs[0].reset = lambda: (reset()[0], {})
    with pytest.raises(ValueError, match="an info has no 'action_mask'"):
        step(env)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("told", "wrapped"), [(True, True), (False, False)])
def test_environments_are_wrapped_when_their_infos_have_masks(kind, told, wrapped):
    inner = kind([masking(1, at_start=told), masking(8)])
    env = with_action_masks(inner)
    assert isinstance(env, VecActionMask) == wrapped
    assert with_action_masks(env) is env
    obs = env.reset()
    assert (obs[ONLY] if wrapped else obs).tolist() == [[1], [8]]
    env.close()


def test_masks_are_found_through_other_wrappers():
    assert isinstance(with_action_masks(Transparent(DummyVecEnv([masking(1)]))), VecActionMask)


@pytest.mark.parametrize("make", [ConstantRewardEnv, BoxIdentityEnv])
def test_other_environments_show_what_they_show(make):
    env = DummyVecEnv([make])
    assert with_action_masks(env).observation_space == env.observation_space


def test_looking_for_masks_costs_no_episode():
    """The first reset gives what that of the look gave, and the next one begins anew."""
    inner = DummyVecEnv([masking(1)])
    resets, reset = [], inner.reset
    inner.reset = lambda: resets.append(1) or reset()
    env = with_action_masks(inner)
    env.reset()
    assert len(resets) == 1
    env.reset()
    assert len(resets) == 2


def telling(mask, actions=None, in_obs=False, at=1):
    """A function that makes environments whose mask is `mask` from step `at` on, in the infos or the observations."""

    def make():
        class Telling(ConstantRewardEnv):
            def __init__(self):
                super().__init__(10)
                self.action_space = actions or spaces.Discrete(len(mask))
                if in_obs:
                    own = spaces.Box(-np.inf, np.inf, (len(mask),), np.float32)
                    self.observation_space = spaces.Dict(time=self.observation_space, action_mask=own)

            def reset(self, **kwargs):
                self.time = 0
                return self._tell(super().reset(**kwargs)[0], {})

            def step(self, action):
                self.time += 1
                obs, reward, terminated, truncated, info = super().step(action)
                obs, info = self._tell(obs, info)
                return obs, reward, terminated, truncated, info

            def _tell(self, obs, info):
                present = np.array(mask if self.time >= at else np.ones(len(mask)), np.float32)
                return ({"time": obs, MASK: present}, info) if in_obs else (obs, info | {MASK: present})

        return Telling()

    return make


@pytest.mark.parametrize("in_obs", [False, True])
@pytest.mark.parametrize(
    ("mask", "line"),
    [
        ([2, 1, 0], "has the entry 2"),
        ([0, 0.5, 1], "has the entry 0.5"),
        ([-np.inf, 0, 0], "has the entry -inf"),
        ([np.nan, 1, 0], "has the entry nan"),
        ([256, 0, 0], "has the entry 256"),
        ([0, 0, 0], "allows nothing"),
    ],
)
def test_masks_that_say_nothing_clear_are_refused(mask, line, in_obs):
    if in_obs and not np.isfinite(mask).all():
        # Of any part of an observation.
        line = " .* is not a finite number"
    good = np.ones(len(mask))
    env = with_action_masks(DummyVecEnv([telling(good, in_obs=in_obs), telling(mask, in_obs=in_obs)]))
    env.reset()
    with pytest.raises(ValueError, match=f"^environment 1.*{line}"):
        step(env)


def test_every_part_of_the_actions_allows_something():
    allowed = with_action_masks(DummyVecEnv([telling([0, 1, 1, 0], spaces.MultiDiscrete([2, 2]))]))
    allowed.reset()
    allowed.step(np.zeros((1, 2), np.int64))
    env = with_action_masks(DummyVecEnv([telling([1, 1, 0, 0], spaces.MultiDiscrete([2, 2]))]))
    env.reset()
    with pytest.raises(ValueError, match="allows nothing"):
        env.step(np.zeros((1, 2), np.int64))


def test_nothing_need_be_allowed_after_the_last_step():
    env = with_action_masks(DummyVecEnv([telling([0, 0, 0], at=10)]))
    env.reset()
    *_, (obs, _, dones, infos) = (step(env) for _ in range(10))
    assert dones.all() and obs[MASK].all() and not infos[0]["final_observation"][MASK].any()


def test_masks_that_begin_late_are_refused():
    def late():
        env = telling([0, 1, 1])()
        tell = env._tell
        env._tell = lambda obs, info: tell(obs, info) if env.time > 2 else (obs, info)
        return env

    env = with_action_masks(DummyVecEnv([late]))
    env.reset()
    step(env), step(env)
    with pytest.raises(ValueError, match=r"^infos of steps have an 'action_mask'"):
        step(env)


def test_a_mask_of_several_parts_in_the_observations_is_one():
    actions, own = spaces.MultiDiscrete([2, 3]), spaces.Tuple([spaces.MultiBinary(2), spaces.MultiBinary(3)])

    class InParts(gymnasium.Env):
        action_space = actions
        observation_space = spaces.Dict(x=spaces.Box(-1, 1, (2,), np.float32), action_mask=own)

        def reset(self, **_):
            return {"x": np.zeros(2, np.float32), MASK: (np.array([0, 1]), np.array([1, 0, 1]))}, {}

    env = with_action_masks(as_vec_env(InParts()))
    assert env.observation_space[MASK] == spaces.MultiBinary(5)
    assert env.reset()[MASK].tolist() == [[0, 1, 1, 0, 1]]
