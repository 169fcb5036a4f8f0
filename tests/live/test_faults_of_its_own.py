"""Errors inside a member: what it did before them stands, it goes on, and it fails loudly if it cannot."""

from __future__ import annotations

import asyncio

import pytest

import gossamer
from gossamer.core.effects import ReportLost
from gossamer.core.messages import Gossip
from tests.live.members import collect, joined, payloads, run, settings, until


def _fail_in(group, when, before=None):
    """From now on a handler of every gossip raises an error while `when()` holds, after it caused some effects."""

    def handler(now, source, message, out):
        if when():
            out.extend(before() if before is not None else [])
            raise LookupError("planted")

    group._member.stack._messages.setdefault(Gossip, []).insert(0, handler)


def test_effects_before_an_error_are_carried_out_and_the_member_goes_on():
    async def story():
        async with joined(2, settings()) as (publisher, subscriber):
            heard = subscriber.subscribe(">")
            losses = [ReportLost(77, 0, 0, "planted")]
            _fail_in(subscriber, lambda: bool(losses), lambda: [losses.pop()])
            lost = await asyncio.wait_for(anext(heard), 20)
            assert lost == gossamer.Lost(77, 0, 0, "planted")
            assert subscriber._member.stats["faults"] == 1
            for n in range(100):
                publisher.publish("n", b"%d" % n)
            assert payloads(await collect(heard, 100)) == [b"%d" % n for n in range(100)]

    run(story())


def test_a_timer_that_fails_silences_neither_itself_nor_the_others():
    async def story():
        async with joined(3, settings(), loss=0.1) as groups:
            failing = groups[1]._member.stack
            rounds = failing._rounds.number
            calls = []

            def hook(now, number, out):
                calls.append(number)
                if len(calls) == 1:
                    raise LookupError("planted")

            failing._hooks.round_over.insert(0, hook)
            await until(lambda: failing._rounds.number > rounds + 5)
            heard = groups[1].subscribe(">")
            for n in range(200):
                groups[0].publish("n", b"%d" % n)
                await asyncio.sleep(0)
            assert payloads(await collect(heard, 200)) == [b"%d" % n for n in range(200)]
            assert groups[1]._member.stats["faults"] == 1

    run(story())


def test_a_member_that_cannot_go_on_says_so():
    async def story():
        async with joined(2, settings()) as (_, broken):
            heard = broken.subscribe(">")
            _fail_in(broken, lambda: True)
            with pytest.raises(RuntimeError, match=r"too many errors .* LookupError: planted"):
                async for _ in heard:
                    pass
            with pytest.raises(RuntimeError, match="too many errors"):
                broken.publish("n", b"1")
            with pytest.raises(RuntimeError, match="too many errors"):
                await broken.flush()

    run(story())
