"""Random traces: the fast checkers agree with the naive ones, whatever the batches; correct traces pass, and
a single fault planted in one is found by the checker whose business it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gossamer.spec import CHECKERS, Report, check_rows, report
from gossamer.trace.rows import rows_from
from gossamer.trace.schema import KINDS, Row

from . import spec_naive
from .spec_rows import EVERYTHING, deliver, join, publish, row, t_join

SOME_PROMISES = ("no-bogus", "at-most-once", "eventual", "eventual-or-lost")
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True, scope="module")
def _list_every_violation() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "LISTED_MAX", 10**6)
        yield


def random_rows(seed: int) -> list[Row]:
    """Half of them anything at all, half of them correct but for a few edits."""
    rng = random.Random(seed)
    if rng.random() < 0.5:
        return wild_rows(rng)
    rows, wild = correct_rows(seed), wild_rows(rng)
    for _ in range(rng.randrange(6)):
        at, other = rng.randrange(len(rows)), rng.randrange(len(rows))
        edit = rng.randrange(4)
        if edit == 0:
            rows.insert(at, rng.choice(wild or rows))
        elif edit == 1:
            rows.insert(at, rows[other])
        elif edit == 2:
            rows[at], rows[other] = rows[other], rows[at]
        else:
            del rows[at]
    return rows


def wild_rows(rng: random.Random) -> list[Row]:
    """Rows of all kinds over few members and packets, so that everything happens, right or wrong."""
    kinds = [*rng.choices(KINDS, k=6), "publish", "deliver", "deliver", "lost", "join", "crash", "recover"]
    members, seqnos = rng.choice([2, 3, 5]), rng.choice([2, 4, 6])
    phases = ["first_pass", "buffer", "log", "lost", "kept", "request", "ack", "join", "buffer"]
    rows = join(*range(rng.randrange(members + 1)))
    for _ in range(rng.choice([5, 20, 40])):
        kind, member = rng.choice(kinds), rng.randrange(members)
        sender, seqno = rng.randrange(members), rng.randrange(seqnos)
        if kind in ("join", "receive", "request", "ack") and rng.random() < 0.5:
            sender = seqno = -1
        if kind == "publish" and rng.random() < 0.9:
            member = sender
        rows.append(row(kind, member, sender, seqno, rng.randrange(-1, members), rng.choice(phases)))
    return rows


def found(name: str, rows: list[Row], size: int, metadata: dict[str, object]) -> tuple[list[int], int]:
    checker = CHECKERS[name](metadata)
    for batch in rows_from(rows).batches(size):
        checker.feed(batch)
    return [violation.rows[-1] for violation in checker.finish()], checker.found.count


def agree(name: str, rows: list[Row], expected: list[int], **metadata: object) -> None:
    for size in (1 if len(rows) < 50 else 2, 3, 7, 1000):
        assert found(name, rows, size, metadata) == (expected, len(expected)), size


@few
@given(st.integers(0, 10**9), st.sets(st.sampled_from(SOME_PROMISES)), st.booleans(), st.booleans())
@example(570038, set(), False, False)  # undoes what was not delivered
def test_reliable_multicast_agrees_with_the_naive_one(
    seed: int, promises: set[str], crashes: bool, again: bool
) -> None:
    rows = random_rows(seed)
    name = "reliable-multicast-with-crashes" if crashes else "reliable-multicast"
    expected = spec_naive.reliable(rows, promises, crashes, again)
    agree(name, rows, expected, promises=promises, recovery="at-least-once" if again else "at-most-once")


def test_what_is_undone_twice_in_one_batch_is_found() -> None:
    undo = row("undo", 0, 1, 0)
    rows = [*join(0), row("publish", 1, 1, 0), *deliver(0, 1, 0), undo, undo]
    assert spec_naive.reliable(rows, set(), crashes=False, at_least_once=False) == [4]
    agree("reliable-multicast", rows, [4], promises=set())


@few
@given(st.integers(0, 10**9))
def test_the_channel_agrees_with_the_naive_one(seed: int) -> None:
    rows = random_rows(seed)
    agree("channel", rows, spec_naive.channel(rows))


@few
@given(st.integers(0, 10**9), st.booleans())
@example(2500879, False)  # a delivery that was undone
@example(603084159, False)  # the rest of a t_join comes after what it would excuse
def test_fifo_agrees_with_the_naive_one(seed: int, again: bool) -> None:
    rows = random_rows(seed)
    recovery = "at-least-once" if again else "at-most-once"
    agree("fifo", rows, spec_naive.fifo(rows, again), recovery=recovery)


@few
@given(st.integers(0, 10**9), st.integers(0, 3))
def test_bounded_buffers_agree_with_the_naive_ones(seed: int, bound: int) -> None:
    rows = random_rows(seed)
    agree("bounded-buffers", rows, spec_naive.buffers(rows, {"buffer": bound}), bounds={"buffer": bound})


@few
@given(st.integers(0, 10**9), st.sampled_from([0, 1, 3]))
def test_agreement_agrees_with_the_naive_one(seed: int, swaps: int) -> None:
    """Near-agreement is the hard case: everyone follows one order, misses some packets and swaps a few."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for member in range(rng.choice([2, 4, 6])):
        order = [q for q in range(8) if rng.random() < 0.6]
        for _ in range(swaps if order else 0):
            i, j = rng.randrange(len(order)), rng.randrange(len(order))
            order[i], order[j] = order[j], order[i]
        rows += deliver(member, 0, *order, *order[: rng.randrange(2)])
    rows = [made for _, made in sorted(enumerate(rows), key=lambda each: (each[1][1] % 2, each[0]))]
    expected = set(spec_naive.disagreeing(rows))
    for size in (1, 3, 7, 1000):
        checked = check_rows(rows_from(rows).batches(size), {}, ["agreement"])
        pairs = [{int(str(shown["member"])) for shown in each.described} for each in checked.violations]
        assert {tuple(sorted(pair)) for pair in pairs} == expected
        for violation in checked.violations:
            shown = [rows[number] for number in violation.rows]
            assert list(spec_naive.disagreeing(shown)), "the four rows alone must show it"


