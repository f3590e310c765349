"""Written by `python tests/support/stubs.py`."""

# ruff: noqa
# fmt: off
from tfbaselines.training.callbacks import Callbacks as Callbacks, StopAt as StopAt, stops_of as stops_of, StopWithoutGain as StopWithoutGain, Doctor as Doctor, Every as Every, SaveEvery as SaveEvery, Schedule as Schedule, EvaluateEvery as EvaluateEvery
