"""`gossamer bench`: events per second and one-way latency between real processes, on this machine or over a network."""

import asyncio
import json
import multiprocessing
import secrets
import signal
import statistics
import struct
import time
from enum import StrEnum
from queue import Empty
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli import bench_network
from gossamer.cli.options import (
    Address,
    AsJson,
    Impair,
    Insecure,
    Interface,
    Key,
    run,
    run_for_ever,
    settings_from,
    transport_from,
)
from gossamer.cli.progress import waiting
from gossamer.live.group import Group, Lost
from gossamer.live.subscription import Blocked, Undo
from gossamer.settings import Settings
from gossamer.wire.keys import KEY_BYTES, new_key

_STAMP = struct.Struct("!Q")
_AT_ONCE = 1000
_PATIENCE_S = 120.0


class Side(StrEnum):
    """The two sides of a path."""

    SERVE = "serve"
    MEASURE = "measure"


def bench(
    events: Annotated[int, typer.Option(min=1000, help="Events to publish as fast as possible.")] = 500_000,
    size: Annotated[
        int | None, typer.Option(min=8, max=1 << 20, help="Size of an event, in bytes: 64, over a network 1024.")
    ] = None,
    subscribers: Annotated[int, typer.Option(min=1, max=64, help="Subscriber processes.")] = 2,
    rate: Annotated[int, typer.Option(min=1, help="Events per second while measuring latency.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure latency, or a network.")] = 2.0,
    sealed: Annotated[bool, typer.Option("--sealed", help="Seal the traffic with a key.")] = False,
    impair: Impair = "",
    network: Annotated[
        Side | None, typer.Option(help="Measure the path between hosts: one or more serve, another one measures.")
    ] = None,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """Measure throughput and latency between processes on this machine, counting every event at every subscriber.

    With `--network`, measure what a group reaches between hosts: throughput, losses, repairs, round trips, and how much
    longer packets wait in the network's queues under load. The options before it are for this machine, except `--size`
    and `--seconds`; those after it are the group's. Exit code 1 if an event is lost or does not arrive in time.

    Examples:

        gossamer bench

        gossamer bench --size 1024 --subscribers 8 --sealed

        gossamer bench --impair loss=0.05

        gossamer bench --network serve --interface eth0 --key @group.key     # on one host

        gossamer bench --network measure --interface eth0 --key @group.key   # on another
    """
    if network is not None:
        return _over_network(network, settings_from(address, interface, key, insecure), size or 1024, seconds, as_json)
    return _on_this_machine(events, size or 64, subscribers, rate, seconds, sealed, impair, as_json)


def _over_network(side: Side, settings: Settings, size: int, seconds: float, as_json: bool) -> int:
    if side is Side.SERVE:
        return run_for_ever(bench_network.serve(settings)) or 0
    return bench_network.conclude(run(bench_network.measure(settings, size, seconds)), as_json)


def _on_this_machine(
    events: int, size: int, subscribers: int, rate: int, seconds: float, sealed: bool, impair: str, as_json: bool
) -> int:
    settings: dict[str, Any] = {"address": f"239.192.77.7:{20_000 + secrets.randbelow(20_000)}"}
    if sealed:
        settings["key"] = new_key(secrets.token_bytes(KEY_BYTES))
    transport_from(impair)  # what is wrong with it is said here, not by each subscriber
    timed = int(rate * seconds)
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    arguments = (settings, subscribers, events, timed, impair, results)
    processes = [context.Process(target=_subscriber, args=arguments, daemon=True) for _ in range(subscribers)]
    _start_unheard(processes)
    try:
        with waiting(f"publishing {events:,} events at full speed, then {timed:,} in {seconds:g} s"):
            begun = run(_publish(Settings(**settings), subscribers, events, size, timed, rate))
            outcomes = [results.get(timeout=_PATIENCE_S) for _ in processes]
            for process in processes:
                process.join(5)
    except Empty:
        typer.echo(f"gossamer bench: not everything arrived within {_PATIENCE_S:.0f} s", err=True)
        return 1
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
    report = _report(events, size, subscribers, begun, outcomes)
    if as_json:
        typer.echo(json.dumps(report))
    else:
        _show(report)
    return 1 if report["lost"] else 0


def _start_unheard(processes: list[Any]) -> None:
    """Start processes that leave an interrupt, which a terminal sends to all, to us."""
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for process in processes:
            process.start()
    finally:
        signal.signal(signal.SIGINT, heard)


async def _publish(settings: Settings, subscribers: int, events: int, size: int, timed: int, rate: int) -> float:
    """Publish all events at full speed, then timestamped ones at a fixed rate; returns when the first part began."""
    loop = asyncio.get_running_loop()
    async with Group("bench", settings) as group:
        while len(group.members()) <= subscribers:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        payloads = [bytes(size)] * _AT_ONCE
        begun = time.perf_counter()
        for done in range(0, events, _AT_ONCE):
            await group.publish_many("bench.fast", payloads[: events - done])
        await group.flush()
        await asyncio.sleep(1.0)  # let the slowest catch up, or the latency would include its queue
        start = loop.time()
        for number in range(timed):
            stamp = _STAMP.pack(time.perf_counter_ns())
            await group.publish_wait("bench.timed", stamp + bytes(size - len(stamp)))
            ahead = start + (number + 1) / rate - loop.time()
            await asyncio.sleep(max(0.0, ahead))
        await group.flush()
        await asyncio.sleep(1.0)
        return begun


def _subscriber(settings: dict[str, Any], subscribers: int, events: int, timed: int, impair: str, results: Any) -> None:
    asyncio.run(_listen(Settings(**settings), events, timed, impair, results))


async def _listen(settings: Settings, events: int, timed: int, impair: str, results: Any) -> None:
    latencies: list[int] = []
    count = lost = 0
    ended = 0.0
    async with Group("bench", settings, transport_from(impair)) as group:
        async for batch in group.subscribe("bench.>").batches():
            now = time.perf_counter_ns()
            for item in batch:
                if isinstance(item, Lost):
                    lost += item.last - item.first + 1
                elif isinstance(item, Blocked | Undo):
                    continue
                elif item.subject == "bench.timed":
                    latencies.append(now - _STAMP.unpack_from(item.payload)[0])
                else:
                    count += 1
            if count >= events and not ended:
                ended = time.perf_counter()
            if count + len(latencies) >= events + timed or lost:
                break
        results.put((ended, lost, latencies, group.stats()))


def _report(events: int, size: int, subscribers: int, begun: float, outcomes: list[Any]) -> dict[str, Any]:
    slowest = max(ended for ended, *_ in outcomes)
    latencies = sorted(ns / 1e3 for _, _, some, _ in outcomes for ns in some)
    quantiles = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else [0.0] * 99
    return {
        "events": events,
        "size": size,
        "subscribers": subscribers,
        "events_per_s": events / (slowest - begun) if slowest > begun else 0.0,
        "latency_us": {"p50": quantiles[49], "p99": quantiles[98]},
        "lost": sum(lost for _, lost, *_ in outcomes),
        "received": {rung: sum(s[rung] for *_, s in outcomes) for rung in ("first_pass", "peer", "logger")},
    }


def _show(report: dict[str, Any]) -> None:
    title = f"{report['events']:,} events of {report['size']} B to {report['subscribers']} subscribers"
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_row("events/s at the slowest", f"{report['events_per_s']:,.0f}")
    table.add_row("one-way latency, p50", f"{report['latency_us']['p50']:,.0f} us")
    table.add_row("one-way latency, p99", f"{report['latency_us']['p99']:,.0f} us")
    table.add_row("lost", f"{report['lost']:,}")
    for rung, count in report["received"].items():
        table.add_row(f"by {rung.replace('_', ' ')}", f"{count:,}")
    Console().print(table)