def correct_rows(seed: int) -> list[Row]:
    """A run that keeps every promise: one total order, with losses on the way that repairs make good."""
    rng = random.Random(seed)
    members = list(range(rng.choice([2, 3, 5])))
    rows = join(*members)
    log: list[tuple[int, int]] = []
    have = dict.fromkeys(members, 0)
    for step in range(rng.choice([10, 20])):
        if rng.random() < 0.3 and step < 16:
            sender = rng.choice(members[:2])
            log.append((sender, sum(s == sender for s, _ in log)))
            rows += [*publish(*log[-1]), row("send", sender, *log[-1], phase="first_pass")]
        if step == 8:
            members.append(9)
            have[9] = len(log)
            rows += t_join(9, {s: max((q for who, q in log if who == s), default=-1) for s in (0, 1)})
        rows += _catch_up(rng.choice(members), have, log, rng)
    return rows + [made for member in members for made in _catch_up(member, have, log, None)]


def _catch_up(member: int, have: dict[int, int], log: list[tuple[int, int]], rng: random.Random | None) -> list[Row]:
    rows: list[Row] = []
    end = len(log) if rng is None else min(len(log), have[member] + rng.randrange(3))
    for sender, seqno in log[have[member] : end]:
        if rng is not None and rng.random() < 0.5:
            rows.append(row("receive", member, sender, seqno, sender, "first_pass"))
        else:
            rows += [row("request", member, peer=0), row("receive", 0, peer=member, phase="request")]
            rows += [
                row("repair", 0, sender, seqno, member, "peer"),
                row("receive", member, sender, seqno, 0),
            ]
        rows.append(row("store", member, sender, seqno, phase="buffer"))
        rows += [*deliver(member, sender, seqno), row("collect", member, sender, seqno, phase="buffer")]
    have[member] = end
    return rows


