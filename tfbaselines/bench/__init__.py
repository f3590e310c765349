"""Speed, scores and faults; and baselines' bench, which has the Monitor."""

from tfbaselines.compat import names_of

__getattr__ = names_of("bench")
