"""Spinning Up's functions: their arguments by position, and what their runs leave to be evaluated and resumed from."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import ClipAction, TimeLimit

import tfbaselines
from tfbaselines import run
from tfbaselines.compat import spinup
from tfbaselines.compat.spinup import CannotBeStored, config_of, load_policy_and_env
from tfbaselines.config.options import RunOptions
from tfbaselines.envs.make import make_env
from tfbaselines.errors import InUseError, UsageError
from tfbaselines.evaluate import evaluate
from tfbaselines.logs.directory import locked
from tfbaselines.logs.logger import read_csv

pytestmark = pytest.mark.usefixtures("eager")


def cart_pole(**kwargs):
    return lambda: gymnasium.make("CartPole-v1", **kwargs)


def pendulum(**kwargs):
    return lambda: gymnasium.make("Pendulum-v1", **kwargs)


def vpg(directory, env_fn, **kwargs):
    small = {"ac_kwargs": {"hidden_sizes": (4,)}, "steps_per_epoch": 60, "epochs": 1, "train_v_iters": 1}
    return tfbaselines.vpg(env_fn, **small | kwargs, logger_kwargs={"output_dir": str(directory)})


def config(directory):
    return json.loads((directory / "config.json").read_text())


def reason(capsys):
    """Why evaluate and the others will not take a run: the one line that says it."""
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "evaluate, --resume and load" in line]
    return line.partition("': ")[2]


def test_a_run_replaces_an_earlier_one(tmp_path, capsys):
    vpg(tmp_path, cart_pole())
    assert "earlier run" not in capsys.readouterr().out
    model = vpg(tmp_path, pendulum(g=2.0), ac_kwargs={"hidden_sizes": (6,)}, gamma=0.5)
    assert capsys.readouterr().out.count("holds an earlier run, which this one replaces") == 1
    stored = config(tmp_path)
    assert (stored["env"]["env"], stored["learn"]["gamma"]) == ("Pendulum-v1", 0.5)
    obs = np.ones((4, 3), np.float32)
    again = tfbaselines.load(tmp_path)
    np.testing.assert_array_equal(*(one.act(obs, deterministic=True)[0] for one in (again, model)))
    assert evaluate(tmp_path, episodes=1)["lengths"] == [200]
    vpg(tmp_path, lambda: ClipAction(gymnasium.make("Pendulum-v1")))
    assert not (tmp_path / "config.json").exists()


def test_beside_earlier_checkpoints_config_json_waits_for_the_first_of_its_run(tmp_path):
    there = []

    def callback(run):
        there.append((tmp_path / "config.json").exists())

    for env_fn in (cart_pole(), pendulum()):
        vpg(tmp_path, env_fn, run=RunOptions(callback=callback))
    assert there == [True, False] and config(tmp_path)["env"]["env"] == "Pendulum-v1"


def test_a_run_goes_on_in_its_directory(tmp_path, capsys):
    vpg(tmp_path, cart_pole())
    vpg(tmp_path, cart_pole(), epochs=2, run=RunOptions(resume=str(tmp_path)))
    assert "earlier run" not in capsys.readouterr().out
    for name, separator, column in (("progress.txt", "\t", "TotalEnvInteracts"), ("progress.csv", ",", "Epoch")):
        assert len(read_csv(tmp_path / name, separator=separator)[column]) == 2
    assert config(tmp_path)["learn"]["epochs"] == 2


def test_a_start_goes_on_with_the_same_run_and_replaces_another(tmp_path, capsys):
    def start(name, callback=None, **kwargs):
        options = RunOptions(resume=spinup.AUTO, callback=callback)
        vpg(tmp_path / name, cart_pole(), **{"epochs": 3, "save_freq": 1} | kwargs, run=options)

    def rows(name):
        table = read_csv(tmp_path / name / "progress.txt", separator="\t")
        return table.drop(columns=["Time", "fps"])

    def killed(run):
        if run.update == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start("killed", killed)
    start("killed")
    assert "earlier run" not in capsys.readouterr().out
    # The command writes a config.json of its own, of the same run.
    assert run.command([f"--resume={tmp_path / 'killed'}"]) == 0
    start("killed")
    assert "earlier run" not in capsys.readouterr().out
    start("calm")
    assert rows("killed").equals(rows("calm")) and len(rows("calm")["Epoch"]) == 3
    start("calm", epochs=1)
    assert "holds an earlier run, which this one replaces" in capsys.readouterr().out
    assert len(rows("calm")["Epoch"]) == 1


def test_the_command_goes_on_with_ddpg_in_the_same_environments(tmp_path):
    def env_fn():
        return gymnasium.make("InvertedPendulum-v5")

    short = {"steps_per_epoch": 20, "epochs": 1, "start_steps": 10, "update_after": 10, "update_every": 10}
    tfbaselines.ddpg(
        env_fn,
        ac_kwargs={"hidden_sizes": (4,)},
        **short,
        num_test_episodes=0,
        logger_kwargs={"output_dir": str(tmp_path)},
    )
    assert config(tmp_path)["env"]["normalize"] is False
    assert run.command([f"--resume={tmp_path}", "--nb_epochs=2"]) == 0
    assert config(tmp_path)["env"]["normalize"] is False and not tfbaselines.load(tmp_path).tree()["normalization"]


def test_nothing_is_shown_where_nothing_is_rendered(tmp_path, monkeypatch):
    vpg(tmp_path, cart_pole())
    monkeypatch.setattr("tfbaselines.envs.vec.wrappers.has_display", lambda: True)
    modes = []

    def make_without_a_window(*args, env_kwargs=None, **kwargs):
        modes.append((env_kwargs or {}).get("render_mode"))
        return make_env(*args, **kwargs)

    monkeypatch.setattr("tfbaselines.envs.make.make_env", make_without_a_window)
    load_policy_and_env(tmp_path, render=False)
    assert "human" not in modes
    load_policy_and_env(tmp_path)
    assert modes[-1] == "human"


def test_a_directory_in_use_is_left_alone(tmp_path, monkeypatch):
    vpg(tmp_path, cart_pole())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    def taken(directory):
        raise InUseError("another run is writing in it")

    monkeypatch.setattr(spinup, "locked", taken)
    with pytest.raises(InUseError):
        vpg(tmp_path, pendulum())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    monkeypatch.undo()
    with locked(tmp_path):
        vpg(tmp_path, pendulum())


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path):
    with pytest.raises(UsageError, match="actions"):
        tfbaselines.td3(cart_pole(), epochs=1, logger_kwargs={"output_dir": str(tmp_path)})
    assert not (tmp_path / "config.json").exists()


@pytest.mark.parametrize(
    ("env_fn", "stored", "length"),
    [
        (pendulum(max_episode_steps=30), {"max_episode_steps": 30}, 30),
        (lambda: TimeLimit(gymnasium.make("Pendulum-v1"), 20), {"max_episode_steps": 20}, 20),
        (lambda: TimeLimit(gymnasium.make("Pendulum-v1"), 500), None, 200),
        (lambda: gymnasium.make("Pendulum-v1").unwrapped, {"max_episode_steps": -1}, 250),
    ],
)
def test_a_run_keeps_its_step_limit(env_fn, stored, length, tmp_path):
    vpg(tmp_path, env_fn, max_ep_len=250)
    assert config(tmp_path)["env"]["env_kwargs"] == stored
    assert evaluate(tmp_path, episodes=1)["lengths"] == [length]
    env, get_action = load_policy_and_env(tmp_path)
    obs, _ = env.reset()
    over = [env.step(get_action(obs))[3] for _ in range(length)]
    assert not any(over[:-1]) and over[-1] == (length < 250)
    assert run.command([f"--resume={tmp_path}", "--epochs=2"]) == 0
    resumed = config(tmp_path)
    assert resumed["env"]["env_kwargs"] == stored and resumed["learn"]["epochs"] == 2


def test_a_run_keeps_the_arguments_of_its_environment(tmp_path):
    kwargs = {"g": np.float64(3.5), "render_mode": "rgb_array"}
    model = vpg(tmp_path, pendulum(**kwargs))
    assert config(tmp_path)["env"]["env_kwargs"] == {"g": 3.5}
    env, _ = load_policy_and_env(tmp_path)
    assert env.unwrapped.g == 3.5 and env.unwrapped.render_mode is None
    obs = np.ones((4, 3), np.float32)
    again = tfbaselines.load(tmp_path)
    np.testing.assert_array_equal(*(one.act(obs, deterministic=True)[0] for one in (again, model)))
    assert len(evaluate(tmp_path, episodes=1)["returns"]) == 1
    assert run.command([f"--resume={tmp_path}", "--epochs=2"]) == 0
    assert config(tmp_path)["env"]["env_kwargs"] == {"g": 3.5}


class Own(gymnasium.Env):
    """Takes any arguments."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, **kwargs):
        self.kwargs = kwargs

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {}


