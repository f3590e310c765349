"""The signals that stop a run: Ctrl-C, and those of service managers and batch systems."""

import signal
import threading
from typing import Any

STOPPING = tuple(getattr(signal, f"SIG{name}") for name in ("INT", "TERM", "HUP", "USR1", "USR2"))


class StopSignals:
    """Keeps the first signal that comes until the run has an update to end with; a second one does not wait.

    Attributes:
        number: of the signal that came; 0 for none.
    """

    def __init__(self) -> None:
        self.number = 0
        self._old_handlers: dict[int, Any] = {}

    def catch(self) -> None:
        """Take the signals over, where this is the main thread: others cannot."""
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                self._old_handlers[number] = signal.signal(number, self._on_signal)

    def release(self) -> None:
        """Give the signals back to their handlers."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: Any) -> None:
        if self.number:
            raise KeyboardInterrupt
        self.number = number
