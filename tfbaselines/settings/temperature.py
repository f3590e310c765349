"""The weight of the policy's entropy as an argument: given, following a schedule, or learnt."""

import math
from dataclasses import dataclass

from tfbaselines.errors import bad_argument
from tfbaselines.settings.config import Coefficient, Config, arg
from tfbaselines.settings.schedules import is_schedule, parse_schedule


@dataclass(frozen=True, kw_only=True)
class TemperatureConfig(Config):
    """Of algorithms that maximise entropy beside rewards; see optim/temperature.py."""

    alpha: Coefficient | str = arg(0.2, "weight of the entropy; 'auto' learns it, 'auto_0.1' from there", at_least=0)
    target_entropy: float | None = arg(
        None,
        "entropy that alpha='auto' aims at; None for minus the number of continuous actions, or 0.2 of the largest "
        "entropy of discrete ones",
    )

    def check(self) -> None:
        """See Config."""
        super().check()
        if not 0.0 <= self.first_alpha < math.inf or (self.learns_alpha and self.first_alpha == 0):
            raise bad_argument("alpha", self.alpha, "a number of at least 0, 'auto', or such as 'auto_0.1'")

    @property
    def learns_alpha(self) -> bool:
        """Whether the temperature is learnt."""
        return isinstance(self.alpha, str) and self.alpha.startswith("auto")

    @property
    def first_alpha(self) -> float:
        """The temperature at the start; NaN for what is none."""
        if is_schedule(self.alpha):
            return parse_schedule(self.alpha, "alpha")(1.0)
        try:
            return float(str(self.alpha).removeprefix("auto").removeprefix("_") or 1.0)
        except ValueError:
            return math.nan
