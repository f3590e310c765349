"""Measure speed and collect scores; baselines' `bench.Monitor` is importable from here."""

from tfbaselines.compat import names_of

__getattr__ = names_of("bench")
