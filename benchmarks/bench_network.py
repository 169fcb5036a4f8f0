"""Gossamer beside pyzmq and Zenoh on an emulated network: links with bandwidth, queues, delay and loss.

One publisher, 2 to 6 subscribers, each on a host of its own (a network namespace) behind a port of `switch.c`, with a
queue of 256 KB. Events of 1 KB, as fast as the publisher may, from a cold start. Every event is counted and checked in
order at every subscriber. The columns:

- events/s: at the slowest subscriber, the slow one of a row apart; then as a share of what the bottleneck carries (for
  systems that send a copy to each subscriber, too), and relative to pyzmq over TCP in the same run
- lost: at each subscriber; what came to it repeated or in the wrong order is counted as wrong
- dropped: the share of packets that the worst queue dropped, in all and after the first second
- repaired: the share of deliveries that were repairs, at the subscriber with most of them
- twice: packets that came more than once, as a share of deliveries, at the subscriber with most of them
- queue: how long packets waited in the worst queue, on average and at most
- TCP beside: what one TCP connection got on the same bottleneck meanwhile, as a share of what it could get alone
- processor: the share of all cores that was busy. Near 100%, it is the limit, not the network

What the numbers do not show: hardware (all hosts, and the switch, share the cores of one machine), several publishers,
several switches. A switch that does not keep up invalidates a row, and the row says so.

    python benchmarks/bench_network.py [--quick] [--rows 100m,slow] [--systems sealed,zmq] [--out TABLE.md]
"""

import argparse
import asyncio
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

from live_runner import Failed, be_quiet
from live_systems import System
from live_tables import DEFAULT_LOOP, choose, end_gently, machine, note, row
from network_rows import ROWS, TCP_GOODPUT, Row
from network_runner import Outcome, observe

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.netns import Unavailable, check_available

DEFAULT_SYSTEMS = "sealed,zmq,zenoh"
SPEED = ("events/s", "of link", "of TCP", "lost")
HEAD = ("", *SPEED, "dropped", "after 1 s", "repaired", "twice", "queue ms", "TCP beside")


@dataclass(slots=True)
class Results:
    """All rounds so far."""

    of: dict[tuple[str, str], Outcome | Failed] = field(default_factory=dict)

    def good(self, key: str, system: str) -> Outcome | None:
        """The outcome, if there is one."""
        outcome = self.of.get((key, system))
        return outcome if isinstance(outcome, Outcome) else None


async def run_all(rows: list[Row], systems: list[System], options: argparse.Namespace) -> Results:
    """Every system on every network."""
    end_gently()
    results = Results()
    for place in rows:
        note(f"== {place.title}")
        for system in systems:
            if place.logger and not system.logger:
                continue
            try:
                outcome: Outcome | Failed = await observe(system, place, options.seconds, options.loop, options.tcp)
            except Failed as failed:
                outcome = failed
            results.of[place.key, system.key] = outcome
            note(f"{system.name:18} {' | '.join(cells(place, system, results)[1:])}")
            if options.trace and isinstance(outcome, Outcome):
                trace(outcome)
    return results


def cells(place: Row, system: System, results: Results) -> list[str]:
    """One line of the table."""
    outcome = results.of[place.key, system.key]
    if isinstance(outcome, Failed):
        return [system.name, f"FAILED: {outcome}", *["-"] * (len(HEAD) - 1)]
    in_all, later, _ = outcome.drops()
    repaired = outcome.repaired()
    mean_ms, most_ms = outcome.wait_ms()
    return [
        system.name,
        speed(place, outcome),
        share(outcome.slowest, place.link(copies=not system.ours)),
        versus_tcp(place, outcome, results),
        losses(place, outcome),
        f"{in_all:.1%}",
        f"{later:.1%}",
        "-" if repaired is None else f"{repaired:.1%}",
        "-" if repaired is None else f"{outcome.repeated():.1%}",
        f"{mean_ms:.1f} / {most_ms:.0f}",
        share(outcome.tcp_mbit(), place.mbit * TCP_GOODPUT) if place.tcp else "-",
        f"{outcome.busy():.0%}" + complaints(outcome),
    ]


def speed(place: Row, outcome: Outcome) -> str:
    """Events/s, or latencies at the slowest subscriber."""
    if not place.rate:
        slow = "".join(f" (slow: {outcome.rate(n):,.0f})" for n in range(place.healthy, place.subscribers))
        return f"{outcome.slowest:,.0f}{slow}"
    p50, p99 = (max(report[key] for report in outcome.heard) / 1e3 for key in ("p50_us", "p99_us"))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"


def share(part: float, whole: float) -> str:
    """A percentage, if there is a whole."""
    return f"{part / whole:.0%}" if whole else "-"


def versus_tcp(place: Row, outcome: Outcome, results: Results) -> str:
    """Events/s over pyzmq's; latency over pyzmq's."""
    other = results.good("slow" if place.logger else place.key, "zmq")
    if other is None:
        return "-"
    if place.rate:
        mine, its = (max(report["p99_us"] for report in o.heard) for o in (outcome, other))
        return f"{mine / its:.2f} (p99)"
    return f"{outcome.slowest / other.slowest:.2f}"


