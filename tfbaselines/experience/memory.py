"""Whether a full replay fits into the free memory."""

GIB = 2.0**30


def check_memory(nbytes: int, argument: str = "buffer_size") -> None:
    """ValueError, naming the argument to lower, when fewer than `nbytes` are free."""
    available = available_memory()
    if available is not None and nbytes > available:
        raise ValueError(
            f"the replay would take {nbytes / GIB:.1f} GiB and {available / GIB:.1f} GiB are free: lower {argument}"
        )


def available_memory() -> int | None:
    """Bytes that can still be allocated (Linux); None where that is unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
