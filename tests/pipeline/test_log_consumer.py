"""New consumers of a log that is being collected: from its first offset on, what a consumer wants is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import gossamer
from gossamer.pipeline import LogSource
from gossamer.pipeline.options import ReadOptions
from gossamer.pipeline.source import LogStreamReader
from gossamer.store import open_store
from tests.live.logger_nursery import Nursery
from tests.live.logger_scene import publish_packets
from tests.live.members import GROUP, run, settings

CONSUMERS = 4


@asynccontextmanager
async def collected_log(store: Path) -> AsyncIterator[None]:
    """A log of which all that is not claimed is collected at once, while somebody publishes."""
    shared = settings()
    with Nursery(GROUP, {"address": shared.address}) as nursery:
        await nursery.start(store, retain="stable")
        async with gossamer.join(GROUP, shared) as group:

            async def publish() -> None:
                first = 0
                while True:
                    await publish_packets(group, 20, first=first)
                    first += 20
                    await asyncio.sleep(0.05)

            publishing = asyncio.create_task(publish())
            await asyncio.sleep(1.0)
            yield
            publishing.cancel()


def forget(store: Path, consumer: str) -> None:
    with open_store(store, readonly=True) as log:
        log.forget_consumer(consumer)


def read_a_batch(store: Path, consumer: str) -> int:
    """The first batch of a query that takes its time, as Spark does; how many rows it has."""
    reader = LogStreamReader(ReadOptions(str(store), consumer=consumer))
    start = reader.initialOffset()
    pause()
    end = reader.latestOffset(start, ReadAllAvailable())
    pause()
    parts = reader.partitions(start, end)
    return sum(batch.num_rows for part in parts for batch in reader.read(part))


def pause() -> None:
    asyncio.run(asyncio.sleep(0.4))


def test_the_first_batch_of_a_new_consumer_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with collected_log(tmp_path):
            rows = 0
            for n in range(CONSUMERS):
                rows += await asyncio.to_thread(read_a_batch, tmp_path, f"c{n}")
                await asyncio.to_thread(forget, tmp_path, f"c{n}")
                await asyncio.sleep(1.2)  # until the logger collects again
            assert rows >= CONSUMERS

    run(story())


def test_what_was_spared_for_a_consumer_goes_when_it_is_done(tmp_path: Path) -> None:
    async def story() -> None:
        async with collected_log(tmp_path):
            await asyncio.to_thread(read_a_batch, tmp_path, "c")
            await asyncio.to_thread(forget, tmp_path, "c")
            await _until(lambda: _held(tmp_path) < 200)

    run(story())


def test_the_first_batch_of_a_new_query_is_there(tmp_path: Path, spark: SparkSession) -> None:
    spark.dataSource.register(LogSource)
    batches: list[int] = []

    def query() -> Any:
        frame = spark.readStream.format("gossamer").option("store", str(tmp_path)).option("consumer", "spark").load()
        writing = frame.writeStream.foreachBatch(lambda batch, _: batches.append(batch.count()))
        running = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        running.awaitTermination(60)
        return running.exception()

    async def story() -> None:
        async with collected_log(tmp_path):
            assert await asyncio.to_thread(query) is None

    run(story())
    assert sum(batches) > 0


def _held(store: Path) -> int:
    with open_store(store, readonly=True) as log:
        return sum(map(len, log.held().values()))


async def _until(condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0.1)
    pytest.fail("waited for in vain")
