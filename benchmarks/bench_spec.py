"""How fast a trace is written and checked: rows/s of every checker, and the cost of one `TraceWriter` row.

The trace is made in memory by numpy: 64 members; 8 senders multicast in turn; every member receives and
delivers every packet in one order, stores it and collects it, and there is an ack for each. It has no
violations, so this shows the normal case only; a trace full of violations costs up to twice as much. The rows
written are more alike than those of a real run, whose file takes about 3 bytes a row.

Run it with `python benchmarks/bench_spec.py [ROWS]`.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gossamer.spec import CHECKERS
from gossamer.trace import reader
from gossamer.trace.rows import Rows
from gossamer.trace.schema import CODE
from gossamer.trace.writer import TraceWriter

MEMBERS, SENDERS, BATCH = 64, 8, 65_536
PER_MEMBER = ("receive", "deliver", "store", "collect")
PHASES = ["", "first_pass", "buffer", "ack"]
PHASE_OF = {"receive": 1, "deliver": 1, "store": 2, "collect": 2, "ack": 0}
PROMISES = ["no-bogus", "at-most-once", "eventual", "fifo", "agreement", "bounded"]


def trace(rows: int) -> Rows:
    """One block of rows for each packet, after a join row for each member."""
    kinds = [*(kind for _ in range(MEMBERS) for kind in PER_MEMBER), "ack", "receive"]
    block = 2 + len(kinds)
    packets = (rows - MEMBERS) // block
    kind = np.array([CODE["publish"], CODE["send"], *(CODE[k] for k in kinds)], np.int8)
    member = np.concatenate([[0, 0], np.repeat(np.arange(MEMBERS), len(PER_MEMBER)), [1, 0]])
    phase = np.array([0, 1, *(PHASE_OF[k] for k in kinds[:-1]), 3])
    who = np.tile(member, packets).reshape(packets, block)
    sender = np.arange(packets) % SENDERS
    who[:, :2] = sender[:, None]
    ids = np.stack([sender, np.arange(packets) // SENDERS])[:, :, None] * np.ones(block, np.int64)
    ids[:, :, -2:] = -1
    peer = np.full((packets, block), -1)
    peer[:, kind == CODE["receive"]] = sender[:, None]
    peer[:, -2:] = 0, 1
    return Rows(
        number=np.arange(MEMBERS + packets * block),
        t_ns=np.arange(MEMBERS + packets * block) * 1000,
        member=np.concatenate([np.arange(MEMBERS), who.ravel()]),
        kind=np.concatenate([np.full(MEMBERS, CODE["join"], np.int8), np.tile(kind, packets)]),
        sender=np.concatenate([np.full(MEMBERS, -1), ids[0].ravel()]),
        seqno=np.concatenate([np.full(MEMBERS, -1), ids[1].ravel()]),
        peer=np.concatenate([np.full(MEMBERS, -1), peer.ravel()]),
        bytes=np.full(MEMBERS + packets * block, 1024, np.int32),
        phase=np.concatenate([np.zeros(MEMBERS), np.tile(phase, packets)]).astype(np.int32),
        phases=PHASES,
    )


def bench_checkers(rows: Rows) -> None:
    batches = list(rows.batches(BATCH))
    print(f"{'checker':34} {'seconds':>8} {'rows/s':>12} {'violations':>11}")
    for name, checker_of in CHECKERS.items():
        started = time.perf_counter()
        checker = checker_of({"promises": PROMISES, "bounds": {"buffer": 1}})
        for batch in batches:
            checker.feed(batch)
        checker.finish()
        seconds = time.perf_counter() - started
        print(f"{name:34} {seconds:8.2f} {len(rows) / seconds:12,.0f} {checker.found.count:11}")


def deliveries_over_channels(rows: int) -> Rows:
    """16 channels that 12 of the members hear each, in one order: members have different packets next to each other."""
    rng = np.random.default_rng(1)
    hears = np.array([rng.choice(MEMBERS, 12, replace=False) for _ in range(16)])
    channel = rng.integers(0, len(hears), rows // 12)
    seqno = np.zeros(len(channel), np.int64)
    for each in range(len(hears)):
        seqno[channel == each] = np.arange(np.count_nonzero(channel == each))
    count = 12 * len(channel)
    return Rows(
        number=np.arange(count),
        t_ns=np.arange(count) * 1000,
        member=hears[channel].ravel(),
        kind=np.full(count, CODE["deliver"], np.int8),
        sender=np.repeat(channel, 12),
        seqno=np.repeat(seqno, 12),
        peer=np.full(count, -1),
        bytes=np.full(count, 1024, np.int32),
        phase=np.ones(count, np.int32),
        phases=PHASES,
    )


def bench_agreement_over_channels(rows: int) -> None:
    """002 (c): every pair of packets that two members both deliver, where no two members deliver the same."""
    batches = list(deliveries_over_channels(rows).batches(BATCH))
    started, cpu = time.perf_counter(), time.process_time()
    checker = CHECKERS["agreement"]({})
    for batch in batches:
        checker.feed(batch)
    found = len(checker.finish())
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(f"\nagreement over 16 channels, {rows:,} deliveries: {seconds:.2f} s, {cpu:.2f} s of cpu, {found} violations")


def bench_writer(rows: int) -> None:
    """The whole cost of a row: accepted, packed, compressed, written. The loop's own time is subtracted."""

    def bare(_: TraceWriter) -> None:
        for i in range(rows):
            (i * 1234, i & 1023, "deliver", 7, i >> 6, 3, 1024, "first_pass")

    def by_row(writer: TraceWriter) -> None:
        row = writer.row
        for i in range(rows):
            row(i * 1234, i & 1023, "deliver", 7, i >> 6, 3, 1024, "first_pass")

    def by_append(writer: TraceWriter) -> None:
        append, spill = writer.append, writer.spill
        for i in range(rows):
            append((i * 1234, i & 1023, "deliver", 7, i >> 6, 3, 1024, "first_pass"))
            if not i & 7:
                spill()

    def by_many(writer: TraceWriter) -> None:
        many, members = writer.many, range(64)
        for i in range(0, rows, 64):
            many(i * 1234, members, "deliver", 7, i >> 6, 3, 1024, "first_pass")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.parquet"

        def timed(fill: Callable[[TraceWriter], None]) -> float:
            started = time.perf_counter()
            with TraceWriter(path, "bench", {}) as writer:
                fill(writer)
            return (time.perf_counter() - started) / rows * 1e9

        loop = timed(bare)
        print(f"\nTraceWriter.row        {timed(by_row) - loop:6.0f} ns a row")
        print(f"TraceWriter.append     {timed(by_append) - loop:6.0f} ns a row, spilled every 8 rows")
        print(f"TraceWriter.many       {timed(by_many):6.0f} ns a row, for 64 members at a time")
        started = time.perf_counter()
        count = sum(len(batch) for batch in reader.read(path))
        print(f"read                   {(time.perf_counter() - started) / count * 1e9:6.0f} ns a row")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    made = trace(rows)
    print(f"{len(made):,} rows, {MEMBERS} members, {SENDERS} senders, batches of {BATCH:,}\n")
    bench_checkers(made)
    bench_agreement_over_channels(rows)
    bench_writer(min(rows, 2_000_000))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory {peak:,.0f} MiB, including the trace")


if __name__ == "__main__":
    main()
