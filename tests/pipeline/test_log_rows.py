"""Packets of a log become rows: every event once, fragments with their last packet, however the log is cut."""

import secrets
import subprocess
import sys

import pyarrow as pa
import pytest

from gossamer.core.ids import stream_of
from gossamer.pipeline.log import Log, opener
from gossamer.pipeline.log_rows import SCHEMA, Part, partition_of
from gossamer.pipeline.options import ReadOptions
from gossamer.pipeline.session import PipelineError
from gossamer.store.contract import LogEntry
from gossamer.store.memory import MemoryStore
from gossamer.wire.keys import KeyRing
from gossamer.wire.sealing import Sealer
from tests.pipeline.log_makers import entry, expected_values, in_fragments, packet_of, simple

SENDER = 0x7123_4567_89AB_CDEF


def log_of(*entries: list[LogEntry], **options) -> Log:
    store = MemoryStore()
    for some in entries:
        store.append(some)
    read_options = ReadOptions.parse({"store": "unused", **options})
    return Log(store, read_options, opener(read_options))


def rows(log: Log, first: int, behind: int, sender: int = SENDER) -> list[dict]:
    packets = len(list(log.store.read(sender, first, behind - 1)))
    batches = list(log.read(Part(sender, first, behind, packets)))
    return pa.Table.from_batches(batches, SCHEMA).to_pylist()


def test_importing_the_package_does_not_import_pyspark():
    script = "import sys, gossamer.pipeline; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0


def test_a_row_says_what_kafka_would_say():
    attributes = {"key": "ibm", "price": 1.5, "size": 3, "open": True, "note": None}
    body = packet_of([("quotes.a", b"x", {}), ("quotes.b", b"", attributes)], seqno=5)

    first, second = rows(log_of([entry(SENDER, 5, body)]), 0, 10)

    assert first["offset"] == 5 * 65536
    assert second["offset"] == 5 * 65536 + 1
    assert (second["key"], second["value"], second["topic"]) == (b"ibm", b"", "quotes.b")
    assert dict(second["headers"]) == {"key": "ibm", "price": "1.5", "size": "3", "open": "true", "note": None}
    assert (first["key"], dict(first["headers"])) == (None, {})
    assert (second["sender"], second["seqno"], second["partition"]) == (SENDER, 5, partition_of(SENDER))
    assert second["timestamp"].timestamp() == 1_700_000_000.005


def test_a_row_names_the_channel_of_its_stream():
    stream = stream_of(17, 3)
    there, here = [entry(stream, 0, packet_of([("a", b"", {})]))], [entry(17, 0, packet_of([("b", b"", {})]))]
    log = log_of(there, here)

    assert [(row["topic"], row["channel"]) for row in rows(log, 0, 1, stream)] == [("a", 3)]
    assert [(row["topic"], row["channel"]) for row in rows(log, 0, 1, 17)] == [("b", 0)]


def test_a_partition_is_a_stable_number_of_31_bits():
    assert partition_of(3) == 3
    assert all(0 <= partition_of(sender) < 1 << 31 for sender in (SENDER, (1 << 63) - 1, 1 << 62))
    assert len({partition_of(n * 0x9E37_79B9_7F4A_7C15 % (1 << 63)) for n in range(1000)}) == 1000


def test_many_packets_give_every_event_once_in_order():
    log = log_of(simple(SENDER, range(30_000), events=2))

    found = rows(log, 0, 30_000)

    assert [row["value"] for row in found] == list(expected_values(SENDER, range(30_000), events=2))


@pytest.mark.parametrize("cut", range(1, 9))
def test_wherever_the_log_is_cut_an_event_in_fragments_comes_once_with_its_last_packet(cut):
    big = in_fragments(SENDER, 2, b"x" * 5000)
    behind = 2 + len(big)
    log = log_of(simple(SENDER, [0, 1]), big, simple(SENDER, [behind]))

    before, after = rows(log, 0, cut), rows(log, cut, behind + 1)

    whole = [row for row in before + after if row["topic"] == "big"]
    assert [row["seqno"] for row in whole] == [behind - 1]
    assert whole[0]["value"] == b"x" * 5000
    assert dict(whole[0]["headers"]) == {"n": "1"}
    assert len(before + after) == 3 * 3 + 1


