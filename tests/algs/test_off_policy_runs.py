"""Runs of td3, sac and ddpg: seeds, saving, resuming, the command line, processes and ranks."""

import json
import shutil
import signal
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from commands import finish, interrupt, run, start, wait_for
from gymnasium import spaces
from helpers import vec
from small_runs import (
    BASELINES,
    CYCLE,
    MODULES,
    SPINUP,
    counting,
    joined,
    learn,
    rows,
    still,
    train,
    weights,
)

from tfbaselines.algs import registry
from tfbaselines.envs import tiny
from tfbaselines.evaluate import evaluate
from tfbaselines.logs.logger import read_csv
from tfbaselines.run import main
from tfbaselines.running.checkpoint import Checkpoints, load_tree
from tfbaselines.settings.command_line import parse, split
from tfbaselines.settings.options import RunOptions

ALGORITHMS = pytest.mark.parametrize("alg", ["td3", "sac", "ddpg"])
TWO_RANKS = ("mpirun", "-np", "2")

SMALL = {"td3": SPINUP, "sac": SPINUP, "ddpg": BASELINES}


def flags(alg, *more, env="Pendulum-v1", **changed):
    """The small run on the command line."""
    values = SMALL[alg] | {"max_ep_len": 15, "num_test_episodes": 2, "hidden_sizes": "[8]"} | changed
    # The network that td3 and sac have by default.
    values |= {"network": "dense"} if alg == "ddpg" else {}
    return [f"--alg={alg}", f"--env={env}", *(f"--{name}={value}" for name, value in values.items()), *more]


def box(count=1, seed=0):
    return vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=10), count, seed)


def stop_after(cycles):
    return RunOptions(callback=lambda training: training.update < cycles)


# Seeds.


@ALGORITHMS
@pytest.mark.parametrize("count", [1, 2])
def test_one_seed_gives_one_curve(alg, count, eager, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(tmp_path / name, alg, box(count, seed), 4, seed=seed, eval_env=box(1, 7), num_test_episodes=1)
    assert len(rows(tmp_path / "a")) == 2
    assert rows(tmp_path / "a").equals(rows(tmp_path / "b"))
    assert not rows(tmp_path / "a").equals(rows(tmp_path / "c"))


@ALGORITHMS
def test_without_a_seed_every_run_is_another(alg, eager):
    one, other = (weights(learn(alg, box(), 0, seed=None).policy) for _ in range(2))
    assert one.tolist() != other.tolist()


# Saving.


@ALGORITHMS
def test_save_and_load_give_the_same_model(alg, eager, tmp_path):
    own = {"noise_type": "ou_0.3", "normalize_returns": True, "popart": True} if alg == "ddpg" else {}
    own |= {"alpha": "auto"} if alg == "sac" else {}
    model = learn(alg, box(), 3, **own)
    model.save(tmp_path / "model")
    loaded = learn(alg, box(), 0, seed=9, load_path=tmp_path / "model", **own)
    np.testing.assert_equal(loaded.state(), model.state())
    obs = box(5).reset()
    np.testing.assert_array_equal(loaded.act(obs, deterministic=True)[0], model.act(obs, deterministic=True)[0])
    np.testing.assert_array_equal(loaded.value(obs), model.value(obs))
    assert weights(model.averaged.policy).tolist() != weights(model.policy).tolist()


@ALGORITHMS
def test_a_checkpoint_holds_the_trained_model(alg, eager, tmp_path):
    model = train(tmp_path, alg, box(), 3)
    latest = Checkpoints(tmp_path / "checkpoints").latest()
    loaded = MODULES[alg].build_model("dense", box(), {"hidden_sizes": [8]})
    loaded.load(latest)
    obs = box(5).reset()
    np.testing.assert_array_equal(loaded.act(obs, deterministic=True)[0], model.act(obs, deterministic=True)[0])


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("td3", {}), ("sac", {})),
        (("sac", {}), ("td3", {})),
        (("td3", {}), ("ddpg", {"twin_q": True, "normalize_observations": False})),
        (("sac", {}), ("sac", {"alpha": "auto"})),
        (("sac", {"alpha": "auto"}), ("sac", {})),
        (("td3", {}), ("td3", {"hidden_sizes": [9]})),
        (("td3", {}), ("td3", {"normalize_observations": True})),
        (("ddpg", {}), ("ddpg", {"twin_q": True})),
    ],
)
def test_models_that_do_not_fit_are_refused(before, now, seen, tmp_path):
    learn(before[0], box(), 0, **before[1]).save(tmp_path / "model")
    with pytest.raises(ValueError, match="cannot load '") as error:
        learn(now[0], box(), 0, load_path=tmp_path / "model", **now[1])
    assert "\n" not in str(error.value)


