"""What goes wrong in a group is told to the application and to the log, in words, and not too often."""

from __future__ import annotations

import asyncio
import logging
import secrets

import pytest

import gossamer
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from gossamer.live.notices import LOG_AGAIN_S, WAITING_MAX, Bulletin, Notice, NoticeStream
from gossamer.wire.keys import new_key
from tests.live.members import GROUP, collect, joined, run, settings, until


async def first(stream: NoticeStream, kind: str) -> Notice:
    """The first notice of this kind; fails after a while."""
    async with asyncio.timeout(30):
        async for notice in stream:
            if notice.kind == kind:
                return notice
    raise AssertionError(f"the stream ended without {kind}")


def key() -> str:
    return new_key(secrets.token_bytes(32))


def test_members_that_join_and_leave_are_told():
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as group:
            notices = group.notices()
            async with gossamer.join(GROUP, shared) as other:
                assert (await first(notices, "member-joined")).member == other.me
            assert (await first(notices, "member-left")).member == other.me

    run(story())


def test_a_member_that_goes_away_and_will_be_back_is_told_apart():
    async def story():
        async with joined(2, settings(leave_timeout=0.0)) as (group, other):
            notices = group.notices()
            other.disconnect()
            told = await first(notices, "member-suspected")
            assert told.member == other.me
            assert "what it misses is kept for it" in told.text

    run(story())


def test_other_keys_are_told_and_logged_as_one_warning(caplog):
    async def story():
        shared = settings(key=key())
        stranger = settings(address=shared.address, key=key())
        async with gossamer.join(GROUP, shared) as group, gossamer.join(GROUP, stranger) as other:
            both = [await first(member.notices(), "key-mismatch") for member in (group, other)]
            assert all("give all the same key" in told.text for told in both)

    with caplog.at_level(logging.WARNING, "gossamer"):
        run(story())
    warnings = [record.getMessage() for record in caplog.records if "same key" in record.getMessage()]
    assert len(warnings) == 2, "one for each member"
    assert warnings[0].startswith(f"group {GROUP!r}: ")


def test_a_member_without_a_key_in_a_group_with_one_is_told_on_both_sides():
    async def story():
        shared = settings(key=key())
        async with (
            gossamer.join(GROUP, shared) as group,
            gossamer.join(GROUP, settings(address=shared.address)) as open_,
        ):
            assert "has no key" in (await first(group.notices(), "key-mismatch")).text
            assert "from a member that has a key" in (await first(open_.notices(), "unreadable")).text

    run(story())


def test_a_clock_that_is_wrong_is_told(monkeypatch):
    async def story():
        shared = settings(key=key())
        async with gossamer.join(GROUP, shared) as group:
            notices = group.notices()
            with monkeypatch.context() as patched:
                patched.setattr("gossamer.live.envelope.time", lambda: 1.9e9)
                late = Group(GROUP, shared)
                async with late:
                    assert "differ by more than a minute" in (await first(notices, "clock-skew")).text

    run(story())


def test_losses_are_told_with_their_reason():
    async def story():
        async with joined(1, settings(queue_events=10, when_full="drop")) as (group,):
            notices, unread = group.notices(), group.subscribe(">")
            for n in range(100):
                group.publish("n", b"%d" % n)
                await asyncio.sleep(0)
            assert "is not read fast enough" in (await first(notices, "subscription-lags")).text
            told = await first(notices, "loss")
            assert told.text.endswith("packets are lost: not read")
            assert told.times == group.stats()["lost"]["not read"]
            assert unread.waiting

    run(story())


def test_a_logger_that_refuses_is_told_to_it_and_to_those_that_wait_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr("gossamer.live.watch.STUCK_S", 0.5)

    async def story():
        shared = settings(leave_timeout=0.0)
        async with logger(GROUP, tmp_path, shared) as log, gossamer.join(GROUP, shared) as group:
            await until(lambda: group.loggers())
            refusing, waiting = log.notices(), group.notices()
            log._member.disk._fail("the disk is full")
            group.publish("a", b"1")
            assert (await first(refusing, "logger-refuses")).text.endswith("the disk is full")
            told = await first(waiting, "not-logged")
            assert "no logger has acknowledged anything" in told.text

    run(story())


def test_multicast_that_never_arrives_is_told(monkeypatch):
    """As behind a switch that drops it: what comes, comes from peers, after they were asked."""

    async def story():
        async with joined(2, settings()) as (group, other):
            notices = other.notices()
            take_run = other._member._take_run
            monkeypatch.setattr(other._member, "_take_run", lambda now, run: [])
            for n in range(60):
                group.publish("n", b"%d" % n)
                await asyncio.sleep(0.01)
            told = await first(notices, "multicast")
            assert "events came by repair" in told.text
            monkeypatch.setattr(other._member, "_take_run", take_run)

    run(story())


def test_one_packet_that_was_lost_is_no_sign_that_multicast_never_arrives(monkeypatch):
    """Though hundreds of events were in it."""

    async def story():
        async with joined(2, settings()) as (group, other):
            take_run = other._member._take_run
            monkeypatch.setattr(other._member, "_take_run", lambda now, run: [])
            heard = other.subscribe("n")
            await group.publish_many("n", [b"%d" % n for n in range(200)])
            await collect(heard, 200)
            other._watch._look_at_multicast()
            assert ("multicast", "") not in other._watch._told
            monkeypatch.setattr(other._member, "_take_run", take_run)

    run(story())


def test_notices_without_asyncio():
    shared = settings()
    with gossamer.join_sync(GROUP, shared) as group:
        notices = group.notices()
        with pytest.raises(gossamer.Timeout, match=r"no notice within 0\.01 s"):
            notices.get(0.01)
        with gossamer.join_sync(GROUP, shared) as other:
            assert next(notices) == notice_like("member-joined", other.me)
        assert next(notices) == notice_like("member-left", other.me)
        notices.close()
        assert list(notices) == []


class notice_like:  # noqa: N801 - reads as a word
    """Equal to every notice of this kind about this member."""

    def __init__(self, kind: str, member: int) -> None:
        self._wanted = (kind, member)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Notice) and (other.kind, other.member) == self._wanted

    __hash__ = None  # type: ignore[assignment]


def test_a_stream_of_notices_ends_when_the_member_leaves():
    async def story():
        async with joined(1, settings()) as (group,):
            notices = group.notices()
        assert await notices.get() is None
        assert [notice async for notice in notices] == []

    run(story())


def test_a_stream_that_is_not_read_is_bounded_and_says_what_it_dropped():
    async def story():
        bulletin = Bulletin("g")
        stream = bulletin.stream()
        for n in range(WAITING_MAX + 5):
            bulletin.post("loss", str(n))
        dropped = await stream.get()
        assert (dropped.kind, dropped.times) == ("notices-dropped", 5)
        assert (await stream.get()).text == "5"

    run(story())


def test_the_log_has_each_kind_once_a_minute_and_says_how_many_it_left_out(caplog):
    now = 1000.0
    bulletin = Bulletin("g", clock=lambda: now)
    with caplog.at_level(logging.INFO, "gossamer"):
        for n in range(3):
            bulletin.post("loss", f"{n} are lost")
        bulletin.post("member-joined", "7 is a member", member=7)
        now += LOG_AGAIN_S
        bulletin.post("loss", "3 are lost")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "group 'g': 0 are lost"),
        ("INFO", "group 'g': 7 is a member"),
        ("WARNING", "group 'g': 3 are lost (2 more like this since the last time)"),
    ]
    assert bulletin.posted == {"loss": 4, "member-joined": 1}
