"""A whole check: which checkers a trace calls for, and what the report says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gossamer.spec import CHECKERS, Checking, check, check_rows
from gossamer.trace import buffer
from gossamer.trace.rows import RowFeed, rows_from
from gossamer.trace.schema import Row, TraceError
from gossamer.trace.writer import TraceWriter

from .spec_rows import crash, deliver, join, publish, recover, row

GOOD = join(0, 1) + publish(0, 1) + deliver(0, 0, 1) + deliver(1, 0, 1)
TWICE = GOOD + deliver(1, 0, 1)


def written(path: Path, rows: list[Row], **metadata: object) -> Path:
    with TraceWriter(path, "run", metadata) as trace:
        for made in rows:
            trace.row(*made)
    return path


def test_a_good_trace_is_ok(tmp_path: Path) -> None:
    report = check(written(tmp_path / "a.parquet", GOOD, promises=["eventual", "fifo"]))
    assert report.ok
    assert report.rows == len(GOOD)
    assert [result.name for result in report.results] == ["reliable-multicast", "channel", "fifo"]


def test_a_violation_is_reported_with_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "_GROUP_VALUES", 8 * 2)
    report = check(written(tmp_path / "a.parquet", TWICE))
    (violation,) = report.violations
    assert not report.ok
    assert violation.rows == (2, 5)
    assert violation.message == "member 1 delivered packet (0, 1) again"
    assert [(shown["row"], shown["kind"]) for shown in violation.described] == [
        (2, "publish"),
        (5, "deliver"),
    ]


def test_the_report_is_json(tmp_path: Path) -> None:
    found = json.loads(json.dumps(check(written(tmp_path / "a.parquet", TWICE)).as_dict()))
    assert (found["ok"], found["rows"]) == (False, 6)
    assert [(each["name"], each["reference"], each["violations"]) for each in found["checkers"]] == [
        ("reliable-multicast", "000 §2.1", 1),
        ("channel", "000 §2.3", 0),
    ]
    assert found["checkers"][0]["first"][0]["rows"][1]["member"] == 1


@pytest.mark.parametrize(
    ("promises", "names"),
    [
        ([], ["channel"]),
        (["no-bogus"], ["reliable-multicast", "channel"]),
        (["fifo", "agreement", "bounded"], ["channel", "fifo", "agreement", "bounded-buffers"]),
    ],
)
def test_the_promises_choose_the_checkers(promises: list[str], names: list[str]) -> None:
    report = check_rows([rows_from(GOOD)], {"promises": promises})
    assert [result.name for result in report.results] == names


def test_a_crash_chooses_the_specification_with_crashes() -> None:
    rows = GOOD + crash(1) + recover(1) + deliver(1, 0, 1)
    report = check_rows(rows_from(rows).batches(2), {})
    assert report.results[0].name == "reliable-multicast-with-crashes"
    assert report.violations[0].spec == "reliable-multicast-with-crashes"


def test_checkers_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", TWICE)
    assert [result.name for result in check(path, list(CHECKERS)).results] == list(CHECKERS)
    assert check(path, ["channel"]).ok
    with pytest.raises(TraceError, match="unknown checker 'chanel'; known checkers: reliable-multicast"):
        check(path, ["chanel"])


def test_rows_can_be_checked_while_they_are_made() -> None:
    checking = Checking({})
    feed = RowFeed(checking.feed)
    feed.many(0, [0, 1], "join", -1, -1, -1, 0, "")
    feed.row(1, 0, "publish", 0, 1, -1, 100, "")
    feed.many(2, [0, 1, 1], "deliver", 0, 1, -1, 100, "first_pass")
    feed.close()
    report = checking.report()
    assert report.rows == 6
    assert report.violations[0].as_dict()["rows"] == [2, 5]


def test_progress_is_reported(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    check(written(tmp_path / "a.parquet", GOOD), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(GOOD), len(GOOD))


def test_a_file_that_cannot_be_checked_is_a_trace_error_of_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", GOOD, promises=["evrything"])
    with pytest.raises(TraceError, match=r"a\.parquet: unknown promise 'evrything'"):
        check(path)
    with pytest.raises(TraceError, match="no such file"):
        check(tmp_path / "b.parquet")


def test_more_members_and_packets_than_memory_is_a_trace_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.spec.marks.CELLS_MAX", 10_000_000)
    rows = [row("join", m) for m in range(4000)] + publish(0, *range(4000)) + deliver(0, 0, 0)
    with pytest.raises(TraceError, match="4000 packets at 4000 members"):
        check_rows([rows_from(rows)], {})


def test_traces_of_one_run_are_checked_together(tmp_path: Path) -> None:
    mine = written(tmp_path / "0.parquet", join(0) + publish(0, 1) + deliver(0, 0, 1), promises=["no-bogus", "fifo"])
    its = written(tmp_path / "1.parquet", join(1) + deliver(1, 0, 1), promises=["no-bogus", "eventual"])
    assert not check(its).ok
    report = check(mine, others=[its])
    assert report.ok
    assert report.rows == 5
    assert [result.name for result in report.results] == ["reliable-multicast", "channel"]
    with pytest.raises(TraceError, match=r"2\.parquet: no such file"):
        check(mine, others=[tmp_path / "2.parquet"])
