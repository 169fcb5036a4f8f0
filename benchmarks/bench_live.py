"""Gossamer side by side with its peers: real processes, every event counted and checked in order at every subscriber.

One publisher process, 2 and 8 subscriber processes. Throughput is events/s from the publisher's first call until the
slowest subscriber has the last event; "lone events" are published one per turn of the publisher's event loop. Latency
is one way, from the publisher's call until the subscriber has the event, by one clock, at the slowest subscriber.
Rounds of all systems are interleaved and the median is printed, with ratios against the best peer of the same run or,
if only ours are asked for, against the first of them. A system that lost or reordered an event, or did not finish,
gets no number.

`--namespace` puts publisher and subscribers into two network namespaces with a link of MTU 1500 between them, on which
the kernel drops packets at random, in both directions and for all systems alike (needs root, `ip`, `nft`, `ethtool`).
It drops single packets: senders split them before the link (GSO, TSO) and receivers may join them again after it
(GRO), as on hosts with real network cards.

What the numbers do not show: a network with a delay of its own; senders on several machines; anything while other
programs run (look at the load in the first line); memory (pyzmq's queues are unbounded here; Zenoh, NATS and Gossamer
hold the publisher back); the durability that a logger adds; what an application does with an event beyond looking at
it. Events of one subject and one size are the easy case. NATS has a server in between and was made for other purposes.

    python benchmarks/bench_live.py [--quick] [--namespace | --all] [--systems gossamer,zmq] [--out TABLES.md]
"""

import argparse
import asyncio
import signal
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from live_runner import Cell, Failed, Host, Measured, Place, be_quiet, measure
from live_systems import SYSTEMS, System
from live_tables import DEFAULT_LOOP, choose, end_gently, machine, note, row

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.netns import Network, Unavailable

OF_AN_ORDER = ("graph", "non-atomic", "bare-fifo", "bare-order")
"""See `bench_order.py`."""
DEFAULT_SYSTEMS = ",".join(name for name in SYSTEMS if name not in OF_AN_ORDER)
RATES = (1_000, 10_000)
LOSSES = (0, 1, 5)


@dataclass(slots=True)
class Section:
    """A table: columns are cells, rows are systems."""

    title: str
    cells: dict[str, Cell]
    loss: int | None = None
    """Percent, in a namespace; None on loopback."""
    results: dict[tuple[str, str], list[Measured | Failed]] = field(default_factory=dict)

    @property
    def is_latency(self) -> bool:
        """Whether smaller is better."""
        return any(cell.rate for cell in self.cells.values())

    @property
    def kind(self) -> str:
        """The word for it on the command line."""
        if self.is_latency:
            return "latency"
        return "lone" if any(cell.lone for cell in self.cells.values()) else "throughput"

    def of(self, systems: list[System]) -> list[System]:
        """The systems in this table: one that repairs nothing serves only as a lower bound for latencies."""
        return [system for system in systems if self.is_latency or not system.bare]

    def values(self, system: System, column: str) -> tuple[float, ...] | None:
        """Medians over the rounds: events/s, or p50 and p99 in microseconds; None if a round failed."""
        rounds = self.results.get((system.key, column), [])
        good = [r for r in rounds if isinstance(r, Measured)]
        if not rounds or len(good) < len(rounds):
            return None
        if self.is_latency:
            return median(r.p50_us for r in good), median(r.p99_us for r in good)
        return (median(r.rate for r in good),)

    def failures(self) -> list[str]:
        """Why numbers are missing, one line each."""
        return [
            f"{SYSTEMS[key].name}, {column}: {failed}"
            for (key, column), rounds in self.results.items()
            for failed in rounds
            if isinstance(failed, Failed)
        ]

    def ours_failed(self) -> bool:
        """Whether a round of Gossamer failed."""
        return any(
            isinstance(r, Failed) for (key, _), rounds in self.results.items() if SYSTEMS[key].ours for r in rounds
        )


def sections(options: argparse.Namespace) -> list[Section]:
    """The tables that the options ask for."""
    made: list[Section] = []
    base = Cell(64, 2, seconds=options.seconds, loop=options.loop)
    if options.all or not options.namespace:
        cells = {
            f"{name} x{n}": replace(base, size=size, subscribers=n)
            for name, size in (("64 B", 64), ("1 KB", 1024))
            for n in (2, 8)
        }
        made.append(Section("Throughput, loopback, events/s at the slowest subscriber", cells))
        alone = {f"{n} subscribers": replace(base, size=1024, subscribers=n, lone=True) for n in (2, 4)}
        made.append(Section("Lone events, loopback, 1 KB, one per turn of the publisher's loop, events/s", alone))
        made.append(Section("Latency one way, loopback, 64 B, 2 subscribers, p50 / p99 in us", paced(base)))
    if options.all or options.namespace:
        for loss in LOSSES:
            pair = {"64 B x2": base, "1 KB x2": replace(base, size=1024)}
            where = f"MTU 1500, {loss}% of packets lost"
            made.append(Section(f"Throughput, {where}, events/s at the slowest subscriber", pair, loss))
            made.append(Section(f"Latency one way, {where}, 64 B, 2 subscribers, p50 / p99 in us", paced(base), loss))
    wanted = options.only
    return [s for s in made if not wanted or wanted == s.kind]


