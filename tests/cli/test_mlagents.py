"""Trainer files of ML-Agents as --config: both forms, what each key becomes, and warnings of keys without a place."""

import pytest

from tfbaselines.algs import ALGORITHMS
from tfbaselines.cli.command_line import parse, split
from tfbaselines.cli.mlagents import trainer_sections
from tfbaselines.cli.sections import below
from tfbaselines.multi.behaviors import behavior_of_words
from tfbaselines.run import main
from tfbaselines.yaml_files import read_yaml

OLDER = """
default:
  trainer: ppo
  batch_size: 64
  beta: 5.0e-3
  buffer_size: 256
  epsilon: 0.3
  hidden_units: 8
  lambd: 0.9
  learning_rate: 1.0e-3
  max_steps: 2.56e2
  memory_size: 256
  num_epoch: 2
  num_layers: 1
  time_horizon: 64
  summary_freq: 256
  reward_signals:
    extrinsic: {strength: 2.0, gamma: 0.98}
Pendulum-v1:
  trainer: sac
  batch_size: 32
  buffer_size: 5000
  buffer_init_steps: 100
  init_entcoef: 0.5
  learning_rate_schedule: constant
  max_steps: 1000
  normalize: true
  num_update: 2
  train_interval: 10
  tau: 0.01
  sumary_freq: 100
  vis_encode_type: nature_cnn
  reward_signals:
    reward_signal_num_update: 3
    extrinsic: {gamma: 0.9, strength: 1.0}
    curiosity: {gamma: 0.95, strength: 0.02, encoding_size: 16}
Acrobot-v1:
  use_recurrent: true
  learning_rate_schedule: constant
"""

LATER = """
default_settings:
  trainer_type: ppo
  hyperparameters: {buffer_size: 512}
behaviors:
  Goalie:
    trainer_type: sac
    hyperparameters: {batch_size: 16, steps_per_update: 10, tau: 0.02}
    network_settings: {normalize: true, hidden_units: 8, num_layers: 1, memory: {memory_size: 32, sequence_length: 4}}
    keep_checkpoints: 3
    checkpoint_interval: 400
    max_steps: 2000
    behavioral_cloning: {demo_path: demos/goalie.npz, strength: 0.5, steps: 300}
  Striker:
    hyperparameters: {epsilon: 0.1, epsilon_schedule: constant}
    self_play: {window: 10}
environment_parameters:
  gravity: 9.5
"""


def arguments(path, *words):
    typed = split([f"--config={path}", *words])
    added, origins = below(typed, {})
    args = parse({**added, **typed}, ALGORITHMS, origins)
    return args, origins


def test_the_older_form(tmp_path, capsys):
    path = tmp_path / "old.yaml"
    path.write_text(OLDER)
    args, origins = arguments(path, "--env=CartPole-v1", "--num_env=2")
    assert args.alg == "ppo2" and args.network == "mlp" and args.total_timesteps == 256 and args.reward_scale == 2.0
    expected = {
        "nsteps": 128,
        "nminibatches": 4,
        "noptepochs": 2,
        "lam": 0.9,
        "gamma": 0.98,
        "log_interval": 1,
        "lr": "linear_0.001",
        "ent_coef": "linear_0.005",
        "cliprange": "linear_0.3",
        "num_hidden": 8,
        "num_layers": 1,
        "normalize_observations": False,
    }
    assert args.learn == expected and origins["lam"] == f"{path}, section default"
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "section default: time_horizon has no counterpart here" in err
    args, origins = arguments(path, "--env=Pendulum-v1", "--batch_size=8")
    signals = {"extrinsic": {"gamma": 0.9, "strength": 1.0}, "curiosity": {"gamma": 0.95, "strength": 0.02}}
    signals["curiosity"]["encoding_size"] = 16
    assert args.alg == "sac" and args.network == "dense" and origins["alpha"] == f"{path}, section Pendulum-v1"
    own = {
        "batch_size": 8,
        "replay_size": 5000,
        "buffer_init_steps": 100,
        "alpha": "auto_0.5",
        "polyak": 0.99,
        "num_update": 2,
        "train_interval": 10,
        "lr": 1e-3,
        "gamma": 0.9,
        "hidden_sizes": [8],
        "normalize_observations": True,
        "vis_encode_type": "nature_cnn",
        "reward_signal_num_update": 3,
    }
    assert own.items() <= args.learn.items() and args.learn["steps_per_epoch"] == 256
    assert ALGORITHMS["sac"].config.of(args.learn).signals["curiosity"].encoding_size == 16
    assert signals.keys() == ALGORITHMS["sac"].config.of(args.learn).signals.keys()
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "'sumary_freq' is unknown, did you mean 'summary_freq'?" in err
    args, _ = arguments(path, "--env=Acrobot-v1")
    assert (args.network, args.learn["nlstm"], args.learn["lr"]) == ("lstm", 128, 1e-3)
    assert args.learn["nminibatches"] == 1


def test_the_later_form(tmp_path, capsys):
    path = tmp_path / "new.yaml"
    path.write_text(LATER)
    args, _ = arguments(path, "--env=CartPole-v1")
    assert args.alg == "ppo2" and args.learn["nsteps"] == 512 and "9.5" in args.env_parameters
    assert "behaviors" not in args.env_parameters
    capsys.readouterr()
    sections = trainer_sections(read_yaml(path), "new.yaml", 2)
    assert sections.keys() == {"Goalie", "Striker", "default"}
    striker = behavior_of_words(sections["Striker"], "Striker")
    assert striker.algorithm.name == "ppo2" and striker.arguments["nsteps"] == 256
    assert striker.arguments["cliprange"] == 0.1 and striker.arguments["ent_coef"] == "linear_0.005"
    goalie = sections["Goalie"]
    assert '"strength": 0.5' in goalie.pop("pretraining")
    goalie = behavior_of_words(goalie, "Goalie")
    own = {"memory_size": 32, "sequence_length": 4, "train_interval": 50, "num_update": 5, "polyak": 0.98}
    assert own.items() <= goalie.arguments.items() and goalie.arguments["total_timesteps"] == 2000
    assert goalie.options == {"keep_checkpoints": 3, "save_every": 400.0}
    assert "section Striker: self_play has no counterpart here" in capsys.readouterr().err


def test_wrong_files_are_one_line(tmp_path):
    path = tmp_path / "wrong.yaml"
    for text, words in {
        "default: {trainer: pppo}": "section default: unknown trainer 'pppo': did you mean 'ppo'",
        "default: {trainer: ppo, max_steps: many}": "section default: a setting has no number where it needs one",
        "behaviors: {A: {trainer_type: ppo}, B: {}}": "has no section for CartPole-v1, nor a default one: it has A, B",
        "behaviors: {A: 3}": "section A: no settings of a behavior|has no section",
    }.items():
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            arguments(path, "--env=CartPole-v1")


def test_the_command_trains_from_one(tmp_path, eager):
    path = tmp_path / "old.yaml"
    path.write_text(OLDER)
    main([f"--config={path}", "--env=CartPole-v1", "--seed=0", f"--log_path={tmp_path / 'log'}"])
    assert (tmp_path / "log/checkpoints/best").exists()
