"""No size is so large that a run hangs or dies in a MemoryError: it is refused in one line, soon."""

import numpy as np
import pytest
from commands import SMALL
from loops import for_each

from tfbaselines.algs import ALGORITHMS
from tfbaselines.cli.command_line import parse, split
from tfbaselines.config.argument import Argument
from tfbaselines.errors import UsageError
from tfbaselines.limits import LONGEST_LIST
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.run import command as main


def settable_numbers(algorithm):
    return [one for one in algorithm.config.arguments().values() if one.settable and "int" in one.kinds]


@for_each("alg", ALGORITHMS)
def test_beyond_its_limit_an_argument_is_refused_and_the_default_is_far_below(alg):
    for one in settable_numbers(ALGORITHMS[alg]):
        most = int(one.limit)
        assert one.checked(most) == most
        for value in (most + 1, 10**30, 10**400, 1e300):
            with pytest.raises(UsageError, match=rf"{one.name}=.* is not valid: at most") as caught:
                one.checked(value)
            assert len(str(caught.value)) < 200
        assert one.default is None or one.default * 10 <= most


@for_each(
    ("words", "message"),
    [
        (["--seed=1e30"], "seed=1e+30 is not valid: at most 4294967295"),
        (["--num_env=1e9"], "num_env=1000000000 is not valid: at most 10000"),
        (["--num_layers=1e6"], "num_layers=1000000 is not valid: at most 100"),
        (["--alg=sac", "--network=dense", "--hidden_sizes=[1e9]"], "hidden_sizes=[1000000000.0] is not valid"),
        (["--alg=sac", "--network=dense", f"--hidden_sizes={[8] * 101}"], "a list of at most 100"),
        (["--network=conv_only", "--convs=[(1e9,1,1)]"], "convs="),
        (["--lr=-1"], "lr='-1' is not valid: at least 0"),
        (["--cliprange=-1"], "cliprange="),
        (["--vf_coef=-1"], "vf_coef="),
        (["--alg=acer", "--q_coef=-1"], "q_coef="),
        (["--alg=ddpg", "--env=Pendulum-v1", "--actor_lr=-1"], "actor_lr="),
        (["--alg=td3", "--env=Pendulum-v1", "--q_lr=-1"], "q_lr="),
    ],
)
def test_nonsense_is_refused(words, message):
    with pytest.raises(UsageError) as caught:
        parse(split(words), ALGORITHMS)
    assert message.split("=")[0] in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alg=ddpg", "--nb_rollout_steps=1e6", "--num_timesteps=1000"], "nothing to train: 1000 steps are less"),
        (["--nsteps=1e6", "--num_timesteps=1000"], "nothing to train"),
        (["--nsteps=1e8", "--num_timesteps=1e9"], "a rollout would take"),
        (["--alg=sac", "--batch_size=1e7", "--num_timesteps=1000"], "learning from a batch would take"),
        (["--num_layers=100", "--num_hidden=16384"], "the network would take"),
        (["--alg=sac", "--hidden_sizes=[16384,16384,16384,16384,16384,16384,16384,16384,16384]"], "the network would"),
        (["--network=lstm", "--nlstm=16384", "--nminibatches=1"], "the network would take"),
        (["--alg=sac", "--replay_size=1e10"], "the replay would take"),
        (["--alg=sac", "--network=dense", "--hidden_sizes=['a']"], "hidden_sizes=['a'] is not valid"),
        (["--alg=sac", "--network=dense", "--hidden_sizes=[[1],[2,3]]"], ""),
    ],
)
def test_what_exceeds_the_memory_is_refused_before_it_is_allocated(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tfbaselines.files.available_memory", lambda: 10 * 2**30)
    env = [] if words[0].startswith("--n") else ["--env=Pendulum-v1"]
    assert main([*env, "--seed=1", f"--log_path={tmp_path}", *words]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("tfbaselines: error: ") and message in err


@for_each(
    ("network", "kwargs"),
    [
        ("mlp", {"num_layers": 101}),
        ("mlp", {"num_hidden": 10**9}),
        ("mlp", {"num_hidden": 2.5}),
        ("dense", {"hidden_sizes": "ab"}),
        ("dense", {"hidden_sizes": (8, 10**9)}),
        ("dense", {"hidden_sizes": (8, None)}),
        ("conv_only", {"convs": [8]}),
        ("conv_only", {"convs": [(8, 1)]}),
        ("conv_only", {"convs": [(8, 1, 0)]}),
        ("impala_cnn", {"depths": [0]}),
        ("lstm", {"nlstm": 10**9}),
    ],
)
def test_networks_check_their_sizes(network, kwargs):
    with pytest.raises(UsageError, match=f"{next(iter(kwargs))}="):
        get_network_builder(network)(**kwargs)


def test_numpy_sizes_are_sizes():
    assert get_network_builder("dense")(hidden_sizes=np.array([4, 4]))
    assert get_network_builder("mlp")(num_hidden=np.int64(4))


def test_a_list_is_bounded_at_any_depth():
    convs = Argument("convs", ("list",), (), "", limit=2**12)
    convs.checked([[8, 4, 2]] * LONGEST_LIST)
    for wrong in ([[8, 4, 2]] * (LONGEST_LIST + 1), [[8, 4, 10**9]], [[8, 4, float("nan")]], [[[10**400]]]):
        with pytest.raises(UsageError, match="convs="):
            convs.checked(wrong)


@for_each("word", ["--num_layers=1e6", "--nsteps=1e9", "--num_hidden=1e9", "--noptepochs=1e9", "--num_env=1e9"])
def test_a_giant_is_one_line(word, capsys, tmp_path):
    assert main([*SMALL, word, f"--log_path={tmp_path / word}"]) == 2
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith("tfbaselines: error: ") and not any("Traceback" in line for line in err)
