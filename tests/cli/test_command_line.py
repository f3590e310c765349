import os
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from tfbaselines.algs import ALGORITHMS
from tfbaselines.cli.command_line import FLAGS, OF_THE_RUN, parse, parse_value, split
from tfbaselines.config.argument import Argument, kinds_of
from tfbaselines.config.config import NetworkSpec, Schedule
from tfbaselines.config.groups import ACTIVATIONS, NETWORKS
from tfbaselines.errors import UsageError
from tfbaselines.parallel.mpi import usable_cores
from tfbaselines.policy import networks as built

OWN_NETWORK = """
import keras
from tfbaselines.policy.networks import register

@register("towers")
def towers(width=32, scale=1.0, names="ab", sizes=(1, 2), wide=False, limit=None):
    return lambda shape: keras.Sequential([keras.Input(shape), keras.layers.Dense(width)])
"""

CLASHING_NETWORK = """
from tfbaselines.policy.networks import register

@register("clashing")
def clashing(width=32, alpha=1.0):
    return None
"""


def arguments(*words):
    return parse(split(list(words)), ALGORITHMS)


def argument(annotation):
    return Argument("x", kinds_of(annotation), None, "")


def one_line(error):
    return len(str(error).splitlines()) == 1


def test_words_are_split():
    words = ["--env=A-v0", "--seed", "3", "--reward-scale", "-2", "--play", "--load_path=a=b", "--seed=4", "--x="]
    assert split(words) == {
        "env": "A-v0",
        "seed": "4",
        "reward_scale": "-2",
        "play": True,
        "load_path": "a=b",
        "x": "",
    }


@given(st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), st.text()))
def test_every_value_survives_the_splitting(given):
    assert split([f"--{name}={text}" for name, text in given.items()]) == given


@for_each("word", ["ppo2", "-seed=3", "--", ""])
def test_words_that_are_no_arguments(word):
    with pytest.raises(UsageError, match=f"'{word}' is not an argument: write --name=value"):
        split([word])


@for_each(
    ("annotation", "text", "value"),
    [
        (int, "3", 3),
        (int, "-2", -2),
        (int, "1e3", 1000),
        (int | None, "None", None),
        (int | None, "7", 7),
        (float, "3", 3.0),
        (float, "2.5e-4", 2.5e-4),
        (float | None, "none", None),
        (bool, "True", True),
        (bool, "false", False),
        (bool, "1", True),
        (bool, "0", False),
        (bool, True, True),
        (str, "3", "3"),
        (str, "None", "None"),
        (str | None, "None", None),
        (str | None, "", ""),
        (NetworkSpec | None, "copy", "copy"),
        (Schedule, "3", 3.0),
        (Schedule, "linear_3", "linear_3"),
        (Schedule | None, "None", None),
        (Sequence[int], "[1, 2]", [1, 2]),
        (Sequence[int], "3", [3]),
        (Sequence[tuple[int, int, int]], "((8, 4, 2), (16, 2, 1))", ((8, 4, 2), (16, 2, 1))),
        (tuple, "(1,)", (1,)),
    ],
)
def test_text_becomes_a_value_of_the_arguments_type(annotation, text, value):
    found = parse_value(argument(annotation), text)
    assert found == value and type(found) is type(value)


@for_each(
    ("annotation", "text", "accepted"),
    [
        (int, "1.5", "a whole number"),
        (int, "True", "a whole number"),
        (int | None, "many", "a whole number or None"),
        (int, "", "a whole number"),
        (float, "fast", "a number"),
        (float, "nan", "a number"),
        (float, "1e999", "a number"),
        (float, "1" + "0" * 400, "a number"),
        (float, "[1]", "a number"),
        (float, "1 + 1", "a number"),
        (float, "{[]: 1}", "a number"),
        (float | None, "__import__('os')", "a number or None"),
        (bool, "2", "True or False"),
        (bool, "yes", "True or False"),
        (Sequence[int], "three", "a list"),
        (list, "{1}", "a list"),
    ],
)
def test_text_of_another_type_is_refused(annotation, text, accepted):
    with pytest.raises(UsageError, match=f"is not valid: {accepted}$") as caught:
        parse_value(argument(annotation), text)
    assert str(caught.value).startswith(f"x={text!r:.300}")


def test_defaults_of_the_command():
    args = arguments()
    assert args.flags == {name: flag.default for name, flag in FLAGS.items()} | {"network": "mlp", "num_env": 1}
    assert (args.alg, args.env, args.seed, args.num_timesteps) == ("ppo2", "CartPole-v1", None, 1e6)
    assert (args.learn, args.given, args.env_type, args.env_id) == ({}, {}, "classic_control", "CartPole-v1")
    with pytest.raises(AttributeError, match="no_flag"):
        _ = args.no_flag


