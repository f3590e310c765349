"""With --on_nan=skip, an update that leaves numbers that are not finite is dropped whole, and training goes on."""

import numpy as np
from small_runs import EVERY, own_identity, table, train

from tfbaselines.config.options import RunOptions
from tfbaselines.parallel.mpi import values
from tfbaselines.training.guards import FiniteCheck

SPOILT = 2


@EVERY
def test_an_update_that_is_not_finite_is_dropped(alg, eager, tmp_path, monkeypatch):
    begin, end, weights = FiniteCheck.begin, FiniteCheck.end, {}

    def learnt(model):
        return [np.copy(values(variable)) for variable in model.variables()]

    def begun(self, model, paused):
        begin(self, model, paused)
        weights["before"] = learnt(model)

    def ended(self, model, update, paused):
        spoilt = next(v for v in model.variables() if np.issubdtype(values(v).dtype, np.floating))
        if update == SPOILT:
            if isinstance(spoilt, np.ndarray):
                spoilt[...] = np.nan
            else:
                spoilt.assign(np.full(spoilt.shape, np.nan, np.float32))
        end(self, model, update, paused)
        if update == SPOILT:
            for old, new in zip(weights["before"], learnt(model), strict=True):
                np.testing.assert_array_equal(new, old)

    monkeypatch.setattr(FiniteCheck, "begin", begun)
    monkeypatch.setattr(FiniteCheck, "end", ended)
    model = train(tmp_path, alg, own_identity(alg), 4, run=RunOptions(on_nan="skip"))
    assert all(np.isfinite(array).all() for array in learnt(model))
    assert table(tmp_path)["dropped_updates"].iloc[-1] == 1
    assert f"not finite after update {SPOILT}" in (tmp_path / "log.txt").read_text()
