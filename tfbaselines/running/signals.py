"""The signals that stop a run: Ctrl-C, and those of service managers and batch systems."""

import signal
import threading
from typing import Any

STOPPING = tuple(getattr(signal, f"SIG{name}") for name in ("INT", "TERM", "HUP", "USR1", "USR2"))


def heed() -> None:
    """Have signals that nohup or a shell ignores stop this program, and so those that it starts."""
    for number in STOPPING:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


class StopSignals:
    """Keeps the first signal that comes until the run has an update to end with; a second Ctrl-C does not wait.

    Batch systems send SIGTERM some time after the signal that asked the run to end: it must not cost the checkpoint.

    Attributes:
        number: of the signal that came; 0 for none.
    """

    def __init__(self) -> None:
        self.number = 0
        self._old_handlers: dict[int, Any] = {}

    def catch(self) -> None:
        """Take the signals over, where this is the main thread: others cannot.

        Those that are ignored stay ignored, as nohup wants it, and those that something other than Python handles
        stay there: they could not be given back.
        """
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._old_handlers[number] = signal.signal(number, self._on_signal)

    def release(self) -> None:
        """Give the signals back to their handlers."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: Any) -> None:
        if not self.number:
            self.number = number
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
