"""Every import line found in scripts for the originals works with the package's name changed."""

import contextlib
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from loops import for_each

import tfbaselines
from tfbaselines.algs import ALGORITHMS
from tfbaselines.compat import ANY, SCRIPT, Absent, entries, packages, rows, table
from tfbaselines.compat.__main__ import TABLES
from tfbaselines.compat.__main__ import main as compat
from tfbaselines.compat.spinup import SPINNING_UP
from tfbaselines.errors import UsageError

# Their lines work when they are built.

LINES = (Path(__file__).parent / "import_lines.txt").read_text().splitlines()

OWN_LINES = [
    "from tfbaselines.vec_env import DummyVecEnv, VecNormalize",
    "from tfbaselines.logger import configure, logkv",
    "import tfbaselines.logger",
    "import tfbaselines.common.tf_util as U",
    "from tfbaselines.ppo2 import learn",
    "from tfbaselines.deepq import learn, ActWrapper, load_act",
    "from tfbaselines.algos.tf1.sac.sac import sac",
    "import tfbaselines.algos.tf1.sac.core as core",
    "from tfbaselines.plot_util import plot_results",
    "from tfbaselines import EpochLogger",
]


def run(line):
    """An import line in a namespace; what it imports."""
    line = re.sub(r"^(from|import) (baselines|spinup)", r"\1 tfbaselines", line)
    namespace = {}
    exec(line, namespace)
    return namespace


@for_each("line", [*LINES, *OWN_LINES])
def test_it_works(line):
    names = {name: value for name, value in run(line).items() if name != "__builtins__"}
    assert names
    for name, value in names.items():
        assert isinstance(value, Absent) == (name == "make_retro"), name
        assert inspect.ismodule(value) or callable(value)


@for_each("path", sorted(table()))
def test_every_place_of_the_table_exists(path):
    module = importlib.import_module(f"tfbaselines.{path}".rstrip("."))
    for name, _, row in entries(path):
        if name.isidentifier() and name != SCRIPT:
            assert getattr(module, name) is not None
        elif name == ANY and row.here.rpartition(".")[2] in ALGORITHMS:
            assert callable(module.learn)


def test_every_module_that_advice_names_exists():
    for row in rows():
        for path in re.findall(r"tfbaselines(?:\.\w+)+", row.remark):
            thing = tfbaselines
            for name in path.split(".")[1:]:
                with contextlib.suppress(ModuleNotFoundError):
                    importlib.import_module(f"{thing.__name__}.{name}")
                thing = getattr(thing, name)


def test_algorithms_of_spinning_up_are_functions():
    for name in SPINNING_UP:
        for variant in (name, f"{name}_tf1", f"{name}_pytorch"):
            assert getattr(tfbaselines, variant).learn is getattr(tfbaselines, name).learn
            with pytest.raises(UsageError, match="env_fn=3 is not valid"):
                getattr(tfbaselines, variant)(env_fn=3)
    with pytest.raises(UsageError, match=r"is a module: call tfbaselines.ppo2.learn\(network, env"):
        tfbaselines.ppo2("mlp", None)


@for_each(
    ("line", "use", "words"),
    [
        ("from baselines.common.retro_wrappers import make_retro", "make_retro('Airstriker')", "stable-retro"),
        ("import baselines.common.tf_util as U", "U.initialize()", "no sessions"),
        ("from baselines.common.mpi_adam import MpiAdam", "MpiAdam([])", "Engine"),
        ("from baselines.common.cmd_util import make_atari_env", "make_atari_env('Pong-v4', 1, 0)", r"make_vec_env\("),
        ("from baselines.a2c.utils import conv", "conv(3)", "Keras layers"),
        ("from spinup.utils.logx import restore_tf_graph", "restore_tf_graph(None, 'x')", r"tfbaselines.load\(path\)"),
        ("import spinup.algos.tf1.ppo.core as core", "core.mlp_actor_critic(None)", r"learn\(network, env"),
    ],
)
def test_what_has_no_counterpart_names_what_to_use(line, use, words):
    namespace = run(line)
    with pytest.raises(UsageError, match=words) as error:
        eval(use, namespace)
    assert "\n" not in str(error.value)


