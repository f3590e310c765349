"""Two ranks that start from different parameters share rank 0's, and are stopped when any of them drifts."""

import json

import pytest
from commands import run_on_ranks

# Targets, a learnt temperature and a plain table beside the policy; rank 1 lets one of them drift.
SCRIPT = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
import numpy as np
from gymnasium import spaces
from tfbaselines.algs import sac
from tfbaselines.config.algorithm import EVERY_KIND, Algorithm
from tfbaselines.learn.optimizers import with_targets
from tfbaselines.parallel import mpi
from tfbaselines.training.off_policy import OffPolicyModel
from tfbaselines.training.clock import Plan
from tfbaselines.training.run import Run

class Place:
    @property
    def unwrapped(self):
        return self
    def normalization(self):
        return {}
    def limit_episodes(self, steps, reward):
        pass
    def state(self):
        return {}
    def merge_statistics(self, comm):
        pass
    def restore_normalization(self, state):
        pass

class WithTable(OffPolicyModel):
    def variables(self):
        return [*super().variables(), self.table]

ALGORITHM = Algorithm(sac.Config, "", EVERY_KIND)
box = spaces.Box(-1.0, 1.0, (2,), np.float32)
env = SimpleNamespace(observation_space=box, action_space=box)

def drift(drifting):
    config = sac.Config.of({"hidden_sizes": [4], "alpha": "auto", "seed": 3})
    run = Run(ALGORITHM, Place(), config, Plan(total_timesteps=1, steps_per_update=1))
    policy, averaged = with_targets(lambda: sac.make_policy("dense", env, config), 0.9)
    # Targets of their own, and a temperature that differs.
    for variable in averaged.policy.trainable_variables:
        variable.assign(run.rng.normal(size=variable.shape))
    temperature = sac.Temperature(0.5 + run.comm.rank, -2.0)
    update = sac.make_update(policy, averaged, temperature, run.comm)
    model = WithTable(policy, averaged, update, temperature.variables, run.rng)
    model.table = run.rng.normal(size=(3, 2))

    def numbers():
        return [np.array(variable).ravel().tolist() for variable in model.variables()]

    before, message = numbers(), ""
    try:
        with run:
            run.start(model)
            after, acted = numbers(), model.act(np.ones(2, np.float32), deterministic=True)[0].tolist()
            for _ in run.updates():
                if run.comm.rank == 1 and drifting == "targets":
                    variable = averaged.policy.trainable_variables[0]
                    variable.assign(variable + 1e-3)
                elif run.comm.rank == 1 and drifting == "temperature":
                    temperature.log_alpha.assign(temperature.log_alpha + 1e-3)
                elif run.comm.rank == 1 and drifting == "table":
                    model.table[2, 1] += 1e-12
                run.finish_update(dict)
    except RuntimeError as error:
        message = str(error)
    Path(f"{drifting}-{run.comm.rank}.json").write_text(json.dumps([before, after, acted, message]))

for name in sys.argv[1:]:
    drift(name)
"""
DRIFTING = ("targets", "temperature", "table", "nothing")


@pytest.mark.slow
def test_every_variable_of_the_model_is_shared_and_compared(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    status, _, err = run_on_ranks("script", *DRIFTING, cwd=tmp_path)
    assert status == 0, err
    for drifting in DRIFTING:
        ranks = [json.loads((tmp_path / f"{drifting}-{rank}.json").read_text()) for rank in (0, 1)]
        (before, after, acted, message), (before_1, after_1, acted_1, message_1) = ranks
        # The policy's weights, the targets', the temperature and the table; biases are zero on both.
        assert sum(one != other for one, other in zip(before, before_1, strict=True)) > len(before) / 2
        assert after == after_1 == before and acted == acted_1
        assert message == message_1 == ("" if drifting == "nothing" else "parameters differ from rank 0's on ranks 1")
