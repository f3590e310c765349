"""Arguments from YAML files, below those that are typed."""

import json
import sys

import pytest
import yaml
from loops import for_each

from tfbaselines.algs import ALGORITHMS, get
from tfbaselines.cli import sections
from tfbaselines.cli.command_line import parse, split
from tfbaselines.cli.sections import (
    DEFAULT,
    OF_SET,
    TUNED,
    below,
    read_sections,
    tuned_algorithms,
    tuned_environments,
)
from tfbaselines.cli.stored import read_config
from tfbaselines.envs import ENV_TYPES
from tfbaselines.errors import UsageError
from tfbaselines.run import command as main

FILE = """
default:
  alg: ppo2
  nsteps: 64
  lr: 1e-3
  gamma: 0.9
classic_control:
  lr: linear_2e-3
  gamma: 0.95
Pendulum-v1:
  gamma: 0.98
  env_kwargs: {g: 9.0}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(FILE)
    return str(path)


def parsed(*words, stored=None):
    typed = split(list(words))
    values, _ = below(typed, stored or {})
    return parse({**(stored or {}), **values, **typed}, ALGORITHMS)


def mistake(capsys, *words):
    assert main(list(words)) == 2
    return capsys.readouterr().err


def test_the_nearest_section_counts_and_what_is_typed_counts_most(file):
    args = parsed(f"--config={file}", "--env=Pendulum-v1", "--nsteps=32")
    assert args.learn["nsteps"] == 32
    assert (args.learn["lr"], args.learn["gamma"]) == ("linear_2e-3", 0.98)
    assert args.env_kwargs == {"g": 9.0}
    args = parsed(f"--config={file}", "--env=CartPole-v1")
    assert (args.learn["gamma"], args.env_kwargs) == (0.95, None)


def test_the_file_may_name_algorithm_and_environment(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("default: {alg: sac, env: Pendulum-v1}\nPendulum-v1: {batch_size: 32}\n")
    args = parsed(f"--config={path}")
    assert (args.alg, args.env, args.learn["batch_size"]) == ("sac", "Pendulum-v1", 32)


def test_a_file_counts_above_what_a_resumed_run_was_given(file):
    stored = {"alg": "ppo2", "env": "Pendulum-v1", "gamma": "0.5", "ent_coef": "0.1"}
    args = parsed(f"--config={file}", stored=stored)
    assert (args.learn["gamma"], args.learn["ent_coef"]) == (0.98, 0.1)


@for_each(
    ("text", "says"),
    [
        ("- 1", "has no sections"),
        ("default: 3", "has no sections"),
        ("default: {x: [1}", "is not YAML"),
        ("default: {resume: x}", "'resume' is typed on the command line"),
        ("Hopper-v5: {nsteps: 3}", "has no section for CartPole-v1, nor a default one: it has Hopper-v5"),
        ("default: {nstep: 3}", "section default: unknown argument --nstep of ppo2 with network mlp: did you mean"),
        ("default: {nsteps: many}", "section default: nsteps='many' is not valid: a whole number"),
        ("default: {worker: x}", "unknown worker 'x'"),
        ("default: {lr: 1e-3, gamma: 0.9, lr: 1e-4}", "is not YAML: 'lr' is there twice, in line 1 or below"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_that_names_it(tmp_path, capsys, text, says):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    line = mistake(capsys, f"--config={path}", "--num_timesteps=0")
    assert says in line and line.count("\n") == 1


def nested(inner, levels=9, each=9):
    """Anchors that stand for each**levels values."""
    lines = [f"  a0: &a0 {inner}"]
    lines += [f"  a{one}: &a{one} [{', '.join([f'*a{one - 1}'] * each)}]" for one in range(1, levels)]
    return "default:\n" + "\n".join(lines) + "\n"


HOSTILE = {
    "aliases of lists": nested("[1]"),
    "aliases of dictionaries": "default:\n  a0: &a0 {x: 1}\n"
    + "".join(f"  a{one}: &a{one} {{b: *a{one - 1}, c: *a{one - 1}}}\n" for one in range(1, 40)),
    "merged dictionaries": "default:\n  a0: &a0 {x: 1}\n"
    + "".join(f"  a{one}: &a{one} {{<<: [{', '.join([f'*a{one - 1}'] * 9)}]}}\n" for one in range(1, 9)),
    "arguments of the environment": nested("[1]") + "  env_kwargs: {size: *a8}\n",
    "an alias of itself": "default: &a\n  lr: *a\n",
    "a list of itself": "default:\n  env_kwargs: &a {x: *a}\n",
    "many keys": "default:\n" + "".join(f"  key{one}: 1\n" for one in range(4000)),
    "more keys": "default:\n" + "".join(f"  k{one}: 1\n" for one in range(40_000)),
    "sections": "".join(f"S{one}-v0: {{}}\n" for one in range(3000)) + "default: {nstep: 1}\n",
    "bytes": "default:\n  env_kwargs: {x: !!binary aGVsbG8=}\n",
    "a set": "default:\n  lr: !!set {1, 2}\n",
    "pairs": "default:\n  lr: {a: !!omap [b: !!set {1}]}\n",
    "a key of bytes": "default:\n  lr: {!!binary aGVsbG8=: 1}\n",
    "a date": "default:\n  lr: {when: 2001-01-01}\n",
    "a long number": f"default:\n  nsteps: 0x{'f' * 40_000}\n",
    "digits": f"default:\n  nsteps: {'1' * 40_000}\n",
    "depth": f"default:\n  lr: {'[' * 20_000}\n",
    "depth that ends": f"default:\n  lr: {'[' * 2000}{']' * 2000}\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_one_short_line(tmp_path, capsys, text):
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    err = mistake(capsys, f"--config={path}", "--num_timesteps=0").splitlines()
    assert len(err) <= 7 and err[-1].startswith("tfbaselines: error: ")
    assert len(err[-1]) < 700, err[-1]


def test_anchors_and_merges_are_read(tmp_path):
    path = tmp_path / "anchors.yaml"
    path.write_text("default: &usual {nsteps: 8, lr: 1e-3}\nCartPole-v1: {<<: *usual, nsteps: 16}\n")
    assert read_sections(path)["CartPole-v1"] == {"nsteps": "16", "lr": "1e-3"}


def test_a_file_that_is_not_there_is_one_line(capsys):
    assert "'nowhere.yaml' cannot be read (no such file or directory)" in mistake(capsys, "--config=nowhere.yaml")
    assert "--config needs a value" in mistake(capsys, "--config")


def test_tuned_settings_of_something_else_name_what_there_is(capsys):
    line = mistake(capsys, "--tuned", "--alg=qlearning", "--env=CartPole-v1")
    assert "qlearning has them for MountainCar-v0" in line and "for CartPole-v1 there are a2c, " in line
    line = mistake(capsys, "--tuned", "--alg=qlearning", "--env=CliffWalkingSlippery-v1")
    assert line.endswith("; no other algorithm has any for it\n") and line.count("CliffWalkingSlippery-v1") == 1


def test_tuned_settings_stand_below_those_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sections, "TUNED", tmp_path)
    (tmp_path / "ppo2.yaml").write_text("CartPole-v1: {nsteps: 8, gamma: 0.5}")
    (tmp_path / "mine.yaml").write_text("default: {gamma: 0.6}")
    args = parsed("--tuned", f"--config={tmp_path / 'mine.yaml'}")
    assert (args.learn["nsteps"], args.learn["gamma"]) == (8, 0.6)
    assert "nsteps" not in parsed("--tuned=False").learn


def test_a_resumed_run_keeps_what_it_was_started_with_beside_tuned_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(sections, "TUNED", tmp_path)
    (tmp_path / "ppo2.yaml").write_text("CartPole-v1: {nsteps: 8, gamma: 0.5}\nquick: {nsteps: 4, gamma: 0.4}")
    for tuned, gamma in (("--tuned", 0.5), ("--tuned=quick", 0.4)):
        args = parsed(tuned, stored={"alg": "ppo2", "env": "CartPole-v1", "nsteps": "16"})
        assert (args.learn["nsteps"], args.learn["gamma"]) == (16, gamma)


def test_what_the_module_of_an_environment_prints_is_no_setting(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    register = "gymnasium.register('Loud-v0', entry_point='gymnasium.envs.classic_control:CartPoleEnv')"
    (tmp_path / "loud.py").write_text(f"import gymnasium\nprint('loud: hello: there')\n{register}\n")
    assert main(["--env=loud:Loud-v0", "--print_config"]) == 0
    out, err = capsys.readouterr()
    assert "hello" not in out and "hello" in err
    # The sections of a file ask for its type before.
    sys.modules.pop("loud")
    (tmp_path / "printed.yaml").write_text(out)
    assert main([f"--config={tmp_path / 'printed.yaml'}", "--print_config"]) == 0
    out, err = capsys.readouterr()
    assert "hello" not in out and "hello" in err


def test_settings_of_a_name_are_for_every_environment(capsys):
    args = parsed("--alg=deepq", "--tuned=rainbow", "--env=CartPole-v1", "--n_step=2")
    assert (args.network, args.learn["n_step"], args.learn["distributional"]) == ("conv_only", 2, "categorical")
    _, origins = below(split(["--alg=deepq", "--tuned=rainbow"]), {})
    assert origins["noisy"] == "tuned/deepq.yaml, section rainbow"
    line = mistake(capsys, "--tuned=rainbow", "--alg=a2c")
    assert "tuned='rainbow' is not valid: deepq has this set, a2c has True, False\n" in line
    line = mistake(capsys, "--tuned=rainbov", "--alg=deepq")
    assert "tuned='rainbov' is not valid: True, False, atari, rainbow" in line and "did you mean 'rainbow'?" in line
    assert "did you mean" not in mistake(capsys, "--tuned=xyz", "--alg=deepq")


def test_a_named_set_has_sections_of_environments(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sections, "TUNED", tmp_path)
    text = "quick: {nsteps: 8, gamma: 0.5}\nquick@CartPole-v1: {gamma: 0.6}\nfew@atari: {nsteps: 4}"
    (tmp_path / "ppo2.yaml").write_text(text)
    for env, gamma in (("CartPole-v1", 0.6), ("Acrobot-v1", 0.5)):
        args = parsed("--tuned=quick", f"--env={env}")
        assert (args.learn["nsteps"], args.learn["gamma"]) == (8, gamma)
    assert parsed("--tuned=few", "--env=PongNoFrameskip-v4").learn["nsteps"] == 4
    line = mistake(capsys, "--tuned=few", "--env=CartPole-v1")
    assert "tuned='few' is not valid: ppo2 has it for atari, not for CartPole-v1\n" in line
    assert tuned_environments("ppo2") == {}


@for_each("alg", tuned_algorithms())
def test_every_tuned_section_is_valid(alg):
    sections, environments = read_sections(TUNED / f"{alg}.yaml"), tuned_environments(alg)
    for name, section in sections.items():
        assert name != DEFAULT
        # num_iterations and others may set the length.
        length = get(alg).config.length_arguments
        assert any(float(section.get(one, 0)) > 0 for one in ("num_timesteps", *length))
        named, _, place = name.partition(OF_SET)
        if name in environments:
            words = ["--tuned", f"--env={name}"]
        elif place:
            words = [f"--tuned={named}", f"--env={'PongNoFrameskip-v4' if place in ENV_TYPES else place}"]
        else:
            words = ["--tuned", "--env=PongNoFrameskip-v4"] if name in ENV_TYPES else [f"--tuned={name}"]
        args = parsed(f"--alg={alg}", *words)
        assert {name: args.given[name] for name in section} == section
        get(alg).config.of(args.learn)


def test_what_is_printed_is_a_file_that_gives_the_same_run(file, tmp_path, capsys):
    words = ["--env=Pendulum-v1", f"--config={file}", "--num_layers=3", "--seed=4"]
    assert main([*words, "--print_config"]) == 0
    text = capsys.readouterr().out
    lines = {line.split(":")[0].strip(): line for line in text.splitlines()}
    assert lines["gamma"].endswith(f"# {file}, section Pendulum-v1")
    assert lines["env_kwargs"].endswith(f"# {file}, section Pendulum-v1")
    assert lines["nsteps"].endswith(f"# {file}, section default")
    assert lines["num_layers"].endswith("# command line")
    assert lines["noptepochs"].endswith("# default")
    again = tmp_path / "again.yaml"
    again.write_text(text)
    first, second = parsed(*words), parsed(f"--config={again}")
    assert {**second.learn, **first.learn} == second.learn
    assert first.flags | {"config": None} == second.flags | {"config": None}


@for_each("alg", ALGORITHMS)
def test_what_is_printed_without_arguments_of_an_environment_is_a_file_too(alg, tmp_path, capsys):
    assert main([f"--alg={alg}", "--print_config"]) == 0
    path = tmp_path / "again.yaml"
    path.write_text(capsys.readouterr().out)
    first, second = parsed(f"--alg={alg}"), parsed(f"--config={path}")
    assert {**second.learn, **first.learn} == second.learn
    if get(alg).config.sizes_networks:
        assert get(alg).config.of(second.learn).network_kwargs == {}


def test_defaults_of_a_type_of_environment_are_named(capsys):
    main(["--env=HalfCheetah-v5", "--print_config"])
    assert "nminibatches: 32                            # default for mujoco" in capsys.readouterr().out


def test_the_environment_gets_its_arguments_and_a_resumed_run_again(tmp_path, capsys):
    words = ["--num_timesteps=32", "--nsteps=16", f"--log_path={tmp_path / 'log'}"]
    assert main(["--env=Pendulum-v1", "--env_kwargs.g=9.5", *words]) == 0
    config = read_config(tmp_path / "log")
    assert config["env"]["env_kwargs"] == {"g": 9.5}
    capsys.readouterr()
    assert main([f"--resume={tmp_path / 'log'}", "--print_config"]) == 0
    assert "env_kwargs: {g: 9.5}                        # config.json" in capsys.readouterr().out


def test_arguments_of_an_environment_keep_their_types(tmp_path):
    values = {"layers": {"a": True, "b": [1, None]}, "size": "12", "slippery": False, "name": "it's", "g": 9.5}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"default": {"env_kwargs": values}}))
    assert parsed(f"--config={path}").env_kwargs == values
    typed = ["--env_kwargs.slippery=false", "--env_kwargs.fast=TRUE", "--env_kwargs.bare", "--env_kwargs.name=fals"]
    assert parsed(*typed).env_kwargs == {"slippery": False, "fast": True, "bare": True, "name": "fals"}
    path.write_text("default: {env_kwargs: [1]}")
    with pytest.raises(UsageError, match=r"mine.yaml, section default: env_kwargs must be"):
        parsed(f"--config={path}")


@for_each(
    ("name", "warned"),
    [
        ("cartpole", ": did you mean 'CartPole-v1'?"),
        ("CartPole-v7", ": did you mean 'CartPole-v"),
        ("Pendulum-v1", None),
        ("ALE/Pong-v5", None),
        ("box2d", None),
        ("mine:Robot-v0", None),
    ],
)
def test_sections_that_no_environment_has_are_named(tmp_path, capsys, name, warned):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"default": {"nsteps": 16}, name: {"nsteps": 8}}))
    assert parsed(f"--config={path}", "--env=CartPole-v1").learn["nsteps"] == 16
    line = f"'{path}', section {name}: neither a type of environments nor an environment known here{warned}"
    err = capsys.readouterr().err
    assert line in err if warned else not err


def test_wrong_arguments_of_an_environment_are_one_line(capsys):
    assert "use arguments of CartPole-v1" in mistake(capsys, "--env_kwargs.colour=red", "--num_timesteps=0")
    assert "write --env_kwargs.NAME=VALUE" in mistake(capsys, "--env_kwargs={}", "--num_timesteps=0")


def test_like_another_run_but_for_what_is_typed(tmp_path, capsys):
    first = tmp_path / "first"
    words = ["--env=Pendulum-v1", "--nsteps=32", "--lr=1e-3", "--env_kwargs.g=9", "--num_timesteps=0", "--seed=1"]
    assert main([*words, f"--log_path={first}"]) == 0
    for place in (first, first / "config.json"):
        again = parsed(f"--config={place}", "--lr=2e-3", f"--log_path={tmp_path / 'second'}")
        assert (again.env, again.learn["nsteps"], again.learn["lr"]) == ("Pendulum-v1", 32, 2e-3)
        assert (again.env_kwargs, again.log_path) == ({"g": 9}, str(tmp_path / "second"))
    other = parsed(f"--config={first}", "--alg=a2c", "--env=CartPole-v1", "--env_kwargs.g=None")
    assert (other.algorithm.name, other.learn["nsteps"], other.env) == ("a2c", 32, "CartPole-v1")
    capsys.readouterr()
    assert f"'{tmp_path}' has no config.json" in mistake(capsys, f"--config={tmp_path}")
    line = mistake(capsys, f"--config={first}", "--alg=vpg")
    assert "unknown argument --nsteps of vpg" in line and line.count("\n") == 1


def test_like_the_run_of_a_stranger_imports_nothing(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["--num_timesteps=0", f"--log_path={run}"]) == 0
    config = read_config(run)
    (run / "config.json").write_text(json.dumps(config | {"given": {"env": "antigravity:Robot-v0"}}))
    capsys.readouterr()
    assert "add --trust" in mistake(capsys, f"--config={run}", "--num_timesteps=0")
    assert "antigravity" not in sys.modules
