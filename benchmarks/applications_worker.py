"""One process of `bench_applications.py`: orders come as lines of JSON, and each is answered with one.

python benchmarks/applications_worker.py ROLE PLAN_AS_JSON
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic_ns, process_time_ns
from typing import Any

import gossamer
from gossamer.live.logger_group import logger
from live_worker import next_order, say

CHUNK = 1_000
SUBJECT = "bench"
Order = dict[str, Any]


async def publish(group: gossamer.Group, order: Order) -> Order:
    """Publish so many events as fast as there is room."""
    payloads = [n.to_bytes(8, "little") + bytes(order["size"] - 8) for n in range(CHUNK)]
    started = monotonic_ns()
    for _ in range(order["count"] // CHUNK):
        await group.publish_many(SUBJECT, payloads)
    await group.flush()
    return {"started": started}


async def publish_from_a_thread(plan: Order) -> None:
    """The same with `join_sync`, event by event."""
    group = gossamer.join_sync("bench", settings(plan)).__enter__()
    say(ready=True)
    while (order := await next_order()) is not None:
        payload = bytes(order["size"])
        started = monotonic_ns()
        for _ in range(order["count"]):
            group.publish(SUBJECT, payload)
        say(started=started)
    group.__exit__(None, None, None)


async def work(group: gossamer.Group, plan: Order) -> None:
    """Take part in a queue; say how much was done whenever it is asked."""
    done, last = 0, 0
    jobs = group.subscribe(SUBJECT, queue="workers")

    async def handle() -> None:
        nonlocal done, last
        async for batch in jobs.batches():
            done += len(batch)
            last = monotonic_ns()
            await jobs.commit()

    task = asyncio.create_task(handle())
    say(ready=True)
    while await next_order() is not None:
        say(done=done, last=last)
    task.cancel()


async def read(group: gossamer.Group, order: Order) -> Order:
    """Read so many events in one of the ways, and commit every 1,000."""
    durable = None if order["commit"] == "not durable" else order["name"]
    events = group.subscribe(SUBJECT, durable=durable)
    await events.caught_up(30)
    say(ready=True)
    used = process_time_ns()
    await (_one_by_one if order["reading"] == "one by one" else _in_batches)(events, order)
    finished, used = monotonic_ns(), process_time_ns() - used
    events.close()
    return {"finished": finished, "used": used}


async def _one_by_one(events: gossamer.Subscription, order: Order) -> None:
    commit = _commits(events, order["commit"])
    left = order["count"]
    async for _ in events:
        left -= 1
        if left % CHUNK == 0:
            await commit()
            if not left:
                return


async def _in_batches(events: gossamer.Subscription, order: Order) -> None:
    commit = _commits(events, order["commit"])
    left, since = order["count"], 0
    while left:
        batch = await events.take()
        assert batch is not None
        left -= len(batch)
        since += len(batch)
        if since >= CHUNK:
            since = 0
            await commit()


def _commits(events: gossamer.Subscription, how: str) -> Callable[[], Awaitable[None]]:
    async def nothing() -> None:
        pass

    async def kept() -> None:
        await events.commit(30, wait=True)

    return {"not durable": nothing, "commit()": events.commit, "commit(wait=True)": kept}[how]


async def answer(group: gossamer.Group, plan: Order) -> None:
    """Reply to requests, and say when events came that were stamped."""
    stamps: list[int] = []
    group.subscribe("ask", callback=lambda event: event.reply(b"yes"))
    group.subscribe("stamped", callback=lambda e: stamps.append(monotonic_ns() - int.from_bytes(e.payload, "little")))
    say(ready=True)
    while await next_order() is not None:
        say(one_way=sorted(stamps))
        stamps.clear()


async def ask(group: gossamer.Group, order: Order) -> Order:
    """So many requests and so many stamped events in turn, with a pause after each that nothing keeps step with."""
    took = []
    chance = Random(1)
    for _ in range(order["count"]):
        group.publish("stamped", monotonic_ns().to_bytes(8, "little"))
        await asyncio.sleep(chance.uniform(0.5, 2) * order["pause_s"])
        began = monotonic_ns()
        await group.request("ask", timeout=10)
        took.append(monotonic_ns() - began)
        await asyncio.sleep(chance.uniform(0.5, 2) * order["pause_s"])
    return {"request": median(took)}


def settings(plan: Order) -> gossamer.Settings:
    """The group of this run."""
    return gossamer.Settings(address=f"239.192.77.7:{plan['port']}")


async def serve(role: str, plan: Order) -> None:
    """Join, and do as told."""
    if role == "thread":
        return await publish_from_a_thread(plan)
    if role == "logger":
        with tempfile.TemporaryDirectory() as store:
            async with logger("bench", Path(store), settings(plan)):
                say(ready=True)
                while await next_order() is not None:
                    pass
        return None
    async with gossamer.join("bench", settings(plan)) as group:
        while len(group.members()) < plan["members"]:
            await asyncio.sleep(0.01)
        if role in ("worker", "answerer"):
            return await (work if role == "worker" else answer)(group, plan)
        say(ready=True)
        while (order := await next_order()) is not None:
            say(**await {"publisher": publish, "reader": read, "asker": ask}[role](group, order))
        return None


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    if given["loop"] == "uvloop":
        import uvloop

        uvloop.run(serve(sys.argv[1], given))
    else:
        asyncio.run(serve(sys.argv[1], given))