def test_as_many_atari_games_as_there_are_cores_for_the_run(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 8}, raising=False)
    assert arguments("--env=PongNoFrameskip-v4").num_env == 3
    assert arguments("--env=PongNoFrameskip-v4", "--num_env=2").num_env == 2


@for_each("alg", ALGORITHMS)
@for_each("env_type", ["atari", "mujoco", "classic_control"])
def test_defaults_of_an_environments_type(alg, env_type):
    args, config = arguments(f"--alg={alg}", f"--env_type={env_type}"), ALGORITHMS[alg].config
    assert args.algorithm is ALGORITHMS[alg]
    # Those of a network that this type of environment does not have are left out.
    known = config.arguments().keys() | NETWORKS[args.network].arguments.keys() | {"network"}
    own = {name: value for name, value in config.defaults_for(env_type).items() if name in known}
    assert args.learn | {"network": args.network} == {"network": "cnn" if env_type == "atari" else "mlp", **own}
    assert args.num_env == (len(usable_cores()) if env_type == "atari" else ALGORITHMS[alg].num_env)


@for_each(
    ("words", "total_timesteps"),
    [
        (["--alg=ppo2"], 1e6),
        (["--alg=sac"], 1e6),
        (["--alg=sac", "--epochs=3"], None),
        (["--alg=td3", "--epochs=3", "--num_timesteps=50"], 50.0),
        (["--alg=ddpg", "--nb_epochs=3"], None),
        (["--alg=ddpg", "--num_timesteps=50"], 50.0),
    ],
)
def test_epochs_take_the_place_of_the_default_number_of_steps(words, total_timesteps):
    assert arguments(*words).total_timesteps == total_timesteps


@for_each("alg", ["sac", "td3"])
def test_off_policy_algorithms_begin_with_spinning_ups_network(alg):
    assert arguments(f"--alg={alg}").network == "dense"
    assert arguments(f"--alg={alg}", "--network=mlp").network == "mlp"
    assert arguments(f"--alg={alg}", "--hidden_sizes=[8, 4]").learn == {"hidden_sizes": [8, 4]}


def test_sac_begins_with_convolutions_on_atari():
    assert arguments("--alg=sac", "--env_type=atari").network == "cnn"


def test_what_is_given_comes_before_defaults_and_leaves_them_as_they_are():
    args = arguments("--env_type=atari", "--nsteps=7", "--network=mlp", "--num_env=3", "--num_hidden=8", "--seed", "5")
    atari = ALGORITHMS["ppo2"].config.defaults_for("atari")
    assert args.learn == {**atari, "nsteps": 7, "num_hidden": 8}
    assert (args.network, args.num_env, args.seed) == ("mlp", 3, 5)
    assert args.given["nsteps"] == "7" and args.given["seed"] == "5"
    assert arguments("--env_type=atari").learn["nsteps"] == 128


def test_arguments_of_algorithm_and_network():
    assert arguments("--max_grad_norm=None", "--value_network=copy", "--normalize_observations").learn == {
        "max_grad_norm": None,
        "value_network": "copy",
        "normalize_observations": True,
    }
    assert arguments("--network=conv_only", "--convs=[(8, 4, 2)]").learn == {"convs": [(8, 4, 2)]}
    with pytest.raises(UsageError, match="unknown argument --convs of ppo2 with network mlp"):
        arguments("--convs=[(8, 4, 2)]")


RATES = [(name, rate) for name, algorithm in ALGORITHMS.items() for rate in algorithm.config().schedules()]


@for_each(("alg", "rate"), RATES)
@for_each("text", ["linear_3e-4", "middle_drop_1", "constant_2", "double_middle_drop_0.1"])
def test_schedules_stay_text(alg, rate, text):
    assert arguments(f"--alg={alg}", f"--{rate}={text}").learn[rate] == text


@for_each(("alg", "rate"), RATES)
@for_each(
    ("text", "accepted"),
    [
        ("fast", "a number or SHAPE_NUMBER such as linear_3e-4"),
        ("linaer_1", "unknown schedule 'linaer': did you mean 'linear'?"),
        ("linear_inf", "a finite number"),
        ("linear_-1", "at least 0"),
    ],
)
def test_schedules_that_cannot_be_are_named(alg, rate, text, accepted):
    with pytest.raises(UsageError) as caught:
        arguments(f"--alg={alg}", f"--{rate}={text}")
    assert str(caught.value) == f"{rate}={text!r} is not valid: {accepted}"


def test_a_constant_rate_is_a_number():
    assert arguments("--lr=3e-4", "--cliprange=1").learn == {"lr": 3e-4, "cliprange": 1.0}


