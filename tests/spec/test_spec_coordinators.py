"""The checkers of partitions, on traces made by hand. Reference: 001 §4.1, §4.2, §6"""

from __future__ import annotations

from gossamer.spec import check_rows
from gossamer.trace.rows import rows_from
from gossamer.trace.schema import Row

SETTLE = {"settle_s": 2.0}
S = 1_000_000_000


def member(t: float, who: int, kind: str = "join", phase: str = "") -> Row:
    return (round(t * S), who, kind, -1, -1, -1, 0, phase)


def follows(t: float, who: int, whom: int) -> Row:
    return (round(t * S), who, "coordinator", whom, -1, whom, 0, "told")


def got(t: float, who: int, seqno: int, kind: str = "deliver", peer: int = -1, phase: str = "peer") -> Row:
    return (round(t * S), who, kind, 9, seqno, peer, 0, phase)


def found(name: str, rows: list[Row], promises: tuple[str, ...] = ()) -> list[str]:
    metadata = SETTLE | ({"promises": list(promises)} if promises else {})
    report = check_rows([rows_from(sorted(rows, key=lambda row: row[0]))], metadata, [name])
    return [violation.message for violation in report.violations]


GROUP = [member(0, who) for who in range(4)]
ONE = [follows(0.5, who, 0) for who in range(4)]


def test_one_coordinator_is_enough():
    assert found("one-coordinator", [*GROUP, *ONE, member(9, 0, "drop")]) == []


def test_two_coordinators_on_a_side_are_one_too_many():
    rows = [*GROUP, *ONE, follows(1.0, 3, 3), member(9, 0, "drop")]
    assert found("one-coordinator", rows) == ["after 9.0 s undisturbed members 0, 3 of one side all coordinate"]


def test_two_sides_have_two_coordinators():
    split = [member(3, who, "side", "2") for who in (2, 3)]
    rows = [*GROUP, *ONE, *split, follows(4, 2, 2), follows(4, 3, 2), member(9, 0, "drop")]
    assert found("one-coordinator", rows) == []


def test_a_side_needs_a_coordinator_of_its_own():
    split = [member(3, who, "side", "2") for who in (2, 3)]
    says = found("one-coordinator", [*GROUP, *ONE, *split, member(9, 0, "drop")])
    assert says == [f"after 6.0 s undisturbed member {who} follows 0, which is not on its side" for who in (2, 3)]


def test_members_that_follow_each_other_in_a_circle_are_found_however_often_they_change():
    rows = [*GROUP, *ONE, member(3, 0, "leave")]
    for n in range(30):
        rows += [follows(3.1 + n / 5, who, (who + 1 + n) % 3 + 1) for who in (1, 2, 3)]
    assert found("one-coordinator", rows)


def test_a_moment_without_a_coordinator_is_allowed():
    rows = [*GROUP, *ONE, follows(8.5, 3, 3), member(9, 0, "drop")]
    assert found("one-coordinator", rows) == []


def test_what_one_member_of_a_side_has_the_others_have():
    rows = [*GROUP, *(got(1.0, who, 0) for who in (0, 1, 2))]
    assert found("same-messages", [*rows, got(1.5, 3, 0), member(9, 0, "drop")]) == []
    (says,) = found("same-messages", [*rows, member(9, 0, "drop")])
    assert says == "member 3 lacks 1 packets of 9, the first 0, which others of its side have"


def test_what_has_just_come_may_not_be_everywhere_yet():
    assert found("same-messages", [*GROUP, got(8.5, 0, 0), member(9, 0, "drop")]) == []


def test_what_a_sender_forgot_need_not_be_everywhere_where_loggers_believe_that_it_never_was():
    rows = [*GROUP, member(0, 9), *(got(1.0, who, 0) for who in (0, 1, 9)), member(2, 9, "crash", "lost")]
    rows += [member(3, 9, "recover", "lost"), member(9, 0, "drop")]
    assert found("same-messages", rows, ("durable",)) == []
    assert len(found("same-messages", rows)) == 2
    later = [*rows, *(got(4.0, who, 7) for who in (0, 1, 2))]
    assert found("same-messages", later, ("durable",)) == [
        "member 3 lacks 1 packets of 9, the first 7, which others of its side have"
    ]


def test_what_was_lacking_before_its_sender_lost_its_memory_is_found():
    rows = [*GROUP, member(0, 9), *(got(1.0, who, 0) for who in (0, 1, 9)), member(6, 9, "crash", "lost")]
    assert len(found("same-messages", rows, ("durable",))) == 2


def test_members_that_were_apart_have_as_long_to_catch_up_as_they_were():
    apart = [*GROUP, member(1, 3, "side", "2"), *(got(2.0, who, 0) for who in (0, 1, 2)), member(5, 3, "side", "0")]
    assert found("same-messages", [*apart, member(10.9, 0, "leave"), got(11, 3, 0), member(30, 1, "drop")]) == []
    assert len(found("same-messages", [*apart, member(11.1, 0, "leave"), got(12, 3, 0), member(30, 1, "drop")])) == 1


def test_sides_need_not_have_the_same():
    split = [member(1, who, "side", "2") for who in (2, 3)]
    rows = [*GROUP, *split, got(2, 0, 0), got(2, 1, 0), member(9, 0, "drop")]
    assert found("same-messages", rows) == []


def healed(copies: list[Row]) -> list[str]:
    split = [member(1, who, "side", "2") for who in (2, 3)]
    heal = [member(6, who, "side", "0") for who in (2, 3)]
    return found("one-crossing", [*GROUP, *split, *heal, *copies])


def multicast(t: float, seqno: int) -> list[Row]:
    return [got(t, 0, seqno, "repair"), *(got(t + 0.01, who, seqno, "receive", 0) for who in (2, 3))]


def unicast(t: float, seqno: int) -> list[Row]:
    sent = [got(t, 0, seqno, "repair", who) for who in (2, 3)]
    return sent + [got(t + 0.01, who, seqno, "receive", 0) for who in (2, 3)]


def test_one_multicast_for_each_packet_crosses():
    assert healed([row for n in range(100) for row in multicast(7, n)]) == []


def test_a_copy_for_each_member_is_too_much():
    says = healed([row for n in range(100) for row in unicast(7, n)])
    assert says == ["100 packets crossed to side 2 in 200 copies after the network healed"]


def test_losses_excuse_repetitions():
    lost = [member(7, 2, "drop", "member") for _ in range(60)]
    assert healed([row for n in range(100) for row in unicast(7, n)] + lost) == []
