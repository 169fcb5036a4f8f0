"""How fast Spark reads events from the log, beside the same events from Parquet, in one run.

A million events of 200 bytes from four senders, packed as a member packs them for a network (1,400-byte packets) and,
in a second log, for loopback (as large as a datagram gets). A query that touches every column of every row reads the
two sources alternately for several rounds; the best rounds and their ratio count. Parquet is what Spark itself writes
from the log (snappy), which is Spark's own fastest format, read by Java; ours is read by Python. Payloads are random
bytes, so neither side gains by compression. Both files are in the page cache, so the disk plays no part.

Run it with `python benchmarks/bench_spark.py [EVENTS] [ROUNDS]`.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from gossamer.core.messages import Data
from gossamer.core.packets import Packet
from gossamer.pipeline import LogSource
from gossamer.pipeline.session import running
from gossamer.store import LogEntry, open_store
from gossamer.wire import Header, encode
from gossamer.wire.codec import DATA_BYTES
from gossamer.wire.events import Packer

SENDERS, PAYLOAD_BYTES = 4, 200
DATAGRAMS = {"1,400-byte packets": 1400, "loopback packets": 65_507}


def fill(path: Path, events: int, datagram_bytes: int) -> int:
    """Write a log with this many events; returns how many packets they took."""
    pool = random.Random(1).randbytes(PAYLOAD_BYTES + 65_536)
    packets = 0
    with open_store(path) as store:
        for sender in range(1, SENDERS + 1):
            packer, bodies = Packer(datagram_bytes - DATA_BYTES), []
            left = [pool[i % 65_536 : i % 65_536 + PAYLOAD_BYTES] for i in range(sender - 1, events, SENDERS)]
            at = 0
            while at < len(left):
                at += packer.add_many(f"quotes.nyse.{sender}", left, at)
                bodies.append(packer.body(1_700_000_000_000_000_000 + len(bodies) * 1_000_000))
            datagrams = [
                encode(Header(7, sender), Data(Packet(sender, seqno, body))) for seqno, body in enumerate(bodies)
            ]
            store.append(LogEntry(sender, seqno, 0, datagram) for seqno, datagram in enumerate(datagrams))
            packets += len(datagrams)
    return packets


def consume(frame: DataFrame) -> int:
    """Touch every column of every row; returns the number of rows."""
    sums = [
        f.count("*"),
        f.sum(f.length("value")),
        f.sum(f.crc32("value")),
        f.sum(f.length("topic")),
        f.sum("partition"),
        f.sum("offset"),
        f.max("timestamp"),
        f.sum(f.size("headers")),
        f.sum("sender"),
        f.sum("seqno"),
        f.count("key"),
    ]
    return int(frame.agg(*sums).collect()[0][0])


def timed(frame: DataFrame, events: int) -> float:
    started = time.perf_counter()
    rows = consume(frame)
    assert rows == events, f"{rows} rows of {events}"
    return rows / (time.perf_counter() - started)


def bench(spark: SparkSession, folder: Path, name: str, events: int, rounds: int) -> None:
    log, parquet = folder / "log", folder / "parquet"
    packets = fill(log, events, DATAGRAMS[name])
    ours = spark.read.format("gossamer").option("store", str(log)).load()
    ours.write.parquet(str(parquet))
    theirs = spark.read.parquet(str(parquet))
    rates: dict[str, list[float]] = {"log": [], "Parquet": []}
    for _ in range(rounds):
        rates["log"].append(timed(ours, events))
        rates["Parquet"].append(timed(theirs, events))
    print(f"\n{name}: {events:,} events of {PAYLOAD_BYTES} bytes in {packets:,} packets, {rounds} rounds")
    for source, measured in rates.items():
        shown = " ".join(f"{rate:11,.0f}" for rate in measured)
        print(f"  {source:8} rows/s {shown}   best {max(measured):11,.0f}")
    ratios = sorted(a / b for a, b in zip(rates["log"], rates["Parquet"], strict=True))
    best = max(rates["log"]) / max(rates["Parquet"])
    print(f"  ratio {best:.2f} of the best rounds, {ratios[len(ratios) // 2]:.2f} median of all rounds (target: 0.40)")


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    with running("bench", "local[2]") as spark:
        spark.dataSource.register(LogSource)
        for name in DATAGRAMS:
            with tempfile.TemporaryDirectory() as folder:
                bench(spark, Path(folder), name, events, rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory of this process {peak:,.0f} MiB, without Spark's own")


if __name__ == "__main__":
    main()