@for_each(
    ("line", "words"),
    [
        ("from baselines.ddpg.noise import ActionNoise as Base", r"a class with __call__\(\) and reset\(\)"),
        ("from baselines.common.schedules import Schedule as Base", r"a class with value\(t\)"),
        ("from baselines.common.distributions import CategoricalPd as Base", r"\.pdfromflat\(parameters\)"),
    ],
)
def test_classes_without_a_counterpart_can_be_asked_about(line, words):
    base = run(line)["Base"]
    uses = [
        lambda: exec("class Own(base): pass", {"base": base}),
        lambda: isinstance(3, base),
        lambda: issubclass(int, base),
        lambda: base(1, 2, 3),
    ]
    for use in uses:
        with pytest.raises(UsageError, match=words) as error:
            use()
        assert "\n" not in str(error.value)
    with pytest.raises(AttributeError, match=words):
        base.fromflat  # noqa: B018
    assert isinstance(base, Absent) and not hasattr(base, "__wrapped__")


# Paths whose names have no counterpart, with words of the advice.
ADVICE = """
baselines.deepq build_act build_train: deepq.learn
baselines.deepq.deepq build_train: deepq.learn
baselines.ppo2.defaults atari mujoco retro: defaults_for
baselines.deepq.defaults atari: defaults_for
baselines.ppo2.ppo2 Runner: tfbaselines.rollout.rollout.Runner
baselines.a2c.a2c Model: a2c.learn
baselines.acktr.acktr Model: acktr.learn
baselines.acer.buffer Buffer: tfbaselines.algs.acer.replay
baselines.her.experiment.config configure_her prepare_params: her.learn
baselines.her.rollout RolloutWorker: her.learn
baselines.her.her_sampler make_sample_her_transitions: HindsightReplay
baselines.her.normalizer Normalizer: Normalizer
baselines.her.util store_args nn: no sessions
baselines.her.replay_buffer ReplayBuffer: HindsightReplay
baselines.gail.run_mujoco main train: --alg=gail
baselines.ppo1.run_mujoco train: --alg=ppo1
baselines.ppo1.pposgd_simple traj_segment_generator add_vtarg_and_adv: tfbaselines.rollout
baselines.trpo_mpi.trpo_mpi traj_segment_generator: tfbaselines.rollout
baselines.common.vec_env.util copy_obs_dict dict_to_obs obs_space_info obs_to_dict: VecExtractDictObs
baselines.common.mpi_moments mpi_mean: mpi_moments
baselines.common.console_util timed: logger
baselines.common.misc_util pickle_load: numpy.load
baselines.deepq load: tfbaselines.load
spinup.exercises.tf1.problem_set_1.exercise1_1 gaussian_likelihood: spinningup.openai.com
tfbaselines.common.env_util make_vec_env: num_env=4
tfbaselines.common.noise NormalActionNoise: act_noise
baselines.common.cmd_util make_atari_env: make_vec_env
spinup.algos.ppo.core count_vars: Keras
spinup.utils.run_entrypoint thunk: tfbaselines.run
spinup.utils.serialization_utils is_json_serializable: convert_json
tfbaselines.common.evaluation evaluate_policy: tfbaselines.evaluate
tfbaselines.common.callbacks EvalCallback: tfbaselines.callbacks
""".strip().splitlines()


@for_each("row", ADVICE)
def test_names_without_a_counterpart_can_be_imported(row):
    names, _, words = row.partition(": ")
    path, *names = names.split()
    for name in names:
        found = run(f"from {path} import {name}")[name]
        with pytest.raises(UsageError, match=words):
            found()


