"""What a member of a large group keeps in memory, and whether losses are repaired: buffers by size and by hash (003).

Real processes on loopback, forked from one. The first publishes events of 16 KB; the others read them, over lines that
lose packets, and one of them is away for a while in the middle. There is no logger: what is repaired comes from peers.
Prints for each kind of buffer the resident memory of a member (at the end, beyond what it had before the first event),
what its buffer says it holds, and how many events were repaired and lost; then all that as ratios of the first kind's.

    python benchmarks/bench_memory.py [--members 32] [--megabytes 100] [--rate 5] [--loss 0.02] [--away 3]

What it does not show: processes that share no memory at all (a fork shares its modules with its parent, so only the
growth counts); a network with a delay.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from statistics import mean

import gossamer
from gossamer.live.group import Group
from gossamer.live.impair import ImpairedTransport, Impairments
from gossamer.live.transport import Endpoint

EVENT_BYTES = 16 << 10
PATIENCE_S = 120.0
KINDS = {"size": {}, "hashed": {"buffering": "hashed"}}


def resident_mb() -> float:
    """The memory of this process that is its own."""
    text = Path("/proc/self/smaps_rollup").read_text("ascii")
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) / 1024


async def take_part(number: int, options: argparse.Namespace, settings: gossamer.Settings, parent: Connection) -> None:
    """One member: meets the others, publishes or reads, and says how it went."""
    lines: list[ImpairedTransport] = []

    def line(endpoint: Endpoint) -> ImpairedTransport:
        lines.append(ImpairedTransport(endpoint))
        return lines[0].impair(Impairments(loss=0.0 if number == 0 else options.loss), Random(number))

    async with Group("memory", settings, line) as group:
        until = time.monotonic() + PATIENCE_S
        while len(group.members()) < options.members and time.monotonic() < until:
            await asyncio.sleep(0.1)
        subscription = group.subscribe(">") if number else None  # nobody would read what the publisher hears
        await asyncio.sleep(2.0)
        before, events = resident_mb(), options.megabytes * (1 << 20) // EVENT_BYTES
        if subscription is None:
            await publish(group, events, options.rate)
        else:
            if number == options.members - 1:
                asyncio.get_running_loop().create_task(be_away(lines[0], number, options))
            await read(subscription, events)
        await asyncio.sleep(1.0)
        stats = group.stats()
        said = {name: stats[name] for name in ("received", "peer", "lost", "buffered", "buffer")}
        parent.send_bytes(json.dumps({**said, "mb": resident_mb() - before}).encode())
        while not parent.poll():  # nobody leaves before all have everything
            await asyncio.sleep(0.1)


async def publish(group: Group, events: int, rate: float) -> None:
    """So many megabytes a second."""
    pause, payload = EVENT_BYTES / (rate * (1 << 20)), os.urandom(EVENT_BYTES)
    began = time.monotonic()
    for number in range(events):
        await group.publish_wait("n", number.to_bytes(8) + payload[8:])
        await asyncio.sleep(max(0.0, began + number * pause - time.monotonic()))


async def read(subscription: gossamer.Subscription, events: int) -> None:
    """Until the last event has come, or was lost."""
    last = -1
    while last < events - 1:
        batch = await asyncio.wait_for(subscription.take(), PATIENCE_S)
        if batch is None:
            return
        for item in batch:
            last = int.from_bytes(item.payload[:8]) if isinstance(item, gossamer.Event) else item.last


async def be_away(transport: ImpairedTransport, number: int, options: argparse.Namespace) -> None:
    """Hear nothing for some seconds in the middle."""
    await asyncio.sleep(options.megabytes / options.rate / 2)
    transport.impair(Impairments(loss=1.0), Random(number))
    await asyncio.sleep(options.away)
    transport.impair(Impairments(loss=options.loss), Random(number))


def member(number: int, options: argparse.Namespace, settings: gossamer.Settings, parent: Connection) -> None:
    asyncio.run(take_part(number, options, settings, parent))


def measure(kind: str, options: argparse.Namespace, port: int) -> list[dict]:
    """One group with this kind of buffer: what its members say."""
    context = get_context("fork")
    settings = gossamer.Settings(address=f"239.192.77.7:{port}", tuning=KINDS[kind])
    lines, processes = [], []
    for number in range(options.members):
        ours, theirs = context.Pipe()
        process = context.Process(target=member, args=(number, options, settings, theirs), daemon=True)
        process.start()
        lines.append(ours)
        processes.append(process)
        time.sleep(0.05)
    said = [json.loads(ours.recv_bytes()) if ours.poll(3 * PATIENCE_S) else {} for ours in lines]
    for ours in lines:
        ours.send_bytes(b"go")
    for process in processes:
        process.join(10.0)
        process.kill()
    return said


def show(kind: str, said: list[dict]) -> None:
    """One line for all members, one for the one that was away."""
    receivers = [one for one in said[1:] if one]
    away = receivers[-1]
    lost = sum(sum(one["lost"].values()) for one in receivers)
    print(
        f"{kind:7} {len(receivers) + 1} members: {mean(one['mb'] for one in receivers):.1f} MB each"
        f" (at most {max(one['mb'] for one in receivers):.1f}), {mean(one['buffered'] for one in receivers):.0f}"
        f" packets kept; {mean(one['peer'] for one in receivers):.0f} events repaired each, {lost} lost in all"
    )
    print(
        f"        away for a while: {away['received']} received, {away['peer']} of them repaired, lost {away['lost']}"
    )
    if away["buffer"]:
        print(f"        buffer: {away['buffer']}; passed on by all: {sum(o['buffer']['passed_on'] for o in said if o)}")
    sys.stdout.flush()


def compare(said: dict[str, list[dict]]) -> None:
    """Memory, packets kept, and which part of what was lacking was repaired, as ratios of the first kind's."""
    first, *others = said
    base = totals(said[first])
    for kind in others:
        ratios = [mine / theirs for mine, theirs in zip(totals(said[kind]), base, strict=True)]
        print(f"{kind} / {first}: memory {ratios[0]:.2f}, packets kept {ratios[1]:.2f}, repair success {ratios[2]:.4f}")


def totals(said: list[dict]) -> tuple[float, float, float]:
    """Of all receivers together: megabytes, packets kept, and the share of what was lacking that was repaired."""
    receivers = [one for one in said[1:] if one]
    repaired, lost = sum(one["peer"] for one in receivers), sum(sum(one["lost"].values()) for one in receivers)
    kept = sum(one["buffered"] for one in receivers)
    return sum(one["mb"] for one in receivers), kept, repaired / max(1, repaired + lost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rate", type=float, default=5.0, help="megabytes a second")
    parser.add_argument("--loss", type=float, default=0.02)
    parser.add_argument("--away", type=float, default=3.0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    said: dict[str, list[dict]] = {}
    for at, kind in enumerate(options.kinds.split(",")):
        said[kind] = measure(kind, options, 23_000 + os.getpid() % 5000 + at)
        show(kind, said[kind])
    compare(said)


if __name__ == "__main__":
    main()
