import pytest

from tfbaselines.algs import get
from tfbaselines.errors import UsageError, bad_argument, check_at_least, nearest, unknown


@pytest.mark.parametrize(("name", "found"), [("mpl", "mlp"), ("cartpole-v1", "CartPole-v1"), ("zzz", None), ("", None)])
def test_the_nearest_name(name, found):
    assert nearest(name, ["mlp", "cnn", "CartPole-v1"]) == found


def test_an_unknown_name_comes_with_a_guess_or_the_choices():
    assert str(unknown("network", "mpl", ["mlp", "cnn"])) == "unknown network 'mpl': did you mean 'mlp'?"
    assert str(unknown("network", "zzz", ["mlp", "cnn"])) == "unknown network 'zzz': choose from cnn, mlp"


def test_a_bad_argument_names_its_value_and_what_is_accepted():
    assert str(bad_argument("nsteps", 0, "at least 1")) == "nsteps=0 is not valid: at least 1"


def test_ranges():
    check_at_least(1, a=1, b=2.5)
    get("ppo2").config(gamma=0, lam=1)
    with pytest.raises(UsageError, match=r"b=0 is not valid: at least 1"):
        check_at_least(1, a=1, b=0)
    with pytest.raises(UsageError, match=r"gamma=nan is not valid"):
        get("ppo2").config(gamma=float("nan"))
    for value in (-0.1, 1.1):
        with pytest.raises(UsageError, match=r"gamma=.* is not valid: between 0 and 1"):
            get("ppo2").config(gamma=value)
    with pytest.raises(UsageError, match="a=nan"):
        check_at_least(1, a=float("nan"))
