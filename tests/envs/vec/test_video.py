import os
import shutil
import sys

import imageio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.cli import exit_status
from tfbaselines.envs.make import build_env, rendered
from tfbaselines.envs.tiny import ConstantRewardEnv
from tfbaselines.envs.vec import DummyVecEnv, ShmemVecEnv, SubprocVecEnv, VecVideoRecorder, WorkerError
from tfbaselines.envs.vec.wrappers import Viewer, has_display, tile_images


class Pictured(ConstantRewardEnv):
    """Pictures full of ten times the time."""

    def __init__(self, size=(16, 32), kind=np.uint8):
        super().__init__(episode_len=100)
        self._size, self._kind = size, kind

    def render(self):
        return np.full((*self._size, 3), 10 * self._time, self._kind)


@pytest.fixture(autouse=True)
def _no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def record(directory, steps, trigger=lambda step: step == 0, make=Pictured, **kwargs):
    """The names of the files after some steps and close()."""
    env = VecVideoRecorder(DummyVecEnv([make] * 2), str(directory), trigger, **kwargs)
    env.reset()
    for _ in range(steps):
        env.step(np.zeros(2, np.int64))
    env.close(), env.close()
    return sorted(path.name for path in directory.iterdir())


def brightness(path):
    """Mean of each frame of a film, in tens."""
    return [round(float(np.mean(frame)) / 10) for frame in imageio.mimread(path)]


def test_a_video_has_the_tiles_of_as_many_steps_as_asked(tmp_path):
    assert record(tmp_path / "new", 9, video_length=5) == ["vecenv.video.0.step0.mp4"]
    path = tmp_path / "new" / "vecenv.video.0.step0.mp4"
    assert np.shape(imageio.mimread(path)) == (6, 32, 32, 3)
    assert brightness(path) == [0, 1, 2, 3, 4, 5]


def test_videos_begin_when_the_trigger_says_so_and_none_is_lost(tmp_path):
    names = record(tmp_path, 9, lambda step: step % 4 == 0, video_length=2)
    assert names == [f"vecenv.video.{i}.step{4 * i}.mp4" for i in range(3)]
    assert [brightness(tmp_path / name) for name in names] == [[0, 1, 2], [4, 5, 6], [8, 9]]


def test_no_video_without_a_trigger(tmp_path):
    assert record(tmp_path, 3, lambda step: False) == []


@pytest.mark.parametrize(("size", "kind"), [((15, 31), np.uint8), ((16, 16), np.float64)])
def test_odd_sizes_and_other_numbers_are_filmed_too(tmp_path, size, kind):
    (name,) = record(tmp_path, 3, make=lambda: Pictured(size, kind))
    assert brightness(tmp_path / name) == [0, 1, 2, 3]


def test_a_gif_where_there_is_no_ffmpeg(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "imageio.plugins.ffmpeg", raising=False)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert record(tmp_path, 3) == ["vecenv.video.0.step0.gif"]
    assert brightness(tmp_path / "vecenv.video.0.step0.gif") == [0, 1, 2, 3]


def test_a_directory_that_was_removed_is_made_again(tmp_path):
    directory = tmp_path / "videos"
    assert record(directory, 3, lambda step: shutil.rmtree(directory) is None) == ["vecenv.video.0.step0.mp4"]


def test_no_video_replaces_another_one_and_each_is_announced(tmp_path):
    announced = []
    names = [record(tmp_path, 3, name="run.00002", announce=announced.append) for _ in range(2)][-1]
    assert names == [f"run.00002.video.{number}.step0.mp4" for number in (0, 1)]
    assert announced == [str(tmp_path / name) for name in names]


class Unlit(ConstantRewardEnv):
    """Renders where there is no OpenGL."""

    def __init__(self):
        super().__init__()
        self.metadata = {"render_fps": 12}

    def render(self):
        raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")


def test_a_machine_without_opengl_gets_one_line_with_the_packages():
    env = SubprocVecEnv([Unlit])
    assert env.render_fps == 12
    words = "OpenGL does not start here .*libegl1 .*libosmesa6[^\\n]*$"
    with pytest.raises(WorkerError, match=f"^environment 0 .* failed: no pictures of .*{words}"):
        env.get_images()

    def unmade():
        raise AttributeError("'NoneType' object has no attribute 'glGetError'")

    with pytest.raises(WorkerError, match=f"^environment 0 failed: {words}"):
        SubprocVecEnv([unmade])


def test_off_screen_opengl_is_for_worker_processes_alone(monkeypatch):
    class Telling(ConstantRewardEnv):
        def step(self, action):
            return *super().step(action)[:4], {"gl": os.environ.get("MUJOCO_GL")}

    monkeypatch.delenv("TFBASELINES_WORKERS_GL", raising=False)
    monkeypatch.setenv("MUJOCO_GL", "egl")
    assert exit_status("command", lambda: 0) == 0
    assert os.environ["MUJOCO_GL"] == "disabled"
    env = SubprocVecEnv([Telling])
    env.reset()
    assert env.step(np.zeros(1, np.int64))[3][0] == {"gl": "egl"} and os.environ["MUJOCO_GL"] == "disabled"
    env.close()


def test_what_may_use_opengl_is_rendered_in_a_process_of_its_own():
    cases = [
        ("Hopper-v5", None, SubprocVecEnv),
        ("Hopper-v5", "shmem", ShmemVecEnv),
        ("CartPole-v1", None, DummyVecEnv),
    ]
    for env_id, worker, kind in cases:
        env = build_env(rendered({"env": env_id, "worker": worker}, "rgb_array"))
        assert type(env.unwrapped) is kind
        env.close()


def test_videos_that_cannot_be_written_are_one_warning(tmp_path, monkeypatch, capsys):
    def full(path, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(imageio, "mimsave", full)
    assert record(tmp_path, 9, lambda step: step % 4 == 0, video_length=2) == []
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_a_video_has_at_least_one_step(tmp_path):
    with pytest.raises(ValueError, match="video_length=0 is not valid: at least 1"):
        record(tmp_path, 1, video_length=0)


@pytest.mark.parametrize(("metadata", "rate"), [({"render_fps": 12}, 12), ({}, 30), ({"render_fps": None}, 30)])
@pytest.mark.parametrize("gif", [False, True])
def test_films_are_as_fast_as_the_environments_say(tmp_path, monkeypatch, metadata, rate, gif):
    if gif:
        monkeypatch.delitem(sys.modules, "imageio.plugins.ffmpeg", raising=False)
        monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setattr(Pictured, "metadata", metadata)
    (name,) = record(tmp_path, 3)
    shown = imageio.get_reader(tmp_path / name).get_meta_data()
    # A gif counts in hundredths of a second.
    assert shown["duration"] == pytest.approx(1000 / rate, abs=10) if gif else shown["fps"] == rate


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
    monkeypatch.setattr("tfbaselines.envs.vec.wrappers.has_display", lambda: True)
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
