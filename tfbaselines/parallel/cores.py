"""The cores of the machine that this process may use."""

import os


def usable_cores() -> set[int]:
    """Their numbers: all of the machine's, or those that a launcher, a batch system or a container left to it."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
