"""Two halves of a group with one order, which have no channel in common, against two groups: events per second.

    python benchmarks/bench_halves.py

Each half has three processes, of which one publishes events of 64 bytes as fast as it may for some seconds and two
listen. In one group, each half has a channel, and gets a branch of the order (docs/ordering.md). Rounds alternate; the
best of each counts.
"""

import asyncio
import json
import subprocess
import sys
import time

import gossamer
from gossamer.pubsub.channel_map import Rule

SECONDS, ROUNDS = 3.0, 2
MAP = gossamer.ChannelMap(1, 3, (Rule("left.>", 1), Rule("right.>", 2)))


async def member(address: str, half: str, members: int, publishes: bool) -> None:
    """One process: wait until all are there, then publish, or count."""
    settings = gossamer.Settings(address=address, order="total", tuning={"order_patience": 0.3})
    async with gossamer.join("halves", settings) as group:
        if publishes and half == "left" and members > 3:
            group.install_channels(MAP)
        counting = asyncio.create_task(count(group.subscribe(f"{half}.>")))
        while not is_ready(group, members):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        end = time.monotonic() + SECONDS
        while publishes and time.monotonic() < end:
            for _ in range(64):
                await group.publish_wait(f"{half}.event", bytes(64))
            await asyncio.sleep(0)
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        print(json.dumps({"half": half, "publishes": publishes, "rate": COUNTED[0] / SECONDS}), flush=True)
        await asyncio.sleep(1.0)  # the others need most sites
        counting.cancel()


COUNTED = [0]


async def count(stream: gossamer.Subscription) -> None:
    """Count events for as long as the measurement lasts."""
    async for batch in stream.batches():
        COUNTED[0] += len(batch)


def is_ready(group: gossamer.Group, members: int) -> bool:
    """Whether everybody is a site and, in one group, both halves have their branch."""
    order = group.stats()["order"]
    return len(order["sites"]) == members and (members == 3 or len(order["branches"]) == 2)


def run(groups: dict[str, list[str]], port: int) -> dict[str, float]:
    """The slowest listener of each half."""
    started = [
        subprocess.Popen(
            [sys.executable, __file__, f"239.192.77.15:{port + at}", half, str(3 * len(halves)), str(int(number == 0))],
            stdout=subprocess.PIPE,
            text=True,
        )
        for at, halves in enumerate(groups.values())
        for half in halves
        for number in range(3)
    ]
    try:
        said = [json.loads(process.stdout.readline()) for process in started if process.stdout is not None]
    finally:
        for process in started:
            process.kill()
    heard = [one for one in said if not one["publishes"]]
    return {half: min(one["rate"] for one in heard if one["half"] == half) for half in ("left", "right")}


def main() -> None:
    """Measure, and print a table."""
    ways = {
        "two groups": {"a": ["left"], "b": ["right"]},
        "one group": {"a": ["left", "right"]},
    }
    best: dict[str, float] = dict.fromkeys(ways, 0.0)
    for attempt in range(ROUNDS):
        for at, (way, groups) in enumerate(ways.items()):
            best[way] = max(best[way], sum(run(groups, 24_000 + 20 * attempt + 4 * at).values()))
    for way, rate in best.items():
        print(f"| {way} | {rate:,.0f} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(member(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1"))
    else:
        main()
