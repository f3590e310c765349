"""Packed observations come back exactly as they were, and every frame is kept once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tfbaselines.algs.acer.replay import FramePacker, PlainPacker

SIZE = (2, 3)


def stacked(frames, first, nstack):
    """What a frame stack shows at each step: the latest frames of the episode, zeros where there are none yet."""
    obs = np.zeros((len(frames), *SIZE, nstack), np.uint8)
    for t in range(len(frames)):
        begin = max([s for s in range(t + 1) if first[s]], default=0)
        for age in range(min(nstack, t - begin + 1)):
            obs[t, ..., nstack - 1 - age] = frames[t - age]
    return obs


def noise(length, shape=SIZE, seed=0):
    return np.random.default_rng(seed).integers(1, 256, (length, *shape), dtype=np.uint8)


@given(st.data(), st.integers(1, 5), st.integers(1, 12))
def test_stacks_come_back_wherever_the_sequence_begins(data, nstack, length):
    first = data.draw(hnp.arrays(bool, length))
    start = data.draw(st.integers(0, length - 1))
    end = data.draw(st.integers(start + 1, length))
    obs = stacked(noise(length), first, nstack)[start:end]
    packer = FramePacker(obs.shape[1:], nstack)
    np.testing.assert_array_equal(packer.unpack(packer.pack(obs), first[start:end]), obs)


def test_masks_may_be_floats():
    first = np.array([0.0, 0.0, 1.0, 0.0, 0.0], np.float32)
    obs = stacked(noise(5), first, 3)
    packer = FramePacker(obs.shape[1:], 3)
    np.testing.assert_array_equal(packer.unpack(packer.pack(obs), first), obs)


def test_each_episode_is_cut_from_the_one_before():
    """Two episodes of two frames, seen through stacks of four."""
    first = np.array([True, False, True, False])
    obs = stacked(np.broadcast_to(np.uint8([1, 2, 3, 4])[:, None, None], (4, *SIZE)), first, 4)
    packer = FramePacker(obs.shape[1:], 4)
    shown = packer.unpack(packer.pack(obs), first)[:, 0, 0]
    np.testing.assert_array_equal(shown, [[0, 0, 0, 1], [0, 0, 1, 2], [0, 0, 0, 3], [0, 0, 3, 4]])


def test_the_first_observation_keeps_what_came_before_the_sequence():
    obs = stacked(noise(9), np.zeros(9, bool), 4)[5:]
    packer = FramePacker(obs.shape[1:], 4)
    shown = packer.unpack(packer.pack(obs), np.zeros(4, bool))
    np.testing.assert_array_equal(shown, obs)
    assert shown[0].all()


@pytest.mark.parametrize(
    ("channels", "nstack"), [(1, 1), (3, 1), (6, 2), (12, 4)], ids=["grey", "colour", "two colour", "four colour"]
)
def test_what_cannot_be_taken_apart_is_kept_whole(channels, nstack):
    """Stacks of colour frames move by one channel a step: any bytes must come back, and no episode is cut."""
    obs = noise(7, (*SIZE, channels))
    packer = FramePacker(obs.shape[1:], nstack)
    np.testing.assert_array_equal(packer.unpack(packer.pack(obs), np.ones(7, bool)), obs)


def test_observations_of_one_environment_in_a_batch_by_time():
    obs = np.stack([stacked(noise(6, seed=seed), np.zeros(6, bool), 3) for seed in range(2)], axis=1)
    packer = FramePacker(obs.shape[2:], 3)
    np.testing.assert_array_equal(packer.unpack(packer.pack(obs[:, 1]), np.zeros(6)), obs[:, 1])


def test_a_frame_is_kept_once():
    frames = noise(60, (32, 32))
    obs = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
    packed = FramePacker(obs.shape[1:], 4).pack(obs)
    assert packed.dtype == np.uint8 and packed.ndim == 1
    assert packed.nbytes < 1.02 * frames.nbytes


def test_frames_are_compressed():
    obs = np.zeros((20, 32, 32, 4), np.uint8)
    assert FramePacker(obs.shape[1:], 4).pack(obs).nbytes < 0.01 * obs[..., 0].nbytes


@pytest.mark.parametrize("packer", [PlainPacker(), FramePacker((2, 3, 2), 2), FramePacker((2, 3, 2), 1)])
def test_what_is_packed_does_not_change_with_its_source(packer):
    source = np.lib.stride_tricks.sliding_window_view(noise(6), 2, axis=0).copy()
    obs = source.copy()
    packed = packer.pack(source)
    source += 1
    np.testing.assert_array_equal(packer.unpack(packed, np.zeros(5)), obs)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.uint8])
def test_plain_observations_keep_their_type(dtype):
    obs = np.arange(12).reshape(4, 3).astype(dtype)
    packer = PlainPacker()
    shown = packer.unpack(packer.pack(obs), np.ones(4))
    np.testing.assert_array_equal(shown, obs)
    assert shown.dtype == dtype
