"""What the traces of members say about the events of a log: who got what by which rung, how fast, and why not."""

import asyncio
import json
import os
import random
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import gossamer
from gossamer.cli import main
from gossamer.core.ids import stream_of
from gossamer.live.group import Group
from gossamer.live.logger_group import logger
from gossamer.pipeline.audit import audit, summary
from gossamer.pipeline.latency import latency
from gossamer.pipeline.session import PipelineError
from gossamer.pipeline.traces import member_names, read_events, read_traces
from gossamer.store import open_store
from gossamer.trace.schema import TraceError
from gossamer.trace.writer import TraceWriter
from tests.pipeline.log_makers import simple

SENDER = 1
MS = 1_000_000


def write(path: Path, rows: list[tuple], run: str = "run", **about: str) -> Path:
    """A trace; rows are (ms, member, kind, seqno, phase) of packets of SENDER, or -1 for none."""
    with TraceWriter(path, run, about) as trace:
        for ms, member, kind, seqno, phase in sorted(rows, key=lambda row: row[0]):
            sender = SENDER if seqno >= 0 else -1
            trace.row(ms * MS, member, kind, sender, seqno, -1, 100, phase)
    return path


def delivered(member: int, numbers: range, phase: str = "first_pass", after_ms: int = 2) -> list[tuple]:
    return [(10 + n + after_ms, member, "deliver", n, phase) for n in numbers]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Ten packets of three events."""
    with open_store(tmp_path / "store") as store:
        store.append(simple(SENDER, range(10)))
    return tmp_path / "store"


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    """The sender publishes packet n at 10 + n ms; members 2 to 8 have each their story."""
    publishing = [(0, SENDER, "join", -1, ""), *((10 + n, SENDER, "publish", n, "") for n in range(10))]
    end = [(n, member, "heartbeat", -1, "") for member in range(2, 9) for n in (1000,)]
    joins = [(0, member, "join", -1, "") for member in (2, 3, 4, 6, 7, 8)]
    stories = [
        *delivered(2, range(7)),
        *delivered(2, range(7, 9), "peer", 50),
        *delivered(2, range(9, 10), "logger", 200),
        *delivered(3, range(8)),
        (500, 3, "lost", 8, "too old"),
        (500, 3, "receive", 9, "peer"),
        *delivered(4, range(5)),
        (14, 4, "leave", -1, ""),
        (13, 5, "join", -1, ""),
        (13, 5, "join", 3, ""),
        *delivered(5, range(4, 10)),
        *delivered(6, range(9)),
        (21, 6, "drop", 9, "full inbox"),
        *delivered(7, range(3)),
        (13, 7, "crash", -1, "lost"),
        *delivered(8, range(9)),
    ]
    rows = [*joins, *stories, *(row for row in end if row[1] not in (4, 7))]
    return [write(tmp_path / "sender.parquet", publishing), write(tmp_path / "others.parquet", rows)]


def test_an_audit_says_which_members_did_not_get_what_and_why(spark: SparkSession, log: Path, traces: list[Path]):
    audited = audit(read_events(spark, log), read_traces(spark, traces))

    found = summary(audited)

    counts = {
        m["member"]: [m[k] for k in ("events", "first_pass", "peer", "logger", "missing", "excused")]
        for m in found["members"]
    }
    assert counts == {
        2: [30, 21, 6, 3, 0, 0],
        3: [30, 24, 0, 0, 6, 0],
        4: [30, 15, 0, 0, 0, 15],
        5: [30, 18, 0, 0, 0, 12],
        6: [30, 27, 0, 0, 3, 0],
        7: [30, 9, 0, 0, 0, 21],
        8: [30, 27, 0, 0, 3, 0],
    }
    assert [(gap["member"], gap["first"], gap["last"], gap["reason"]) for gap in found["missing"]] == [
        (3, 8, 8, "given up: too old"),
        (3, 9, 9, "received, waiting for its turn"),
        (4, 5, 9, "after it left"),
        (5, 0, 3, "before it joined"),
        (6, 9, 9, "dropped: full inbox"),
        (7, 3, 9, "after it crashed"),
        (8, 9, 9, "never arrived"),
    ]


def test_a_member_is_owed_only_the_channels_that_it_listens_to(spark: SparkSession, tmp_path: Path):
    """Member 2 listens to channel 3 from 15 ms on, 4 until 15 ms, 5 never; 6 is owed all and lacks two packets."""
    stream = stream_of(SENDER, 3)
    with open_store(tmp_path / "store") as store:
        store.append(simple(stream, range(10)))
    listening = [(2, 15, "on"), (4, 0, "on"), (4, 15, "off"), (6, 0, "on")]
    heard = {SENDER: range(10), 2: range(5, 10), 4: range(5), 6: range(8)}
    with TraceWriter(tmp_path / "trace.parquet", "run", {}) as trace:
        for member in (SENDER, 2, 4, 5, 6):
            trace.row(0, member, "join", -1, -1, -1, 0, "")
        for member, ms, phase in sorted(listening, key=lambda row: row[1]):
            trace.row(ms * MS, member, "channel", -1, 3, -1, 0, phase)
        for n in range(10):
            trace.row((10 + n) * MS, SENDER, "publish", stream, n, -1, 100, "")
        for member, numbers in heard.items():
            for n in numbers:
                trace.row((30 + n) * MS, member, "deliver", stream, n, -1, 100, "first_pass")
        for member in (2, 4, 5, 6):
            trace.row(1000 * MS, member, "heartbeat", -1, -1, -1, 0, "")

    found = summary(audit(read_events(spark, tmp_path / "store"), read_traces(spark, [tmp_path / "trace.parquet"])))

    told = {row["member"]: (row["first_pass"], row["missing"], row["excused"]) for row in found["members"]}
    assert told == {2: (15, 0, 15), 4: (15, 0, 15), 5: (0, 0, 30), 6: (24, 6, 0)}
    assert [row["reason"] for row in found["missing"] if row["member"] == 5] == ["not listening to its channel"]
    rows = latency(read_traces(spark, [tmp_path / "trace.parquet"])).collect()
    assert {row.name for row in rows if row.by == "member"} == {"2", "4", "6"}  # not the sender's own


def test_latency_by_sender_member_and_subject(spark: SparkSession, log: Path, traces: list[Path]):
    rows = latency(read_traces(spark, traces), read_events(spark, log)).collect()

    found = {(row.by, row.name): row for row in rows}
    assert found["all", ""].packets == 10 + 8 + 5 + 6 + 9 + 3 + 9
    assert found["member", "3"].mean_s == pytest.approx(0.002)
    assert found["member", "2"].max_s == pytest.approx(0.2)
    assert found["member", "2"].p50_s == pytest.approx(0.002)
    assert found["sender", "1"].packets == found["all", ""].packets
    assert {name for by, name in found if by == "subject"} == {"quotes.a", "quotes.b"}


def test_runs_of_one_sender_are_kept_apart(spark: SparkSession, log: Path, tmp_path: Path):
    files = []
    for run, delay in (("a", 2), ("b", 40)):
        rows = [(10, SENDER, "publish", 0, ""), (10 + delay, 2, "deliver", 0, "first_pass")]
        files.append(write(tmp_path / f"{run}.parquet", rows, run))
    traces = read_traces(spark, files)

    (everything, *_) = latency(traces).collect()

    assert (everything.packets, everything.max_s) == (2, pytest.approx(0.04))
    with pytest.raises(PipelineError, match="audit one run at a time"):
        audit(read_events(spark, log), traces)


def test_a_file_that_is_not_a_trace_is_named(spark: SparkSession, tmp_path: Path):
    (tmp_path / "x.parquet").write_text("no")

    with pytest.raises(TraceError, match=r"x\.parquet: not a readable Parquet file"):
        read_traces(spark, [tmp_path])


def test_a_live_group_is_audited_from_its_log_and_its_traces(spark: SparkSession, tmp_path: Path):
    settings = gossamer.Settings(address=f"239.192.77.10:{random.randint(20_000, 60_000)}")
    name = f"audited {os.getpid()}"

    async def live() -> None:
        writers = [TraceWriter(tmp_path / f"member{n}.parquet", "live", {"name": f"m{n}"}) for n in range(3)]
        async with logger(name, tmp_path / "store", settings, retain="forever"):
            groups = [Group(name, settings, trace=writer) for writer in writers]
            async with groups[0] as publisher, groups[1] as one, groups[2] as two:
                subscriptions = [one.subscribe(">"), two.subscribe(">")]
                for n in range(300):
                    publisher.publish(f"s.{n % 2}", str(n).encode())
                    await asyncio.sleep(0)
                await publisher.flush()
                for subscription in subscriptions:
                    for _ in range(300):
                        await anext(subscription)
        for writer in writers:
            writer.close()

    asyncio.run(asyncio.wait_for(live(), 60))
    traces = read_traces(spark, sorted(tmp_path.glob("member*.parquet")))

    found = summary(audit(read_events(spark, tmp_path / "store"), traces))

    subscribers = [member for member in found["members"] if member["events"] == 300]
    assert len(subscribers) == 2
    assert found["missing"] == []
    assert all(sum(member[rung] for rung in ("first_pass", "peer", "logger")) == 300 for member in subscribers)
    rows = latency(traces, read_events(spark, tmp_path / "store")).collect()
    assert {row.name for row in rows if row.by == "subject"} == {"s.0", "s.1"}
    assert all(0 <= row.p50_s < 10 for row in rows)
    names = member_names([tmp_path], tmp_path / "store")
    assert {names[member["member"]] for member in subscribers} == {"m1", "m2"}
    assert names[int(next(row.name for row in rows if row.by == "sender"))] == "m0"


def test_the_commands_report_in_json_and_fail_with_one_line(monkeypatch, capsys, log: Path, traces: list[Path]):
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gossamer", "pipeline", *arguments])
        monkeypatch.setattr("pyspark.sql.SparkSession.stop", lambda session: None)  # the other tests need it
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    named = write(log.parent / "named.parquet", [(0, SENDER, "join", -1, "")], name="ticker")
    files = list(map(str, [*traces, named]))
    status, out, _ = run("audit", str(log), *files, "--json")
    assert status == 1
    missing = json.loads(out)["missing"][0]
    assert missing["reason"] == "given up: too old"
    assert (missing["sender_id"], missing["sender_source"]) == (str(SENDER), "ticker")
    status, out, _ = run("audit", str(log), *files)
    assert "of sender ticker: given up: too old" in out
    status, out, _ = run("latency", *files, "--log", str(log))
    assert status == 0
    assert "quotes.a" in out
    for arguments in (
        ("audit", "nowhere", *files),
        ("audit", str(log), "nowhere.parquet"),
        ("archive", "nowhere", "--out", "x"),
        ("replay", "nowhere", "g"),
        ("latency", *files, "--master", "nonsense"),
    ):
        status, out, err = run(*arguments)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert "Traceback" not in err
