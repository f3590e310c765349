"""The examination of a run: every probe in its order, each with a line of progress and a limit of time."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tfbaselines.doctor.findings import Finding, ordered
from tfbaselines.doctor.settings import names_modules
from tfbaselines.errors import UsageError, printable
from tfbaselines.loading import load_tensorflow
from tfbaselines.probes.rules import finding
from tfbaselines.probes.signs import Sign

# Seconds of the whole examination. Probes measure the processor's time, so that a busy machine does not change them.
SECONDS = 280.0


class Probe(NamedTuple):
    """One probe.

    Attributes:
        name: name of the probe.
        examine: function of the patient and of the processor's time at which it should end.
        seconds: seconds of the processor.
    """

    name: str
    examine: Callable[[Any, float], Iterator[Sign]]
    seconds: float


class Examination(NamedTuple):
    """Result of an examination.

    Attributes:
        findings: findings, the likeliest first.
        made: names of the probes that were made.
        lacking: reasons of the others, by name.
    """

    findings: list[Finding]
    made: list[str]
    lacking: dict[str, str]


def examine(
    run: str,
    trust: bool = False,
    seconds: float = SECONDS,
    announce: Callable[[str], None] | None = None,
    only: Sequence[str] | None = None,
) -> Examination:
    """Build a run's environment and model, and examine them.

    Args:
        run: log directory of the run.
        trust: import the modules named in config.json.
        seconds: seconds after which no further probe begins.
        announce: gets a line for each probe; None for standard error.
        only: names of probes; None for all.
    """
    load_tensorflow()
    from tfbaselines.probes.patient import Patient
    from tfbaselines.probes.series import PROBES

    say = announce or (lambda line: print(printable(line), file=sys.stderr, flush=True))
    patient = Patient(run, trust)
    if not patient.config["env"]:
        raise UsageError("--probe: the run's environments were not made from an id, so they cannot be made again")
    begun = time.monotonic()
    signs: list[Sign] = []
    made: list[str] = []
    lacking: dict[str, str] = {}
    chosen = [probe for probe in PROBES if only is None or probe.name in only]
    for place, probe in enumerate(chosen, 1):
        started = time.monotonic()
        end = time.process_time() + probe.seconds
        if started >= begun + seconds:
            lacking[probe.name] = "the time was over"
            continue
        found: list[Sign] = []
        try:
            for sign in probe.examine(patient, end):
                found.append(sign)
        except UsageError as error:
            lacking[probe.name] = " ".join(str(error).split())
        except Exception as error:  # An environment or a network of a user may raise anything.
            lacking[probe.name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        made += [] if probe.name in lacking else [probe.name]
        signs += found
        outcome = lacking.get(probe.name) or (f"{len(found)} signs" if found else "nothing found")
        say(f"probe {place}/{len(chosen)} {probe.name}: {outcome} ({time.monotonic() - started:.1f} s)")
    env = patient.config["env"].get("env") or ""
    arguments, foreign = patient.algorithm.config.arguments(), names_modules(patient.config)
    found = [finding(sign, run, env, arguments, foreign) for sign in best(signs)]
    return Examination(ordered(found), made, lacking)


def best(signs: list[Sign]) -> list[Sign]:
    """Keep the surest sign of each rule."""
    kept: dict[str, Sign] = {}
    for sign in sorted(signs, key=lambda sign: -sign.certainty):
        if sign.rule not in kept:
            kept[sign.rule] = sign
    return explained(list(kept.values()))


# Rules about consequences: they fall behind a sure cause.
CONSEQUENCES = {
    *(
        "one_action",
        "no_spread",
        "at_bounds",
        "weights",
        "policy_still",
        "policy_jumps",
        "fixed_batch",
        "training_not_finite",
    ),
    *("probe_constant", "probe_observation", "probe_later_reward", "probe_action", "probe_action_from_observation"),
    *("frozen_weights", "simple_behavior", "late_effect", "equal_actions"),
}
SURE = 0.9


def explained(signs: list[Sign]) -> list[Sign]:
    """Lower the certainty of consequences where a cause is sure."""
    if not any(sign.certainty >= SURE and sign.rule not in CONSEQUENCES for sign in signs):
        return signs
    return [sign._replace(certainty=min(sign.certainty, 0.5)) if sign.rule in CONSEQUENCES else sign for sign in signs]
