"""What a run that a signal ended says of its checkpoint."""

import signal

from tfbaselines.training.guards import Interrupted


def test_an_end_by_a_signal_tells_what_was_saved(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    last = tmp_path / "checkpoints/00003"
    last.write_bytes(b"")
    told = {
        Interrupted(signal.SIGTERM, "logs/checkpoints/00004", "logs", 4): "checkpoint saved in logs/checkpoints/00004",
        Interrupted(signal.SIGTERM, None): "no log directory, so nothing was saved",
        Interrupted(signal.SIGTERM, None, str(tmp_path), 3): f"no checkpoint was saved, the last one is {last}",
        Interrupted(signal.SIGTERM, None, str(tmp_path), 2): "no checkpoint was saved, nor is there an earlier one",
    }
    assert {str(stop): stop.signal for stop in told} == {
        f"stopped by SIGTERM: {text}": signal.SIGTERM for text in told.values()
    }
