"""One rule of the probes, and the sources that several rules have."""

from dataclasses import dataclass

from tfbaselines.doctor.rules import CHECK_ENV

EXPERIENCE = "experience"
HENDERSON = "Henderson et al. 2018, arXiv:1709.06560"
ANDRYCHOWICZ = "Andrychowicz et al. 2021, arXiv:2006.05990"
PROBES = "probe environments with known answers (docs/doctor.md)"


@dataclass(frozen=True)
class ProbeRule:
    """One rule of the probes.

    Attributes:
        title: what is wrong.
        quantity: what was measured.
        healthy: healthy range, in words.
        meaning: what the sign usually means.
        source: the paper or the experience behind it.
        causes: causes, the likeliest first.
        check: command that checks it, with {run} and {env}.
        remedy: command that mends it; empty if there is none.
    """

    title: str
    quantity: str
    healthy: str
    meaning: str
    source: str
    causes: tuple[str, ...]
    check: str = CHECK_ENV
    remedy: str = ""
