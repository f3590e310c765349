import json

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.policy.encoding import (
    announce_size,
    describe_space,
    encode,
    encode_numpy,
    encoded_shape,
    is_image,
    observation_dtype,
    spaces_differ,
)

IMAGE = spaces.Box(0, 255, (6, 5, 3), np.uint8)
SPACES = {
    "box": spaces.Box(-3, 3, (4,), np.float32),
    "doubles": spaces.Box(-3, 3, (2, 3), np.float64),
    "integers": spaces.Box(-9, 9, (3,), np.int32),
    "bytes": spaces.Box(0, 255, (7,), np.uint8),
    "image": IMAGE,
    "discrete": spaces.Discrete(5),
    "discrete from -2": spaces.Discrete(5, start=-2),
    "multidiscrete": spaces.MultiDiscrete([3, 2, 4]),
    "multidiscrete from 1": spaces.MultiDiscrete([3, 2], start=[1, -4]),
    "table": spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [2, 3]]),
    "multibinary": spaces.MultiBinary(4),
    "bits": spaces.MultiBinary([2, 3]),
}


def batch(space, count=9):
    space.seed(3)
    return np.stack([space.sample() for _ in range(count)]).astype(observation_dtype(space))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_numpy_gives_what_the_graph_gives(space):
    obs = batch(space)
    encoded, expected = encode_numpy(obs, space), encode(tf.constant(obs), space).numpy()
    np.testing.assert_array_equal(encoded, expected)
    assert encoded.dtype == expected.dtype == (np.uint8 if space is IMAGE else np.float32)
    assert encoded.shape == (len(obs), *encoded_shape(space))


@pytest.mark.parametrize("name", ["box", "doubles", "integers", "bytes", "image", "multibinary", "bits"])
def test_numbers_stay_as_they_are(name):
    obs = batch(SPACES[name])
    np.testing.assert_array_equal(encode_numpy(obs, SPACES[name]), obs)


@pytest.mark.parametrize("start", [0, -2, 7])
def test_discrete_becomes_one_hot(start):
    obs = np.array([start + 2, start, start + 3])
    expected = [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(encode_numpy(obs, spaces.Discrete(4, start=start)), expected)


@pytest.mark.parametrize("start", [[0, 0], [1, -4]])
def test_multidiscrete_becomes_a_row_of_one_hots(start):
    obs = np.array([[2, 0], [0, 1]]) + start
    expected = [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]]
    np.testing.assert_array_equal(encode_numpy(obs, spaces.MultiDiscrete([3, 2], start=start)), expected)


def test_only_bytes_of_rank_3_are_images():
    assert [name for name, space in SPACES.items() if is_image(space)] == ["image"]
    assert not is_image(spaces.Box(0, 1, (6, 5, 3), np.float32))


def test_doubles_are_stored_as_floats():
    stored = {name: observation_dtype(SPACES[name]) for name in ("doubles", "image", "integers", "discrete")}
    assert stored == {"doubles": np.float32, "image": np.uint8, "integers": np.int32, "discrete": np.int64}


@pytest.mark.parametrize("space", [spaces.Tuple([IMAGE]), spaces.Text(3), spaces.Dict(a=spaces.Tuple([IMAGE]))])
def test_other_spaces_are_refused(space):
    with pytest.raises(ValueError, match=r"not supported: accepted are Box, Discrete, MultiDiscrete and MultiBinary"):
        encoded_shape(space)
    with pytest.raises(ValueError, match="not supported"):
        describe_space(space)


def test_a_dictionary_has_no_shape_of_its_own():
    with pytest.raises(ValueError, match="not supported: accepted are Box"):
        encoded_shape(spaces.Dict(a=IMAGE))


def test_the_parts_of_a_dictionary_are_encoded_each_as_its_space_is():
    obs = {name: tf.constant(batch(space)) for name, space in SPACES.items()}
    encoded = encode(obs, spaces.Dict(SPACES))
    assert encoded.keys() == obs.keys()
    for name, space in SPACES.items():
        np.testing.assert_array_equal(encoded[name], encode(obs[name], space))


def test_the_parts_of_a_dictionary_are_described_by_their_names():
    space = spaces.Dict(camera=IMAGE, inner=spaces.Dict(speed=SPACES["box"]))
    description = describe_space(space)
    assert description["type"] == "Dict" and description["spaces"]["camera"] == describe_space(IMAGE)
    assert json.loads(json.dumps(description)) == description
    assert spaces_differ(description, describe_space(space)) is None
    renamed = spaces.Dict(picture=IMAGE, inner=spaces.Dict(speed=SPACES["box"]))
    other = spaces.Dict(camera=IMAGE, inner=spaces.Dict(speed=SPACES["bytes"]))
    assert all(spaces_differ(description, describe_space(one)) for one in (renamed, other, IMAGE))


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_descriptions_of_spaces_survive_json(space):
    description = describe_space(space)
    assert json.loads(json.dumps(description)) == description
    assert spaces_differ(description, describe_space(space)) is None


@pytest.mark.parametrize("name", SPACES)
def test_every_space_has_a_description_of_its_own(name):
    others = [describe_space(space) for other, space in SPACES.items() if other != name]
    assert all(spaces_differ(describe_space(SPACES[name]), other) for other in others)


def test_starts_of_the_parts_make_a_difference():
    one, other = (describe_space(spaces.MultiDiscrete([3, 2], start=start)) for start in ([0, 0], [1, 0]))
    assert spaces_differ(one, other)


def test_a_difference_is_described_in_words():
    saved, present = describe_space(spaces.Discrete(5)), describe_space(spaces.Box(-1, 1, (2,)))
    expected = "Discrete(n=5, start=0) was saved, this environment has Box(shape=[2], dtype=float32)"
    assert spaces_differ(saved, present) == expected


def test_many_discrete_values_need_no_square_of_memory():
    space = spaces.Discrete(1_000_000, start=-7)
    encoded = encode_numpy(np.array([[-7, 999_992]]), space)
    assert encoded.shape == (1, 2, 1_000_000) and encoded.sum() == 2
    assert encoded[0, 0, 0] == encoded[0, 1, -1] == 1


def test_wide_layers_are_announced(capsys):
    announce_size("observations", spaces.Dict(a=spaces.Discrete(100_000), b=spaces.Box(-1, 1, (2,))))
    assert not capsys.readouterr().err
    announce_size("actions", spaces.Discrete(1_000_000))
    assert "the actions Discrete(1000000) make wide layers (each is a row of 1,000,000 " in capsys.readouterr().err
