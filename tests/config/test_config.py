import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
from loops import for_each

from tfbaselines import ALGORITHMS
from tfbaselines.algs import get
from tfbaselines.cli.command_line import FLAGS
from tfbaselines.config.config import OF_ENVIRONMENTS, Coefficient, Config, Schedule, arg
from tfbaselines.config.groups import NETWORKS
from tfbaselines.config.options import RunOptions
from tfbaselines.config.schedules import FRACTION_SCHEDULES
from tfbaselines.envs.make import make_vec_env
from tfbaselines.errors import UsageError

RATES = [(name, rate) for name in ALGORITHMS for rate in get(name).config.schedulable()]
# A weight of the entropy may be negative.
POSITIVE = [(name, rate) for name, rate in RATES if rate not in ("ent_coef", "entcoeff")]


@dataclass(kw_only=True)
class Small(Config):
    """For tests."""

    steps: int = arg(5, "steps", at_least=1, after="")
    lr: Schedule = arg(1e-3, "learning rate", at_least=0)
    lrschedule: str | Callable[[float], float] = arg("linear", "shape of lr", choices=tuple(FRACTION_SCHEDULES))
    other: Schedule | None = arg(None, "another rate", above=0)
    weight: Coefficient | str = arg(0.5, "a weight, or 'auto'", at_least=0)
    free: float = arg(0.0, "any number")

    moved: ClassVar = {"": "seed"}
    env_defaults: ClassVar = {"all": {"network": "dense", "free": 1.0}, "atari": {"network": "cnn", "steps": 9}}

    def check(self):
        """See Config."""
        if self.free > self.steps:
            raise UsageError("free is above steps")


def test_arguments_stand_in_the_order_of_positions():
    own, inherited = ["seed", "steps", "lr", "lrschedule", "other", "weight", "free"], ["total_timesteps", "load_path"]
    assert list(Small.arguments()) == [*own, *inherited, "comm", "run"]
    assert Small.arguments()["seed"] == Config.arguments()["seed"]
    steps = Small.arguments()["steps"]
    assert (steps.kinds, steps.default, steps.meaning, steps.bounds.at_least) == (("int",), 5, "steps", 1)


@dataclass(kw_only=True)
class Smaller(Small):
    """For tests."""

    steps: int = 4
    first: int = arg(1, "an argument", after="steps")
    second: int = arg(2, "another one")
    last: int = arg(3, "a third one", after="run")

    moved: ClassVar = {"free": "lr steps"}


def test_a_default_alone_is_inherited_otherwise_and_arguments_are_placed():
    expected = "seed first second lrschedule other weight free lr steps total_timesteps load_path comm run last"
    assert list(Smaller.arguments()) == expected.split()
    assert Smaller.arguments()["steps"] == Small.arguments()["steps"]._replace(default=4)
    assert Smaller().steps == 4
    with pytest.raises(UsageError, match=r"^steps=0 is not valid: at least 1$"):
        Smaller(steps=0)


def test_of_sorts_what_is_given():
    config = Small.of({"steps": 1e1, "width": 3})
    assert (config.steps, config.network_kwargs) == (10, {"width": 3})
    assert isinstance(config.steps, int)


def test_values_and_combinations_are_checked():
    with pytest.raises(UsageError, match=r"^steps=0 is not valid: at least 1$"):
        Small(steps=0)
    with pytest.raises(UsageError, match="free is above steps"):
        Small(free=6)


def test_defaults_for_any_environment_come_before_those_for_its_type():
    assert Small.defaults_for("mujoco") == {"network": "dense", "free": 1.0}
    assert Small.defaults_for("atari") == {"network": "cnn", "free": 1.0, "steps": 9}
    assert Config.defaults_for("atari") == {}


@for_each(
    ("arguments", "at_start", "at_half", "at_end"),
    [
        ({}, 1e-3, 0.5e-3, 0.0),
        ({"lr": "2e-3"}, 2e-3, 1e-3, 0.0),
        ({"lr": 2, "lrschedule": "constant"}, 2, 2, 2),
        ({"lrschedule": lambda left: left**2}, 1e-3, 0.25e-3, 0.0),
        ({"lr": "constant_2e-3"}, 2e-3, 2e-3, 2e-3),
        ({"lr": "linear_2e-3", "lrschedule": "constant"}, 2e-3, 1e-3, 0.0),
        ({"lr": lambda left: 1 + left}, 2, 1.5, 1),
        ({"lr": lambda left: 1 + left, "lrschedule": lambda left: 7}, 2, 1.5, 1),
    ],
)
def test_lrschedule_is_the_shape_of_a_plain_lr(arguments, at_start, at_half, at_end):
    rates = Small(**arguments).schedules()
    assert rates.keys() == {"lr"}
    assert [rates["lr"](left) for left in (1.0, 0.5, 0.0)] == pytest.approx([at_start, at_half, at_end])


def test_other_rates_do_not_follow_lrschedule():
    rates = Small(other=3).schedules()
    assert rates["other"](0.5) == 3


@for_each(("name", "rate"), RATES)
@for_each(("value", "at_half"), [("linear_0.2", 0.1), ("constant_0.2", 0.2), (lambda left: 0.3 * left, 0.15)])
def test_every_rate_of_every_algorithm_takes_text_and_functions(name, rate, value, at_half):
    config = get(name).config.of({rate: value})
    assert config.schedules()[rate](0.5) == pytest.approx(at_half)


