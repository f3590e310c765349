"""Runs of td3, sac and ddpg: what is saved and resumed, and the command line."""

import json
import signal

import numpy as np
import pytest
import tensorflow as tf
from commands import finish, run, start, wait_for
from gymnasium import spaces
from small_environments import CYCLE, box, counting, still
from small_runs import damage, flags, joined, keep, learn, remove, rows, stop_after, train, weights

from tfbaselines import algs as registry
from tfbaselines.cli.command_line import parse, split
from tfbaselines.config.options import RunOptions
from tfbaselines.evaluate import evaluate
from tfbaselines.logs.logger import read_csv
from tfbaselines.run import command as main
from tfbaselines.training.checkpoint import Checkpoints, load_tree

ALGORITHMS = pytest.mark.parametrize("alg", ["td3", "sac", "ddpg"])


# Saving.


@pytest.mark.parametrize(
    ("alg", "own"),
    [("ddpg", {"noise_type": "ou_0.3", "normalize_returns": True, "popart": True}), ("sac", {"alpha": "auto"})],
)
def test_save_and_load_give_the_same_model(alg, own, eager, tmp_path):
    model = learn(alg, box(), 3, **own)
    model.save(tmp_path / "model")
    loaded = learn(alg, box(), 0, seed=9, load_path=tmp_path / "model", **own)
    np.testing.assert_equal(loaded.state(), model.state())
    obs = box(5).reset()
    np.testing.assert_array_equal(loaded.act(obs, deterministic=True)[0], model.act(obs, deterministic=True)[0])
    np.testing.assert_array_equal(loaded.value(obs), model.value(obs))
    assert weights(model.averaged.policy).tolist() != weights(model.policy).tolist()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("td3", {}), ("ddpg", {"twin_q": True, "normalize_observations": False})),
        (("sac", {}), ("sac", {"alpha": "auto"})),
        (("sac", {"alpha": "auto"}), ("sac", {})),
        (("td3", {}), ("td3", {"normalize_observations": True})),
        (("ddpg", {}), ("ddpg", {"twin_q": True})),
    ],
)
def test_models_that_do_not_fit_are_refused(before, now, seen, tmp_path):
    learn(before[0], box(), 0, **before[1]).save(tmp_path / "model")
    with pytest.raises(ValueError, match="cannot load '") as error:
        learn(now[0], box(), CYCLE, load_path=tmp_path / "model", **now[1])
    assert "\n" not in str(error.value)


# Resuming.

CASES = {
    "sac": ("sac", {"alpha": "auto"}),
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
    exploration, _ = model.parts
    assert exploration.perturbed.spec.current_stddev == pytest.approx(9 * 1.01**8)


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
    own = ["--network=mlp", "--num_hidden=5", "--num_timesteps=100", "--num_test_episodes=0", "--max_ep_len=10"]
    assert main([f"--alg={alg}", "--env=Pendulum-v1", "--replay_size=2000", f"--log_path={tmp_path}", *own]) == 0
    assert json.loads((tmp_path / "config.json").read_text())["network"] == "mlp"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--alg=td3", "--env=CartPole-v1"], "continuous actions need bounds"),
        (["--alg=ddpg", "--env=CartPole-v1"], "continuous actions need bounds"),
        (["--alg=ddpg", "--noise_type=foo"], "noise_type='foo' is not valid"),
        (["--alg=ddpg", "--popart=True"], "popart=True is not valid: needs normalize_returns=True"),
        (["--alg=sac", "--alpha=quick"], "alpha='quick' is not valid"),
        (["--alg=sac", "--update_after=1e7"], "update_after=10000000 is not valid: at most replay_size=1000000"),
        (["--alg=sac", "--memory_size=3"], "memory_size=3 is not valid: an even number"),
        (["--alg=sac", "--vis_encode_type=simpel"], "did you mean 'simple'?"),
        (["--alg=sac", "--replay_size=1e10"], "the replay would take"),
        (["--alg=td3", "--alpha=0.2"], "unknown argument --alpha of td3"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["--env=Pendulum-v1", "--num_timesteps=100", "--log_path=log", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("tfbaselines: error: ") and err.count("\n") == 1
    assert words in err


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


def play_all(directory, length=10):
    for deterministic in (True, False):
        options = {"deterministic": deterministic, "num_env": 2, "trust": True}
        assert evaluate(str(directory), episodes=3, **options)["lengths"] == [length] * 3


@pytest.mark.parametrize(
    ("alg", "env"), [("sac", "Several"), ("sac", "Continuous"), ("td3", "Continuous"), ("ddpg", "Continuous")]
)
def test_several_observations_are_taken_as_they_are(alg, env, own_envs, eager, tmp_path):
    own = ["--num_timesteps=20", f"--log_path={tmp_path / 'log'}"]
    assert main(flags(alg, *own, env=f"own_envs:{env}-v0")) == 0
    saved = load_tree(Checkpoints(tmp_path / "log/checkpoints").latest())["model"]["policy"]["observation_space"]
    assert set(saved["spaces"]) == {"image", "vector"}
    play_all(tmp_path / "log")


@pytest.mark.parametrize(
    "worker", ["dummy", pytest.param("subproc", marks=pytest.mark.slow), pytest.param("shmem", marks=pytest.mark.slow)]
)
def test_masks_of_actions_from_any_worker(worker, own_envs, eager, tmp_path):
    own = ["--num_timesteps=40", f"--log_path={tmp_path / 'log'}", f"--worker={worker}", "--num_env=2"]
    assert main(flags("sac", *own, env="own_envs:Masked-v0", num_update=1, max_ep_len=5)) == 0
    assert (rows(tmp_path / "log")["EpLen"] == 5).all()
    play_all(tmp_path / "log", 5)


# Processes.


@pytest.mark.slow
def test_a_game(tmp_path):
    own = {"num_timesteps": 400, "num_test_episodes": 0, "replay_size": 2000, "start_steps": 100, "update_after": 100}
    own |= {"steps_per_epoch": 200, "num_update": 1, "num_env": 2, "log_path": tmp_path / "log"}
    given = [f"--{name}={value}" for name, value in own.items()]
    status, _, err = run("tfbaselines.run", "--alg=sac", "--env=PongNoFrameskip-v4", *given, cwd=tmp_path)
    assert status == 0, err
    assert rows(tmp_path / "log")["TotalEnvInteracts"].tolist() == [200, 400]
    # Four frames are stacked, each of which is kept once.
    kept = load_tree(max((tmp_path / "log/replay/000").glob("*.0")))["arrays"]["obs/all"]
    assert kept.shape[1:] == (2, 84, 84, 1) and 100 <= len(kept) <= 200


@pytest.mark.slow
def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path):
    own = flags("ddpg", "--num_timesteps=1e7", "--log_path=log", num_test_episodes=0, save_interval=1)
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
    steps = rows(tmp_path / "log")["total/steps"]
    # Rows of epochs that were done again stand twice; none is missing.
    assert set(steps) == set(range(2 * CYCLE, total + 1, 2 * CYCLE)) and steps.iloc[-1] == total
