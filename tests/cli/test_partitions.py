"""`gossamer partitions` as an operator reads it."""

from __future__ import annotations

from typing import Any

from gossamer.cli.partitions import described, sides


def profile(member: int, coordinator: int, missing: int = 0, **own: Any) -> dict[str, Any]:
    standing = {"coordinator": coordinator, "since_s": 12.3, "missing": missing, "absent": [], **own}
    return {"member": member, "name": f"m{member}", "stats": {"partition": standing}}


def test_a_divided_group_shows_who_is_here_who_is_absent_where_and_since_when():
    own = {"absent": [1, 2], "addresses": {"1": "10.0.0.1:7001"}, "names": {"1": "billing"}}
    here = [profile(4, 4, divided_s=11.2, **own), profile(5, 4, missing=1200)]
    assert described("quotes", sides(here)) == [
        "group quotes: divided",
        "  coordinator m4 for 12 s: m4, m5 (lacks 1,200)",
        "    absent for 11 s: billing (10.0.0.1:7001), 2",
    ]


def test_a_group_that_has_healed_shows_what_was_exchanged():
    heals = [
        {"ago_s": 4000.0, "members": 4, "filled": 300, "addressed": 1200, "received": 7},
        {"ago_s": 3.0, "members": 1, "filled": 0, "addressed": 0, "received": 0},
    ]
    assert described("quotes", sides([profile(0, 0, heals=heals), profile(1, 0)])) == [
        "group quotes: whole",
        "  coordinator m0 for 12 s: m0, m1",
        "    67 min ago 4 members came back: sent 300 packets, to 4.0 members each; received 7",
        "    3 s ago a member came back: sent 0 packets; received 0",
    ]


def test_two_coordinators_in_reach_are_two_sides_the_larger_one_first():
    found = described("quotes", sides([profile(0, 0), profile(2, 1), profile(1, 1)]))
    assert found[0] == "group quotes: divided"
    assert [line.split()[1] for line in found[1:]] == ["m1", "m0"]


def test_a_coordinator_that_does_not_answer_is_shown_by_its_name_if_it_is_known_and_else_by_its_number():
    assert described("quotes", sides([profile(1, 77)])) == ["group quotes: whole", "  coordinator 77: m1"]
    told = sides([profile(1, 77, names={"77": "leads"})])
    assert described("quotes", told) == ["group quotes: whole", "  coordinator leads: m1"]
