"""What real members leave behind is checked against the same specifications as what simulated ones do."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gossamer.core.effects import Deliver, Persist
from gossamer.live.group import Group
from gossamer.live.log_disk import LogDisk
from gossamer.live.logger_group import logger
from gossamer.membership.sponsored import Sponsored
from gossamer.rungs import promises
from gossamer.spec import Report, check
from gossamer.stack import Stack
from gossamer.trace.writer import TraceWriter

from . import members

HEAL_S = 3.0
CHECKED = {"reliable-multicast", "channel", "fifo", "durability", "one-view"}


def play(folder: Path, *, loggers: int = 1, **changes: Any) -> Report:
    """Three members on bad lines, one of them offline for a while; their traces end before anybody leaves."""
    place = members.settings(**changes)
    about = {"promises": promises(place.protocol_settings()), "copies": place.copies, "heal_s": HEAL_S}
    paths = [folder / f"{n}.parquet" for n in range(loggers + 3)]

    async def story() -> None:
        writers = [TraceWriter(path, "live", about) for path in paths]
        async with AsyncExitStack() as stack:
            logs = [logger(members.GROUP, folder / f"log{n}", place, trace=writers[n]) for n in range(loggers)]
            lines = [members.impaired(n, loss=0.05) for n in range(3)]
            others = [Group(members.GROUP, place, lines[n], trace=writers[loggers + n]) for n in range(3)]
            for group in [*logs, *others]:
                await stack.enter_async_context(group)
            await members.until(lambda: all(len(group.members()) == loggers + 3 for group in [*logs, *others]))
            await publish(others[0])
            others[2].disconnect()
            await publish(others[1])
            others[2].reconnect()
            await publish(others[2])
            await asyncio.sleep(HEAL_S + 2.0)
            for writer in writers:
                writer.close()

    members.run(story())
    return check(paths[0], others=paths[1:])


async def publish(group: Group, packets: int = 20) -> None:
    for n in range(packets):
        group.publish("n", b"%d" % n)
        await asyncio.sleep(0.002)
    await group.flush()


@pytest.mark.parametrize(
    ("loggers", "changes"),
    [
        (1, {}),
        (0, {"protocol": "pbcast"}),
        (0, {"protocol": "srm"}),
        pytest.param(2, {"copies": 2}, marks=pytest.mark.soak),
        pytest.param(1, {"protocol": "lbrm"}, marks=pytest.mark.soak),
        pytest.param(0, {"protocol": "basic"}, marks=pytest.mark.soak),
    ],
)
def test_a_live_group_satisfies_every_specification(tmp_path, loggers, changes):
    report = play(tmp_path, loggers=loggers, **changes)
    assert {result.name for result in report.results} >= CHECKED
    assert report.violations == []


def acknowledges_unlogged(monkeypatch):
    takes = LogDisk.takes

    def forgets(self, effects):
        effects[:] = [effect for effect in effects if not isinstance(effect, Persist)]
        return takes(self, effects)

    monkeypatch.setattr(LogDisk, "takes", forgets)


def never_says_that_it_is_back(monkeypatch):
    monkeypatch.setattr(Sponsored, "reconnected", lambda self, now, out: None)
    monkeypatch.setattr(Sponsored, "_refute", lambda self, now, out: None)


def swallows_a_packet(monkeypatch):
    step = Stack.step

    def swallows(self, now, happened):
        effects = step(self, now, happened)
        return [e for e in effects if not (isinstance(e, Deliver) and e.run[0].seqno == 3)]

    monkeypatch.setattr(Stack, "step", swallows)


@pytest.mark.parametrize(
    ("bug", "spec", "says"),
    [
        (acknowledges_unlogged, "durability", "is durable before it was logged"),
        (never_says_that_it_is_back, "one-view", "as disconnected, though it is there"),
        (swallows_a_packet, "reliable-multicast", "neither delivered nor reported lost"),
    ],
)
def test_a_planted_bug_is_found_in_live_traces(tmp_path, monkeypatch, bug, spec, says):
    bug(monkeypatch)
    found = [v for v in play(tmp_path).violations if v.spec == spec]
    assert any(says in violation.message for violation in found)
