"""The three executors of effects (simulator, live member, the tests' table) keep the same order.

`core/effects.py` says which: what goes to the application in its order, what goes to one destination in its order, and
nothing that follows a `Persist` before it is durable.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from gossamer.core.effects import Deliver, Effect, Multicast, Persist, ReportLost, Unicast
from gossamer.core.messages import Ack, Echo, Heartbeat
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.live.logger_group import logger
from gossamer.sim.run import build_topology, stack_maker
from gossamer.sim.scenario import parse
from gossamer.sim.world import World
from gossamer.trace.recorder import Recorder
from tests.live.members import joined, run, settings, until
from tests.papers.hand import Table

ME, PEER = 0, 1


def packet(seqno: int) -> Packet:
    return Packet(PEER, seqno, b"x")


STEP: list[Effect] = [
    Unicast(PEER, Echo(1)),
    Deliver([packet(0)], "first_pass"),
    Persist([packet(1)]),
    Unicast(PEER, Ack({PEER: RangeSet.span(1, 1)})),
    Multicast(Heartbeat(1)),
    ReportLost(PEER, 2, 2, "collected"),
    Deliver([packet(3)], "peer"),
    Unicast(PEER, Echo(2)),
    Multicast(Heartbeat(2)),
]
"""A step in which everything happens, in an order that matters."""


class Diary:
    """What an executor did, by where it went."""

    def __init__(self) -> None:
        self.application: list[Any] = []
        self.to_peer: list[Any] = []
        self.to_group: list[Any] = []
        self.all: list[str] = []

    def check(self) -> None:
        assert self.application == [0, "lost", 3]
        assert self.to_peer == [Echo(1), Ack({PEER: RangeSet.span(1, 1)}), Echo(2)]
        assert self.to_group == [Heartbeat(1), Heartbeat(2)]
        assert self.all.index("persist") < self.all.index("ack")


def test_the_simulator_keeps_the_order_of_effects():
    diary = Diary()
    made = parse({"topology": {"kind": "lan", "members": 3}, "protocol": {"name": "lbrm"}})
    world = World(made, build_topology(made), stack_maker(made, 3), Recorder())
    world.start((0, 1, 2))
    world.recorder.sent = lambda now, member, to, message, size: note_sent(diary, to, message)  # type: ignore[method-assign]
    world.ledger.delivered = lambda now, members, p, phase: diary.application.append(p.seqno)  # type: ignore[method-assign]
    world.ledger.given_up = lambda *loss: diary.application.append("lost")  # type: ignore[method-assign]
    world.recorder.stored = lambda *row: diary.all.append("persist")  # type: ignore[method-assign]
    world._carry_out(ME, STEP)
    diary.check()


def note_sent(diary: Diary, to: int, message: Any) -> None:
    (diary.to_group if to < 0 else diary.to_peer).append(message)
    if isinstance(message, Ack):
        diary.all.append("ack")


def test_the_table_keeps_the_order_of_effects():
    diary = Diary()
    table = Table("lbrm", 2, loggers=(1,))
    for effect in STEP:
        if isinstance(effect, Persist):
            diary.all.append("persist")
        table._carry_out(ME, effect)
        if isinstance(effect, ReportLost):
            diary.application.append("lost")
        elif isinstance(effect, Deliver):
            diary.application.append(effect.run[0].seqno)
    for letter, effect in zip(table.letters, [e for e in STEP if isinstance(e, Unicast | Multicast)], strict=True):
        note_sent(diary, letter.to if isinstance(effect, Unicast) else -1, letter.message)
    diary.check()


def test_a_live_member_keeps_the_order_of_effects(tmp_path: Path):
    diary = Diary()

    async def story() -> None:
        async with logger("order", tmp_path / "log", settings()) as group:
            member = group._member
            assert member.disk is not None
            member._handover._deliver = lambda run, *_: diary.application.append(run[0].seqno)
            member._inbox.given_up = lambda effect: diary.application.append("lost")
            append = member.disk.store.append
            close = member._post.close

            def persist(entries: Any) -> None:
                append(entries)
                diary.all.append("persist")

            def sent(message: Any, to: int) -> list[bytes]:
                if not isinstance(message, Echo | Ack | Heartbeat):
                    return close(message, to)  # of the group itself
                note_sent(diary, to, message)
                return [b""]

            member.disk.store.append = persist  # type: ignore[method-assign]
            member._post.close = sent  # type: ignore[method-assign]
            member._carry_out(list(STEP))
            await until(lambda: len(diary.application) == 3)
            await asyncio.sleep(0.05)
            diary.check()

    run(story())


def test_what_may_leave_later_leaves_when_the_application_had_its_turn():
    """Unless something else leaves before, which then goes to the same destination after it."""
    done: list[Any] = []

    async def story() -> None:
        async with joined(1, settings()) as (group,):
            member = group._member
            woken = asyncio.Event()
            member._handover._deliver = lambda run, *_: woken.set()

            def sent(message: Any, to: int) -> list[bytes]:
                if isinstance(message, Echo):
                    done.append(message.stamp)
                return [b""]

            async def application() -> None:
                await woken.wait()
                done.append("the application")

            member._post.close = sent  # type: ignore[method-assign]
            waiting = asyncio.create_task(application())
            await asyncio.sleep(0)
            member._carry_out([Unicast(PEER, Echo(1), later=True), Deliver([packet(0)], "first_pass")])
            assert done == []
            await waiting
            await asyncio.sleep(0)
            assert done == ["the application", 1]
            member._carry_out([Unicast(PEER, Echo(2), later=True)])
            member._carry_out([Deliver([packet(1)], "first_pass")])
            member._carry_out([Unicast(PEER, Echo(3)), Unicast(PEER, Echo(4), later=True)])
            assert done[2:] == [2, 3, 4]
            await asyncio.sleep(0.01)
            assert done[2:] == [2, 3, 4], "once"
            member._carry_out([Unicast(PEER, Echo(5), later=True)])
            member.disconnect_for_good()
            await asyncio.sleep(0.01)
            assert done[2:] == [2, 3, 4], "nothing leaves"

    run(story())


def test_nothing_waits_for_an_application_that_needs_long_for_its_turn():
    """Applications that all work on an event for a while would else do so one after the other: the primary the last."""
    done: list[int] = []

    async def story() -> None:
        async with joined(1, settings()) as (group,):
            member = group._member

            def sent(message: Any, to: int) -> list[bytes]:
                if isinstance(message, Echo):
                    done.append(message.stamp)
                return [b""]

            member._post.close = sent  # type: ignore[method-assign]
            member._handover._deliver = lambda *_: asyncio.get_running_loop().call_soon(time.sleep, 0.02)
            member._carry_out([Deliver([packet(0)], "first_pass"), Unicast(PEER, Echo(1), later=True)])
            assert done == [], "it is not known yet how long that takes"
            await asyncio.sleep(0.05)
            assert done == [1]
            member._carry_out([Deliver([packet(1)], "first_pass"), Unicast(PEER, Echo(2), later=True)])
            assert done == [1, 2]

    run(story())
