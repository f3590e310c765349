"""Signs that probes see: a rule's name, the value in words, and the certainty."""

from typing import Any, NamedTuple

import numpy as np


class Sign(NamedTuple):
    """One thing that a probe saw.

    Attributes:
        rule: name in RULES.
        value: what was seen, in words.
        certainty: from 0 to 1.
        causes: causes, if they are not the rule's.
        remedy: arguments that mend it, if they are not the rule's.
    """

    rule: str
    value: str
    certainty: float
    causes: tuple[str, ...] = ()
    remedy: str = ""


def array_of(variable: Any) -> np.ndarray:
    """Return a copy of a parameter's numbers: of a Keras variable, a table of qlearning, or an array."""
    return np.array(variable.numpy() if hasattr(variable, "numpy") else variable)
