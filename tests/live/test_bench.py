"""The benchmark's own conscience: a number counts only if no event was missing, repeated, swapped or cut short."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from live_worker import WARM, Tally, make_payloads

EVENTS = 2_500
SIZE = 64


def judged(payloads: list[bytes]) -> Tally:
    """A tally that has heard these, in batches of all sizes."""
    tally, rng, at = Tally(SIZE), Random(1), 0
    tally.begin(0, EVENTS)
    while at < len(payloads):
        size = rng.randrange(1, 600)
        tally.take(payloads[at : at + size])
        at += size
    return tally


def events() -> list[bytes]:
    return [payload for chunk in make_payloads(0, EVENTS, SIZE) for payload in chunk]


def test_all_events_in_order_are_complete():
    tally = judged([WARM + bytes(SIZE - 8), *events()])
    assert (tally.warm, tally.missing, tally.wrong, tally.skipped) == (True, 0, 0, 0)
    assert tally.finished


@pytest.mark.parametrize(
    "spoil",
    [
        lambda heard: heard.pop(1_234),
        lambda heard: heard.insert(1_234, heard[1_234]),
        lambda heard: heard.insert(1_234, heard.pop(1_235)),
        lambda heard: heard.insert(0, heard[-1]),
    ],
    ids=["missing", "repeated", "swapped", "early"],
)
def test_missing_repeated_and_swapped_events_are_noticed(spoil):
    heard = events()
    spoil(heard)
    tally = judged(heard)
    assert tally.wrong + tally.skipped > 0


def test_it_is_not_finished_before_the_last_event():
    tally = judged(events()[:-1])
    assert tally.missing == 1
    assert not tally.finished


def test_an_event_that_is_cut_short_is_refused():
    heard = events()
    heard[7] = heard[7][:-8]
    with pytest.raises(ValueError, match="reshape"):
        judged(heard)


def test_latency_is_from_the_stamp_to_the_arrival_and_the_order_is_checked_too():
    stamped = [p[:8] + (1_000).to_bytes(8, "little") + p[16:] for p in events()]
    tally = Tally(SIZE)
    tally.begin(0, EVENTS)
    stamped[3], stamped[4] = stamped[4], stamped[3]
    for payload in stamped:
        tally.keep([payload], 251_000)
    assert tally.missing == 0
    report = tally.report()
    assert (report["p50_us"], report["p99_us"]) == (250.0, 250.0)
    assert report["wrong"] > 0
