"""What README promises of installing is what setup.py and .ci/run do."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import tfbaselines

TOP = Path(__file__).parents[1]


def commands():
    """The commands of README's first two blocks."""
    return re.findall(r"```bash\n(.+?)\n```", (TOP / "README.md").read_text(encoding="utf-8"), re.DOTALL)[:2]


def test_readme_begins_with_the_two_commands():
    train, test = commands()
    assert train.startswith('pip install -e ".[all]" && python -m tfbaselines.run --alg=')
    assert test.startswith('pip install -e ".[all]" && ')
    assert test.endswith("pytest")
    assert "\n" not in train + test


def test_ci_runs_readmes_test_command():
    """The script is run with a `python3` that makes an empty environment and a command line that is only printed."""
    script = (TOP / ".ci" / "run").read_text()
    extract = re.search(r"command=\$\((.+?)\)\n", script).group(1)
    found = subprocess.run(["bash", "-c", extract], cwd=TOP, capture_output=True, text=True, check=True).stdout
    assert found.strip() == commands()[1]
    assert "python3 -m venv" in script
    assert 'eval "$command"' in script


def test_the_version_is_one():
    assert metadata.version("tfbaselines") == tfbaselines.__version__


def test_all_brings_every_extra():
    extras = {}
    for requirement in metadata.requires("tfbaselines"):
        name, _, extra = requirement.partition("; extra ==")
        extras.setdefault(extra.strip().strip('"'), set()).add(name.strip())
    assert {"atari", "mujoco", "robotics", "box2d", "plot", "test", "all"} <= extras.keys()
    assert any(name.startswith("mpich") for name in extras["all"])
    for extra, names in extras.items():
        # Services that get logs, engines of studies, and EnvPool come only where they are asked for.
        assert names <= extras["all"] or extra in ("", "wandb", "mlflow", "envpool", "slurm", "ray", "dask")
        for name in names:
            assert re.search(r"[<>=]", name), f"{name} has no range"


def test_the_oldest_versions_are_those_that_are_allowed():
    setup = re.sub("(?m)^(services|pools|engines) = .*$", "", (TOP / "setup.py").read_text(encoding="utf-8"))
    allowed = dict(re.findall(r'"([\w-]+)(?:\[[\w-]+\])?>=([\d.]+)', setup))
    oldest = dict(re.findall(r"(?m)^([\w-]+)==([\d.]+)$", (TOP / "tests" / "oldest.txt").read_text(encoding="utf-8")))
    assert oldest.keys() == allowed.keys() and len(oldest) > 20
    for name, version in oldest.items():
        assert f"{version}.".startswith(f"{allowed[name]}."), name


def test_importing_the_package_does_not_load_tensorflow():
    loaded = "print('tensorflow' in sys.modules)"
    distributions = "print('tensorflow_probability.python.distributions' in sys.modules)"
    code = f"import sys, tfbaselines; {loaded}; tfbaselines.td3.learn; {loaded}; {distributions}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
    # Nothing of TensorFlow's is printed.
    assert done.stderr == ""


def test_python_use_prints_nothing_of_tensorflows():
    use = "from tfbaselines.algs import ppo2"
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


def test_nothing_that_runs_code_from_files():
    pattern = re.compile(r"\bpickle\.load|allow_pickle=True|(?<![\w.])eval\(|\bjoblib\b")
    for path in (TOP / "tfbaselines").rglob("*.py"):
        assert not pattern.search(path.read_text(encoding="utf-8")), path


def test_every_data_file_is_shipped():
    (declared,) = re.findall(r"package_data=\{\s*\"tfbaselines\": \[(.+?)\]", (TOP / "setup.py").read_text(), re.DOTALL)
    patterns = re.findall(r'"(.+?)"', declared)
    package = TOP / "tfbaselines"
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in files if path.suffix != ".py"} <= shipped
