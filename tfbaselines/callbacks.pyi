"""Written by `python tests/support/stubs.py`."""

from tfbaselines.training.callbacks import Callbacks as Callbacks
from tfbaselines.training.callbacks import EvaluateEvery as EvaluateEvery
from tfbaselines.training.callbacks import Every as Every
from tfbaselines.training.callbacks import SaveEvery as SaveEvery
from tfbaselines.training.callbacks import Schedule as Schedule
from tfbaselines.training.callbacks import StopAt as StopAt
from tfbaselines.training.callbacks import StopWithoutGain as StopWithoutGain
