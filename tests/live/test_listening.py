"""A live member that cannot keep up leaves the multicast, gets everything by repair, and comes back."""

from __future__ import annotations

import asyncio
from math import inf
from random import Random

from gossamer.live.group import Group
from gossamer.live.impair import ImpairedTransport, Impairments
from tests.live.members import GROUP, run, settings, until


def test_a_receiver_that_is_let_go_and_loses_much_leaves_reads_everything_and_comes_back():
    lines: list[ImpairedTransport] = []

    def line(endpoint) -> ImpairedTransport:
        lines.append(ImpairedTransport(endpoint))
        return lines[-1]

    async def story() -> None:
        shared = settings(tuning={"unlisten_after": 0.3})
        async with Group(GROUP, shared) as sender, Group(GROUP, shared, line) as slow, Group(GROUP, shared) as other:
            await until(lambda: all(len(group.members()) == 3 for group in (sender, slow, other)))
            reader = slow.subscribe("*")
            lines[0].impair(Impairments(loss=0.95), Random(1))  # with 80% repairs still keep up, most of the time
            pace = sender._member.stack.pace
            pace._paces[0].window.let_go(slow.me, 0, inf)  # type: ignore[attr-defined]  # as for a path that is too slow
            sent = 0
            while slow.stats()["listening"]["on"]:
                sender.publish("n", str(sent).encode())
                sent += 1
                await asyncio.sleep(0.002)
            assert slow.stats()["listening"]["why"].startswith(f"let go by {sender.me}; ")
            lines[0].impair(Impairments(), Random(1))
            for number in range(sent, sent + 200):
                sender.publish("n", str(number).encode())
            got = [int((await anext(reader)).payload) for _ in range(sent + 200)]
            assert got == list(range(sent + 200))
            assert slow.stats()["peer"] >= 0.8 * sent
            pace._paces[0].window.follow(slow.me, pace._paces[0]._head())  # type: ignore[attr-defined]
            await until(lambda: slow.stats()["listening"] == {"on": True, "why": "", "left": 1})
            sender.publish("n", b"last")
            assert (await anext(reader)).payload == b"last"

    run(story())
