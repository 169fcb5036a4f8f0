"""What one order for all costs, live: events/s and latency with FIFO, with one order, and with JGroups' SEQUENCER.

One order is measured as it is by default; with non-atomic failures, which delivers an event as soon as its place is
known (002 §5.2.1); and with packets that go to the primary and down the graph (002 §3.2).

Real processes on loopback, 64 B, one publisher, 2 and 8 subscribers, in one run and in turn, as `bench_live.py` does.
JGroups has the stack that it ships for one order (`sequencer.xml`), of the version that is installed (Debian's
libjgroups-java is 2.12); it packs small messages for up to 30 ms, which is in its latency. Its worker,
`JGroupsWorker.java`, is compiled first; without `javac` or the library it is skipped, and said so.

The latencies stand beside those of bare sockets (`bare_sockets.py`), which exchange as many messages and do nothing
else: how much of what one order costs beside FIFO is in the messages, and how much in us.

What the numbers do not show: several publishers; a network with a delay, where one order costs up to three latencies
more than FIFO; members that fail. The processes share the machine's cores: with two of them, each message about the
order takes time from the subscribers.

    python benchmarks/bench_order.py [--quick] [--only throughput|latency|floor] [--out TABLES.md]
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench_live import Section, cell_text, run_section
from live_runner import Cell, Place, be_quiet
from live_systems import SYSTEMS, System
from live_tables import DEFAULT_LOOP, end_gently, machine, note, row
from live_worker import Plan

JAR = Path("/usr/share/java/jgroups.jar")
SOURCE = Path(__file__).with_name("JGroupsWorker.java")
FIFO = SYSTEMS["gossamer"]
ORDERED = [SYSTEMS[key] for key in ("total", "non-atomic", "graph")]
WARM_S = 2.5
"""Latencies are those of an order that goes on: until then the publisher has become its primary (`order_patience`)."""
FLOOR = [SYSTEMS[key] for key in ("bare-fifo", "bare-order")]


def command(classes: str, role: str, plan: Plan) -> Sequence[str]:
    """How to start one end of JGroups."""
    properties = {
        "jgroups.bind_addr": plan.interface,
        "jgroups.udp.mcast_addr": "239.192.77.9",
        "jgroups.udp.mcast_port": plan.port,
        "jgroups.udp.ip_ttl": 0,
        "java.net.preferIPv4Stack": "true",
    }
    options = ["-Xmx512m", *(f"-D{name}={value}" for name, value in properties.items())]
    return ["java", *options, "-cp", f"{JAR}:{classes}", SOURCE.stem, role, str(plan.size), str(plan.paced).lower()]


@contextmanager
def jgroups() -> Iterator[list[System]]:
    """JGroups, compiled; nothing if it cannot be had here."""
    with tempfile.TemporaryDirectory() as classes:
        if not shutil.which("javac"):
            reason = "no javac"
        elif not JAR.exists():
            reason = f"no {JAR} (Debian: libjgroups-java)"
        else:
            compiled = subprocess.run(
                ["javac", "-cp", str(JAR), "-d", classes, str(SOURCE)], capture_output=True, text=True, check=False
            )
            reason = compiled.stderr
        if reason:
            note(f"SKIPPED JGroups: {reason}")
            yield []
        else:
            made = partial(command, classes)
            SYSTEMS["jgroups"] = System("jgroups", "JGroups SEQUENCER", FIFO.publisher, FIFO.subscriber, command=made)
            yield [SYSTEMS["jgroups"]]


def sections(seconds: float) -> list[Section]:
    """The two tables."""
    rates = {f"{n} subscribers": Cell(64, n, seconds=seconds, loop=DEFAULT_LOOP) for n in (2, 8)}
    made = {f"{n} subscribers": Cell(64, n, rate=1000, seconds=seconds, loop=DEFAULT_LOOP) for n in (2, 8)}
    paced = {name: replace(cell, warm_s=WARM_S) for name, cell in made.items()}
    return [
        Section("Throughput, loopback, 64 B, events/s at the slowest subscriber", rates),
        Section("Latency one way at 1,000 events/s, loopback, 64 B, p50 / p99 in us", paced),
    ]


def table(section: Section, systems: list[System]) -> list[str]:
    """A row for each system, and what each kind of one order costs beside FIFO and JGroups."""
    lines = [f"### {section.title}", "", row(["", *section.cells]), row(["---"] * (1 + len(section.cells)))]
    for system in section.of(systems):
        lines.append(row([system.name, *(cell_text(section.values(system, column)) for column in section.cells)]))
    for one, other in pairs(section.of(systems)):
        ratios = [ratio(section, one, other, column) for column in section.cells]
        lines.append(row([f"{one.name} / {other.name}", *ratios]))
    return lines + [""] + [f"- no number: {failure}" for failure in section.failures()]


def pairs(systems: list[System]) -> list[tuple[System, System]]:
    """What is compared: kinds of one order with FIFO and JGroups, bare sockets with each other, and ours with those."""
    bare_fifo, bare_order = FLOOR
    kinds = [system for system in systems if system in ORDERED]
    others = [system for system in systems if system not in (*ORDERED, *FLOOR)]
    made = [(kind, other) for kind in kinds for other in others]
    made += [(bare_order, bare_fifo), (FIFO, bare_fifo), (ORDERED[0], bare_order)]
    return [pair for pair in made if all(system in systems for system in pair)]


def ratio(section: Section, ours: System, other: System, column: str) -> str:
    """One system over another, number by number."""
    mine, theirs = section.values(ours, column), section.values(other, column)
    if mine is None or theirs is None:
        return "-"
    return " / ".join(f"{m / t:.2f}" for m, t in zip(mine, theirs, strict=True))


async def run(made: list[Section], systems: list[System], rounds: int) -> None:
    """Measure both tables, round by round."""
    end_gently()
    for section in made:
        note(f"== {section.title}")
        await run_section(section, systems, rounds, Place())


def main() -> None:
    """Measure, print, and fail if an event of ours was missing anywhere."""
    parser = argparse.ArgumentParser(description="One order beside FIFO and JGroups' SEQUENCER.")
    parser.add_argument("--quick", action="store_true", help="one short round: a look, not a measurement")
    parser.add_argument("--only", choices=["throughput", "latency", "floor"])
    parser.add_argument("--without-jgroups", action="store_true")
    parser.add_argument("--rounds", type=int, help="default 3, quick 1")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    be_quiet()
    rounds = options.rounds or (1 if options.quick else 3)
    wanted = "latency" if options.only == "floor" else options.only
    made = [s for s in sections(0.5 if options.quick else 2.0) if wanted in (None, s.kind)]
    lines = [machine(DEFAULT_LOOP, rounds), ""]
    with jgroups() as others:
        systems = [FIFO, *ORDERED, *FLOOR, *([] if options.without_jgroups else others)]
        if options.only == "floor":
            systems = FLOOR
        asyncio.run(run(made, systems, rounds))
    for section in made:
        lines += [*table(section, systems), ""]
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text, "utf-8")
    sys.exit(any(section.ours_failed() for section in made))


if __name__ == "__main__":
    main()
