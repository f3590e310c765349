"""The heat map of a table: of one and of two dimensions, from a log directory or a saved model."""

import matplotlib.image
import numpy as np
import pytest
from gymnasium import spaces
from helpers import vec
from small_runs import learn, train

from tfbaselines.algs.qlearning.table import Cells, TablePolicy
from tfbaselines.envs import tiny
from tfbaselines.plot.__main__ import main
from tfbaselines.plot.panels import read_table
from tfbaselines.training.model import PolicyModel


def saved(path, space, grid_size=20):
    policy = TablePolicy(space, spaces.Discrete(3), Cells(space, grid_size))
    policy.table.assign(np.random.default_rng(0).normal(size=policy.table.shape))
    PolicyModel(policy).save(path)
    return policy


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_saved_table_is_drawn(dimensions, tmp_path, capsys):
    low, high = np.arange(dimensions) - 2.0, np.arange(dimensions) + 3.0
    policy = saved(tmp_path / "model", spaces.Box(low, high, dtype=np.float64), [6, 4][:dimensions])
    assert main([str(tmp_path / "model"), "--table"]) == 0
    assert capsys.readouterr().out == f"Wrote {tmp_path / 'table.png'}\n"
    assert matplotlib.image.imread(tmp_path / "table.png").std() > 0.01
    table = read_table(tmp_path / "model")
    assert table.values.shape == (*[6, 4][:dimensions], 3)
    # A place of the picture has the values that the policy acts by there.
    obs = low + (high - low) * 0.6
    place = tuple(int(0.6 * size) for size in [6, 4][:dimensions])
    np.testing.assert_array_equal(table.values[place], policy.table.array[policy.cells.of(obs[None])[0]])
    assert table.low.tolist() == low.tolist() and table.high.tolist() == high.tolist()


def test_a_run_s_table_is_drawn(tmp_path):
    train(tmp_path / "log", "qlearning", vec(lambda: tiny.DiscreteIdentityEnv(5, episode_len=10)), 4)
    out = tmp_path / "pictures" / "values.png"
    assert main([str(tmp_path / "log"), "--table", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    table = read_table(tmp_path / "log")
    assert table.values.shape == (5, 5) and table.low.tolist() == [-0.5] and table.high.tolist() == [4.5]


def test_what_cannot_be_drawn_is_said(tmp_path, capsys):
    saved(tmp_path / "deep", spaces.Box(-1.0, 1.0, (3,)), 2)
    learn("ppo2", vec(lambda: tiny.DiscreteIdentityEnv(3, episode_len=10)), 0).save(tmp_path / "network")
    mistakes = {
        ("deep", "--table"): "has 3 dimensions: one or two can be drawn",
        ("network", "--table"): "has no table",
        ("nowhere", "--table"): "there is no file",
        ("deep", "deep", "--table"): "give one DIR, not 2",
        ("deep", "--table", "--smooth=3"): "--smooth is for curves",
        ("deep", "--table", "--out=table.pdf"): "a name that ends in .png",
    }
    for (*names, last), words in mistakes.items():
        argv = [word if word.startswith("--") else str(tmp_path / word) for word in (*names, last)]
        assert main(argv) == 2
        err = capsys.readouterr().err
        assert words in err and err.count("\n") == 1


@pytest.mark.parametrize("dimensions", [1, 2])
def test_actions_are_counted_in_whole_numbers(dimensions, tmp_path, monkeypatch):
    saved(tmp_path / "model", spaces.Box(-1.0, 1.0, (dimensions,)), 4)
    figures = []
    monkeypatch.setattr("tfbaselines.plot.panels.save", lambda figure, out: figures.append(figure))
    assert main([str(tmp_path / "model"), "--table"]) == 0
    # The axis of actions, or the scale beside the best ones.
    axis = figures[0].axes[0] if dimensions == 1 else figures[0].axes[-1]
    ticks = axis.get_yticks()
    assert len(ticks) > 1 and (ticks == ticks.astype(int)).all()
