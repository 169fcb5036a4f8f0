"""Rows of Spark reach the subscribers of a real group, each with a key to know it by."""

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import gossamer
from gossamer.pipeline import LogSource
from gossamer.pipeline.replay import replay
from gossamer.pipeline.session import PipelineError
from gossamer.pipeline.sink import WriteOptions, _guessed
from gossamer.store import open_store
from tests.pipeline.log_makers import expected_values, simple

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def address() -> str:
    """A port of our own: other tests may run at the same time."""
    return f"239.192.77.9:{random.randint(20_000, 60_000)}"


@pytest.fixture
def subscription(address: str) -> Iterator[object]:
    with gossamer.join_sync("sink", gossamer.Settings(address=address)) as group:
        yield group.subscribe(">")


def take(subscription, count: int) -> list[gossamer.Event]:
    events = []
    while len(events) < count:
        event = subscription.get(PATIENCE_S)
        assert isinstance(event, gossamer.Event), event
        events.append(event)
    return events


def test_a_batch_reaches_the_group_with_its_attributes(spark: SparkSession, address: str, subscription):
    spark.dataSource.register(LogSource)
    rows = spark.range(100).select(
        f.concat(f.lit("q."), f.col("id") % 3).alias("subject"),
        f.col("id").cast("string").alias("value"),
        f.struct(f.col("id").alias("n"), (f.col("id") / 2).alias("half")).alias("headers"),
    )

    rows.repartition(2).write.format("gossamer").option("group", "sink").option("address", address).mode(
        "append"
    ).save()

    events = take(subscription, 100)
    assert {
        int(event.payload): (event.subject, event.attributes["n"], event.attributes["half"]) for event in events
    } == {n: (f"q.{n % 3}", n, n / 2) for n in range(100)}
    ids = {event.attributes["_id"] for event in events}
    assert len(ids) == 100
    assert all(re.fullmatch(r"[0-9a-f]{32}/0/[01]/[0-9]+", text) for text in ids)


def test_a_stream_from_the_log_reaches_the_group(spark: SparkSession, address: str, subscription, tmp_path: Path):
    spark.dataSource.register(LogSource)
    with open_store(tmp_path / "store") as log:
        log.append(simple(5, range(40)))
    stream = spark.readStream.format("gossamer").option("store", str(tmp_path / "store")).load()

    query = (
        stream.writeStream.format("gossamer")
        .options(group="sink", address=address, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)

    events = take(subscription, 120)
    assert sorted(event.payload for event in events) == sorted(expected_values(5, range(40)))
    assert all(event.attributes["_id"].startswith(f"{query.id}/0/") for event in events)


def test_replay_keeps_order_and_intervals_and_restores_numbers(
    spark: SparkSession, address: str, subscription, tmp_path: Path
):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(f"e.{n}", str(n).encode(), start + timedelta(milliseconds=20 * n), {"n": str(n)}) for n in range(30)]
    random.Random(1).shuffle(rows)
    columns = "topic string, value binary, timestamp timestamp, headers map<string,string>"
    spark.createDataFrame(rows, columns).write.parquet(str(tmp_path / "archive"))

    assert replay(spark, tmp_path / "archive", "sink", settings={"address": address}) == 30

    events = take(subscription, 30)
    assert [int(event.payload) for event in events] == list(range(30))
    assert [event.attributes["n"] for event in events] == list(range(30))
    assert events[-1].time - events[0].time >= 0.02 * 29 - 0.005


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "the option group is missing"),
        ({"group": "g", "adress": "x"}, "did you mean address"),
        ({"group": "g", "address": "nowhere"}, "address = 'nowhere'"),
        ({"group": "g", "rate": "fast"}, "rate = 'fast'"),
        ({"group": "g", "insecure": "maybe"}, "insecure = 'maybe'"),
        ({"group": "g", "contacts": "a:1"}, "cannot be an option"),
    ],
)
def test_an_invalid_option_is_named(options, says):
    with pytest.raises(PipelineError, match=says):
        WriteOptions.parse(options)


def test_rows_without_a_subject_are_refused_before_anything_is_sent(spark: SparkSession):
    spark.dataSource.register(LogSource)
    with pytest.raises(Exception, match="a sink needs the columns subject"):
        spark.range(3).write.format("gossamer").option("group", "sink").mode("append").save()


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("-3", -3), ("1.5", 1.5), ("1e+20", 1e20), ("true", True), ("a", "a"), ("1.2.3", "1.2.3")],
)
def test_a_string_becomes_what_it_looks_like(text, value):
    assert _guessed(text) == value
    assert type(_guessed(text)) is type(value)
