"""Runs that an older version wrote (commit 5097193) are evaluated and continued as that version did it.

tests/data/old_runs holds for each algorithm the directory of a run that ended, `evaluated.json`, the returns of two
episodes of its policy, and `continued.csv`, progress.csv after the same version had continued it to twice its length.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tfbaselines.evaluate import evaluate
from tfbaselines.logs.logger import read_csv
from tfbaselines.run import main

OLD_RUNS = Path(__file__).parent / "data/old_runs"
STEPS = {"ppo2": 64, "sac": 80, "ddpg": 160}
# Columns that depend on the machine's speed.
TIMES = ["Time", "fps", "misc/time_elapsed", "total/duration", "total/steps_per_second"]

every_run = pytest.mark.parametrize("alg", STEPS)


@every_run
def test_an_old_run_is_evaluated(alg, tmp_path):
    """Sampled actions: the seed draws the noise. The old version evaluated whole episodes, whatever max_ep_len was."""
    log = tmp_path / "log"
    shutil.copytree(OLD_RUNS / alg, log)
    config = json.loads((log / "config.json").read_text())
    most = config["learn"].get("max_ep_len")
    if most is not None:
        assert evaluate(str(log), 2, seed=5)["lengths"] == [most, most]
        config["learn"]["max_ep_len"] = None
        (log / "config.json").write_text(json.dumps(config))
    expected = json.loads((OLD_RUNS / alg / "evaluated.json").read_text())
    found = evaluate(str(log), 2, seed=5)
    assert found["lengths"] == expected["lengths"]
    np.testing.assert_allclose(found["returns"], expected["returns"], rtol=1e-4)


@every_run
def test_an_old_run_is_continued(alg, tmp_path, capsys):
    """Parameters, optimisers' slots, normalisation, generators, environments and replay: all show in the rows."""
    log = tmp_path / "log"
    shutil.copytree(OLD_RUNS / alg, log)
    before = read_csv(log / "progress.csv")
    assert main([f"--resume={log}", f"--num_timesteps={2 * STEPS[alg]}"]) == 0
    assert "WARN" not in capsys.readouterr().out
    found, expected = read_csv(log / "progress.csv"), read_csv(log / "continued.csv")
    assert set(found) == set(expected) and len(found) == len(expected) == 2 * len(before)
    for name in set(expected) - set(TIMES):
        scale = max(1.0, float(np.nanmax(np.abs(expected[name]))) if expected[name].notna().any() else 1.0)
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4 * scale, err_msg=name)
    assert (log / "replay").exists() == (alg != "ppo2")
