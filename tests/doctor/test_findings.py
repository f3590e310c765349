"""Findings of the doctor: their order, and their forms."""

import csv
import json

import pytest

from tests.doctor.threads import COLUMNS, ROOT, THREADS, flags_of
from tfbaselines.algs import NAMES
from tfbaselines.doctor.findings import CAUSES, Finding, as_json, ordered, text


def finding(certainty, **more):
    words = {"rule": "entropy_at_start", "title": "The policy is sure too early", "quantity": "loss/policy_entropy"}
    words |= {"value": "0.01", "meaning": "It explores nothing. " * 9, "causes": ("no_exploration",)}
    return Finding(**words | {"certainty": certainty} | more)


def test_likeliest_first_with_words_for_how_sure():
    some = ordered([finding(0.3), finding(0.95), finding(0.7)])
    assert [one.sure for one in some] == ["surely", "likely", "possibly"]


def test_forms():
    one = finding(0.7, step=20_000, healthy="0.1 to 0.6", check="tfbaselines doctor logs/x --probe", title="\x1b[2J")
    written = text([one, finding(0.3)])
    assert "loss/policy_entropy is 0.01 from step 20,000 on (healthy: 0.1 to 0.6)" in written
    assert "   check: tfbaselines doctor logs/x --probe\n" in written
    assert "   page: docs/doctor.md#entropy-at-start\n\n2. " in written
    assert "\x1b" not in written
    assert "mend" not in written
    assert max(map(len, written.splitlines())) <= 100
    entry = json.loads(as_json([one], read=["progress.csv"]))
    assert entry["read"] == ["progress.csv"]
    assert entry["findings"][0]["sure"] == "likely"
    assert entry["findings"][0]["causes"] == ["no_exploration"]


def test_unknown_causes_are_errors_of_the_rule():
    with pytest.raises(AssertionError, match="no_exploratio"):
        finding(0.5, causes=("no_exploratio",))
    assert all(words[0].islower() and words[-1] != "." for words in CAUSES.values())


def test_every_thread_has_a_cause_a_command_and_a_result():
    with open(ROOT / "data" / "benchmarks" / "doctor_threads.csv", newline="") as file:
        rows = {row["thread"]: row for row in csv.DictReader(file)}
    assert list(rows) == [thread.name for thread in THREADS] and set(next(iter(rows.values()))) == set(COLUMNS)
    for thread in THREADS:
        assert thread.cause == rows[thread.name]["cause"] and thread.cause in CAUSES
        assert flags_of(thread.flags)["alg"] in NAMES and thread.mended
        assert thread.link in (ROOT / "docs" / "doctor.md").read_text()
