"""Rules of the probes: what each sign means, its healthy range, its source, and commands that check and mend it."""

from collections.abc import Collection

from tfbaselines.doctor.findings import Finding
from tfbaselines.doctor.rules import AGAIN, accepted, filled
from tfbaselines.probes import environment_rules, training_rules
from tfbaselines.probes.signs import Sign

RULES = environment_rules.RULES | training_rules.RULES


def finding(sign: Sign, run: str, env: str, arguments: Collection[str] = (), foreign: bool = False) -> Finding:
    """Return the finding of a sign for a run in a directory, on an environment.

    Args:
        sign: the sign.
        run: log directory of the run.
        env: id of the environment.
        arguments: see `accepted`.
        foreign: the run names modules, see Settings.
    """
    rule = RULES[sign.rule]
    words = {"run": run, "env": env or "ENV"}
    remedy = accepted(f"{AGAIN} {sign.remedy}" if sign.remedy else rule.remedy, arguments)
    return Finding(
        sign.rule,
        rule.title,
        rule.quantity,
        sign.value,
        rule.meaning,
        round(sign.certainty, 3),
        sign.causes or rule.causes,
        healthy=rule.healthy,
        check=filled(rule.check, words, foreign),
        remedy=filled(remedy, words, foreign),
    )
