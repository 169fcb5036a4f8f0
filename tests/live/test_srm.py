"""SRM between real sockets: requests and repairs go to everybody, and everything comes."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pyarrow.parquet as pq

from gossamer.core.ids import EVERYONE
from gossamer.live.group import Group
from gossamer.trace.writer import TraceWriter

from .members import GROUP, impaired, run, settings, until

MEMBERS = 4
EVENTS = 300


def test_requests_and_repairs_are_multicast(tmp_path):
    place = settings(protocol="srm")
    paths = [tmp_path / f"{n}.parquet" for n in range(MEMBERS)]

    async def story() -> None:
        writers = [TraceWriter(path, "live", {}) for path in paths]
        async with AsyncExitStack() as stack:
            lines = [impaired(n, loss=0.05) for n in range(MEMBERS)]
            groups = [Group(GROUP, place, line, trace=writer) for line, writer in zip(lines, writers, strict=True)]
            for group in groups:
                await stack.enter_async_context(group)
            await until(lambda: all(len(group.members()) == MEMBERS for group in groups))
            for n in range(EVENTS):
                groups[0].publish("n", b"%d" % n)
                await asyncio.sleep(0.002)
            await until(lambda: all(group.stats()["received"] >= EVENTS for group in groups[1:]))
            for writer in writers:
                writer.close()

    run(story())
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    sent = Counter((row["kind"], row["peer"]) for row in rows if row["kind"] in ("request", "repair"))
    assert sent["request", EVERYONE] > 10
    assert sent["repair", EVERYONE] > 10
    assert {peer for _, peer in sent} == {EVERYONE}
