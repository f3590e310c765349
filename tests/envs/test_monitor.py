import json
import shutil

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfbaselines.envs.monitor import (
    LoadMonitorResultsError,
    Monitor,
    ResultsWriter,
    get_monitor_files,
    load_results,
)


class Fixed(gymnasium.Env):
    """Pays `rewards` one after the other; the episode ends with them, by termination or truncation."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, rewards, truncated=False):
        self.rewards, self.truncated, self.closed = rewards, truncated, False

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return 0, {"options": options}

    def step(self, action):
        self.t += 1
        over = self.t == len(self.rewards)
        return 0, self.rewards[self.t - 1], over and not self.truncated, over and self.truncated, {"k": self.t}

    def close(self):
        self.closed = True


def play(env, **kwargs):
    env.reset(**kwargs)
    while True:
        _, _, terminated, truncated, info = env.step(0)
        if terminated or truncated:
            return info["episode"]
        assert "episode" not in info


@pytest.mark.parametrize("truncated", [False, True])
def test_file_holds_every_episode(tmp_path, truncated):
    env = Monitor(Fixed([1.0, 2.0], truncated), tmp_path / "0")
    episodes = [play(env) for _ in range(2)]
    header, columns, *rows = (tmp_path / "0.monitor.csv").read_bytes().decode().split("\n")
    assert header.startswith('# {"t_start": ') and header.endswith('"env_id": null} ')
    assert columns == "r,l,t\r" and rows == [*(f"3.0,2,{e['t']}\r" for e in episodes), ""]
    assert (env.get_episode_rewards(), env.get_episode_lengths()) == ([3.0, 3.0], [2, 2])
    assert env.get_total_steps() == 4 and env.get_episode_times() == sorted(env.get_episode_times())
    assert 0 <= episodes[0]["t"] <= episodes[1]["t"] < 60


def test_env_id_is_in_the_header(tmp_path):
    env = Monitor(gymnasium.make("CartPole-v1"), tmp_path / "c")
    env.close()
    assert json.loads((tmp_path / "c.monitor.csv").read_text().splitlines()[0][1:])["env_id"] == "CartPole-v1"


@given(st.lists(st.floats(-100, 100, width=32), min_size=1), st.sampled_from([float, np.float32, np.float64, np.array]))
def test_the_sum_is_exact_for_every_type_of_reward(rewards, kind):
    episode = play(Monitor(Fixed([kind(reward) for reward in rewards]), None))
    assert episode["r"] == round(sum(map(float, rewards)), 6) and type(episode["r"]) is float


def test_reset_too_early(tmp_path):
    env = Monitor(Fixed([1.0, 1.0]), None)
    with pytest.raises(RuntimeError, match="needs reset"):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(RuntimeError, match="allow_early_resets=True") as early:
        env.reset()
    assert "Monitor(TimeLimit(env, ...))" in str(early.value)
    env = Monitor(Fixed([1.0, 1.0]), None, allow_early_resets=True)
    env.reset()
    env.step(0)
    assert play(env)["l"] == 2 and env.get_total_steps() == 3
    with pytest.raises(RuntimeError, match="needs reset"):
        env.step(0)


def test_keywords(tmp_path):
    env = Monitor(Fixed([1.0]), tmp_path / "0", reset_keywords=("level",), info_keywords=("k",))
    with pytest.raises(ValueError, match="'level'"):
        env.reset()
    assert play(env, options={"level": 7})["level"] == 7
    assert (tmp_path / "0.monitor.csv").read_text().splitlines()[1] == "r,l,t,level,k"
    env = Monitor(Fixed([1.0]), None, info_keywords=("kk",))
    with pytest.raises(ValueError, match="'kk': did you mean 'k'"):
        play(env)


def test_append_continues_the_file_and_its_clock(tmp_path):
    first = Monitor(Fixed([1.0]), tmp_path / "0")
    play(first)
    first.close()
    path = tmp_path / "0.monitor.csv"
    begun = path.read_text()
    path.write_text(begun.replace(str(first.t_start), "1000.0") + "2.0,1")
    again = Monitor(Fixed([5.0]), tmp_path / "0", append=True)
    assert again.t_start == 1000.0
    assert play(again)["t"] > 1e6
    lines = path.read_text().splitlines()
    assert len(lines) == 4 and lines[2:][1].startswith("5.0,1,")
    with pytest.raises(ValueError, match="has the columns r,l,t and cannot be continued with r,l,t,k"):
        Monitor(Fixed([1.0]), tmp_path / "0", info_keywords=("k",), append=True)
    assert len(path.read_text().splitlines()) == 4
    Monitor(Fixed([1.0]), tmp_path / "0")
    assert len(path.read_text().splitlines()) == 2


def test_append_to_what_is_not_there_yet_or_empty(tmp_path):
    (tmp_path / "1.monitor.csv").write_text("")
    for name in "01":
        play(Monitor(Fixed([1.0]), tmp_path / name, append=True))
        assert len((tmp_path / f"{name}.monitor.csv").read_text().splitlines()) == 3


def test_writer_completes_names_and_flushes_rows(tmp_path):
    writer = ResultsWriter(tmp_path, header="# {} \n", extra_keys=("x",))
    assert writer.filename == str(tmp_path / "monitor.csv")
    writer.write_row({"r": 1, "l": 2, "t": 3, "x": "a,b"})
    assert (tmp_path / "monitor.csv").read_bytes() == b'# {} \nr,l,t,x\r\n1,2,3,"a,b"\r\n'
    writer.close()
    writer.close()
    assert ResultsWriter(tmp_path / "new/0").filename == str(tmp_path / "new/0.monitor.csv")
    for bad in ("", tmp_path / "monitor.csv/0"):
        with pytest.raises(ValueError, match="monitor file="):
            ResultsWriter(bad)


def test_a_file_that_is_removed_begins_anew_with_the_clock_that_it_had(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    path = tmp_path / "run/0.monitor.csv"
    path.write_text('# {"t_start": 1000.0, "env_id": "a"} \nr,l,t\r\n1,1,1\r\n')
    env = Monitor(Fixed([1.0]), tmp_path / "run/0", append=True)
    play(env)
    shutil.rmtree(tmp_path / "run")
    play(env)
    play(env)
    assert capsys.readouterr().err == f"tfbaselines: warning: {path} was removed: a new file begins\n"
    header, columns, *rows = path.read_text().splitlines()
    assert (header, columns) == ('# {"t_start": 1000.0, "env_id": "a"} ', "r,l,t") and len(rows) == 2


def test_a_directory_that_cannot_be_made_again_is_one_warning_more(tmp_path, capsys):
    env = Monitor(Fixed([1.0]), tmp_path / "run/0")
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("")
    for _ in range(3):
        play(env)
    removed, cannot = capsys.readouterr().err.splitlines()
    assert "was removed" in removed and "cannot be written to" in cannot
    (tmp_path / "run").unlink()
    play(env)
    assert len((tmp_path / "run/0.monitor.csv").read_text().splitlines()) == 3


def test_an_info_that_the_environment_keeps_is_left_alone():
    kept = {"own": 1}

    class Keeping(Fixed):
        def step(self, action):
            return *super().step(action)[:4], kept

    env = Monitor(Keeping([1, 1]), None)
    env.reset()
    first, last = (env.step(0)[-1] for _ in range(2))
    assert first == kept == {"own": 1} and last["own"] == 1 and last["episode"]["l"] == 2


def test_close_closes_both(tmp_path):
    env = Monitor(Fixed([1.0]), tmp_path / "0")
    env.close()
    assert env.unwrapped.closed and env.results_writer._file.closed


def test_load_results_merges_by_time(tmp_path):
    (tmp_path / "0.0.monitor.csv").write_text('# {"t_start": 100.0, "env_id": "a"} \nr,l,t\r\n1,10,1.0\r\n2,10,9.0\r\n')
    (tmp_path / "0.1.monitor.csv").write_text('# {"t_start": 103.0, "env_id": "a"} \nr,l,t\r\n3,10,2.0\r\n')
    (tmp_path / "0.2.monitor.csv").write_text("")
    frame = load_results(tmp_path)
    assert frame["r"].tolist() == [1, 3, 2] and frame["t"].tolist() == [1.0, 5.0, 9.0]
    assert [header["t_start"] for header in frame.headers] == [100.0, 103.0]
    assert [path.rsplit("/")[-1] for path in get_monitor_files(tmp_path)] == [f"0.{i}.monitor.csv" for i in range(3)]


@pytest.mark.parametrize("text", ["# no json\nr,l,t\n", "# {}\na,b\n1,2\n", "# {}\nr,l,t\n1,2,3\n1,2,3,4\n"])
def test_load_results_refuses_foreign_files(tmp_path, text):
    with pytest.raises(LoadMonitorResultsError, match="no monitor files"):
        load_results(tmp_path)
    (tmp_path / "monitor.csv").write_text("")
    with pytest.raises(LoadMonitorResultsError, match="are empty"):
        load_results(tmp_path)
    (tmp_path / "monitor.csv").write_text(text)
    with pytest.raises(ValueError, match=r"monitor.csv is not a monitor file"):
        load_results(tmp_path)


@pytest.mark.parametrize("name", ["is_success", "success"])
def test_an_episode_tells_whether_its_goal_was_reached(tmp_path, name):
    class Reaching(Fixed):
        def step(self, action):
            *step, info = super().step(action)
            return *step, info | {name: np.bool_(self.t == 2)}

    assert play(Monitor(Reaching([1.0, 2.0]), tmp_path / "0"))["is_success"] == 1.0
    assert play(Monitor(Reaching([1.0]), None))["is_success"] == 0.0
    assert "is_success" not in play(Monitor(Fixed([1.0]), None))
    assert (tmp_path / "0.monitor.csv").read_text().splitlines()[1] == "r,l,t"


class Telling(Fixed):
    """Of one step, whose info it is made with."""

    def __init__(self, info):
        super().__init__([1.0])
        self._info = info

    def step(self, action):
        return *super().step(action)[:4], self._info


@pytest.mark.parametrize("key", ["is_success", "success"])
@pytest.mark.parametrize(
    ("told", "success"),
    [(None, None), (True, 1.0), (np.float32(0.0), 0.0), (np.array([True]), 1.0), (np.array(1), 1.0), ([False], 0.0)],
)
def test_what_an_info_says_of_success_may_be_missing_or_a_number_of_any_kind(key, told, success):
    episode = play(Monitor(Telling({key: told}), None))
    assert episode.get("is_success") == success and ("is_success" in episode) == (success is not None)


@pytest.mark.parametrize("told", ["no", "1", b"1", [True, False], np.array([]), np.eye(20), [1, [2, 3]], {}, object()])
def test_what_says_nothing_of_success_is_one_line(told):
    with pytest.raises(ValueError, match=r"^the info's 'success' is .*: it must be True, False or a number$") as error:
        play(Monitor(Telling({"success": told}), None))
    assert len(str(error.value)) < 200


def test_a_missing_success_leaves_the_other_key_to_say():
    assert play(Monitor(Telling({"is_success": None, "success": True}), None))["is_success"] == 1.0
