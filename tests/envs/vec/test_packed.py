"""Observations of several parts as rows of bytes, and back; Tuple and nested observations by names."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.envs.adapt import as_vec_env
from tfbaselines.envs.vec import DummyVecEnv, SubprocVecEnv
from tfbaselines.envs.vec.packed import PackedSpace, opened, with_packed_observations

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
