"""Replays: one storage of transitions, and several ways of choosing rows of it."""

from tfbaselines.experience.replay.data_set import DataSetReplay
from tfbaselines.experience.replay.hindsight import HindsightReplay
from tfbaselines.experience.replay.prioritised import PrioritisedReplay
from tfbaselines.experience.replay.protocol import ReplayProtocol
from tfbaselines.experience.replay.uniform import Replay

__all__ = ["DataSetReplay", "HindsightReplay", "PrioritisedReplay", "Replay", "ReplayProtocol"]
