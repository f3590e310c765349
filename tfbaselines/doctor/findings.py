"""Findings of the doctor: their fields, their order, and their forms for a terminal and for programs."""

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tfbaselines.errors import printable

PAGE = "docs/doctor.md"
# Least certainty of each word; below the last one a finding is "possibly".
SURELY, LIKELY = 0.9, 0.6
WIDTH = 100

# Causes that findings point to, in words that end "The cause may be that ...".
CAUSES = {
    "reward_sign": "rewards have the wrong sign",
    "rewards_large": "rewards are too large",
    "rewards_small": "rewards are too small",
    "rewards_constant": "rewards do not depend on the actions",
    "reward_delay": "rewards arrive at a later step",
    "reward_noise": "rewards are mostly noise",
    "reward_sparse": "rewards are too rare to be found",
    "observation_scale": "observations are far from 1 in size",
    "observation_constant": "a part of the observations never changes",
    "observation_delay": "observations arrive at a later step",
    "observation_partial": "one observation does not show what the policy must know",
    "limits_as_ends": "time limits are reported as real ends",
    "no_ends": "ends of episodes are not reported",
    "no_resets": "episodes do not begin anew",
    "actions_ignored": "actions have no effect",
    "action_bounds": "the bounds of actions are wrong",
    "equal_copies": "all copies of the environment have one seed",
    "rate_large": "the learning rate is too large",
    "rate_small": "the learning rate is too small",
    "discount_small": "the discount is too small",
    "discount_large": "the discount is too large",
    "entropy_large": "the entropy bonus is too large",
    "no_exploration": "the policy explores too little",
    "endless_exploration": "exploration does not end",
    "deviation_small": "the first standard deviation is too small",
    "clip_small": "the clip range is too small",
    "target_frozen": "the target network is never updated",
    "target_copied": "the target network follows at once",
    "replay_small": "the replay memory is too small",
    "dead_units": "units of the network are dead",
    "memory_unused": "nothing reads the policy's memory",
    "value_function": "the value function does not learn",
    "collapse": "the policy collapsed",
    "divergence": "values diverge",
    "not_finite": "numbers are not finite",
    "too_early": "the run is too short",
    "rate_ended": "the learning rate's schedule ended",
    "demonstrations": "the demonstrations do not show the task",
    "settings": "a setting is far from those that are known to work",
}


@dataclass(frozen=True)
class Finding:
    """One sign that something is wrong with a run.

    Attributes:
        rule: name of the rule, and anchor on the documentation's page.
        title: what is wrong, in a few words.
        quantity: the column, setting or measured quantity.
        value: value of the quantity, in words.
        healthy: healthy range of the quantity, in words; empty if there is none.
        step: environment step from which on it was seen; None if it holds for the whole run.
        meaning: what it usually means.
        certainty: from 0 to 1; the order of the findings, and the word `sure`.
        check: one command that checks it; empty if there is none.
        remedy: one command that mends it; empty if there is none.
        causes: names in CAUSES that it points to, the likeliest first.
    """

    rule: str
    title: str
    quantity: str
    value: str
    meaning: str
    certainty: float
    causes: tuple[str, ...]
    healthy: str = ""
    step: int | None = None
    check: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        unknown = [cause for cause in self.causes if cause not in CAUSES]
        if unknown or not 0 <= self.certainty <= 1:
            raise AssertionError(f"rule {self.rule}: causes {unknown}, certainty {self.certainty}")

    @property
    def sure(self) -> str:
        """The certainty as a word: surely, likely or possibly."""
        return "surely" if self.certainty >= SURELY else "likely" if self.certainty >= LIKELY else "possibly"

    @property
    def page(self) -> str:
        """The place in the documentation."""
        return f"{PAGE}#{self.rule.replace('_', '-')}"

    @property
    def seen(self) -> str:
        """The sign in words, with the healthy range."""
        since = "" if self.step is None else f" from step {self.step:,} on"
        healthy = f" (healthy: {self.healthy})" if self.healthy else ""
        return f"{self.quantity} is {self.value}{since}{healthy}"


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings, the likeliest first."""
    return sorted(findings, key=lambda finding: -finding.certainty)


def number(value: float) -> str:
    """Write a number in few digits."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def text(findings: Sequence[Finding]) -> str:
    """Write findings for a terminal."""
    return "\n\n".join(_paragraph(place, finding) for place, finding in enumerate(findings, 1))


def _paragraph(place: int, finding: Finding) -> str:
    lines = [f"{place}. {finding.title} ({finding.sure}, {finding.certainty:.2f})"]
    # Commands stay whole, so that they can be copied.
    rows = (("seen", finding.seen), ("means", finding.meaning))
    for name, words in rows:
        lines += textwrap.wrap(words, WIDTH, initial_indent=f"   {name}: ", subsequent_indent=" " * 10)
    rows = (("check", finding.check), ("mend", finding.remedy), ("page", finding.page))
    lines += [f"   {name}: {words}" for name, words in rows if words]
    return printable("\n".join(lines))


def as_json(findings: Sequence[Finding], **more: Any) -> str:
    """Write findings, and more entries beside them, as JSON."""
    rows = [
        {**asdict(finding), "causes": list(finding.causes), "sure": finding.sure, "page": finding.page}
        for finding in findings
    ]
    return json.dumps({"findings": rows, **more}, indent=2)