def paced(base: Cell) -> dict[str, Cell]:
    """The cells of a table of latencies."""
    return {f"{rate:,}/s": replace(base, rate=rate) for rate in RATES}


async def run_section(section: Section, systems: list[System], rounds: int, place: Place) -> None:
    """Every cell for every system, round by round."""
    for number in range(rounds):
        for column, cell in section.cells.items():
            for system in section.of(systems):
                try:
                    result: Measured | Failed = await measure(system, replace(cell, place=place))
                except Failed as failed:
                    result = failed
                section.results.setdefault((system.key, column), []).append(result)
                note(f"round {number + 1}/{rounds}  {column:9} {system.name:18} {shown(result)}")


async def run_all(made: list[Section], systems: list[System], rounds: int) -> None:
    """Measure every table, loopback first; namespaces exist only while their tables need them."""
    end_gently()
    for section in made:
        note(f"== {section.title}")
        if section.loss is None:
            await run_section(section, systems, rounds, Place())
            continue
        with Network(2) as network:
            network.lose(section.loss)
            here, there = (Host.on(node) for node in network.nodes)
            place = Place(here, (there,))
            await run_section(section, systems, rounds, place)


def shown(result: Measured | Failed) -> str:
    """One round, summarized."""
    if isinstance(result, Failed):
        return f"FAILED: {result}"
    cpu = f"cpu/event: publisher {result.publisher_cpu_us:.2f} us, subscriber {result.subscriber_cpu_us:.2f} us"
    if result.p50_us:
        return f"p50 {result.p50_us:,.0f} us, p99 {result.p99_us:,.0f} us, max {result.max_us:,.0f} us; {cpu}"
    return f"{result.rate:,.0f} events/s ({result.events:,} in {result.seconds:.1f} s); {cpu}"


def table(section: Section, systems: list[System]) -> list[str]:
    """A table in Markdown: a row for each system, and a row of ratios for each of ours."""
    lines = [f"### {section.title}", ""]
    lines += [row(["", *section.cells]), row(["---"] * (1 + len(section.cells)))]
    for system in section.of(systems):
        values = [section.values(system, column) for column in section.cells]
        lines.append(row([system.name, *(cell_text(v) for v in values)]))
    for system in systems:
        beside = beside_which(system, systems)
        if system.ours and beside:
            name = beside[0].name if beside[0].ours else "best peer"
            ratios = [ratio(section, system, beside, column) for column in section.cells]
            lines.append(row([f"{system.name} / {name}", *ratios]))
    lines += [""] + [f"- no number: {failure}" for failure in section.failures()]
    return lines


def cell_text(values: tuple[float, ...] | None) -> str:
    """One median or two, or "failed"."""
    return "failed" if values is None else " / ".join(f"{value:,.0f}" for value in values)


def beside_which(system: System, systems: list[System]) -> list[System]:
    """What `system` is compared with: all peers or, if there is none in this run, the first of ours."""
    peers = [other for other in systems if not (other.ours or other.bare)]
    return peers or [other for other in systems[:1] if other is not system]


def ratio(section: Section, system: System, beside: list[System], column: str) -> str:
    """Ours over the best of the others, number by number."""
    mine = section.values(system, column)
    peers = [v for peer in beside if (v := section.values(peer, column)) is not None]
    if mine is None or not peers:
        return "-"
    best = [(min if section.is_latency else max)(numbers) for numbers in zip(*peers, strict=True)]
    return " / ".join(f"{m / b:.2f}" for m, b in zip(mine, best, strict=True))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Gossamer beside pyzmq, Zenoh and NATS.")
    parser.add_argument("--quick", action="store_true", help="one short round: a look, not a measurement")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--namespace", action="store_true", help="only the lossy link of MTU 1500 between namespaces")
    where.add_argument("--all", action="store_true", help="loopback and namespaces")
    parser.add_argument("--only", choices=["throughput", "lone", "latency"])
    parser.add_argument("--systems", default=DEFAULT_SYSTEMS, help=f"default: {DEFAULT_SYSTEMS}")
    parser.add_argument("--rounds", type=int, help="default 3, quick 1")
    parser.add_argument("--seconds", type=float, help="length of a round, default 2, quick 0.5")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default=DEFAULT_LOOP)
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.seconds = options.seconds or (0.5 if options.quick else 2.0)
    return options


def main() -> None:
    """Measure, print, and fail if an event of ours was missing anywhere."""
    options = parse()
    be_quiet()
    systems, made = choose(options.systems), sections(options)
    lines = [machine(options.loop, options.rounds), ""]
    try:
        asyncio.run(run_all(made, systems, options.rounds))
    except Unavailable as reason:
        note(f"SKIPPED the namespaces: {reason}")
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    for section in made:
        if section.results:
            lines += [*table(section, systems), ""]
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text, "utf-8")
    sys.exit(any(section.ours_failed() for section in made))


if __name__ == "__main__":
    main()
