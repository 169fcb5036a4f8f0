"""The log as a table and a stream of Spark."""

import json
import secrets
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from gossamer.core.ranges import RangeSet
from gossamer.pipeline import LogSource
from gossamer.store import open_store
from gossamer.wire.keys import KeyRing
from gossamer.wire.sealing import Sealer
from tests.pipeline.log_makers import expected_values, in_fragments, simple

A, B = 11, 0x7000_0000_0000_0001


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(LogSource)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two senders, one with a large event at its end."""
    path = tmp_path / "store"
    with open_store(path) as log:
        log.append(simple(A, range(100)))
        log.append(simple(B, range(50)))
        log.append(in_fragments(B, 50, b"x" * 20_000))
    return path


def read(spark: SparkSession, store: Path, **options: str) -> DataFrame:
    return spark.read.format("gossamer").option("store", str(store)).options(**options).load()


def values(frame: DataFrame) -> Counter[bytes]:
    return Counter(bytes(row.value) for row in frame.select("value").collect())


def expected(*parts: tuple[int, range]) -> Counter[bytes]:
    return Counter(value for sender, numbers in parts for value in expected_values(sender, numbers))


class Stream:
    """A query that notes what each of its batches held."""

    def __init__(self, spark: SparkSession, store: Path, checkpoint: Path) -> None:
        self.spark, self.store, self.checkpoint = spark, store, checkpoint
        self.batches: list[Counter[bytes]] = []
        self.end: dict[str, int] = {}

    def run(self, **options: str) -> Counter[bytes]:
        """Read all that is there; what came in this run."""
        before = len(self.batches)
        frame = self.spark.readStream.format("gossamer").option("store", str(self.store)).options(**options).load()
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: self.batches.append(values(batch)))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
        if query.exception() is not None:
            raise query.exception()
        ends = [source["endOffset"] for source in (query.lastProgress or {}).get("sources", [])]
        self.end = json.loads(ends[0]) if ends and isinstance(ends[0], str) else (ends or [{}])[0]
        return sum(self.batches[before:], Counter())


@pytest.fixture
def stream(spark: SparkSession, store: Path, tmp_path: Path) -> Stream:
    return Stream(spark, store, tmp_path / "checkpoint")


# Batch


def test_a_batch_reads_every_event(spark, store):
    frame = read(spark, store)

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "headers:map<string,string>,sender:bigint,seqno:bigint,channel:int>"
    )
    assert values(frame) == expected((A, range(100)), (B, range(50))) + Counter([b"x" * 20_000])
    assert frame.select("partition", "offset").distinct().count() == 451
    assert frame.where("topic = 'big'").first().headers == {"n": "1"}


def test_a_batch_reads_between_given_offsets(spark, store):
    offsets = {"startingOffsets": f'{{"{A}": 10, "{B}": -1}}', "endingOffsets": f'{{"{A}": 20}}'}

    assert values(read(spark, store, **offsets)) == expected((A, range(10, 20)))
    assert values(read(spark, store, startingOffsets="latest")) == Counter()


def test_a_batch_reads_some_subjects_in_many_tasks(spark, store):
    frame = read(spark, store, subscribe="quotes.b", minPartitions="5")

    assert frame.rdd.getNumPartitions() >= 5
    assert frame.count() == 150


def test_a_batch_that_asks_for_collected_packets_fails_unless_losses_are_allowed(spark, store):
    with open_store(store) as log:
        log.collect({A: RangeSet([(0, 9)])})

    assert values(read(spark, store, subscribe="quotes.>")) == expected((A, range(10, 100)), (B, range(50)))
    early = f'{{"{A}": 5, "{B}": -1}}'
    with pytest.raises(Exception, match=f"5 packets of sender {A} were collected before they were read: 5..9"):
        read(spark, store, startingOffsets=early).count()
    assert read(spark, store, startingOffsets=early, failOnDataLoss="false").count() == 270


@pytest.mark.parametrize("where", ["nowhere", "not_a_store"])
def test_a_path_that_is_not_a_store_is_reported_in_one_line(spark, tmp_path, where):
    (tmp_path / "not_a_store").mkdir()
    (tmp_path / "not_a_store" / "data.mdb").write_bytes(b"something else" * 1000)

    with pytest.raises(Exception, match=r"PipelineError: .*(there is no store|not the data file of a store)"):
        read(spark, tmp_path / where)


def test_a_sealed_log_needs_its_key(spark, tmp_path):
    key, other = secrets.token_bytes(32), secrets.token_bytes(32)
    with open_store(tmp_path / "sealed") as log:
        log.append(simple(A, range(10), sealer=Sealer(KeyRing([key]), secrets.token_bytes(8))))

    assert read(spark, tmp_path / "sealed", key=key.hex()).count() == 30
    with pytest.raises(Exception, match="the log is sealed: give the option key"):
        read(spark, tmp_path / "sealed")
    with pytest.raises(Exception, match="the key does not open the log"):
        read(spark, tmp_path / "sealed", key=other.hex())


# Stream


def test_a_stream_continues_where_it_stopped_and_finds_new_senders(stream, store):
    first = stream.run(subscribe="quotes.>")
    with open_store(store) as log:
        log.append(simple(A, range(100, 110)))
        log.append(simple(99, range(5)))

    second = stream.run(subscribe="quotes.>")

    assert first == expected((A, range(100)), (B, range(50)))
    assert second == expected((A, range(100, 110)), (99, range(5)))
    assert stream.run() == Counter()


def test_a_stream_takes_no_more_at_a_time_than_it_is_told(stream):
    found = stream.run(subscribe="quotes.>", maxOffsetsPerTrigger="40")

    assert found == expected((A, range(100)), (B, range(50)))
    assert len(stream.batches) >= 450 / 40
    assert max(sum(batch.values()) for batch in stream.batches) <= 40


def test_a_stream_waits_at_a_gap_until_it_is_filled_or_old(stream, store):
    now = time.time_ns()
    with open_store(store) as log:
        log.append(simple(A, range(105, 110), stored_ns=now))

    assert stream.run() == expected((A, range(100)), (B, range(50))) + Counter([b"x" * 20_000])
    with open_store(store) as log:
        log.append(simple(A, range(100, 103), stored_ns=now))
    assert stream.run() == expected((A, range(100, 103)))
    assert stream.run(gapTimeout="0") == expected((A, range(105, 110)))


def test_a_stream_fails_at_what_was_collected_before_it_was_read(stream, store):
    stream.run(startingOffsets="latest")
    with open_store(store) as log:
        log.append(simple(A, range(100, 120)))
        log.collect({A: RangeSet([(0, 106)])})

    with pytest.raises(Exception, match=f"7 packets of sender {A} were collected before they were read: 100..106"):
        stream.run()
    assert stream.run(failOnDataLoss="false") == expected((A, range(107, 120)))
    assert stream.end["skipped"] == 7


def test_a_stream_notices_that_its_store_was_replaced(stream, store):
    stream.run()
    shutil.rmtree(store)
    with open_store(store) as log:
        log.append(simple(A, range(10)))

    with pytest.raises(Exception, match=f"the stream is at 100 of sender {A}, the log ends at 10"):
        stream.run()


def test_a_consumer_commits_what_spark_is_done_with_and_keeps_the_fragments_of_an_unfinished_event(stream, store):
    with open_store(store) as log:
        log.append(in_fragments(A, 100, b"y" * 5000)[:2])

    stream.run(consumer="archive")

    with open_store(store, readonly=True) as log:
        (consumer,) = log.consumers()
        assert consumer.name == "archive"
        assert consumer.committed == {A: 99, B: log.held()[B].last}
    with open_store(store) as log:
        log.append(in_fragments(A, 100, b"y" * 5000)[2:])
    assert stream.run(consumer="archive") == Counter([b"y" * 5000])