@pytest.fixture
def own():
    gymnasium.register("Own-v0", Own, max_episode_steps=10, kwargs={"size": (1, 2), "level": "easy"})
    yield lambda **kwargs: lambda: gymnasium.make("Own-v0", disable_env_checker=True, **kwargs)
    del gymnasium.registry["Own-v0"]


@pytest.mark.parametrize(
    "given",
    [{"level": "5"}, {"level": "None"}, {"level": None, "size": (3, 4)}, {"size": [2.5, True], "names": {"a": "b"}}],
)
def test_arguments_of_an_environment_keep_their_types(given, own, tmp_path):
    vpg(tmp_path, own(**given))
    expected = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    assert config(tmp_path)["env"]["env_kwargs"] == expected
    env, _ = load_policy_and_env(tmp_path)
    assert env.unwrapped.kwargs == {"size": (1, 2), "level": "easy"} | expected
    assert run.command([f"--resume={tmp_path}", "--epochs=2"]) == 0
    assert config(tmp_path)["env"]["env_kwargs"] == expected


@pytest.mark.parametrize("value", [print, np.ones(2), {1: 2}, {1, 2}, float("nan"), [[[1]]], b"text"])
def test_an_argument_that_is_not_json_is_named(value, own, tmp_path, capsys):
    vpg(tmp_path, own(level=value))
    assert not (tmp_path / "config.json").exists()
    assert reason(capsys)