@for_each("name", ["PPO", "A2C", "DQN", "SAC", "TD3", "DDPG", "TRPO"])
def test_algorithms_of_stable_baselines3_name_where_to_read_on(name):
    found = run(f"from tfbaselines import {name}")[name]
    with pytest.raises(UsageError, match=rf"^{name} .* tfbaselines\.\w+\.learn\(network, env, .*stable-baselines3\.md"):
        found("MlpPolicy", "CartPole-v1", verbose=1)
    with pytest.raises(AttributeError, match=r"docs/migration/stable-baselines3\.md"):
        found.load("model.zip")
    assert name not in dir(tfbaselines)


def test_names_with_a_counterpart_are_it():
    names = run("from baselines.common.models import mapping, mlp")
    assert names["mapping"]["mlp"] is names["mlp"]
    lines = run("from baselines.common.vec_env import AlreadySteppingError, NotSteppingError")
    again = run("from baselines.common.vec_env.vec_env import AlreadySteppingError")
    assert issubclass(lines["NotSteppingError"], Exception)
    with pytest.raises(lines["AlreadySteppingError"]):
        raise again["AlreadySteppingError"]
    assert run("from spinup.algos.ppo.ppo import ppo")["ppo"] is run("from spinup.algos.tf1.ppo.ppo import ppo")["ppo"]


def test_unknown_names_are_errors_as_of_any_module():
    with pytest.raises(AttributeError, match="module 'tfbaselines' has no attribute 'ppo3'"):
        tfbaselines.ppo3  # noqa: B018
    with pytest.raises(ImportError):
        run("from baselines.common.schedules import CubicSchedule")
    with pytest.raises(ModuleNotFoundError):
        run("import baselines.common.nothing")


def test_everything_at_once():
    namespace = run("from baselines.common.vec_env import *")
    assert {"VecEnv", "SubprocVecEnv", "VecNormalize"} <= namespace.keys()
    assert "learn" in run("from baselines.ppo2.ppo2 import *")


def test_nothing_loads_tensorflow_before_it_is_needed():
    lines = [
        "from tfbaselines import bench, deepq, logger, sac, ppo2",
        "from tfbaselines.common.schedules import LinearSchedule",
        "from tfbaselines.bench import Monitor",
        "from tfbaselines.utils.run_utils import ExperimentGrid, setup_logger_kwargs",
        "from tfbaselines.utils.mpi_tools import mpi_fork",
        "from tfbaselines.common.segment_tree import SumSegmentTree",
        "from tfbaselines.deepq.replay_buffer import ReplayBuffer",
        "import sys; print('tensorflow' in sys.modules)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


@for_each(
    "line",
    [
        "from tfbaselines.common.models import mlp",
        "from tfbaselines.common.misc_util import set_global_seeds as seed; seed(0)",
        "from tfbaselines.algs import get; get('ppo').learn",
    ],
)
def test_tensorflow_loads_without_its_notices(line):
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


def test_modules_that_exist_keep_their_places():
    assert importlib.import_module("tfbaselines.logger") is importlib.import_module("tfbaselines.logs.logger")
    for path in packages():
        file = Path(tfbaselines.__file__).parent / path.replace(".", "/")
        real = file.with_suffix(".py").exists() or (file / "__init__.py").exists()
        assert real == (path in ("bench", "run")), path


def test_every_table_of_the_migration_pages_is_printed(capsys):
    for name, text in TABLES.items():
        assert compat([name]) == 0
        assert capsys.readouterr().out == text()
        assert text().count("\n| ") > 10 and "MIGRATION" not in text()
    assert compat(["rllib"]) == 2 and "stable-baselines3" in capsys.readouterr().err


def test_main_takes_argv_as_baselines_does(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "--help"])
    main = run("from baselines.run import main")["main"]
    for argv in (None, sys.argv, ["--help"]):
        assert main(argv) is None
        assert capsys.readouterr().out.startswith("usage:")
    with pytest.raises(UsageError, match="'nonsense'"):
        main(["run.py", "nonsense"])
