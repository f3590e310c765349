import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import DummyVecEnv
from tfbaselines.envs.vec.video import Viewer, has_display, tile_images


@given(st.integers(1, 12), st.integers(1, 3), st.integers(1, 3))
def test_every_picture_has_its_place(count, height, width):
    pictures = [np.full((height, width, 3), i + 1, np.uint8) for i in range(count)]
    grid = tile_images(pictures)
    rows, columns = grid.shape[0] // height, grid.shape[1] // width
    assert rows * columns >= count and 0 <= rows - columns <= 1
    for i, picture in enumerate(pictures):
        row, column = divmod(i, columns)
        here = grid[row * height : (row + 1) * height, column * width : (column + 1) * width]
        np.testing.assert_array_equal(here, picture)
    assert np.count_nonzero(grid) == count * height * width * 3


def test_without_a_display_the_error_tells_what_to_do(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not has_display()
    with pytest.raises(ValueError, match="no display to render on: record a video with --save_video_interval"):
        Viewer()

    class Pictured(ConstantRewardEnv):
        def render(self):
            return np.zeros((2, 2, 3), np.uint8)

    with pytest.raises(ValueError, match="no display"):
        DummyVecEnv([Pictured]).render()


def test_any_display_will_do(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert has_display()
    monkeypatch.delenv("WAYLAND_DISPLAY")
    monkeypatch.setattr("sys.platform", "darwin")
    assert has_display()


def test_a_window_shows_picture_after_picture(monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.setattr("tfbaselines.envs.vec.video.has_display", lambda: True)
    shown = iter([np.full((2, 2, 3), value, np.uint8) for value in (10, 20)])

    class Pictured(ConstantRewardEnv):
        def render(self):
            return next(shown)

    env = DummyVecEnv([Pictured])
    env.render()
    (number,) = plt.get_fignums()
    assert env.render() is None and plt.get_fignums() == [number]
    (image,) = plt.figure(number).axes[0].images
    assert (np.asarray(image.get_array()) == 20).all()
    env.close()
    assert plt.get_fignums() == []
