"""One view: members that reach each other agree on who is there."""

from __future__ import annotations

import pytest

from gossamer.trace.schema import Row, TraceError

from .spec_rows import run

END = 100
PATIENCE = {"heal_s": 10.0}


def at(seconds: float, member: int, kind: str, peer: int = -1, phase: str = "") -> Row:
    return (round(seconds * 1e9), member, kind, -1, -1, peer, 0, phase)


def view(seconds: float, member: int, peer: int, status: str) -> Row:
    return at(seconds, member, "view", peer, status)


START = [at(0, member, "join") for member in range(3)]
OVER = [at(END, 0, "gossip", 1)]


def found(*rows: Row) -> list[str]:
    """What is found, the same in any batches."""
    whole = [*START, *rows, *OVER]
    messages = [violation.message for violation in run("one-view", whole, **PATIENCE)]
    for batch in (1, 2):
        assert [violation.message for violation in run("one-view", whole, batch, **PATIENCE)] == messages
    return messages


def test_members_from_the_start_know_each_other() -> None:
    assert found() == []


def test_who_holds_a_member_that_is_there_for_disconnected_is_wrong() -> None:
    text = "at the end member 0 holds member 1 as disconnected, though it is there"
    assert found(view(50, 0, 1, "disconnected")) == [text]
    assert found(view(50, 0, 1, "disconnected"), view(55, 0, 1, "member")) == []


def test_a_change_of_a_short_while_ago_may_not_have_come_to_all() -> None:
    assert found(view(95, 0, 1, "disconnected")) == []


def test_a_member_that_came_back_a_short_while_ago_is_not_waited_for() -> None:
    away = [at(50, 1, "crash", phase="kept"), view(60, 0, 1, "disconnected"), view(60, 2, 1, "disconnected")]
    assert found(*away, at(95, 1, "recover", phase="kept")) == []
    assert len(found(*away, at(80, 1, "recover", phase="kept"))) == 2


def test_all_agree_on_a_member_that_has_gone() -> None:
    gone = [at(50, 2, "leave"), view(51, 0, 2, "left")]
    assert found(*gone) == ["at the end member 1 holds member 2 as member, member 0 as left"]
    assert found(*gone, view(52, 1, 2, "left")) == []


def test_to_have_never_heard_of_a_member_is_to_know_that_it_left() -> None:
    came = [at(50, 3, "join"), view(50, 0, 3, "member"), view(50, 1, 3, "member"), view(50, 2, 3, "member")]
    knows = [view(50, 3, member, "member") for member in range(3)]
    assert found(*came, *knows) == []
    newcomer = [at(60, 4, "join"), *(view(60, 4, member, "member") for member in range(3))]
    newcomer += [view(60, member, 4, "member") for member in range(3)]
    left = [at(55, 3, "leave"), *(view(56, member, 3, "left") for member in range(3))]
    assert found(*came, *knows, *left, *newcomer) == []


def test_a_newcomer_that_knows_nobody_is_wrong() -> None:
    rows = [at(50, 3, "join"), *(view(50, member, 3, "member") for member in range(3))]
    assert len(found(*rows)) == 3


def test_who_has_lost_its_memory_has_lost_its_view() -> None:
    lost = [at(50, 1, "crash", phase="lost"), at(51, 1, "recover", phase="lost"), at(52, 1, "join")]
    assert len(found(*lost)) == 2  # it holds neither of the others
    assert found(*lost, view(53, 1, 0, "member"), view(53, 1, 2, "member")) == []


def test_sides_that_do_not_reach_each_other_need_not_agree() -> None:
    cut = [at(50, 0, "side", phase="0"), at(50, 1, "side", phase="1"), at(50, 2, "side", phase="1")]
    each = [view(60, 0, 1, "disconnected"), view(60, 0, 2, "disconnected")]
    each += [view(60, 1, 0, "disconnected"), view(60, 2, 0, "disconnected")]
    assert found(*cut, *each) == []
    assert found(*cut, *each[:3]) == ["at the end member 1 holds member 0 as disconnected, member 2 as member"]
    healed = [at(70, 1, "side", phase="0"), at(70, 2, "side", phase="0")]
    assert len(found(*cut, *each, *healed)) == 4
    assert found(*cut, *each, *(at(92, member, "side", phase="0") for member in (1, 2))) == []


def test_a_member_that_is_alone_is_not_asked() -> None:
    rows = [at(50, 2, "side"), view(50, 2, 0, "disconnected"), view(60, 0, 2, "disconnected")]
    assert found(*rows, view(60, 1, 2, "disconnected")) == []
    assert found(*rows) == ["at the end member 0 holds member 2 as disconnected, member 1 as member"]


def test_the_time_to_heal_is_a_number() -> None:
    with pytest.raises(TraceError, match="heal_s must be a number of seconds"):
        run("one-view", [], heal_s="soon")