@for_each("alg", ALGORITHMS)
def test_bounds_are_those_of_python(alg):
    """A number beyond a bound is the same error on the command line as in learn."""
    for one in ALGORITHMS[alg].config.arguments().values():
        sides = {one.bounds.at_least: -1, one.bounds.above: 0, one.bounds.at_most: 1}
        for bound, step in sides.items():
            if bound is None or one.name in (*OF_THE_RUN, *FLAGS):
                continue
            beyond = float(bound + step)
            with pytest.raises(UsageError) as from_python:
                ALGORITHMS[alg].config.of({one.name: beyond})
            with pytest.raises(UsageError) as from_command:
                arguments(f"--alg={alg}", f"--{one.name}={beyond}")
            words = f"is not valid: {one.bounds}"
            assert str(from_python.value) == f"{one.name}={beyond!r} {words}"
            # Text of a whole number has become one.
            assert str(from_command.value) in (f"{one.name}={beyond!r} {words}", f"{one.name}={int(beyond)!r} {words}")


@for_each("name", ACTIVATIONS)
def test_activations_are_those_of_keras(name):
    import keras

    assert arguments(f"--activation={name}").learn == {"activation": name}
    values = keras.ops.linspace(-1.0, 1.0, 6)[None]
    assert keras.activations.get(name)(values).shape == (1, 6)


@for_each(
    ("words", "message"),
    [
        (["--nstep=5"], "unknown argument --nstep of ppo2 with network mlp: did you mean --nsteps?"),
        (["--offline=x.npz"], "unknown argument --offline of ppo2 with network mlp: only sac, td3 have it"),
        (["--num_timestep=5"], "did you mean --num_timesteps?"),
        (["--num-hiden=5"], "did you mean --num_hidden?"),
        (["--qqq=5"], "--alg=ppo2 --help lists what there is"),
        (["--alg=pp02"], "unknown algorithm 'pp02': did you mean 'ppo2'?"),
        (["--network=mpl"], "unknown network 'mpl': did you mean 'mlp'?"),
        (["--env=CartPol-v1"], "unknown environment 'CartPol-v1': did you mean 'CartPole-v1'?"),
        (["--env=CartPole-v7"], "unknown environment 'CartPole-v7': did you mean 'CartPole-v1'?"),
        (["--env_type=atri"], "unknown env_type 'atri': did you mean 'atari'?"),
        (["--worker=shmen"], "unknown worker 'shmen': did you mean 'shmem'?"),
        (["--precision=float23"], "unknown precision 'float23': did you mean 'float32'?"),
        (["--activation=tahn"], "unknown activation 'tahn': did you mean 'tanh'?"),
        (["--alg=acer", "--lrschedule=linaer"], "unknown lrschedule 'linaer': did you mean 'linear'?"),
        (["--alg=acer", "--trust_region=exat"], "unknown trust_region 'exat': did you mean 'exact'?"),
        (["--total_timesteps=5"], "unknown argument --total_timesteps"),
        (["--evaluate_episodes=3"], "evaluate_episodes=3 is not valid: needs evaluate_every"),
        (["--alg=gail", "--expert_path=x.npz"], "with network mlp: give demo_path=, the same file"),
        (["--extra_import=math"], "the module comes before the id: --env=module:id"),
        (["--gae_lambda=0.9"], "Stable-Baselines3's gae_lambda is --lam here"),
        (["--batch_size=64"], "--nminibatches here, which is n_steps * num_env / batch_size"),
        (["--alg=td3", "--learning_rate=1e-3"], "Stable-Baselines3's learning_rate is --pi_lr and --q_lr here"),
        (["--alg=sac", "--tau=0.005"], "Stable-Baselines3's tau is --polyak here, which is 1 - tau"),
        (["--tensorboard_log=logs"], "--log_format=stdout,csv,tensorboard"),
        (["--verbose=1"], "--log_format"),
        (["--policy_kwargs={}"], "--network=dense --hidden_sizes=[64,64]"),
        (["--lr=linaer_1"], "unknown schedule 'linaer': did you mean 'linear'?"),
        (["--env=nowhere:A-v0"], "env='nowhere:A-v0' is not valid: module 'nowhere' cannot be imported"),
        (["--network=nowhere:net"], "network='nowhere:net' is not valid: module 'nowhere' cannot be imported"),
    ],
)
def test_a_typo_names_the_nearest(words, message):
    with pytest.raises(UsageError) as caught:
        arguments(*words)
    assert message in str(caught.value) and one_line(caught.value)


