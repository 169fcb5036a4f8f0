"""The log store beside SQLite: synced appends, reads and collection of packets of 1,400 bytes.

Both write the same packets in the same batches, one synced transaction per batch (SQLite in WAL mode with
`synchronous=FULL`, one row per packet, rowid-less table by sender and number). The runs alternate, so that a busy
machine slows both, and the medians are compared. Reads check every packet's CRC-32 on both sides.

What the numbers do not show: a disk that is slower than the machine (then both wait for the same sync), a cold page
cache, and many senders with one packet each, where a block of the store holds only one packet.

    python benchmarks/bench_store.py [--quick]
"""

import os
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter
from zlib import crc32

from gossamer.core.ranges import RangeSet
from gossamer.store import LogEntry, open_store

QUICK = "--quick" in sys.argv
PACKETS = 20_000 if QUICK else 100_000
ROUNDS = 3 if QUICK else 5
SENDER = 7
Times = dict[str, float]


def entries() -> list[LogEntry]:
    """The packets to store; all are different."""
    random = Random(1)
    return [LogEntry(SENDER, seqno, seqno, random.randbytes(1_400)) for seqno in range(PACKETS)]


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes."""
    started = perf_counter()
    work()
    return perf_counter() - started


def batches(packets: list[LogEntry], size: int) -> list[list[LogEntry]]:
    """The packets, `size` at a time."""
    return [packets[at : at + size] for at in range(0, len(packets), size)]


def run_store(folder: Path, packets: list[LogEntry], size: int) -> Times:
    """One run of ours."""
    with open_store(folder) as store:

        def append() -> None:
            for batch in batches(packets, size):
                store.append(batch)

        def read() -> None:
            assert sum(1 for _ in store.read(SENDER, 0, PACKETS)) == PACKETS

        def read_one() -> None:
            for seqno in range(0, PACKETS, PACKETS // 1_000):
                (found,) = store.read(SENDER, seqno, seqno)
                assert found.seqno == seqno

        times = {"append": timed(append), "read": timed(read), "read one": timed(read_one)}
        times["bytes"] = store.bytes_used()
        times["collect"] = timed(lambda: store.collect({SENDER: RangeSet([(0, PACKETS // 2 - 1)])}))
        return times


def run_sqlite(folder: Path, packets: list[LogEntry], size: int) -> Times:
    """One run of SQLite."""
    folder.mkdir()
    database = sqlite3.connect(folder / "log.sqlite", isolation_level=None)
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=full")
    database.execute(
        "create table packets (sender integer, seqno integer, time integer, checksum integer, datagram blob,"
        " primary key (sender, seqno)) without rowid"
    )
    select = "select seqno, time, checksum, datagram from packets where sender = ? and seqno between ? and ?"

    def append() -> None:
        for batch in batches(packets, size):
            database.execute("begin immediate")
            rows = [(sender, seqno, time, crc32(datagram), datagram) for sender, seqno, time, datagram in batch]
            database.executemany("insert or ignore into packets values (?, ?, ?, ?, ?)", rows)
            database.execute("commit")

    def read(first: int = 0, last: int = PACKETS) -> int:
        count = 0
        for _, _, checksum, datagram in database.execute(select, (SENDER, first, last)):
            assert crc32(datagram) == checksum
            count += 1
        return count

    def read_one() -> None:
        for seqno in range(0, PACKETS, PACKETS // 1_000):
            assert read(seqno, seqno) == 1

    delete = "delete from packets where sender = ? and seqno < ?"
    times = {"append": timed(append), "read": timed(read), "read one": timed(read_one)}
    database.execute("pragma wal_checkpoint(truncate)")
    times["bytes"] = (folder / "log.sqlite").stat().st_size
    times["collect"] = timed(lambda: database.execute(delete, (SENDER, PACKETS // 2)))
    database.close()
    return times


def median(runs: list[Times], what: str) -> float:
    """The median of one measurement over all runs."""
    return statistics.median(run[what] for run in runs)


def compare(size: int, packets: list[LogEntry]) -> None:
    """Measure both with batches of one size, alternately, and print the medians."""
    ours: list[Times] = []
    theirs: list[Times] = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        for number in range(ROUNDS):
            ours.append(run_store(Path(folder, f"ours{number}"), packets, size))
            theirs.append(run_sqlite(Path(folder, f"theirs{number}"), packets, size))
    print(f"\nbatches of {size:,}, median of {ROUNDS} runs")
    print(f"{'':28} {'store':>14} {'SQLite':>14} {'ratio':>7}")
    counts = {"append": PACKETS, "read": PACKETS, "read one": 1_000, "collect": PACKETS // 2}
    for what, count in counts.items():
        mine, other = count / median(ours, what), count / median(theirs, what)
        print(f"{what + ', packets/s':28} {mine:14,.0f} {other:14,.0f} {mine / other:7.1f}")
    mine, other = (median(runs, "bytes") / PACKETS for runs in (ours, theirs))
    print(f"{'bytes on disk per packet':28} {mine:14,.0f} {other:14,.0f} {mine / other:7.2f}")


def main() -> None:
    """Measure and print everything."""
    packets = entries()
    print(f"{PACKETS:,} packets of 1,400 bytes, synced")
    for size in (100, 1_000):
        compare(size, packets)


if __name__ == "__main__":
    main()
