"""What a member pays that listens to 1 of 16 channels, next to one that listens to all: processor time, in one run.

A publisher sends events of 64 bytes of 16 subjects, each of which has a channel, a few thousand of one subject at a
time. A third member listens to nothing: what it takes is the price of being a member. Run it alone:
`python benchmarks/bench_channels.py`.

What the numbers do not show: what a network card spares a host, since everything is on loopback. With `--rate 1000000
--each 500` packets come one by one, 8 ms apart in each channel: a process that wakes for each of them finds its caches
cold, one that hears all 16 channels does not, and the ratio is higher.
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
PATIENCE_S = 20.0
MAP = ChannelMap(1, CHANNELS + 1, tuple(Rule(f"s.{n}", n + 1) for n in range(CHANNELS)))


def place(port: int) -> gossamer.Settings:
    return gossamer.Settings(address=f"239.192.77.177:{port}", interface="127.0.0.1")


async def subscribe(port: int, pattern: str, pipe: Connection) -> None:
    """Read until told to stop; then say what that cost. The time is the same for all: until the last has everything."""
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
        expected = await loop.run_in_executor(None, pipe.recv)  # everything is sent
        deadline = perf_counter() + PATIENCE_S
        while count < expected and perf_counter() < deadline:
            await asyncio.sleep(0.05)
        pipe.send(count == expected)
        await loop.run_in_executor(None, pipe.recv)  # the others have everything
        pipe.send({"events": count, "cpu_s": process_time() - before})
        reading.cancel()


def run_subscriber(port: int, pattern: str, pipe: Connection) -> None:
    asyncio.run(subscribe(port, pattern, pipe))


async def publish(port: int, seconds: float, rate: int, each: int, pipes: list[Connection]) -> dict[str, float]:
    async with gossamer.join("bench channels", place(port)) as group:
        while len(group.members()) < 1 + len(pipes):
            await asyncio.sleep(0.05)
        group.install_channels(MAP)
        assert await group.channels_used(timeout=30)
        await asyncio.sleep(1.0)
        for pipe in pipes:
            pipe.send("begin")
        began, sent, payloads = perf_counter(), 0, [bytes(64)] * each
        while (elapsed := perf_counter() - began) < seconds:
            while sent < elapsed * rate:
                await group.publish_many(f"s.{sent // each % CHANNELS}", payloads)
                sent += each
            await asyncio.sleep(0.001)
        await group.flush()
        turns = sent // each
        for pipe, expected in zip(pipes, (each * -(-turns // CHANNELS), sent, 0), strict=True):
            pipe.send(expected)
        loop = asyncio.get_running_loop()
        complete = all([await loop.run_in_executor(None, pipe.recv) for pipe in pipes])
        for pipe in pipes:
            pipe.send("end")
        return {"rate": round(sent / seconds), "complete": complete}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--rate", type=int, default=1_000_000, help="events per second, over all channels")
    options.add_argument("--each", type=int, default=4_000, help="events of one subject that are published together")
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
    told = asyncio.run(publish(given.port, given.seconds, given.rate, given.each, pipes))
    one, every, none = (pipe.recv() for pipe in pipes)
    for child in children:
        child.join(10)
        if child.is_alive():
            child.terminate()
    ratio = one["cpu_s"] / every["cpu_s"]
    print(json.dumps({**told, "one": one, "all": every, "none": none, "ratio": round(ratio, 3)}))


if __name__ == "__main__":
    main()
