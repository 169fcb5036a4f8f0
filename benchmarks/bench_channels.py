"""What a member pays that listens to 1 of 16 channels, next to one that listens to all: processor time, in one run.

A publisher sends events of 16 subjects, each of which has a channel. A third member listens to nothing: what it takes
is the price of being a member. Run it alone: `python benchmarks/bench_channels.py`. It does not show what a network
card spares a host: everything is on loopback.
"""

import argparse
import asyncio
import json
import multiprocessing
from multiprocessing.connection import Connection
from time import perf_counter, process_time

import gossamer
from gossamer.pubsub.channel_map import ChannelMap, Rule

CHANNELS = 16
EACH = 500
"""Events of one subject that are published together."""
MAP = ChannelMap(1, CHANNELS + 1, tuple(Rule(f"s.{n}", n + 1) for n in range(CHANNELS)))


def place(port: int) -> gossamer.Settings:
    return gossamer.Settings(address=f"239.192.77.177:{port}", interface="127.0.0.1")


async def subscribe(port: int, pattern: str, pipe: Connection) -> None:
    """Read until told to stop; then say how many events came and what they cost."""
    async with gossamer.join("bench channels", place(port)) as group:
        subscription = group.subscribe(pattern)
        count = 0

        async def read() -> None:
            nonlocal count
            async for batch in subscription.batches():
                count += len(batch)

        reading = asyncio.ensure_future(read())
        pipe.send("joined")
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, pipe.recv)  # the map is in use
        before = process_time()
        await loop.run_in_executor(None, pipe.recv)  # everything is sent
        pipe.send({"events": count, "cpu_s": process_time() - before})
        reading.cancel()


def run_subscriber(port: int, pattern: str, pipe: Connection) -> None:
    asyncio.run(subscribe(port, pattern, pipe))


async def publish(port: int, seconds: float, rate: int, pipes: list[Connection]) -> float:
    async with gossamer.join("bench channels", place(port)) as group:
        while len(group.members()) < 1 + len(pipes):
            await asyncio.sleep(0.05)
        group.install_channels(MAP)
        assert await group.channels_used(timeout=30)
        await asyncio.sleep(1.0)
        for pipe in pipes:
            pipe.send("begin")
        began, sent, payloads = perf_counter(), 0, [bytes(64)] * EACH
        while (elapsed := perf_counter() - began) < seconds:
            while sent < elapsed * rate:
                await group.publish_many(f"s.{sent // EACH % CHANNELS}", payloads)
                sent += EACH
            await asyncio.sleep(0.001)
        await group.flush()
        await asyncio.sleep(0.5)
        for pipe in pipes:
            pipe.send("end")
        return sent / seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--rate", type=int, default=1_000_000, help="events per second, over all channels")
    options.add_argument("--port", type=int, default=18_877)
    given = options.parse_args()
    context = multiprocessing.get_context("spawn")
    pipes, children = [], []
    for pattern in ("s.0", "s.>", "nothing"):
        mine, its = context.Pipe()
        child = context.Process(target=run_subscriber, args=(given.port, pattern, its))
        child.start()
        assert mine.recv() == "joined"
        pipes.append(mine)
        children.append(child)
    rate = asyncio.run(publish(given.port, given.seconds, given.rate, pipes))
    one, every, none = (pipe.recv() for pipe in pipes)
    for child in children:
        child.join(10)
        if child.is_alive():
            child.terminate()
    ratio = one["cpu_s"] / every["cpu_s"]
    print(json.dumps({"rate": round(rate), "one": one, "all": every, "none": none, "ratio": round(ratio, 3)}))


if __name__ == "__main__":
    main()