# Resuming.

CASES = {
    "td3": ("td3", {"pi_lr": "linear_1e-3"}),
    "sac": ("sac", {"alpha": "auto", "lr": "linear_1e-3"}),
    "discrete": ("sac", {"alpha": "auto"}),
    "ddpg": ("ddpg", {"noise_type": "normal_0.2", "normalize_returns": True, "popart": True}),
    "drift": ("ddpg", {"noise_type": "ou_0.2"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_equals_an_uninterrupted_one(case, eager, tmp_path):
    """Episodes end with the cycles, and begin in one way."""
    alg, own = CASES[case]
    own = own | {"replay_size": 50}
    actions = spaces.Discrete(3) if case == "discrete" else None
    whole = train(tmp_path / "whole", alg, still(actions=actions), 8, **own)
    train(tmp_path / "half", alg, still(actions=actions), 8, run=stop_after(4), **own)
    assert len(rows(tmp_path / "half")) == 2
    again = {"run": RunOptions(resume=str(tmp_path / "half")), "seed": 99}
    resumed = train(tmp_path / "half", alg, still(actions=actions), 8, **own | again)
    np.testing.assert_equal(resumed.state(), whole.state())
    assert rows(tmp_path / "half").equals(rows(tmp_path / "whole"))


def test_the_size_of_parameters_noise_goes_on(seen, tmp_path):
    own = {"noise_type": "adaptive-param_9", "nb_train_steps": 1}
    train(tmp_path, "ddpg", still(), 8, run=stop_after(4), **own)
    model = train(tmp_path, "ddpg", still(), 8, run=RunOptions(resume=str(tmp_path)), **own)
    assert model.noise.parameters.current_stddev == pytest.approx(9 * 1.01**8)


def keep(path):
    return None


def remove(path):
    shutil.rmtree(path)
    return "is not a saved replay"


def damage(path):
    (path / "rewards.npy").write_bytes(b"nothing")
    return "is not a saved replay"


@ALGORITHMS
@pytest.mark.parametrize("lose", [keep, remove, damage])
def test_a_lost_replay_is_said_and_costs_experience_alone(alg, lose, seen, tmp_path):
    train(tmp_path, alg, counting(), 4)
    words = lose(tmp_path / "replay/000")
    seen.clear()
    own = {"batch_size": 400, "start_steps": 0}
    train(tmp_path, alg, counting(first=1000), 6, run=RunOptions(resume=str(tmp_path)), **own)
    log = (tmp_path / "log.txt").read_text()
    steps = set(np.abs(joined(seen, "obs")))
    if words is None:
        assert steps == {*range(40), *range(1000, 1020)}
        assert "starts empty" not in log
    else:
        assert steps == set(range(1000, 1020))
        assert log.count("the replay starts empty") == 1 and words in log
    name = "total/steps" if alg == "ddpg" else "TotalEnvInteracts"
    assert rows(tmp_path)[name].tolist() == [20, 40, 60]


@ALGORITHMS
def test_without_a_saved_replay_a_resumed_run_does_not_miss_it(alg, seen, tmp_path):
    train(tmp_path, alg, counting(), 4, save_replay_buffer=False)
    train(tmp_path, alg, counting(first=1000), 6, save_replay_buffer=False, run=RunOptions(resume=str(tmp_path)))
    assert "starts empty" not in (tmp_path / "log.txt").read_text()
    assert len(rows(tmp_path)) == 3


def test_the_table_is_continued(seen, tmp_path):
    train(tmp_path, "td3", counting(), 4)
    train(tmp_path, "td3", counting(first=40), 8, run=RunOptions(resume=str(tmp_path)))
    table = read_csv(tmp_path / "progress.txt", separator="\t")
    assert table["Epoch"].tolist() == [1, 2, 3, 4] and table["TotalEnvInteracts"].tolist() == [20, 40, 60, 80]
    assert table["Time"].is_monotonic_increasing


# The command line.


@pytest.fixture(scope="module", params=["td3", "sac", "ddpg"])
def saved(request, tmp_path_factory):
    """The algorithm, and a directory with the log and the model of a run of two epochs."""
    directory = tmp_path_factory.mktemp(request.param)
    tf.config.run_functions_eagerly(True)
    paths = [f"--log_path={directory / 'log'}", f"--save_path={directory / 'model'}"]
    assert main(flags(request.param, "--num_timesteps=40", *paths)) == 0
    tf.config.run_functions_eagerly(False)
    return request.param, directory


def test_a_run_leaves_its_files(saved):
    alg, directory = saved
    names = {path.name for path in (directory / "log").iterdir()}
    expected = {"0.0.monitor.csv", "checkpoints", "config.json", "log.txt", "progress.csv", "replay"}
    assert names == expected | ({"progress.txt"} if alg != "ddpg" else set())
    config = json.loads((directory / "log/config.json").read_text())
    assert config["alg"] == alg and config["learn"]["replay_size"] == 200
    assert load_tree(directory / "model")["config"]["alg"] == alg
    monitor = (directory / "log/0.0.monitor.csv").read_text().splitlines()
    # Two episodes of fifteen steps; those of tests are not among them.
    assert len(monitor) == 2 + 2
    assert len(rows(directory / "log")) == 2


def test_a_saved_run_is_evaluated(saved):
    directory = str(saved[1] / "log")
    first, again, other = (evaluate(directory, 2, seed=seed)["returns"] for seed in (1, 1, 2))
    assert first == again != other
    exact, more = (evaluate(directory, 2, seed=1, deterministic=True, num_env=count) for count in (1, 2))
    assert len(exact["returns"]) == len(more["returns"]) == 2
    # The environment's own limit.
    assert exact["lengths"] == [200, 200]


def test_a_saved_model_is_played(saved, capsys, monkeypatch, tmp_path):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    alg, directory = saved
    own = ["--num_timesteps=0", f"--load_path={directory / 'model'}", "--play", f"--log_path={tmp_path / 'log'}"]
    assert main(flags(alg, *own)) == 0
    assert capsys.readouterr().out.count("episode_rew=") == 10


def test_a_saved_model_is_exported(saved, tmp_path):
    alg, directory = saved
    env = vec(lambda: gymnasium.make("Pendulum-v1"))
    model = learn(alg, env, 0, load_path=directory / "model")
    model.export(tmp_path / "served")
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    answers = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](observations=obs)
    np.testing.assert_allclose(answers["actions"], model.act(obs, deterministic=True)[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(answers["values"], model.value(obs), rtol=1e-4, atol=1e-5)


def test_a_model_in_units_of_returns_is_exported(eager, tmp_path):
    model = learn("ddpg", box(), 3, normalize_returns=True)
    model.export(tmp_path / "served")
    obs = box(5).reset()
    answers = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](observations=obs)
    np.testing.assert_allclose(answers["values"], model.value(obs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("alg", "given", "steps"),
    [
        ("td3", ["--epochs=3", "--steps_per_epoch=20"], 60),
        ("sac", ["--epochs=1"], 20),
        ("sac", ["--epochs=7", "--num_timesteps=40"], 40),
        ("ddpg", ["--nb_epochs=3"], 60),
    ],
)
def test_epochs_tell_how_long_unless_steps_do(alg, given, steps, seen, tmp_path):
    assert main(flags(alg, *given, f"--log_path={tmp_path}", num_test_episodes=0)) == 0
    name = "total/steps" if alg == "ddpg" else "TotalEnvInteracts"
    assert rows(tmp_path)[name].iloc[-1] == steps


@ALGORITHMS
def test_a_network_is_chosen_by_name(alg, seen, tmp_path):
    own = ["--network=mlp", "--num_hidden=5", "--num_timesteps=20", "--num_test_episodes=0", "--max_ep_len=10"]
    assert main([f"--alg={alg}", "--env=Pendulum-v1", "--replay_size=2000", f"--log_path={tmp_path}", *own]) == 0
    assert json.loads((tmp_path / "config.json").read_text())["network"] == "mlp"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--alg=td3", "--env=CartPole-v1"], "continuous actions need bounds"),
        (["--alg=ddpg", "--env=CartPole-v1"], "continuous actions need bounds"),
        (["--alg=ddpg", "--noise_type=foo"], "noise_type='foo' is not valid"),
        (["--alg=ddpg", "--popart=True"], "popart=True is not valid: needs normalize_returns=True"),
        (["--alg=ddpg", "--tau=2"], "tau=2.0 is not valid: between 0 and 1"),
        (["--alg=sac", "--alpha=quick"], "alpha='quick' is not valid"),
        (["--alg=sac", "--update_after=1e7"], "update_after=10000000 is not valid: at most replay_size=1000000"),
        (["--alg=sac", "--memory_size=3"], "memory_size=3 is not valid: an even number"),
        (["--alg=sac", "--vis_encode_type=simpel"], "did you mean 'simple'?"),
        (["--alg=sac", "--buffer_init_step=3"], "did you mean --buffer_init_steps?"),
        (["--alg=sac", "--replay_size=1e15"], "the replay would take"),
        (["--alg=td3", "--policy_delay=0"], "policy_delay=0 is not valid: at least 1"),
        (["--alg=td3", "--alpha=0.2"], "unknown argument --alpha of td3"),
        (["--alg=td3", "--epochs=many"], "epochs='many' is not valid: a whole number"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["--env=Pendulum-v1", "--num_timesteps=10", "--log_path=log", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("tfbaselines: error: ") and err.count("\n") == 1
    assert words in err


@ALGORITHMS
def test_help_tells_every_argument(alg, capsys):
    assert main([f"--alg={alg}", "--help"]) == 0
    out = capsys.readouterr().out
    names = [name for name in SMALL[alg] if name != "seed"]
    assert all(f"--{name}" in out for name in names)


def test_games_have_defaults_of_their_own():
    own = parse(split(["--alg=sac", "--env=PongNoFrameskip-v4"]), registry.ALGORITHMS)
    assert own.network == "cnn" and own.learn["max_ep_len"] is None and own.learn["replay_size"] == 1e5
    assert parse(split(["--alg=sac", "--env=Pendulum-v1"]), registry.ALGORITHMS).network == "dense"


OWN = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Several(gymnasium.Env):
    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (12, 12, 1), np.uint8), vector=spaces.Box(-1, 1, (3,), np.float32)
    )

    def __init__(self, continuous=False):
        self.action_space = spaces.Box(-1, 1, (2,), np.float32) if continuous else spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observation_space.sample(), self.told()

    def told(self):
        return {}

    def step(self, action):
        self.time += 1
        return self.observation_space.sample(), 1.0, self.time >= 10, False, self.told()


class Masked(Several):
    observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def told(self):
        self.allowed = int(self.np_random.integers(3))
        return {"action_mask": np.arange(3) == self.allowed}

    def step(self, action):
        assert action == self.allowed, "that is not allowed"
        return super().step(action)


gymnasium.register("Several-v0", entry_point=Several)
gymnasium.register("Continuous-v0", entry_point=Several, kwargs={"continuous": True})
gymnasium.register("Masked-v0", entry_point=Masked)
"""


@pytest.fixture
def own_envs(tmp_path, monkeypatch):
    (tmp_path / "own_envs.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def play_all(directory):
    for deterministic in (True, False):
        assert evaluate(str(directory), 3, deterministic=deterministic, num_env=2)["lengths"] == [10] * 3


@pytest.mark.parametrize("env", ["Several", "Continuous"])
def test_sac_takes_several_observations_as_they_are(env, own_envs, eager, tmp_path):
    own = ["--num_timesteps=20", f"--log_path={tmp_path / 'log'}"]
    assert main(flags("sac", *own, env=f"own_envs:{env}-v0", num_update=1)) == 0
    saved = load_tree(Checkpoints(tmp_path / "log/checkpoints").latest())["model"]["policy"]["observation_space"]
    assert set(saved["spaces"]) == {"image", "vector"}
    play_all(tmp_path / "log")


@pytest.mark.parametrize("alg", ["td3", "ddpg"])
def test_the_others_take_them_as_one(alg, own_envs, eager, tmp_path):
    own = ["--num_timesteps=20", f"--log_path={tmp_path / 'log'}"]
    assert main(flags(alg, *own, env="own_envs:Continuous-v0")) == 0
    saved = load_tree(Checkpoints(tmp_path / "log/checkpoints").latest())["model"]["policy"]["observation_space"]
    assert saved == {"type": "Box", "shape": [147], "dtype": "float32"}
    play_all(tmp_path / "log")


@pytest.mark.parametrize(
    "worker", ["dummy", pytest.param("subproc", marks=pytest.mark.slow), pytest.param("shmem", marks=pytest.mark.slow)]
)
def test_masks_of_actions_from_any_worker(worker, own_envs, eager, tmp_path):
    own = ["--num_timesteps=40", f"--log_path={tmp_path / 'log'}", f"--worker={worker}", "--num_env=2"]
    assert main(flags("sac", *own, env="own_envs:Masked-v0", num_update=1, max_ep_len=5)) == 0
    assert (rows(tmp_path / "log")["EpLen"] == 5).all()
    play_all(tmp_path / "log")


# Processes.


@pytest.mark.slow
@ALGORITHMS
def test_everything_a_user_types(alg, tmp_path):
    status, out, err = run("tfbaselines.run", *flags(alg, "--num_timesteps=60", "--log_path=log"), cwd=tmp_path)
    assert status == 0, err
    assert out.startswith(f"Logging to {tmp_path / 'log'}") and "100%" in err
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    status, out, err = run("tfbaselines.evaluate", "log", "--episodes=2", "--deterministic", cwd=tmp_path)
    assert status == 0, err
    assert "2 episodes" in out
    status, out, err = run("tfbaselines.plot", "log", cwd=tmp_path)
    assert status == 0, err
    assert (tmp_path / "log/plot.png").read_bytes().startswith(b"\x89PNG")
    status, out, err = run("tfbaselines.run", "--resume=log", "--num_timesteps=80", "--play", cwd=tmp_path)
    assert status == 0, err
    assert len(rows(tmp_path / "log")) == 4 and out.count("episode_rew=") == 10


@pytest.mark.slow
def test_a_game(tmp_path):
    own = {"num_timesteps": 400, "num_test_episodes": 0, "replay_size": 2000, "start_steps": 100, "update_after": 100}
    own |= {"steps_per_epoch": 200, "num_update": 1, "num_env": 2, "log_path": tmp_path / "log"}
    given = [f"--{name}={value}" for name, value in own.items()]
    status, _, err = run("tfbaselines.run", "--alg=sac", "--env=PongNoFrameskip-v4", *given, cwd=tmp_path)
    assert status == 0, err
    assert rows(tmp_path / "log")["TotalEnvInteracts"].tolist() == [200, 400]
    # Four frames are stacked, each of which is kept once.
    assert np.load(tmp_path / "log/replay/000/obs.all.npy", mmap_mode="r").shape == (201, 2, 84, 84, 1)


@pytest.mark.slow
@ALGORITHMS
def test_ctrl_c_saves_and_says_how_to_go_on(alg, tmp_path):
    own = flags(alg, "--num_timesteps=1e7", "--log_path=log", num_test_episodes=0, replay_size=100_000)
    process = start("tfbaselines.run", *own, cwd=tmp_path, OPENAI_LOG_FORMAT="log,csv")
    interrupt(process, tmp_path / "log", 5)
    before = rows(tmp_path / "log")
    cycles = int(Checkpoints(tmp_path / "log/checkpoints").latest().name)
    assert saved_steps(tmp_path) == cycles * CYCLE
    total = (cycles // 2 + 5) * 2 * CYCLE
    status, _, err = run("tfbaselines.run", "--resume=log", f"--num_timesteps={total}", cwd=tmp_path)
    assert status == 0, err
    after = rows(tmp_path / "log")
    assert after[: len(before)].equals(before)
    assert np.isfinite(after.iloc[-1]).all()
    epochs = after["total/epochs" if alg == "ddpg" else "Epoch"].tolist()
    assert epochs == list(range(1, total // (2 * CYCLE) + 1))
    assert saved_steps(tmp_path) == total
    assert "starts empty" not in (tmp_path / "log/log.txt").read_text()
    assert (tmp_path / "log/0.0.monitor.csv").read_text().count("t_start") == 1


def saved_steps(directory):
    return json.loads((directory / "log/replay/000/replay.json").read_text())["steps"]


@pytest.mark.slow
@ALGORITHMS
def test_a_killed_run_goes_on_from_its_last_checkpoint(alg, tmp_path):
    own = flags(alg, "--num_timesteps=1e7", "--log_path=log", num_test_episodes=0)
    own += ["--save_interval=1"] if alg == "ddpg" else []
    process = start("tfbaselines.run", *own, cwd=tmp_path, OPENAI_LOG_FORMAT="log,csv")
    checkpoints = Checkpoints(tmp_path / "log/checkpoints")
    try:
        wait_for(lambda: checkpoints.latest() is not None and int(checkpoints.latest().name) >= 12, process)
    finally:
        process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    total = (int(checkpoints.latest().name) // 2 + 5) * 2 * CYCLE
    status, _, err = run("tfbaselines.run", "--resume=log", f"--num_timesteps={total}", cwd=tmp_path)
    assert status == 0, err
    steps = rows(tmp_path / "log")["total/steps" if alg == "ddpg" else "TotalEnvInteracts"]
    # Rows of epochs that were done again stand twice; none is missing.
    assert set(steps) == set(range(2 * CYCLE, total + 1, 2 * CYCLE)) and steps.iloc[-1] == total


# Ranks.


BOTH = """
from helpers import vec
from small_runs import learn

from tfbaselines.envs import tiny
from tfbaselines.parallel import mpi
from tfbaselines.running.checkpoint import save_tree

rank = mpi.world().rank
for alg, own in (
    ("td3", {"normalize_observations": True}),
    ("sac", {"alpha": "auto"}),
    ("ddpg", {"normalize_returns": True, "popart": True}),
):
    env = vec(lambda: tiny.BoxIdentityEnv((2,), episode_len=10), seed=10_000 * rank)
    model = learn(alg, env, 5, **own)
    save_tree(f"{alg}-{rank}", {"model": model.state(), "actions": model.replay.latest(50)[1]})
"""


@pytest.mark.slow
def test_two_ranks_train_one_model(tmp_path):
    (tmp_path / "both.py").write_text(BOTH)
    here = Path(__file__).parent
    paths = f"{tmp_path}:{here}:{here.parent}"
    process = start("both", cwd=tmp_path, launcher=TWO_RANKS, PYTHONPATH=paths)
    try:
        status, _, err = finish(process, timeout=300)
    finally:
        process.terminate()
    assert status == 0, err
    for alg in ("td3", "sac", "ddpg"):
        one, other = (load_tree(tmp_path / f"{alg}-{rank}") for rank in (0, 1))
        np.testing.assert_equal(other["model"], one["model"])
        assert not np.array_equal(one["actions"], other["actions"])


@pytest.mark.slow
@ALGORITHMS
def test_two_ranks_on_the_command_line(alg, tmp_path):
    for given in (flags(alg, "--num_timesteps=60", "--log_path=log"), ["--resume=log", "--num_timesteps=100"]):
        process = start("tfbaselines.run", *given, cwd=tmp_path, launcher=TWO_RANKS)
        try:
            status, _, err = finish(process, timeout=300)
        finally:
            process.terminate()
        assert status == 0, err
    names = {path.name for path in (tmp_path / "log").iterdir()}
    assert {"0.0.monitor.csv", "1.0.monitor.csv", "log.txt", "log-rank001.txt", "progress.csv"} <= names
    kept = [np.load(tmp_path / f"log/replay/{rank:03d}/actions.npy") for rank in (0, 1)]
    assert kept[0].shape == kept[1].shape and not np.array_equal(*kept)
    log = rows(tmp_path / "log")
    assert len(log) == 5
    if alg != "ddpg":
        assert log["TotalEnvInteracts"].tolist() == [40, 80, 120, 160, 200]
    for name in ("log.txt", "log-rank001.txt"):
        assert "starts empty" not in (tmp_path / "log" / name).read_text()