@for_each(("name", "rate"), POSITIVE)
@for_each("value", ["linaer_0.2", "linear_fast", "linear_nan", None, [1], -1.0, "linear_-1"])
def test_every_rate_of_every_algorithm_refuses_others_by_name(name, rate, value):
    with pytest.raises(UsageError) as caught:
        get(name).config.of({rate: value})
    assert str(caught.value).startswith(f"{rate}={value!r} is not valid: ")
    assert len(str(caught.value).splitlines()) == 1


@for_each(
    ("weight", "at_half"),
    [("linear_3", 1.5), ("constant_3", 3.0), (lambda left: left**2, 0.25), (0.5, None), ("auto", None), ("0.5", None)],
)
def test_a_coefficient_is_given_to_updates_only_where_it_changes(weight, at_half):
    schedules = Small(weight=weight).schedules()
    assert ("weight" in schedules) == (at_half is not None)
    assert at_half is None or schedules["weight"](0.5) == at_half


def test_present_values_stand_in_a_config_of_their_own():
    config = Small(weight="linear_3")
    present = config.at({"weight": 1.5, "lr": 0.1, "steps": 7, "obs": 3})
    assert (present.weight, present.lr, present.steps) == (1.5, 0.1, 5)
    assert (config.weight, config.lr) == ("linear_3", 1e-3)


def test_rates_are_those_of_the_algorithms():
    assert {("acer", "lr"), ("ppo2", "lr"), ("ppo2", "cliprange"), ("ddpg", "critic_lr"), ("td3", "q_lr")} <= {*RATES}


@for_each("name", ALGORITHMS)
def test_networks_and_algorithms_share_no_name(name):
    config = get(name).config()
    for network in NETWORKS.values():
        config.check_network(network.name, network.arguments)


@for_each("clash", ["steps", "env", "network"])
def test_a_clash_of_names_is_an_error(clash):
    with pytest.raises(UsageError) as caught:
        Small().check_network("towers", {"width": None, clash: None})
    assert str(caught.value) == f"network 'towers' and the algorithm both have an argument '{clash}': rename one"


@for_each(
    ("name", "place", "has_it"),
    [
        ("num_env", "env=make_vec_env(id, num_env=...)", make_vec_env),
        ("resume", "run=RunOptions(resume=...)", RunOptions),
    ],
)
def test_an_argument_of_the_command_line_names_its_place(name, place, has_it):
    with pytest.raises(UsageError) as caught:
        Small.of({name: 3}).check_network("towers", {"width": None})
    assert str(caught.value) == f"unknown argument '{name}' (network 'towers'): give {place}, of {has_it.__module__}"
    assert set(OF_ENVIRONMENTS) <= set(inspect.signature(make_vec_env).parameters) & set(FLAGS)


def test_an_unknown_argument_names_the_nearest():
    accepted = {"width": None}
    Small.of({"width": 3}).check_network("towers", accepted)
    Small.of({"depth": 3}).check_network("towers", accepted, open_ended=True)
    with pytest.raises(UsageError, match=r"unknown argument 'widht' \(network 'towers'\): did you mean 'width'\?"):
        Small.of({"widht": 3}).check_network("towers", accepted)
    with pytest.raises(UsageError, match="did you mean 'steps'"):
        Small.of({"step": 3}).check_network("towers", accepted)
    with pytest.raises(UsageError, match="the network has none"):
        Small.of({"qqq": 3}).check_network("towers", {})


@for_each(
    ("alg", "name", "hint"),
    [
        ("ppo2", "gae_lambda", "Stable-Baselines3's gae_lambda is lam= here"),
        ("ppo2", "learning_rate", "Stable-Baselines3's learning_rate is lr= here"),
        ("ppo2", "n_epochs", "Stable-Baselines3's n_epochs is noptepochs= here"),
        ("ppo2", "clip_range_vf", "Stable-Baselines3's clip_range_vf is cliprange_vf= here, False for None"),
        ("ddpg", "learning_rate", "Stable-Baselines3's learning_rate is actor_lr= and critic_lr= here"),
        ("deepq", "n_steps", "Stable-Baselines3's n_steps is n_step= here"),
        ("ppo2", "verbose", "call logger.configure(directory, ['csv']) for a run that prints nothing"),
        ("ppo2", "tensorboard_log", "call logger.configure(directory, ['stdout', 'csv', 'tensorboard'])"),
        ("ppo2", "policy_kwargs", "give the network's arguments, as in learn('dense', env, hidden_sizes=[64, 64])"),
    ],
)
def test_an_argument_of_stable_baselines3_names_the_one_here(alg, name, hint):
    with pytest.raises(UsageError) as caught:
        get(alg).config.of({name: 1}).check_network("towers", {"width": None})
    assert str(caught.value) == f"unknown argument '{name}' (network 'towers'): {hint}"


def test_an_argument_of_stable_baselines3_that_an_algorithm_does_not_have():
    with pytest.raises(UsageError) as caught:
        get("ppo2").config.of({"tau": 1}).check_network("towers", {"width": None})
    assert "Stable-Baselines3" not in str(caught.value)