@pytest.mark.parametrize(
    ("env_fn", "kwargs", "why"),
    [
        (
            lambda: ClipAction(gymnasium.make("Pendulum-v1")),
            {},
            "env_fn's environment cannot be made again from an id: it is wrapped in ClipAction",
        ),
        (Own, {}, "env_fn's environment cannot be made again from an id: it has none that is registered"),
        (
            cart_pole(),
            {"ac_kwargs": {"hidden_sizes": [4], "activation": lambda x: x}},
            "activation is a function: those with a name of Keras's can be stored",
        ),
    ],
)
def test_a_run_that_cannot_be_opened_again_is_known_from_its_start(env_fn, kwargs, why, tmp_path, capsys):
    vpg(tmp_path, env_fn, **kwargs)
    assert reason(capsys) == why
    assert not (tmp_path / "config.json").exists()


def test_an_atari_game_cannot_be_made_again():
    gymnasium.register_envs(pytest.importorskip("ale_py"))
    with pytest.raises(CannotBeStored, match="Atari games are made with baselines' wrappers"):
        config_of("vpg", gymnasium.make("PongNoFrameskip-v4"), {})


# Spinning Up's arguments by position after env_fn, actor_critic, ac_kwargs and seed.
ORDER = {
    "vpg": "steps_per_epoch epochs gamma pi_lr vf_lr train_v_iters lam max_ep_len logger_kwargs save_freq",
    "ppo": """
        steps_per_epoch epochs gamma clip_ratio pi_lr vf_lr train_pi_iters train_v_iters lam max_ep_len target_kl
        logger_kwargs save_freq
    """,
    "trpo": """
        steps_per_epoch epochs gamma delta vf_lr train_v_iters damping_coeff cg_iters backtrack_iters backtrack_coeff
        lam max_ep_len logger_kwargs save_freq algo
    """,
    "ddpg": """
        steps_per_epoch epochs replay_size gamma polyak pi_lr q_lr batch_size start_steps update_after update_every
        act_noise num_test_episodes max_ep_len logger_kwargs save_freq
    """,
    "td3": """
        steps_per_epoch epochs replay_size gamma polyak pi_lr q_lr batch_size start_steps update_after update_every
        act_noise target_noise noise_clip policy_delay num_test_episodes max_ep_len logger_kwargs save_freq
    """,
    "sac": """
        steps_per_epoch epochs replay_size gamma polyak lr alpha batch_size start_steps update_after update_every
        num_test_episodes max_ep_len logger_kwargs save_freq
    """,
}


@pytest.mark.parametrize("name", ORDER)
def test_arguments_by_position(name, tmp_path, monkeypatch):
    monkeypatch.setattr(spinup, "_run", lambda *arguments: arguments)
    order = ORDER[name].split()
    values = dict.fromkeys(order, 1) | {"logger_kwargs": {"output_dir": str(tmp_path)}, "algo": "trpo", "save_freq": 2}
    function, first = getattr(tfbaselines, name), (pendulum(), spinup.mlp_actor_critic, {"hidden_sizes": [4]}, 7)
    positional = [values[one] for one in order]
    assert function(*first, *positional) == function(*first, **dict(zip(order, positional, strict=True)))
    assert function(*first, 4000, 50) == function(*first, steps_per_epoch=4000, epochs=50)
    with pytest.raises(TypeError, match=rf"{name}\(\) takes at most {4 + len(order)} .*: {order[-1]} is the last"):
        function(*first, *positional, 1)
    with pytest.raises(TypeError, match=rf"{name}\(\) got argument 'epochs' twice"):
        function(*first, 4000, 50, epochs=50)


def test_a_run_by_position(tmp_path):
    where = {"output_dir": str(tmp_path)}
    tfbaselines.ppo(
        cart_pole(),
        spinup.mlp_actor_critic,
        {"hidden_sizes": (4,)},
        0,
        30,
        2,
        train_pi_iters=1,
        train_v_iters=1,
        logger_kwargs=where,
    )
    assert read_csv(tmp_path / "progress.txt", separator="\t")["TotalEnvInteracts"].tolist() == [30, 60]
