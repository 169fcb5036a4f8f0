"""Events to bytes and back, and sealing: how much of one core they take.

Each number is the best of several short runs in one process: events/s packed (`add_many` for runs, `add` for single
events) and unpacked, for small and large events in packets of Ethernet and of loopback size; bytes/s sealed and
opened, and the cost of a datagram that is refused. `now` above the table is the cost of an empty call: on a busy or
slower machine all numbers scale with it.

What the numbers do not show: sockets, the protocol, the subscriber's own work; the garbage collector with more live
objects than one packet's events (the last column runs without it); page faults of large datagrams that are kept (here
they are dropped at once); and payloads that are not in the cache.

    python benchmarks/bench_wire.py [--quick]
"""

import gc
import sys
from collections.abc import Callable
from random import Random
from time import perf_counter

from gossamer.core.packets import Packet
from gossamer.wire.codec import checksummed
from gossamer.wire.events import Packer, unpack
from gossamer.wire.sealing import SALT_BYTES, KeyRing, Opener, Sealer

SECONDS = 0.02 if "--quick" in sys.argv else 0.1
REPEATS = 5 if "--quick" in sys.argv else 9
SUBJECT = "quotes.nyse.ibm"
ATTRIBUTES = {"price": 101.5, "size": 100}
WITH_TEXT = {"price": 101.5, "size": 100, "venue": "NYSE"}


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of one call of `work`, the best of several runs."""
    started = perf_counter()
    work()
    calls = max(1, int(SECONDS / (perf_counter() - started)))
    best = float("inf")
    for _ in range(REPEATS):
        started = perf_counter()
        for _ in range(calls):
            work()
        best = min(best, (perf_counter() - started) / calls)
    return best


def without_gc(work: Callable[[], object]) -> float:
    """The same with the garbage collector off."""
    gc.disable()
    try:
        return seconds_of(work)
    finally:
        gc.enable()


def row(name: str, packet_bytes: int, count: int, pack: Callable[[], object], body: bytes) -> None:
    """Measure one kind of packet and print it."""
    packet = Packet(1, 2, body)
    assert len(unpack(packet)) == count
    packing, unpacking, quiet = seconds_of(pack), seconds_of(lambda: unpack(packet)), without_gc(lambda: unpack(packet))
    print(
        f"{name:34} {packet_bytes:7,} {count:6} {count / packing / 1e6:8.2f} M/s {1e9 * packing / count:7.0f} ns"
        f" {count / unpacking / 1e6:8.2f} M/s {1e9 * unpacking / count:7.0f} ns {count / quiet / 1e6:8.2f} M/s"
    )


def bench_many(name: str, payloads: list[bytes], packet_bytes: int) -> None:
    """Measure a run of events of one subject."""
    packer = Packer(packet_bytes)
    count = packer.add_many(SUBJECT, payloads)

    def pack() -> bytes:
        packer.add_many(SUBJECT, payloads)
        return packer.body(1)

    row(f"{name}, add_many", packet_bytes, count, pack, packer.body(1))


def bench_single(name: str, events: list[tuple], packet_bytes: int) -> None:
    """Measure events one by one."""
    packer = Packer(packet_bytes)
    count = next(n for n, event in enumerate(events) if not packer.add(*event))
    body = packer.body(1)

    def pack() -> bytes:
        add = packer.add
        for event in events[:count]:
            add(*event)
        return packer.body(1)

    row(f"{name}, add", packet_bytes, count, pack, body)


def bench_events(packet_bytes: int) -> None:
    """Measure all kinds of events in packets of one size."""
    random = Random(1)
    small, large = [b"x" * 64] * 2000, [b"x" * 1024] * 100
    varied = [bytes(random.randrange(20, 108)) for _ in range(4000)]
    names = [f"quotes.nyse.{random.randrange(50)}" for _ in range(2000)]
    bench_many("64 B", small, packet_bytes)
    bench_many("1 KB", large, packet_bytes)
    bench_many("20-107 B", varied, packet_bytes)
    bench_single("64 B", [(SUBJECT, p) for p in small], packet_bytes)
    bench_single("1 KB", [(SUBJECT, p) for p in large], packet_bytes)
    bench_single("20-107 B", [(SUBJECT, p) for p in varied], packet_bytes)
    bench_single("64 B, 50 subjects", list(zip(names, small, strict=True)), packet_bytes)
    bench_single("64 B, 2 numbers", [(SUBJECT, p, ATTRIBUTES) for p in small], packet_bytes)
    bench_single("64 B, 2 numbers, 1 string", [(SUBJECT, p, WITH_TEXT) for p in small], packet_bytes)
    bench_single("1 KB, 2 numbers", [(SUBJECT, p, ATTRIBUTES) for p in large], packet_bytes)


def bench_sealing(packet_bytes: int) -> None:
    """Measure sealing and opening datagrams of one size, and refusing forged and replayed ones."""
    random = Random(1)
    keys = KeyRing([random.randbytes(32)])
    sealer, opener = Sealer(keys, random.randbytes(SALT_BYTES)), Opener(keys)
    datagram = checksummed(b"G\x02\x01\x00" + bytes(packet_bytes - 8))
    batch = [datagram] * 20
    sealing = seconds_of(lambda: sealer.seal_many(batch)) / 20
    fresh: list[bytes] = []
    opening = float("inf")
    for _ in range(REPEATS):
        fresh = sealer.seal_many(batch)
        started = perf_counter()
        opened = opener.open_many(fresh)
        opening = min(opening, (perf_counter() - started) / 20)
        assert opened == batch
    replayed = seconds_of(lambda: opener.open_many(fresh)) / 20
    forged = [d[:20] + random.randbytes(SALT_BYTES) + d[20 + SALT_BYTES :] for d in fresh]
    forging = seconds_of(lambda: opener.open_many(forged)) / 20
    print(
        f"{packet_bytes:7,} {packet_bytes / sealing / 1e9:6.2f} GB/s {1e6 * sealing:6.2f} us"
        f" {packet_bytes / opening / 1e9:6.2f} GB/s {1e6 * opening:6.2f} us"
        f" {1e6 * replayed:9.2f} us {1e6 * forging:9.2f} us"
    )


def main() -> None:
    """Measure and print everything."""
    print(f"now: an empty call takes {1e9 * (seconds_of(lambda: [f() for f in [int] * 1000]) / 1000):.0f} ns")
    print(
        f"{'events':34} {'packet':>7} {'events':>6} {'packed':>12} {'each':>10} {'unpacked':>12} {'each':>10}   no gc"
    )
    for packet_bytes in (1_400, 60_000):
        bench_events(packet_bytes)
    print(f"\n{'packet':>7} {'sealed':>11} {'each':>9} {'opened':>11} {'each':>9} {'replayed':>12} {'forged':>12}")
    for packet_bytes in (1_400, 60_000):
        bench_sealing(packet_bytes)


if __name__ == "__main__":
    main()
