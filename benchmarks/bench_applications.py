"""What applications do with a group, each part in processes of its own: queues, requests, durable readers, threads.

- A queue: one publisher, 4 workers that take their share in batches and commit each; events/s until the last is done.
- A request, to a member that replies at once, beside the latency of an event one way; in turn, with random pauses.
- A durable reader that commits every 1,000 events, beside one that is not durable; a logger is there in both cases.
- A program without asyncio that publishes event by event, up to a subscriber in another process.

Rounds of what is compared take turns in the same processes; medians are printed. What the numbers do not show: workers
that work, networks between the members, and anything while other programs run.

    python benchmarks/bench_applications.py [--rounds 5] [--only queue,request,durable,thread]
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median

from live_runner import Failed, Host, Worker, child, free_port
from live_tables import DEFAULT_LOOP, machine, note

WORKER = str(Path(__file__).with_name("applications_worker.py"))
SIZE = 64
ROUND_TIMEOUT_S = 60.0
COMMITS = ("not durable", "commit()", "commit(wait=True)")


@asynccontextmanager
async def crew(loop: str, *roles: str) -> AsyncIterator[list[Worker]]:
    """Processes that know each other; none is left at the end."""
    plan = json.dumps({"port": free_port(), "loop": loop, "members": len(roles)})
    async with AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(child(f"{role}-{n}", Host(), WORKER, role, plan))
            for n, role in enumerate(roles)
        ]
        async with asyncio.timeout(ROUND_TIMEOUT_S):
            await asyncio.gather(*(worker.report() for worker in workers))
        await asyncio.sleep(1)  # they settle: those in a queue have met, pace and window are known
        yield workers


async def queue(loop: str, rounds: int, workers: int = 4, count: int = 500_000) -> None:
    """Events/s that a queue handles."""
    rates = []
    async with crew(loop, "publisher", *["worker"] * workers) as (publisher, *others):
        for number in range(rounds + 1):
            publisher.order(count=count, size=SIZE)
            started = (await publisher.report())["started"]
            finished = await _all_done(others, count * (number + 1))
            rates.append(count / (finished - started) * 1e9)
            note(f"queue: {rates[-1]:,.0f} events/s")
    print(f"queue of {workers} workers: {median(rates[1:]):,.0f} events/s of {SIZE} bytes")


async def _all_done(workers: list[Worker], count: int) -> int:
    """When the last of so many events was handled."""
    async with asyncio.timeout(ROUND_TIMEOUT_S):
        while True:
            for worker in workers:
                worker.order(kind="report")
            reports = [await worker.report() for worker in workers]
            if (done := sum(report["done"] for report in reports)) >= count:
                break
            await asyncio.sleep(0.05)
    if done > count:
        note(f"queue: {done - count} events were handled twice")
    return int(max(report["last"] for report in reports))


async def request(loop: str, rounds: int, count: int = 500) -> None:
    """How long a request takes, in latencies of one way."""
    ways, requests = [], []
    async with crew(loop, "asker", "answerer") as (asker, answerer):
        for _ in range(rounds + 1):
            asker.order(count=count, pause_s=0.002)
            requests.append((await asker.report())["request"] / 1e3)
            answerer.order(kind="report")
            ways.append(median((await answerer.report())["one_way"]) / 1e3)
            note(f"request: {requests[-1]:.0f} us, one way {ways[-1]:.0f} us: {requests[-1] / ways[-1]:.2f}")
    ratio = median(r / w for r, w in zip(requests[1:], ways[1:], strict=True))
    print(f"request: {median(requests[1:]):.0f} us, one way {median(ways[1:]):.0f} us: {ratio:.2f} times")


async def durable(loop: str, rounds: int, count: int = 500_000) -> None:
    """What durability costs a reader."""
    async with crew(loop, "publisher", "reader", "logger") as (publisher, reader, _):
        for reading in ("one by one", "in batches"):
            rates: dict[str, list[float]] = {commit: [] for commit in COMMITS}
            costs: dict[str, list[float]] = {commit: [] for commit in COMMITS}
            for number in range(rounds + 1):
                for commit in COMMITS:
                    reader.order(count=count, commit=commit, reading=reading, name=f"{reading} {commit} {number}")
                    await reader.report()
                    publisher.order(count=count, size=SIZE)
                    started = (await publisher.report())["started"]
                    done = await reader.report()
                    rates[commit].append(count / (done["finished"] - started) * 1e9)
                    costs[commit].append(done["used"] / count)
                    note(f"durable: {reading}, {commit}: {rates[commit][-1]:,.0f}/s, {costs[commit][-1]:.0f} ns each")
            plain = rates["not durable"][1:]
            for commit in COMMITS:
                ratio = median(ours / base for ours, base in zip(rates[commit][1:], plain, strict=True))
                print(
                    f"durable, {reading}, {commit}: {median(rates[commit][1:]):,.0f} events/s, {ratio:.3f} times; the "
                    f"reader's processor {median(costs[commit][1:]):.0f} ns for each event"
                )


async def thread(loop: str, rounds: int, count: int = 500_000) -> None:
    """How fast a program without asyncio publishes."""
    rates = []
    async with crew(loop, "reader", "thread") as (reader, publisher):
        for _ in range(rounds + 1):
            reader.order(count=count, commit="not durable", reading="in batches", name="")
            await reader.report()
            publisher.order(count=count, size=SIZE)
            started = (await publisher.report())["started"]
            rates.append(count / ((await reader.report())["finished"] - started) * 1e9)
            note(f"thread: {rates[-1]:,.0f} events/s")
    print(f"join_sync, event by event: {median(rates[1:]):,.0f} events/s of {SIZE} bytes")


PARTS = {"queue": queue, "request": request, "durable": durable, "thread": thread}


async def main() -> None:
    """The parts that are asked for, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--loop", default=DEFAULT_LOOP, choices=("asyncio", "uvloop"))
    asked = parser.parse_args()
    print(machine(asked.loop, asked.rounds))
    for name in asked.only.split(","):
        try:
            await PARTS[name](asked.loop, asked.rounds)
        except (Failed, TimeoutError) as failure:
            print(f"{name}: {failure or 'not done in time'}")


if __name__ == "__main__":
    asyncio.run(main())