def checked(rows: list[Row]) -> Report:
    return check_rows([rows_from(rows)], {"promises": EVERYTHING, "bounds": {"buffer": 1}})


@few
@given(st.integers(0, 10**9))
def test_a_correct_trace_passes(seed: int) -> None:
    assert checked(correct_rows(seed)).violations == []


Fault = Callable[[list[Row], random.Random], "int | None"]


def _one(rows: list[Row], kind: str, rng: random.Random) -> int | None:
    places = [i for i, made in enumerate(rows) if made[2] == kind]
    return rng.choice(places) if places else None


def deliver_twice(rows: list[Row], rng: random.Random) -> int | None:
    at = _one(rows, "deliver", rng)
    if at is not None:
        rows.insert(at + 1, rows[at])
        return at + 1
    return None


def drop_a_deliver(rows: list[Row], rng: random.Random) -> int | None:
    at = _one(rows, "deliver", rng)
    if at is not None:
        packet = rows.pop(at)[3:5]
        return next(i for i, made in enumerate(rows) if made[2] == "publish" and made[3:5] == packet)
    return None


def deliver_unpublished(rows: list[Row], rng: random.Random) -> int | None:
    at = _one(rows, "deliver", rng)
    if at is not None:
        rows.insert(at, (*rows[at][:4], 10**12, *rows[at][5:]))
    return at


def swap_two_delivers(rows: list[Row], rng: random.Random) -> int | None:
    at = _one(rows, "deliver", rng)
    if at is not None:
        _, member, _, sender, *_ = rows[at]
        published = {made[3:5] for made in rows[:at] if made[2] == "publish"}
        for later in range(at + 1, len(rows)):
            if rows[later][1:4] == (member, "deliver", sender) and rows[later][3:5] in published:
                rows[at], rows[later] = rows[later], rows[at]
                return at
    return None


def receive_unsent(rows: list[Row], rng: random.Random) -> int | None:
    at = _one(rows, "receive", rng)
    if at is not None:
        rows[at] = (*rows[at][:5], 77, *rows[at][6:])
    return at


def forget_to_collect(rows: list[Row], rng: random.Random) -> int | None:
    at = _one(rows, "collect", rng)
    if at is not None:
        member = rows.pop(at)[1]
        return next((i for i in range(at, len(rows)) if rows[i][1:3] == (member, "store")), None)
    return None


FAULTS: dict[Fault, str] = {
    deliver_twice: "reliable-multicast",
    drop_a_deliver: "reliable-multicast",
    deliver_unpublished: "reliable-multicast",
    swap_two_delivers: "fifo",
    receive_unsent: "channel",
    forget_to_collect: "bounded-buffers",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@settings(few, max_examples=40)
@given(seed=st.integers(0, 10**9))
def test_a_single_fault_is_found_by_the_checker_responsible_for_it(fault: Fault, seed: int) -> None:
    rows = correct_rows(seed)
    at = fault(rows, random.Random(seed))
    if at is not None:
        result = checked(rows)[FAULTS[fault]]
        assert at in {violation.rows[-1] for violation in result.first}


@few
@given(
    st.lists(
        st.tuples(
            *[st.sampled_from([-(2**63), -2, -1, 0, 1, 2**31, 2**32, 2**40, 2**63 - 1])] * 4,
            st.sampled_from(KINDS),
            st.sampled_from(["", "lost", "log", "join"]),
        ),
        max_size=40,
    )
)
def test_no_trace_is_too_strange(values: list[tuple[int, int, int, int, str, str]]) -> None:
    rows = [row(kind, m, s, q, peer, phase) for m, s, q, peer, kind, phase in values]
    promises = [*EVERYTHING, "eventual-or-lost"]
    whole = check_rows([rows_from(rows)], {"promises": promises, "recovery": "at-least-once"}, list(CHECKERS))
    parts = check_rows(rows_from(rows).batches(2), {"promises": promises, "recovery": "at-least-once"}, list(CHECKERS))
    assert whole.results == parts.results
