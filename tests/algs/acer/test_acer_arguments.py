"""ACER's arguments, good and bad."""

import pytest
from acer_small import FLAGS, MLP, NSTEPS, SMALL, TINY_ENV, box, counting, identity, learn, recorded_updates
from gymnasium import spaces
from helpers import vec

from tfbaselines.algs import acer, ppo2
from tfbaselines.config.options import RunOptions
from tfbaselines.envs import tiny
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.logs import logger
from tfbaselines.run import command as main
from tfbaselines.training.checkpoint import Checkpoints


@pytest.fixture
def seen(monkeypatch):
    return recorded_updates(monkeypatch)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("replay_start", 65), ("num_workers", 2), ("trust_region", "foo"), ("trust_region", "Exact"), ("lrschedule", "x")],
)
def test_bad_arguments_are_named_in_one_line(argument, value):
    with pytest.raises(ValueError, match=r"valid|unknown") as error:
        learn(identity(), **{argument: value})
    assert "\n" not in str(error.value)
    assert str(value) in str(error.value)


@pytest.mark.parametrize("argument", ["batch_size", "trace_length"])
def test_arguments_of_traces_need_traces(argument):
    with pytest.raises(ValueError, match="need buffer_len"):
        acer.learn("mlp", identity(), **SMALL, total_timesteps=32, **{argument: 8})


def test_more_or_fewer_workers_resume_a_run(tmp_path, eager):
    def some(count):
        return [VecNormalize(box()) for _ in range(count)]

    for count, steps in ((2, 64), (1, 96), (2, 128)):
        with logger.scoped_configure(str(tmp_path), ["csv"], resume=steps > 64):
            run_options = RunOptions(resume=str(tmp_path) if steps > 64 else None)
            acer.learn("mlp", some(count), total_timesteps=steps, run=run_options, **SMALL, **MLP)
            assert Checkpoints(tmp_path / "checkpoints").latest().name == f"{steps // NSTEPS:05d}"


def test_a_start_that_is_never_reached_matters_only_with_replay(seen):
    learn(identity(), 2, replay_start=65, replay_ratio=0)
    learn(identity(), 2, replay_start=65, buffer_len=2)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)])
def test_other_actions_are_refused(space):
    class Any(tiny.ConstantRewardEnv):
        def __init__(self):
            super().__init__()
            self.action_space = space

    with pytest.raises(ValueError, match="acer needs Discrete or Box actions, not Multi"):
        learn(vec(Any))


def test_a_replay_larger_than_the_memory_is_refused(seen):
    with pytest.raises(ValueError, match=r"the replay would take .* GiB"):
        learn(counting(), 2, buffer_size=9 * 10**9, replay_start=0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--replay_start=100", "--buffer_size=50"], "replay_start=100 is not valid: at most buffer_size=50"),
        (["--trust_region=foo"], "unknown trust_region 'foo': choose from False, True, efficient, exact"),
        (["--lock=perhaps"], "lock='perhaps' is not valid: True or False"),
        (["--lrschedule=lineer"], "linear"),
        (["--reward_clp=1"], "did you mean --reward_clip?"),
        (["--noptepochs=3"], "--noptepochs"),
        ([f"{TINY_ENV}MultiDiscreteIdentity-v0"], "acer needs Discrete or Box actions, not MultiDiscrete"),
        (["--normalise_observations=True"], "did you mean --normalize_observations?"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main([*FLAGS, "--num_timesteps=8", "--log_path=log", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("tfbaselines: error: ") and err.count("\n") == 1
    assert words in err


def test_another_algorithms_model_is_refused(tmp_path):
    ppo2.learn("mlp", identity(), 0, nsteps=8, **MLP).save(tmp_path / "model")
    with pytest.raises(ValueError, match="another network"):
        learn(identity(), 1, load_path=tmp_path / "model")