def test_an_event_whose_beginning_is_gone_is_gone():
    big = in_fragments(SENDER, 0, b"x" * 5000)
    log = log_of(big[2:], simple(SENDER, [len(big)]))

    assert [row["topic"] for row in rows(log, 2, len(big) + 1)] == ["quotes.a", "quotes.b", "quotes.a"]


def test_only_the_wanted_subjects_are_read():
    log = log_of(simple(SENDER, range(10)), subscribe="quotes.b")

    found = rows(log, 0, 10)

    assert [row["offset"] for row in found] == [n * 65536 + 1 for n in range(10)]


def test_a_sealed_log_needs_its_key():
    key = secrets.token_bytes(32)
    sealed = simple(SENDER, range(3), sealer=Sealer(KeyRing([key]), secrets.token_bytes(8)))

    assert len(rows(log_of(sealed, key=key.hex()), 0, 3)) == 9
    other = secrets.token_bytes(32).hex()
    assert len(rows(log_of(sealed, key=f"{other},{key.hex()}"), 0, 3)) == 9
    with pytest.raises(PipelineError, match="the log is sealed: give the option key"):
        rows(log_of(sealed), 0, 3)
    with pytest.raises(PipelineError, match="the key does not open the log"):
        rows(log_of(sealed, key=other), 0, 3)


def test_a_packet_that_is_collected_while_it_is_read_is_a_loss_or_is_skipped():
    entries = simple(SENDER, range(5))

    with pytest.raises(PipelineError, match=r"2 packets of sender .* were collected while being read"):
        list(log_of(entries).read(Part(SENDER, 0, 7, 7)))
    assert sum(batch.num_rows for batch in log_of(entries, failOnDataLoss="false").read(Part(SENDER, 0, 7, 7))) == 15


def test_an_entry_that_is_not_a_packet_is_a_loss_or_is_skipped():
    broken = [LogEntry(SENDER, 1, 0, b"nonsense"), entry(SENDER, 2, b"\x01 no events")]
    entries = [*simple(SENDER, [0]), *broken, *simple(SENDER, [3])]

    with pytest.raises(PipelineError, match=r"packet 1 of sender .* cannot be read: damaged"):
        rows(log_of(entries), 0, 4)
    assert {row["seqno"] for row in rows(log_of(entries, failOnDataLoss="false"), 0, 4)} == {0, 3}


def test_a_read_is_cut_into_tasks_that_hold_everything_once():
    few = [simple(sender, range(10), stored_ns=0) for sender in range(100, 140)]
    log = log_of(*few, simple(7, [*range(500), *range(600, 900)]), minPartitions="10")
    extent = log.extent()

    tasks = log.tasks(extent, dict.fromkeys(extent.senders(), (0, 850)))

    sizes = [sum(part.packets for part in parts) for parts in tasks]
    assert 10 <= len(tasks) <= 12
    assert sum(sizes) == 40 * 10 + 500 + 250
    covered = [(part.sender, n) for parts in tasks for part in parts for n in range(part.first, part.behind)]
    assert len(covered) == len(set(covered))
    assert log.tasks(extent, {7: (3, 3)}) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "the option store is missing"),
        ({"store": "x", "subscibe": "a"}, "did you mean subscribe"),
        ({"store": "x", "subscribe": "a..b"}, "subscribe: pattern 'a..b'"),
        ({"store": "x", "startingOffsets": "soon"}, "startingOffsets = 'soon'"),
        ({"store": "x", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger = '0'"),
        ({"store": "x", "failOnDataLoss": "maybe"}, "failOnDataLoss = 'maybe'"),
        ({"store": "x", "gapTimeout": "-1"}, "gapTimeout = '-1'"),
        ({"store": "x", "key": "short"}, "key: "),
    ],
)
def test_an_invalid_option_is_named(options, says):
    with pytest.raises(PipelineError, match=says) as refused:
        ReadOptions.parse(options)
    assert "\n" not in str(refused.value)
