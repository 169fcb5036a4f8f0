"""The matrix: every pair of choices over all rungs and main switches is refused, or holds against all specifications.

`make test` runs every row of a covering array once, `make soak` fifty times. The scenario has losses, late and doubled
packets, a partition, a member that stands still, one that is lost packets to, and whatever faults the membership
allows.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gossamer.core.schema import SettingError
from gossamer.presets import PRESETS, preset
from gossamer.rungs import self_organized
from gossamer.sim.checked import traced
from gossamer.sim.matrix import (
    FACTORS,
    Row,
    covering,
    draw,
    impossible_pairs,
    pairs_of,
    possible_pairs,
    refusal,
    working,
)
from gossamer.sim.matrix import settings_of as protocol_of
from gossamer.sim.scenario import Scenario, parse
from gossamer.spec.promises import HEAL_S

PARTS = 8
MEMBERS = 8
CHANNELS = [  # senders that listen and one that does not, listeners that overlap, one alone
    {"name": "alpha", "members": [0, 1, 3, 4, 6], "senders": [0, 1], "share": 2.0},
    {"name": "beta", "members": [1, 2, 4, 5, 7], "senders": [0, 2]},
    {"name": "gamma", "members": [3], "senders": [2]},
]


def scenario(row: Row, seed: int) -> Scenario:
    """The same for every row, but for faults that need members which join by themselves."""
    table: dict[str, Any] = {
        "name": "matrix",
        "seed": seed,
        "duration": 3.0,
        "linger": 120.0,
        "grace": HEAL_S + 2 if row["membership"] == "sponsored" else 0.5,
        "wire": seed % 2 == 0,
        "topology": {"kind": "tree", "members": MEMBERS, "branching": 3, "latency": 0.002},
        "loss": {"member": 0.05, "link": 0.01, "reorder": 0.1, "duplicate": 0.02},
        "traffic": {"senders": 3, "rate": 60.0, "size": 200},
        "protocol": protocol_of(row),
        "fault": faults(row, Random(f"{seed}/{sorted(row.items())}")),
    }
    if row["channels"] == "several":
        table["channel"] = CHANNELS
    return parse(table)


def faults(row: Row, rng: Random) -> list[dict[str, Any]]:
    loggers = int(row["loggers"])
    sides = [[0, 1, 3, 7], [2, 4, 5, 6]] if rng.random() < 0.5 else [[0, 2, 5, 6], [1, 3, 4, 7]]
    found = [
        {"at": 0.5, "kind": "partition", "members": sides, "for": 0.6},
        {"at": 1.2, "kind": "perturb", "members": [4], "probability": 0.7, "for": 0.5},
        {"at": 1.5, "kind": "lose", "members": [rng.randrange(MEMBERS)], "packets": 12},
        {"at": 1.6, "kind": "crash", "members": [rng.randrange(MEMBERS)], "memory": "kept", "for": 0.4},
    ]
    if row["channels"] == "several":
        found += [
            {"at": 0.8, "kind": "listen", "members": [5], "channels": ["alpha", "beta"]},
            {"at": 1.3, "kind": "listen", "members": [1], "channels": ["alpha"]},
            {"at": 2.0, "kind": "listen", "members": [1], "channels": ["beta", "gamma"]},
        ]
    if row["membership"] != "static":
        receiver = rng.randrange(3, MEMBERS - loggers)
        found += rng.choice(
            [
                [{"at": 1.8, "kind": "crash", "members": [rng.randrange(MEMBERS)], "memory": "lost", "for": 0.5}],
                [{"at": 1.8, "kind": "disconnect", "members": [rng.randrange(MEMBERS)], "for": 0.6}],
                [
                    {"at": 1.4, "kind": "leave", "members": [receiver]},
                    {"at": 2.2, "kind": "join", "members": [receiver]},
                ],
            ]
        )
    return found


def expect_to_hold(row: Row, seed: int) -> None:
    made = scenario(row, seed)
    result = traced(made)
    where = f"seed {seed}, row {row}"
    assert result["violations"] == [], where
    if made.protocol.repair:
        assert result["outstanding"] == 0, f"still waiting at the end: {where}"


def test_the_array_covers_every_pair_that_can_work():
    covered = set().union(*(pairs_of(row) for row in covering()))
    assert covered == possible_pairs()
    assert all(not refusal(row) for row in covering())


def test_what_choices_declare_one_by_one_is_what_a_row_is_refused_for():
    """The covering array is drawn from rows that were put together from what each choice declares alone."""
    bound = {factor: list(FACTORS[factor]) for factor in working().row(0)}
    works = set(map(tuple, working().choices.tolist()))
    rng = Random("rows")
    for _ in range(2000):
        row = {factor: rng.choice(choices) for factor, choices in bound.items()}
        numbers = tuple(choices.index(row[factor]) for factor, choices in bound.items())
        assert (numbers in works) == (not refusal(row)), row


def test_every_choice_can_work_with_something():
    covered = {item for pair in possible_pairs() for item in pair}
    assert covered == {(factor, choice) for factor, choices in FACTORS.items() for choice in choices}


def test_a_refusal_is_one_line_that_says_what_to_change():
    for pair in impossible_pairs():
        row = {**draw(Random(str(pair))), **dict(pair)}
        why = refusal(row)
        assert "\n" not in why
        assert why.startswith("protocol."), why
        assert "set protocol." in why or "cannot be combined" in why, why


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        (
            "rpbcast",
            {"heartbeat": "none"},
            "repair = negative: needs a way to notice .*; set protocol.heartbeat to variable",
        ),
        (
            "rpbcast",
            {"buffering": "none"},
            "repair = negative: needs members that keep .*; set protocol.buffering to age",
        ),
        ("pbcast", {"buffering": "none"}, "repair = digest: needs members that keep packets"),
        ("lbrm", {"loggers": 0}, "repair = logger: needs a logger, now or later; .*protocol.loggers to at least 1"),
        ("lbrm", {"heartbeat": "none"}, "repair = logger: needs a way to notice"),
        (
            "rpbcast",
            {"repair": ["negative"], "loggers": 1},
            "loggers = 1: needs repair by loggers; set protocol.repair",
        ),
        ("rpbcast", {"repair": ["logger", "negative"]}, r"repair = \['logger', 'negative'\]: logger must come last"),
        ("rpbcast", {"repair": ["negative", "acknowledged"]}, "acknowledged must come first"),
        ("rpbcast", {"repair": ["negative", "negative"]}, "names a repair twice"),
        ("rpbcast", {"repair": "gossip"}, "repair = 'gossip': must be one of none, acknowledged, negative"),
        ("rpbcast", {"repair": ["gossip"]}, "repair = 'gossip': must be one of"),
        ("rpbcast", {"adaptive": True, "loggers": 0}, "adaptive = true: needs repair by loggers"),
        ("basic", {"suspect_after": 1.0}, "suspect_after = 1.0: needs members that join .*; set protocol.membership"),
        ("pbcast", {"found_after": 3}, "found_after = 3: needs members that join"),
        ("basic", {"recovery": "at-least-once"}, "recovery = at-least-once: needs repair by loggers"),
        ("rpbcast", {"reach": 10}, "reach = 10: needs a window; set protocol.window"),
        ("basic", {"admission": 10}, "admission = 10: needs members that keep packets"),
        ("rpbcast", {"stability": "aged", "buffering": "size"}, "stability = aged: needs a buffer by age"),
        (
            "rpbcast",
            {"dissemination": "graph", "ordering": "fifo"},
            "dissemination = graph: needs an order that is made by .*; set protocol.ordering to total or central",
        ),
    ],
)
def test_settings_that_cannot_work_together_are_refused(name, changes, says):
    with pytest.raises(SettingError, match=says):
        preset(name, changes)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_works_as_it_is(name):
    assert preset(name).name == name


def test_a_single_word_is_a_chain():
    assert preset("rpbcast").repair == ("negative", "logger")
    assert preset("rpbcast", {"loggers": 0}).repair == ("negative",)
    assert preset("rpbcast", {"repair": "digest"}).repair == ("digest", "logger")
    assert preset("unreliable").repair == ()
    assert not self_organized(preset("lbrm"))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_pair_of_choices_holds(part):
    for seed, row in list(enumerate(covering()))[part::PARTS]:
        expect_to_hold(row, seed)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4 * PARTS))
def test_every_pair_of_choices_holds_for_fifty_seeds(part):
    for row in covering()[part :: 4 * PARTS]:
        for seed in range(1000, 1050):
            expect_to_hold(row, seed)
