"""Search spaces: each argument is one of its algorithm, and mistakes are named."""

import pytest

from tfbaselines.algs import ALGORITHMS, NAMES
from tfbaselines.cli.command_line import parse
from tfbaselines.errors import UsageError
from tfbaselines.search.space import SPACES, defaults, read_space, sample

ENVS = ("CartPole-v1", "HalfCheetah-v5", "PongNoFrameskip-v4", "FrozenLake-v1")


class Chooser:
    """Optuna's trial with each number at one end of its range: 0 low, 1 high."""

    def __init__(self, end):
        self.end, self.params = end, {}

    def suggest_categorical(self, name, choices):
        return self.params.setdefault(name, choices[-self.end])

    def suggest_int(self, name, low, high, log=False):
        return self.params.setdefault(name, (low, high)[self.end])

    def suggest_float(self, name, low, high, log=False):
        return self.params.setdefault(name, (low, high)[self.end])


@pytest.mark.parametrize("alg", NAMES)
def test_every_algorithm_has_a_space_of_its_arguments(alg):
    """At both ends of every range its command line takes the values; the defaults lie in the space."""
    assert {path.stem for path in SPACES.glob("*.yaml")} == set(NAMES)
    for env in ENVS:
        words = {"alg": alg, "env": env}
        usual = parse(words, ALGORITHMS)
        values = {name: one.default for name, one in usual.algorithm.config.arguments().items()} | usual.flags
        space = read_space(None, words)
        for end in (0, 1):
            trial = Chooser(end)
            found = sample(space, trial, words, lambda name, values=values | usual.learn: str(values[name]))
            assert found.keys() == space.keys()
            parse({**words, **found}, ALGORITHMS)
            labels = {one.shape_label for one in space.values() if one.shapes} | {one.label for one in space.values()}
            assert trial.params.keys() == labels
        stored = defaults(space, usual)
        assert stored.keys() <= labels
        # Atari's default number of environments is that of the cores; gail's networks for MuJoCo have 100 units.
        assert labels - stored.keys() <= {"log2 num_env", "log2 num_hidden"}


def test_values_are_those_of_the_sampled_numbers():
    content = {
        "default": {
            "nminibatches": {"rows_of": ["nsteps", "num_env"], "low": 32, "high": 64},
            "gamma": {"low": 0.9, "high": "0.999", "scale": "from_one"},
            "nsteps": {"low": 128, "high": 256, "scale": "powers"},
            "lr": {"low": "1e-5", "high": 1e-3, "scale": "log", "shape": ["linear", "constant"]},
            "vf_coef": {"low": 0.25, "high": 1},
            "activation": ["tanh", "relu"],
            "cliprange": [0.1],
        },
        "classic_control": {"cliprange": None, "noptepochs": {"low": 3, "high": 9}},
    }
    words = {"alg": "ppo2", "env": "CartPole-v1", "activation": "relu", "num_env": "4"}
    space = read_space(content, words)
    low, high = (sample(space, Chooser(end), words, str) for end in (0, 1))
    assert low == {
        "gamma": "0.999",
        "nsteps": "128",
        "lr": "linear_1e-05",
        "vf_coef": "0.25",
        "noptepochs": "3",
        "nminibatches": "16",
    }
    assert high == {
        "gamma": "0.9",
        "nsteps": "256",
        "lr": "0.001",
        "vf_coef": "1",
        "noptepochs": "9",
        "nminibatches": "16",
    }
    stored = defaults(space, parse(words, ALGORITHMS))
    # The default nsteps=2048 is not in this space, and its minibatches have 2,048 rows.
    assert stored == {
        "1 - gamma": pytest.approx(0.01),
        "lr": 3e-4,
        "shape of lr": "constant",
        "vf_coef": 0.5,
        "noptepochs": 4,
    }


MISTAKES = {
    "unknown argument --clprange of ppo2 with network mlp: did you mean --cliprange?": {"clprange": [1]},
    "unknown argument --hidden_sizes": {"hidden_sizes": ["[64]"]},
    "'log_path' is no hyper-parameter: of the command's flags num_env, ": {"log_path": ["a"]},
    "lr='0.1 to 0.01' is not valid: low must be below high": {"lr": {"low": 0.1, "high": 0.01}},
    "lr='0 to 0.01' is not valid: scale: log needs low above 0": {"lr": {"low": 0, "high": 0.01, "scale": "log"}},
    "gamma=1.5 is not valid: between 0 and 1": {"gamma": {"low": 0.9, "high": 1.5}},
    "gamma='0.9 to 1' is not valid: scale: from_one": {"gamma": {"low": 0.9, "high": 1, "scale": "from_one"}},
    "nsteps='0 to 8' is not valid: scale: powers": {"nsteps": {"low": 0, "high": 8, "scale": "powers"}},
    "nsteps=1.5 is not valid: a whole number": {"nsteps": {"low": 1.5, "high": 8}},
    "unknown scale of lr 'logs': did you mean 'log'?": {"lr": {"low": 1, "high": 2, "scale": "logs"}},
    "unknown entry of lr 'hihg': did you mean 'high'?": {"lr": {"low": 1, "hihg": 2}},
    "lr: high=None is not valid: a number": {"lr": {"low": 1}},
    "unknown shape of lr 'linaer': did you mean 'linear'?": {"lr": {"low": 1, "high": 2, "shape": ["linaer"]}},
    "vf_coef=['0.1', '0.1'] is not valid: between 1 and 100 different choices": {"vf_coef": ["0.1", "0.1"]},
    "unknown activation 'tahn': did you mean 'tanh'?": {"activation": ["tahn"]},
    "lr=0.1 is no range: write {low: ..., high: ...} or a list of choices": {"lr": 0.1},
    "unknown argument in rows_of of nminibatches in space 'nstep': did you mean 'nsteps'?": {
        "nminibatches": {"rows_of": ["nstep"], "low": 1, "high": 2}
    },
    "activation='1 to 2' is not valid: it is not a number: list its choices": {"activation": {"low": 1, "high": 2}},
}


def test_mistakes_in_a_space_are_named(tmp_path):
    words = {"alg": "ppo2", "env": "CartPole-v1"}
    for message, section in MISTAKES.items():
        with pytest.raises(UsageError) as error:
            read_space({"default": section}, words)
        assert message in str(error.value), error.value
    file = tmp_path / "space.yaml"
    file.write_text("lr: {low: 1, high: 2}\n")
    with pytest.raises(UsageError, match="has no section for CartPole-v1: write 'default:'"):
        read_space(file, words)
    with pytest.raises(UsageError, match="no argument is left to search for CartPole-v1"):
        read_space({"default": {"lr": [1, 2]}}, words | {"lr": "1"})
    with pytest.raises(UsageError, match=r"cannot be read \(no such file"):
        read_space(tmp_path / "other.yaml", words)
