"""Reward signals are given as a dict or as JSON; a mistake is one line that names it and the nearest name."""

import json

import pytest

from tfbaselines.algs import get
from tfbaselines.config.groups import parse_signals
from tfbaselines.errors import UsageError
from tfbaselines.run import command as main

GIVEN = {"extrinsic": {"strength": 2, "gamma": 0.9}, "rnd": {"encoding_size": 8.0}}


@pytest.mark.parametrize("given", [GIVEN, json.dumps(GIVEN)])
def test_signals_keep_their_order_and_have_defaults(given):
    signals = parse_signals(given)
    assert list(signals) == ["extrinsic", "rnd"]
    assert (signals["extrinsic"].strength, signals["extrinsic"].gamma) == (2, 0.9)
    assert (signals["rnd"].strength, signals["rnd"].gamma, signals["rnd"].learning_rate) == (1.0, 0.99, 3e-4)
    assert signals["rnd"].encoding_size == 8 and isinstance(signals["rnd"].encoding_size, int)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"extrinsc": {}}, "unknown reward signal 'extrinsc': did you mean 'extrinsic'?"),
        ({"rnd": {"strenght": 1}}, "reward_signals: rnd has no argument 'strenght': did you mean 'strength'?"),
        ({"extrinsic": {"encoding_size": 1}}, "extrinsic has no argument 'encoding_size': it has strength, gamma"),
        ({"rnd": {"gamma": 2}}, "reward_signals: rnd: gamma=2 is not valid: between 0 and 1"),
        ({"rnd": {"strength": "a"}}, "reward_signals: rnd: strength='a' is not valid: a number"),
        ({"rnd": {"strength": float("nan")}}, "rnd: strength=nan is not valid"),
        ({"rnd": {"encoding_size": 10**9}}, "rnd: encoding_size=1000000000 is not valid: at most"),
        ({"gail": {}}, "reward_signals: gail: demo_path=None is not valid: a file of demonstrations"),
        ({"rnd": 1.0}, "reward_signals: rnd=1.0 is not valid: a dict of its arguments"),
        ({}, "reward_signals={} is not valid: a dict such as"),
        (5, "reward_signals=5 is not valid"),
        ("{'rnd': {}}", "is not valid: not JSON"),
        ("[1]", "is not valid: a dict such as"),
        ("[" * 100_000, "is not valid: not JSON"),
    ],
)
def test_mistakes_are_one_line(given, message):
    with pytest.raises(UsageError) as caught:
        parse_signals(given)
    assert message in str(caught.value) and len(str(caught.value)) < 700 and "\n" not in str(caught.value)


def test_arguments_that_need_signals():
    config = get("ppo2").config
    assert config().signals is None
    with pytest.raises(UsageError, match="reward_signal_num_update=2 is not valid: needs reward_signals"):
        config(reward_signal_num_update=2)
    with pytest.raises(UsageError, match=r"model_fn=.* is not valid: None with reward_signals"):
        config(reward_signals={"extrinsic": {}}, model_fn=print)


def test_the_command_refuses_a_wrong_signal(capsys):
    assert main(['--reward_signals={"rdn": {}}']) == 2
    assert "tfbaselines: error: unknown reward signal 'rdn': did you mean 'rnd'?" in capsys.readouterr().err
