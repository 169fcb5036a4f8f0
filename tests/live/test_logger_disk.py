"""A logger and its disk: full, shared, of others, damaged, lost. Nothing acknowledged is harmed, nothing is hidden."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import gossamer
from gossamer.cli import main
from gossamer.core.effects import Collect, Effect, Persist, Unicast
from gossamer.core.messages import Ack, SeenReport
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.live.log_disk import LogDisk
from gossamer.live.logger_group import logger
from gossamer.live.probe import probe
from gossamer.store import LogEntry, MemoryStore, open_store
from gossamer.store.layout import NUMBER, VERSION
from tests.live.logger_nursery import Nursery
from tests.live.logger_scene import disk_of, flip_a_bit, logged, publish_packets, resize, until, whole
from tests.live.members import payloads
from tests.live.test_group import GROUP, collect, run, settings


def test_flush_returns_when_everything_is_on_the_disk(tmp_path):
    async def story():
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            pid = await nursery.start(tmp_path)
            async with gossamer.join(GROUP, shared) as group:
                sent: dict[bytes, int] = {}
                for _ in range(10):
                    sent |= await publish_packets(group, 20, first=len(sent))
                    await group.flush()
                    assert logged(tmp_path, group.me) == list(sent)
                    assert group.stats()["unlogged"] == 0
            await nursery.kill(pid)

    run(story())


def test_a_report_to_a_senders_pace_does_not_wait_for_the_disk_and_an_acknowledgement_does():
    """Or the time that a disk takes looks like a queue on the way to the logger, and the sender goes at its pace."""

    async def story():
        log, carried, may_write = MemoryStore(), list[Effect](), threading.Event()
        append = log.append
        log.append = lambda entries: (may_write.wait(), append(entries))
        disk = LogDisk(log, travelled=lambda p: b"", carry_out=carried.extend, happened=print, now=lambda: 0.0)
        report, later = Unicast(1, SeenReport(4, 3, 4, 17)), Unicast(1, SeenReport(5, 4, 5, 18))
        acknowledged = Unicast(1, Ack({1: RangeSet.span(0, 3)}))
        try:
            assert disk.takes([Persist([Packet(1, 3, b"")]), report, acknowledged])
            assert carried == [report]
            assert disk.takes([later])
            assert carried == [report, later]
        finally:
            may_write.set()
        await disk.close()
        assert carried == [report, later, acknowledged]

    run(story())


def test_a_logger_that_stops_while_something_waits_to_be_written_or_collected_ends_in_silence():
    """What a durable reader was not told that it is kept, it tells again."""

    async def story():
        log, kept = MemoryStore(), list[str]()
        log.append([LogEntry(1, n, 1, b"") for n in range(40_000)])
        disk = LogDisk(log, travelled=lambda p: b"", carry_out=lambda e: None, happened=print, now=lambda: 0.0)
        for at in range(0, 40_000, 10_000):  # more than goes at once
            disk.carry_out(Collect(1, at, at + 9_990, overdue=True))
        disk.commit("reader", {1: 1}, lambda: kept.append("first"))
        disk.commit("reader", {1: 2}, lambda: kept.append("second"))
        await disk.close()
        disk.commit("reader", {1: 3}, lambda: kept.append("third"))
        await asyncio.sleep(0.1)
        assert kept == ["first"]

    run(story())


# Stores that are not for this logger


def refusal(monkeypatch, capsys, *arguments: str) -> str:
    """What `gossamer` says when it ends with exit code 2: one line."""
    monkeypatch.setattr(sys, "argv", ["gossamer", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert not said.out
    assert said.err.count("\n") == 1
    return said.err


def start_logger(monkeypatch, capsys, store: Path, group: str = "quotes", **options: str) -> str:
    given = [text for name, value in options.items() for text in (f"--{name}", value)]
    return refusal(monkeypatch, capsys, "logger", group, "--store", str(store), *given)


def test_a_second_logger_of_a_store_is_refused(monkeypatch, capsys, tmp_path):
    with open_store(tmp_path, group="quotes"):
        assert f"another logger has this store, process {os.getpid()}" in start_logger(monkeypatch, capsys, tmp_path)


def test_a_store_of_another_group_is_refused(monkeypatch, capsys, tmp_path):
    open_store(tmp_path, group="trades").close()
    assert "the store of group 'trades', not of 'quotes'" in start_logger(monkeypatch, capsys, tmp_path)


def test_a_store_of_a_newer_version_is_refused(monkeypatch, capsys, tmp_path):
    with open_store(tmp_path, group="quotes") as store:
        store._put_about({b"version": NUMBER.pack(VERSION + 1)})
    assert f"a store of version {VERSION + 1}" in start_logger(monkeypatch, capsys, tmp_path)
    assert "update gossamer" in refusal(monkeypatch, capsys, "log", "info", str(tmp_path))


def test_a_store_of_an_older_version_is_refused(monkeypatch, capsys, tmp_path):
    """Its datagrams would be taken for damaged, one by one."""
    with open_store(tmp_path, group="quotes") as store:
        store._put_about({b"version": NUMBER.pack(VERSION - 1)})
    assert "give another --store" in start_logger(monkeypatch, capsys, tmp_path)
    assert "export it with the older one" in refusal(monkeypatch, capsys, "log", "info", str(tmp_path))


@pytest.mark.parametrize("size", [0, 100, 20_000])
def test_a_truncated_store_is_refused(monkeypatch, capsys, tmp_path, size):
    open_store(tmp_path, group="quotes").close()
    os.truncate(tmp_path / "data.mdb", size)
    assert "data.mdb" in start_logger(monkeypatch, capsys, tmp_path)


def test_a_store_that_cannot_be_made_is_refused(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    assert "cannot make a store here" in start_logger(monkeypatch, capsys, tmp_path / "file")


def test_a_wrong_retention_leaves_no_store_behind(monkeypatch, capsys, tmp_path):
    assert "retain = '7x'" in start_logger(monkeypatch, capsys, tmp_path / "new", retain="7x")
    assert not (tmp_path / "new").exists()


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    with disk_of(tmp_path / "disk", 24) as disk:
        yield disk


def test_a_full_disk_is_reported_and_harms_nothing_and_more_room_heals_it(small_disk):
    store = small_disk / "store"

    async def story():
        shared = settings()
        command = [sys.executable, "-m", "gossamer", "logger", GROUP, "--address", shared.address]
        process = await asyncio.create_subprocess_exec(*command, "--store", str(store), stderr=subprocess.PIPE)
        assert b"logging group" in await process.stderr.readline()
        async with gossamer.join(GROUP, shared) as group:
            assert group.loggers()
            sent = await publish_packets(group, 1000, size=40_000)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(group.flush(), 1.5)
            assert b"accepts nothing more" in await process.stderr.readline()
            profile = next(p for p in await probe(GROUP, shared, enough=2) if p["logger"])
            assert "No space left" in profile["stats"]["log"]["refusing"]
            acknowledged = group._member.stack.settled()
            durable = [payload for payload, seqno in sent.items() if seqno < acknowledged]
            assert logged(store, group.me)[: len(durable)] == durable
            async with gossamer.join(GROUP, shared) as late:
                assert late.loggers() == group.loggers()  # a logger that refuses is still one: nobody's flush returns
            process.send_signal(signal.SIGKILL)
            await process.wait()
            resize(small_disk, 200 << 10)
            with Nursery(GROUP, {"address": shared.address}) as nursery:
                await nursery.start(store)
                await group.flush()
                assert logged(store, group.me) == list(sent)

    run(story())


def test_a_member_that_meets_only_a_refusing_logger_knows_that_it_is_a_logger(tmp_path):
    """Else its flush would return, and nothing would be durable."""

    async def story():
        shared = settings(leave_timeout=0)
        async with logger(GROUP, tmp_path, shared) as refusing:
            refusing._member.disk._fail("the disk is full")
            async with gossamer.join(GROUP, shared) as group:
                assert group.loggers() == (refusing.me,)  # from its first moment
                group.publish("x", b"not durable")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(group.flush(), 0.7)

    run(story())


@pytest.mark.parametrize("loggers", [1, 2])
def test_readers_do_not_wait_for_a_logger_that_refuses(tmp_path, loggers):
    """Neither one that goes on under its name nor one that wants the last events; what cannot be kept is an error."""

    async def story():
        shared = settings(leave_timeout=0)
        async with AsyncExitStack() as stack:
            logs = [await stack.enter_async_context(logger(GROUP, tmp_path / str(n), shared)) for n in range(loggers)]
            publisher = await stack.enter_async_context(gossamer.join(GROUP, shared))
            await until(lambda: len(publisher.loggers()) == loggers)
            async with gossamer.join(GROUP, shared) as first:
                heard = first.subscribe(">", durable="billing", start="beginning")
                publisher.publish("a", b"1")
                assert payloads(await collect(heard, 1)) == [b"1"]
                await heard.commit(20, wait=True)
            publisher.publish("a", b"2")
            await publisher.flush(20)
            min(logs, key=lambda log: log.me)._member.disk._fail("the disk is full")  # it decides who reads a name
            reader = await stack.enter_async_context(gossamer.join(GROUP, shared))
            again = reader.subscribe(">", durable="billing")
            last = reader.subscribe("a", start="latest-per-subject")
            assert (await again.get(10)).payload == b"2"
            assert (await last.get(10)).payload == b"2"
            if loggers == 1:
                with pytest.raises(gossamer.Timeout):
                    await again.commit(0.5, wait=True)
            else:
                await again.commit(20, wait=True)

    run(story())


# Several loggers, and damage


def test_a_logger_that_lost_its_store_refills_it_from_the_other(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"

    async def story():
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            first = await nursery.start(one)
            await nursery.start(two)
            async with gossamer.join(GROUP, shared) as group:
                sent = await publish_packets(group, 3000)
                await group.flush()
                await until(lambda: whole(one, group.me, sent) and whole(two, group.me, sent))
                await nursery.kill(first)
                shutil.rmtree(one)
                sent |= await publish_packets(group, 500, first=3000)
                await group.flush()
                await nursery.start(one)
                await until(lambda: whole(one, group.me, sent))

    run(story())


def test_a_damaged_packet_is_repaired_from_the_other_logger_and_never_delivered(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"

    async def story():
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            first = await nursery.start(one)
            second = await nursery.start(two)
            async with gossamer.join(GROUP, shared) as group:
                sent = await publish_packets(group, 300)
                await group.flush()
                await until(lambda: whole(one, group.me, sent) and whole(two, group.me, sent))
                await nursery.kill(first)
                await nursery.kill(second)
                flip_a_bit(one, b"<000150>")
                await nursery.start(one)
                await nursery.start(two)
                for _ in range(60):  # until the damaged one was asked for it, has found out, and was refilled
                    async with gossamer.join(GROUP, shared) as late:
                        items = await collect(late.subscribe(">", start="beginning"), 300)
                        assert [item.payload for item in items] == list(sent)
                    if whole(one, group.me, sent):
                        break
                    await asyncio.sleep(0.1)
                assert whole(one, group.me, sent)

    run(story())


def test_a_packet_that_no_logger_has_whole_is_reported_as_lost(tmp_path):
    async def story():
        shared = settings()
        with Nursery(GROUP, {"address": shared.address}) as nursery:
            pid = await nursery.start(tmp_path)
            async with gossamer.join(GROUP, shared) as group:
                sent = await publish_packets(group, 300)
                await group.flush()
                me = group.me
            await nursery.kill(pid)
            flip_a_bit(tmp_path, b"<000150>")
            await nursery.start(tmp_path)
            async with gossamer.join(GROUP, shared) as late:
                gone = next(seqno for payload, seqno in sent.items() if b"<000150>" in payload)
                intact = [payload for payload, seqno in sent.items() if seqno != gone]
                items = await collect(late.subscribe(">", start="beginning"), len(intact) + 1)
                lost = next(item for item in items if isinstance(item, gossamer.Lost))
                assert lost == gossamer.Lost(me, gone, gone, "collected")
                assert [item.payload for item in items if item is not lost] == intact

    run(story())
