"""Arguments that change while a run trains."""

import numpy as np
import pytest
from small_environments import identity
from small_runs import learn, own_identity, train, weights

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.config.bases import ReplayConfig
from tfbaselines.config.options import RunOptions
from tfbaselines.training.callbacks import Schedule
from tfbaselines.training.clock import Rates

COEFFICIENTS = [
    (alg, name)
    for alg in ALGORITHMS
    for name, argument in get(alg).config.schedulable().items()
    if argument.coefficient
]

# Without which a coefficient would have no effect in a small run.
NEEDED = {
    ("acer", "c"): {"c": 0.2},
    # K-FAC's steps begin with the tenth.
    ("acktr", "vf_fisher_coef"): {"updates": 13},
    ("ddpg", "noise_clip"): {"target_noise": 1.0},
    ("td3", "noise_clip"): {"target_noise": 1.0},
    ("ppo", "clip_ratio"): {"pi_lr": 0.1, "train_pi_iters": 4},
}


def later(value):
    """Another value once a part of the run is over."""
    return lambda left: value if left > 0.7 else 0.3 * value + 0.04


def small(alg, **arguments):
    """The parameters after so few updates that one of them has learnt from the other value."""
    updates = 3 if issubclass(get(alg).config, ReplayConfig) else 2
    return weights(learn(alg, own_identity(alg), **{"updates": updates} | arguments).policy)


@pytest.fixture(scope="module")
def plain():
    """The parameters after a small run without schedules, computed once."""
    found = {}

    def parameters(alg, **arguments):
        key = alg, *arguments.items()
        if key not in found:
            found[key] = small(alg, **arguments)
        return found[key]

    return parameters


@pytest.mark.parametrize(("alg", "name"), COEFFICIENTS)
def test_every_coefficient_follows_its_schedule(alg, name, plain, eager):
    """In the first update it has the plain run's value, so that only later ones differ."""
    needed = NEEDED.get((alg, name), {})
    value = needed.get(name, get(alg).config.arguments()[name].default)
    assert not np.array_equal(small(alg, **needed | {name: later(value)}), plain(alg, **needed))


@pytest.mark.parametrize("alg", ["ppo2", "acer", "trpo_mpi", "sac"])
def test_a_constant_schedule_is_the_number(alg, plain, eager):
    names = [name for name, one in get(alg).config.schedulable().items() if one.coefficient]
    arguments = get(alg).config.arguments()
    given = {name: f"constant_{arguments[name].default}" for name in names}
    assert small(alg, **given) == pytest.approx(plain(alg), abs=1e-6)


def test_the_callback_is_the_argument(tmp_path, eager):
    changing = later(0.1)
    argument = train(tmp_path / "argument", "ppo2", identity(), ent_coef=changing)
    callback = RunOptions(callback=Schedule("ent_coef", changing))
    other = train(tmp_path / "callback", "ppo2", identity(), ent_coef=0.1, run=callback)
    assert np.array_equal(weights(argument.policy), weights(other.policy))


def test_compiled_updates_are_traced_once():
    model = learn("ppo2", identity(), ent_coef="linear_0.1", vf_coef="linear_1", gamma="linear_0.99")
    assert model._engine.traces() == 1


@pytest.mark.parametrize(
    ("alg", "name", "schedule", "message"),
    [
        (
            "ppo2",
            "nsteps",
            "linear_9",
            "argument='nsteps' is not valid: an argument of ppo2 that can change in a run: ",
        ),
        ("ppo2", "gama", "linear_9", "argument='gama' is not valid: an argument of ppo2 that can change in a run: "),
        ("ppo2", "ent_coef", "lineer_1", "ent_coef='lineer_1' is not valid: "),
        ("ppo2", "lam", "linear_2", "lam='linear_2' is not valid: between 0 and 1"),
        ("sac", "alpha", "linear_1", "alpha='auto' is not valid: a number if it should follow a schedule"),
    ],
)
def test_what_cannot_follow_a_schedule_is_one_line(alg, name, schedule, message):
    config = get(alg).config.of({"alpha": "auto"} if alg == "sac" else {})
    with pytest.raises(ValueError) as caught:
        Rates(alg, config, ends=True).follow(name, schedule)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_a_run_without_a_length_has_no_fraction_left():
    config = get("trpo_mpi").config.of({"max_episodes": 3})
    assert Rates("trpo_mpi", config, ends=False).at(1.0) == {}
    with pytest.raises(ValueError, match=r"^lam='linear_1' is not valid: a number: a run without total_timesteps"):
        Rates("trpo_mpi", get("trpo_mpi").config.of({"lam": "linear_1"}), ends=False)


def test_iterations_are_a_length_too(eager):
    rates = []
    note = RunOptions(callback=lambda run: rates.append(run.rates()["lr"]))
    length = {"total_timesteps": None, "num_iterations": 2}
    learn("qlearning", identity(), **length, lr="linear_0.3", run=note)
    assert rates[0] > rates[-1]


def test_models_of_the_users_own_take_numbers():
    with pytest.raises(ValueError, match=r"^ent_coef='linear_1' is not valid: a number with model_fn"):
        get("ppo2").config.of({"model_fn": dict, "ent_coef": "linear_1"})
