"""One order for all members, whoever fails.

Every scenario is checked against all that it promises, agreement first, and has to come to an end: no member waits for
ever while its sources and its path live. `make soak` runs 200 seeds of each. Reference: 002 §1 (b), §5
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gossamer.core.effects import Unicast
from gossamer.core.inputs import GoAsked, Heard, Published, Started
from gossamer.core.places import EnterOrder
from gossamer.core.settings import ProtocolSettings
from gossamer.sim.checked import traced
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse
from gossamer.stack import Stack
from tests.papers.hand import Table

STATIC = {"membership": "static"}
SUSPICIOUS = {"suspect_after": 0.5}
FOUNDED = {**SUSPICIOUS, "found_after": 3, "loggers": 1}
"""Nobody is there at first; the last member is a logger."""


def crash(member: int, at: float, memory: str, lasts: float) -> dict[str, Any]:
    return {"at": at, "kind": "crash", "members": [member], "memory": memory, "for": lasts}


def cut(one: list[int], other: list[int], lasts: float = 4.0) -> dict[str, Any]:
    return {"at": 1.0, "kind": "partition", "members": [one, other], "for": lasts}


def come(member: int, at: float) -> dict[str, Any]:
    return {"at": at, "kind": "join", "members": [member]}


def go(member: int, at: float) -> dict[str, Any]:
    return {"at": at, "kind": "leave", "members": [member]}


def comes(first: int, end: int, after: float = 0.1, at: float = 1.0) -> list[dict[str, Any]]:
    return [come(member, at + after * (member - first)) for member in range(first, end)]


SCENARIOS: dict[str, dict[str, Any]] = {
    "static": {"protocol": STATIC},
    "loss of 20%": {"protocol": STATIC, "loss": 0.2},
    "churn": {"protocol": SUSPICIOUS, "fault": [go(5, 1.0), go(0, 1.5), come(5, 2.5), come(0, 3.0)], "grace": 12.0},
    "half of them leave": {"protocol": SUSPICIOUS, "fault": [go(m, 1.5) for m in (3, 4, 5)], "grace": 12.0},
    "most of them leave": {"protocol": SUSPICIOUS, "fault": [go(m, 1.5) for m in (1, 2, 3, 5)], "grace": 12.0},
    "the primary and most leave": {"protocol": SUSPICIOUS, "fault": [go(m, 1.5) for m in (0, 1, 2, 3)], "grace": 12.0},
    "late joins": {"protocol": SUSPICIOUS, "fault": [come(4, 1.0), come(5, 2.0)], "grace": 12.0},
    "late joins by an oracle": {"protocol": STATIC, "fault": [come(4, 1.0), come(5, 2.0)]},
    "the primary stands still": {"protocol": STATIC, "fault": [crash(0, 1.0, "kept", 2.5)]},
    "the primary crashes": {"protocol": SUSPICIOUS, "fault": [crash(0, 1.0, "lost", 2.5)], "grace": 12.0},
    "the primary loses its memory": {"protocol": STATIC, "fault": [crash(0, 1.0, "lost", 2.5)]},
    "a leaf stands still": {"protocol": STATIC, "fault": [crash(5, 1.0, "kept", 2.5)]},
    "a source crashes": {"protocol": SUSPICIOUS, "fault": [crash(2, 1.0, "lost", 2.5)], "grace": 12.0},
    "the next manager, too": {"protocol": STATIC, "fault": [crash(0, 1.0, "kept", 4.0), crash(1, 2.05, "kept", 3.0)]},
    "again during recovery": {"protocol": STATIC, "fault": [crash(0, 1.0, "kept", 1.1), crash(1, 2.1, "kept", 2.0)]},
    "the primary is cut off": {"protocol": STATIC, "fault": [cut([0, 1], [2, 3, 4, 5])]},
    "two halves": {"protocol": STATIC, "fault": [cut([0, 1, 2], [3, 4, 5])]},
    "cut off and suspected": {"protocol": SUSPICIOUS, "fault": [cut([0, 1], [2, 3, 4, 5])], "grace": 12.0},
    "a logger comes first": {"protocol": FOUNDED, "fault": [come(5, 0.1), *comes(0, 5)], "grace": 12.0},
    "a logger comes first, then all": {"protocol": FOUNDED, "fault": [come(5, 0.1), *comes(0, 5, 0.0)], "grace": 12.0},
    "two loggers come first": {
        "protocol": {**FOUNDED, "loggers": 2},
        "fault": [come(5, 0.1), come(4, 0.2), *comes(0, 4)],
        "grace": 12.0,
    },
    "a logger that is alone crashes": {
        "protocol": FOUNDED,
        "fault": [
            *(come(5, 0.1), come(0, 0.5), come(1, 0.5), go(0, 1.5), go(1, 1.5)),
            *(crash(5, 2.5, "lost", 0.5), *comes(0, 4, at=3.5)),
        ],
        "grace": 14.0,
    },
    "the founder leaves when others have come": {
        "protocol": FOUNDED,
        "fault": [come(0, 0.1), come(5, 1.0), come(1, 1.0), go(0, 1.02), *comes(2, 5, at=2.0)],
        "grace": 14.0,
    },
}


SPECIAL: dict[str, dict[str, Any]] = {
    "all at once": {"protocol": {**FOUNDED, "loggers": 0}, "fault": comes(0, 6, 0.0, 0.1), "grace": 12.0},
    "the founder crashes when one has come": {
        "protocol": FOUNDED,
        "fault": [come(4, 0.1), come(5, 1.0), crash(4, 1.05, "lost", 3.0), *comes(0, 4, at=3.0)],
        "grace": 14.0,
    },
}
"""In which not everything that is published can have its place."""


def scenario(name: str, seed: int, **more: Any):
    said = {**SCENARIOS, **SPECIAL}[name]
    return parse(
        {
            "name": "order",
            "seed": seed,
            "duration": 5.0,
            "linger": 60.0,
            "grace": said.get("grace", 0.5),
            "wire": seed % 2 == 0,
            "topology": {"kind": "lan", "members": 6, "latency": 0.002},
            "loss": {"member": said.get("loss", 0.05), "reorder": 0.1, "duplicate": 0.02},
            "traffic": {"senders": 3, "rate": 90.0, "size": 200},
            "protocol": {"name": "rpbcast", "loggers": 0, "ordering": "total", **said["protocol"], **more},
            "fault": said.get("fault", []),
        }
    )


def expect_one_order(name: str, seed: int, **more: Any) -> dict[str, Any]:
    result = traced(scenario(name, seed, **more))
    assert result["violations"] == [], f"{name}, seed {seed}"
    assert result["outstanding"] == 0, f"somebody still waits: {name}, seed {seed}"
    assert result["order"]["agreement"]
    return result


@pytest.mark.parametrize("name", SCENARIOS)
def test_all_members_deliver_in_one_order(name):
    for seed in (1, 2):
        expect_one_order(name, seed)
    with_undo(name, 3)


def with_undo(name: str, seed: int) -> dict[str, Any]:
    """What is delivered before it is settled is undone where it has to be, and all agree on the rest."""
    return expect_one_order(name, seed, order_failures="non-atomic")


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENARIOS)
def test_all_members_deliver_in_one_order_for_200_seeds(name):
    for seed in range(1000, 1200):
        expect_one_order(name, seed)
        with_undo(name, seed)


@pytest.mark.parametrize("name", ["half of them leave", "most of them leave", "the primary and most leave"])
def test_a_leave_is_no_failure(name):
    """The sites shrink first, so that those that stay are most of them: nobody is blocked."""
    for seed in (2, 4, 6):
        assert expect_one_order(name, seed)["order"]["blocked_seconds"] == 0.0


def test_central_is_the_same_order_with_one_channel():
    """Reference: 002 §2, footnote in §4: a propagation graph that consists of one tree of depth 1"""
    results = [simulate(scenario("static", 1, ordering=word)) for word in ("total", "central")]
    assert results[0]["latency"] == results[1]["latency"]
    assert results[0]["overhead_by_kind"] == results[1]["overhead_by_kind"]


@pytest.mark.parametrize("loggers", [0, 2])
def test_founders_of_the_same_moment_lose_nothing(loggers):
    """They have orders of their own until they meet, and cannot take one for the other, whatever the clock says.

    What they published before that they have delivered in other places (docs/ordering.md).
    """
    for seed in range(1, 5):
        result = traced(scenario("all at once", seed, loggers=loggers))
        assert [v for v in result["violations"] if v["spec"] != "agreement"] == [], f"seed {seed}"
        assert result["outstanding"] == 0, f"seed {seed}"


def test_an_order_that_nobody_knows_any_more_begins_anew():
    """Its founder is gone before it has told the one that came; what was published then would be lost, with a word."""
    for seed in range(1, 5):
        expect_one_order("the founder crashes when one has come", seed)
        with_undo("the founder crashes when one has come", seed)


def test_a_primary_that_stands_still_is_replaced_after_its_time():
    patient, quick = (expect_one_order("the primary stands still", 1, order_patience=p) for p in (1.0, 0.2))
    assert patient["order"]["graph"] > 1
    assert quick["latency"]["mean"] < patient["latency"]["mean"]


def test_a_part_without_most_sites_blocks_and_says_so():
    """Neither the two that are cut off with the primary deliver anything, nor do they accept what they cannot order."""
    result = expect_one_order("the primary is cut off", 1)
    assert result["order"]["blocked_seconds"] > 2.0
    assert result["packets"]["refused"] > 0


def test_the_half_with_the_primary_goes_on():
    result = expect_one_order("two halves", 1)
    blocked = result["order"]["blocked_seconds"]
    assert 3 * 1.5 < blocked < 3 * 4.5, "three members, for as long as the network is in two but for the time to notice"
    assert result["packets"]["refused"] == 0, "all senders are on the side that goes on"


def test_a_leaf_that_fails_blocks_nobody():
    """Reference: 002 §5.2.2"""
    result = expect_one_order("a leaf stands still", 1)
    assert result["order"]["blocked_seconds"] == 0.0
    assert result["order"]["graph"] == 1


def test_without_faults_a_packet_needs_two_multicasts_and_answers_from_as_many_sites_as_are_most_with_the_primary():
    """The places, and that they are settled; with one packet at a time nothing is shared.

    Reference: 002 Table 2 has two messages for a central order; the others are what it costs that nothing is undone
    """
    made = parse(
        {
            "duration": 10.0,
            "topology": {"kind": "lan", "members": 6, "latency": 0.001},
            "traffic": {"senders": 1, "rate": 5.0, "arrivals": "steady"},
            "protocol": {"name": "unreliable", "ordering": "total", "order_patience": 100.0},
        }
    )
    result = simulate(made)
    sent = result["packets"]["sent"]
    assert result["overhead_by_kind"]["order"]["packets"] == pytest.approx(sent * (2 + 2), abs=30)
    assert result["latency"]["max"] == pytest.approx(3 * 0.001, rel=0.2), "its place, kept, settled"


def test_packets_that_are_not_settled_yet_are_not_spoken_of_again_when_others_are():
    """At 1,000 packets/s four of them are on their way at any moment; each still costs what one alone does."""
    made = parse(
        {
            "duration": 5.0,
            "topology": {"kind": "lan", "members": 8, "latency": 0.001},
            "traffic": {"senders": 8, "rate": 1000.0},
            "protocol": {"name": "unreliable", "ordering": "total", "order_patience": 100.0},
        }
    )
    result = simulate(made)
    assert result["overhead_by_kind"]["order"]["packets"] == pytest.approx(
        result["packets"]["sent"] * (2 + 3), rel=0.03
    )


def test_a_newcomer_begins_where_the_order_is_settled_though_it_is_owed_only_later_packets():
    members = (0, 1, 2)
    stack = Stack(0, members, ProtocolSettings(ordering="total", order_patience=1.0), Random(1))
    stack.step(0.0, Started({}))
    assert stack.order.standing(0.0)["primary"] == 0
    stack.step(0.1, Published(b"a", b"b", b"c"))  # they have places, which nobody else is known to keep
    told = stack.step(0.2, Heard(2, EnterOrder(7, True, {0: 2})))
    begins = [effect.message.first for effect in told if isinstance(effect, Unicast)]
    assert begins == [0], "the next graph may give these places to others"


@pytest.mark.parametrize("protocol", ["unreliable", "basic", "lbrm", "rpbcast", "pbcast", "redelivery", "srm"])
def test_what_is_delivered_at_once_goes_with_every_repair(protocol):
    made = scenario("the primary is cut off", 1).as_dict()
    made["protocol"] = {"name": protocol, "ordering": "total", "order_failures": "non-atomic", "membership": "static"}
    result = traced(parse(made))
    assert result["violations"] == []
    assert result["order"]["agreement"]
    assert result["order"]["undone"] > 0


def test_what_is_delivered_at_once_costs_one_message_for_its_place_and_two_latencies():
    """Reference: 002 §5.2.1: no additional messages have to be sent"""
    results = [quick(order_failures=word) for word in ("atomic", "non-atomic")]
    atomic, at_once = (result["overhead_by_kind"]["order"]["packets"] / result["packets"]["sent"] for result in results)
    assert atomic == pytest.approx(4.0, abs=0.1), "the place, two words, and that it is settled"
    assert at_once == pytest.approx(1.0, abs=0.1)
    assert results[1]["latency"]["max"] == pytest.approx(2 * 0.001, rel=0.2)


def quick(**more: Any) -> dict[str, Any]:
    protocol = {"name": "unreliable", "ordering": "total", "order_patience": 100.0, **more}
    topology = {"kind": "lan", "members": 6, "latency": 0.001}
    traffic = {"senders": 2, "rate": 50.0, "arrivals": "steady"}
    return simulate(parse({"duration": 10.0, "topology": topology, "traffic": traffic, "protocol": protocol}))


CHANNELS = [
    {"name": "alpha", "members": [0, 1, 2, 3], "senders": [0, 4]},
    {"name": "beta", "members": [0, 2, 4, 5], "senders": [1, 5]},
    {"name": "gamma", "members": [1, 5], "senders": [0]},
]


def over_channels(name: str, seed: int, **more: Any) -> dict[str, Any]:
    """The scenario of that name with channels, of which nobody hears all, nor does the primary, member 0."""
    table = scenario(name, seed).as_dict()
    table["protocol"] = {"name": "rpbcast", "loggers": 0, "ordering": "total", **SCENARIOS[name]["protocol"], **more}
    table["protocol"]["channels"] = 4
    table["channel"] = CHANNELS
    result = traced(parse(table))
    assert result["violations"] == [], f"{name}, seed {seed}"
    assert result["outstanding"] == 0, f"somebody still waits: {name}, seed {seed}"
    return result


@pytest.mark.parametrize("name", SCENARIOS)
def test_members_of_several_channels_deliver_in_one_order(name):
    """Reference: 002 §1 (c)"""
    for seed in (1, 2):
        assert over_channels(name, seed)["order"]["agreement"]
    assert undo_channels(name, 3)["order"]["agreement"]


def undo_channels(name: str, seed: int) -> dict[str, Any]:
    return over_channels(name, seed, order_failures="non-atomic")


HALVES = [
    {"name": "left", "members": [0, 1, 2, 3]},
    {"name": "left too", "members": [2, 3], "senders": [0, 8]},
    {"name": "right", "members": [4, 5, 6, 7], "senders": [4, 5, 9]},
    {"name": "few", "members": [8, 9]},
]


def listen(member: int, at: float, *channels: str) -> dict[str, Any]:
    return {"at": at, "kind": "listen", "members": [member], "channels": list(channels)}


def apart(lasts: float = 2.0) -> dict[str, Any]:
    return {"at": 1.5, "kind": "partition", "members": [[0, 1, 2, 3, 8], [4, 5, 6, 7, 9]], "for": lasts}


BRANCHED: dict[str, dict[str, Any]] = {
    "two halves": {"protocol": STATIC},
    "with much in common": {"protocol": STATIC, "common": 4.0},
    "loss of 20%": {"protocol": STATIC, "loss": 0.2, "common": 1.0},
    "one hears both": {"fault": [listen(3, 2.0, "left", "left too", "right")], "common": 1.0},
    "two hear both": {"fault": [listen(m, 2.0, "left", "right") for m in (2, 3)], "common": 1.0},
    "one begins and stops": {
        "fault": [listen(8, 1.5, "right", "few"), listen(8, 3.0, "few"), listen(9, 3.2, "left")],
        "common": 1.0,
    },
    "one moves to and fro": {
        "fault": [listen(4, 1.2, "left"), listen(4, 2.2, "right"), listen(4, 2.6, "left", "right"), listen(4, 3.8)],
        "common": 1.0,
    },
    "a branch's primary stands still": {"protocol": STATIC, "fault": [crash(4, 1.5, "kept", 2.0)], "common": 1.0},
    "a branch's primary crashes": {"fault": [crash(2, 1.5, "lost", 1.5)], "common": 1.0, "grace": 12.0},
    "a leaf of a branch crashes": {"fault": [crash(6, 1.5, "lost", 1.5)], "common": 1.0, "grace": 12.0},
    "the primary of the trunk stands still": {"protocol": STATIC, "fault": [crash(2, 1.5, "kept", 2.0)], "common": 1.0},
    "a source crashes": {"fault": [crash(9, 1.5, "lost", 1.5)], "common": 1.0, "grace": 12.0},
    "a site of a branch loses its memory": {"protocol": STATIC, "fault": [crash(6, 1.5, "lost", 1.0)], "common": 1.0},
    "the others of a branch lose their memory": {
        "protocol": STATIC,
        "fault": [
            crash(7, 1.0, "kept", 4.5),
            listen(8, 1.5, "right", "few"),
            *(crash(member, 2.0 + member / 4 - 1, "lost", 0.2) for member in (4, 5, 6)),
        ],
        "common": 1.0,
    },
    "while one begins to hear both": {
        "fault": [listen(3, 1.9, "left", "right"), crash(4, 2.0, "kept", 1.0), crash(2, 2.1, "kept", 0.8)],
        "common": 1.0,
    },
    "halves cut apart": {"protocol": STATIC, "fault": [apart()], "common": 1.0},
    "halves cut apart and suspected": {"fault": [apart()], "common": 1.0, "grace": 12.0},
    "churn": {"fault": [go(5, 1.2), go(2, 1.6), come(5, 2.4), come(2, 2.8)], "common": 1.0, "grace": 12.0},
}


def in_branches(name: str, seed: int, **more: Any) -> dict[str, Any]:
    """Two halves of a group that have no channel in common but channel 0, and two members between them."""
    said = BRANCHED[name]
    table = scenario("static", seed).as_dict()
    table["loss"]["member"] = said.get("loss", 0.05)
    table["topology"]["members"] = 10
    table["protocol"] = {"name": "rpbcast", "loggers": 0, "ordering": "total", "order_patience": 0.3, **more}
    table["protocol"] |= said.get("protocol", SUSPICIOUS) | {"channels": len(HALVES) + 1}
    table |= {"channel": HALVES, "common": said.get("common", 0.0), "fault": said.get("fault", [])}
    table["grace"] = said.get("grace", 0.5)
    result = traced(parse(table))
    assert result["violations"] == [], f"{name}, seed {seed}"
    assert result["outstanding"] == 0, f"somebody still waits: {name}, seed {seed}"
    assert result["order"]["agreement"], f"{name}, seed {seed}"
    return result


@pytest.mark.parametrize("name", BRANCHED)
def test_parts_of_a_group_have_branches_and_agree(name):
    """Reference: 002 §1 (c), §5"""
    for seed in (1, 2):
        in_branches(name, seed)
    undo_branches(name, 3)


def undo_branches(name: str, seed: int) -> dict[str, Any]:
    return in_branches(name, seed, order_failures="non-atomic")


@pytest.mark.soak
@pytest.mark.parametrize("name", BRANCHED)
def test_parts_of_a_group_agree_for_200_seeds(name):
    for seed in range(1000, 1200):
        in_branches(name, seed)
        undo_branches(name, seed)


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENARIOS)
def test_members_of_several_channels_agree_for_200_seeds(name):
    for seed in range(1000, 1200):
        over_channels(name, seed)
        undo_channels(name, seed)


def of_halves(channels: list[dict[str, Any]], members: int, **more: Any) -> dict[str, Any]:
    table = {
        "duration": 10.0,
        "topology": {"kind": "lan", "members": members, "latency": 0.001},
        "traffic": {"rate": 100.0, "arrivals": "steady", "senders": 1},
        "protocol": {"name": "rpbcast", "loggers": 0, "membership": "static", "ordering": "total"},
        "channel": channels,
        **more,
    }
    table["protocol"] |= {"order_patience": 0.1, "channels": len(channels) + 1 if channels else 1}
    return simulate(parse(table))


LEFT = {"name": "left", "members": [4, 5, 6, 7], "senders": [4]}


def test_halves_that_have_no_channel_in_common_are_as_fast_as_two_groups():
    """Nor does a primary of the trunk that stands still stop a branch.

    For the first three tenths of a second there are no branches yet: that is less than one packet in a hundred.
    """
    right = [{"name": name, "members": [0, 1, 2, 3], "senders": [0]} for name in ("right", "right too")]
    group = of_halves([], 4, duration=40.0)
    both = of_halves([LEFT, *right], 8, duration=40.0)
    assert both["order"]["depth"] == 2
    assert both["latency"]["p50"] == pytest.approx(group["latency"]["p50"], rel=0.1)
    assert both["latency"]["p99"] == pytest.approx(group["latency"]["p99"], rel=0.1)
    silent = [{**channel, "share": 0.0} for channel in right]
    still = [{"at": 2.0, "kind": "crash", "members": [0], "memory": "kept", "for": 3.0}]
    assert still[0]["members"] == [both["order"]["primary"]]
    without = of_halves([LEFT, *silent], 8, fault=still)
    assert without["latency"]["max"] == pytest.approx(both["latency"]["max"], rel=0.1)


def test_an_order_needs_no_messages_of_members_that_do_not_hear_its_channel():
    """But for the beats of the trunk, a packet of a branch costs what it costs in a group of that size."""
    results = of_halves([LEFT], 40), of_halves([], 4)
    in_branch, alone = (result["overhead_by_kind"]["order"]["packets"] for result in results)
    beats, before = 10.0 / (0.1 / 10), 0.3 * 100 * 42
    assert in_branch < alone + beats + before


def test_one_that_is_alone_in_its_order_does_not_leave_others_without():
    """One that has just come is let in first: else nobody would know the order."""
    table = Table("rpbcast", 0, found_after=3, gossip_period=0.02, ordering="total")
    table.seat(5, ())
    table.wait(0.5)
    assert table.stacks[5].order.may_go()
    table.seat(6, ())
    table.wait(0.02)
    assert 6 in table.stacks[5].roster
    assert not table.stacks[5].order.may_go()
    table.step(5, GoAsked())
    table.wait(0.5)
    assert table.stacks[5].order.may_go()
    assert table.stacks[6].order.standing(table.now)["sites"] == [6]