def losses(place: Row, outcome: Outcome) -> str:
    """At each subscriber, the slow one in parentheses."""
    lost = [f"{n:,}" if at < place.healthy else f"(slow: {n:,})" for at, n in enumerate(outcome.lost)]
    if not all(report["finished"] for report in outcome.heard):
        return "the slow one is left waiting"
    wrong = sum(report["wrong"] for report in outcome.heard)
    why = f" ({', '.join(outcome.reasons())})" if outcome.reasons() else ""
    text = "0" if not any(outcome.lost) else f"{' '.join(lost)} of {outcome.events:,}{why}"
    return text + (f", {wrong:,} wrong" if wrong else "")


def complaints(outcome: Outcome) -> str:
    """What spoils the numbers."""
    texts = [
        f"the switch missed {outcome.unread:,}" if outcome.unread else "",
        f"sockets overran {outcome.overrun:,}" if outcome.overrun else "",
    ]
    return "".join(f"; {text}" for text in texts if text)


def trace(outcome: Outcome) -> None:
    """The round in time: what each link carried, dropped and held, at short intervals."""
    began = outcome.sent["started"]
    for old, new in zip(outcome.samples, outcome.samples[1:], strict=False):
        seconds = (new.at - old.at) / 1e9
        texts = []
        for number, (before, after) in enumerate(zip(old.queues, new.queues, strict=True)):
            for way in ("up", "down"):
                mbit = (after[way]["bytes"] - before[way]["bytes"]) * 8 / seconds / 1e6
                dropped = after[way]["dropped"] - before[way]["dropped"]
                if mbit > 0.5:
                    waited = after[way]["waited_max_us"] / 1e3
                    texts.append(f"{way[0]}{number} {mbit:5.1f} M{f' -{dropped}' if dropped else ''} {waited:.1f} ms")
        note(f"  {(new.at - began) / 1e9:6.2f} s  {'  '.join(texts)}")


def table(rows: list[Row], systems: list[System], results: Results) -> list[str]:
    """The whole in Markdown."""
    head = (*HEAD, "processor")
    lines = [row(head), row(["---"] * len(head))]
    for place in rows:
        link = f"{place.link(copies=False):,.0f}" if place.mbit else "-"
        lines.append(row([f"**{place.title}**", f"link: {link}", *[""] * (len(head) - 2)]))
        lines += [row(cells(place, s, results)) for s in systems if (place.key, s.key) in results.of]
    return lines


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Gossamer beside pyzmq and Zenoh on an emulated network.")
    parser.add_argument("--quick", action="store_true", help="short rounds: a look, not a measurement")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"default: {','.join(ROWS)}")
    parser.add_argument("--systems", default=DEFAULT_SYSTEMS, help=f"default: {DEFAULT_SYSTEMS}")
    parser.add_argument("--seconds", type=float, help="length of a round, default 5, quick 2")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default=DEFAULT_LOOP)
    parser.add_argument("--tcp", default="", help="of the TCP connection beside: cubic, bbr; default: the machine's")
    parser.add_argument("--trace", action="store_true", help="also print what the links did, every tenth of a second")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    options.seconds = options.seconds or (2.0 if options.quick else 5.0)
    if unknown := [key for key in options.rows.split(",") if key not in ROWS]:
        parser.error(f"no row {unknown[0]!r}; choose from {', '.join(ROWS)}")
    return options


def main() -> None:
    """Measure and print; fails if a healthy subscriber of ours missed an event, or was not served at all."""
    options = parse()
    be_quiet()
    rows, systems = [ROWS[key] for key in options.rows.split(",")], choose(options.systems)
    tcp = f"TCP: {own_tcp()}, beside: {options.tcp or own_tcp()}"
    first = f"{machine(options.loop, 1)}, rounds of {options.seconds:.0f} s, {tcp}"
    try:
        check_available()
        results = asyncio.run(run_all(rows, systems, options))
    except Unavailable as reason:
        note(f"SKIPPED everything: {reason}")
        return
    except asyncio.CancelledError:
        raise SystemExit(128 + signal.SIGTERM) from None
    text = "\n".join([first, "", *table(rows, systems, results), ""])
    print(text)
    if options.out:
        options.out.write_text(text, "utf-8")
    sys.exit(any(failed(place, results.of.get((place.key, s.key))) for place in rows for s in systems if s.ours))


def own_tcp() -> str:
    """The congestion control of this machine."""
    return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text("ascii").strip()


def failed(place: Row, outcome: Outcome | Failed | None) -> bool:
    """Whether a healthy subscriber has missed something; with a logger, whether any has."""
    if outcome is None or isinstance(outcome, Failed):
        return outcome is not None
    return any(outcome.lost if place.logger else outcome.lost[: place.healthy])


if __name__ == "__main__":
    main()