@for_each(
    ("word", "message"),
    [
        ("--num_timesteps=-1", "num_timesteps=-1.0 is not valid: at least 0"),
        ("--save_video_interval=-1", "save_video_interval=-1 is not valid: at least 0"),
        ("--save_video_length=0", "save_video_length=0 is not valid: at least 1"),
        ("--num_env=0", "num_env=0 is not valid: at least 1"),
        ("--keep_checkpoints=0", "keep_checkpoints=0 is not valid: at least 1"),
        ("--seed=-1", "seed=-1 is not valid: at least 0"),
        ("--seed=one", "seed='one' is not valid: a whole number or None"),
        ("--num_timesteps=1e999", "num_timesteps='1e999' is not valid: a number"),
        ("--log_path=", "log_path='' is not valid: a path"),
        ("--save_path= ", "save_path=' ' is not valid: a path"),
        ("--resume=", "resume='' is not valid: a path"),
        ("--seed", "--seed needs a value: --seed=..."),
        ("--lr", "--lr needs a value: --lr=..."),
        ("--activation", "--activation needs a value: --activation=..."),
        ("--play=maybe", "play='maybe' is not valid: True or False"),
        ("--lr=fast", "lr='fast' is not valid: a number or SHAPE_NUMBER such as linear_3e-4"),
        ("--lr=linear_", "lr='linear_' is not valid: a number or SHAPE_NUMBER"),
        ("--lr=nan", "lr='nan' is not valid: a finite number"),
        ("--lr=-1e-3", "lr=-0.001 is not valid: at least 0"),
        ("--cliprange=linear_inf", "cliprange='linear_inf' is not valid: a finite number"),
        ("--update_fn=print", "--update_fn takes a Python object: give it to tfbaselines.ppo2.learn"),
        ("--gamma=1.5", "gamma=1.5 is not valid: between 0 and 1"),
        ("--nsteps=0", "nsteps=0 is not valid: at least 1"),
        ("--max_grad_norm=0", "max_grad_norm=0.0 is not valid: above 0"),
        ("--comm=world", "--comm takes a Python object"),
    ],
)
def test_a_value_that_cannot_be_is_named_before_anything_starts(word, message):
    with pytest.raises(UsageError) as caught:
        arguments(word)
    assert str(caught.value).startswith(message) and one_line(caught.value)


@for_each(
    ("words", "message"),
    [
        (["--alg=ddpg", "--popart"], "popart=True is not valid: needs normalize_returns=True"),
        (["--alg=ddpg", "--nb_epochs=3", "--num_timesteps=50"], "nb_epochs=3 is not valid: total_timesteps"),
        (["--alg=td3", "--replay_size=10"], "update_after=1000 is not valid: at most replay_size=10"),
        (["--alg=acer", "--trace_length=5"], "batch_size and trace_length need buffer_len"),
    ],
)
def test_arguments_that_do_not_go_together(words, message):
    with pytest.raises(UsageError) as caught:
        arguments(*words)
    assert str(caught.value).startswith(message) and one_line(caught.value)


def test_a_network_with_an_argument_of_the_algorithms_is_refused(tmp_path, monkeypatch):
    (tmp_path / "clashing_network.py").write_text(CLASHING_NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(built, "NETWORKS", dict(built.NETWORKS))
    network = "--network=clashing_network:clashing"
    with pytest.raises(UsageError) as caught:
        arguments("--alg=sac", network)
    clash = "network 'clashing_network:clashing' and the algorithm both have an argument 'alpha': rename one"
    assert str(caught.value) == clash
    assert arguments("--alg=td3", network, "--alpha=3").learn["alpha"] == 3.0


def test_a_network_of_the_users_own(tmp_path, monkeypatch):
    (tmp_path / "own_network.py").write_text(OWN_NETWORK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(built, "NETWORKS", dict(built.NETWORKS))
    words = ["--width=8", "--scale=2", "--names=c", "--sizes=[3]", "--wide", "--limit=5"]
    args = arguments("--network=own_network:towers", *words)
    assert args.network == "own_network:towers"
    assert args.learn == {"width": 8, "scale": 2.0, "names": "c", "sizes": [3], "wide": True, "limit": 5.0}
    with pytest.raises(UsageError, match=r"--widht .* did you mean --width\?"):
        arguments("--network=own_network:towers", "--widht=8")
    with pytest.raises(UsageError, match="sizes='three' is not valid: a list"):
        arguments("--network=own_network:towers", "--sizes=three")


def test_defaults_of_a_network_that_was_not_chosen_do_not_count():
    assert arguments("--alg=trpo_mpi", "--env_type=mujoco").learn["num_hidden"] == 32
    learn = arguments("--alg=trpo_mpi", "--env_type=mujoco", "--network=dense").learn
    assert "num_hidden" not in learn and learn["cg_damping"] == 0.1
