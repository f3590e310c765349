"""Whether arrays that are about to be allocated fit into the free memory."""

GIB = 2.0**30
MIB = 2.0**20


def require_memory(nbytes: float, argument: str, what: str = "the replay") -> None:
    """ValueError, naming the argument to lower, when fewer than `nbytes` are free.

    Args:
        nbytes: about to be allocated.
        argument: the name of the argument that sets the size.
        what: the subject of the error.
    """
    available = available_memory()
    if available is not None and nbytes > available:
        raise ValueError(f"{what} would take {in_units(nbytes)} and {in_units(available)} are free: lower {argument}")


def available_memory() -> int | None:
    """Bytes that can still be allocated (Linux); None where that is unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


def in_units(nbytes: float) -> str:
    """A number of bytes in GiB, or in MiB when it is small."""
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= 0.1 * GIB else f"{nbytes / MIB:.2g} MiB"
