"""`python -m tfbaselines` is `python -m tfbaselines.run`."""

from tfbaselines.run import console

console()
