"""`gossamer` as a Spark format: the log as a table and as a stream, and a group as a sink.

    spark.dataSource.register(gossamer.pipeline.LogSource)
    spark.read.format("gossamer").option("store", "/var/log/quotes").load()

Planning happens on the driver and sees only ranges of numbers, never packets; executors open the store themselves and
hand Arrow batches to Spark. The options are those of `ReadOptions` and `WriteOptions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

from gossamer.pipeline import log_rows
from gossamer.pipeline.interpreter import check_workers
from gossamer.pipeline.log import Log, open_log
from gossamer.pipeline.options import ReadOptions
from gossamer.pipeline.positions import (
    EARLIEST,
    LATEST,
    SKIPPED,
    Extent,
    Positions,
    from_offset,
    to_offset,
)
from gossamer.pipeline.row_limit import limited
from gossamer.pipeline.sink import GroupStreamWriter, GroupWriter, WriteOptions, check_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

RANGES_NAMED_MAX = 5
"""Ranges that an error message lists; it only counts the rest."""


class LogSource(DataSource):
    """The data source to register with Spark."""

    @classmethod
    def name(cls) -> str:
        """The name of the format; Spark asks for it first when a source is registered."""
        check_workers()
        return "gossamer"

    def schema(self) -> str:
        """The columns, modelled on Kafka's; also checks the options and the key."""
        with open_log(ReadOptions.parse(self.options)) as log:
            log.check_key(log.extent())
        return log_rows.DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the log as a table."""
        return LogReader(ReadOptions.parse(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader of the log as a stream."""
        return LogStreamReader(ReadOptions.parse(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer that publishes a batch to a group; there is nothing to overwrite."""
        check_columns(schema.fieldNames())
        return GroupWriter(WriteOptions.parse(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """A writer that publishes a stream to a group."""
        check_columns(schema.fieldNames())
        return GroupStreamWriter(WriteOptions.parse(self.options))


class LogPartition(InputPartition):
    """Parts of the log, for one task."""

    def __init__(self, parts: list[log_rows.Part]) -> None:
        super().__init__(parts)


def read_partition(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a task, on an executor. If there is nothing to read, Spark asks for one empty task."""
    with open_log(options) as log:
        for part in partition.value or ():
            yield from log.read(part)


class LogReader(DataSourceReader):
    """Reads a batch: what the log holds now, from `startingOffsets` to `endingOffsets`."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks of the batch."""
        options = self._options
        with open_log(options) as log:
            extent = log.extent()
            ranges = {}
            for sender in extent.senders():
                first = _place(options.starting, extent, sender, extent.first_held(sender), EARLIEST)
                behind = _place(options.ending, extent, sender, extent.first_held(sender), LATEST)
                _check_loss(log, extent, sender, first, behind)
                ranges[sender] = first, behind
            return [LogPartition(parts) for parts in log.tasks(extent, ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `read_partition`."""
        return read_partition(self._options, partition)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Its offset is the next number of every sender; senders that appear later are added."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._target: Positions | None = None
        self._committed: Positions | None = None
        self._new: Positions = {}  # where senders began that appeared later: their first packets may be gone by now

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Where a new query begins; from now on its durable consumer holds back collection.

        It claims everything before it looks at what there is: what is there then stays.
        """
        with open_log(self._options) as log:
            if self._options.consumer is not None:
                log.store.commit(self._options.consumer, {})
            extent = log.extent()
            start = {
                sender: _place(self._options.starting, extent, sender, extent.begin(sender, log.is_old), EARLIEST)
                for sender in extent.senders()
            }
        self._commit(start)
        return to_offset(start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """`maxOffsetsPerTrigger`, or no limit."""
        most = self._options.offsets_per_trigger_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Limit this query to what is in the log now."""
        with open_log(self._options) as log:
            extent = log.extent()
            self._target = {sender: extent.behind_last(sender) for sender in extent.senders()}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Where the next batch ends."""
        begun = from_offset(start)
        self._commit(begun)  # the batch before is finished when the next begins; Spark itself does not commit the last
        with open_log(self._options) as log:
            extent = log.extent()
            first = {sender: self._begin(log, extent, begun, sender) for sender in {*begun, *extent.senders()}}
            end = {sender: extent.reach(sender, at, log.is_old) for sender, at in first.items()}
            for sender in begun:
                _check_end(log, extent, sender, begun[sender])
            if self._target is not None:
                end = {s: max(first[s], min(at, self._target.get(s, first[s]))) for s, at in end.items()}
                end = {s: at for s, at in end.items() if s in begun or s in self._target}
            if isinstance(limit, ReadMaxRows):
                end = limited(first, end, limit.max_rows, log.rows)
        skipped = sum(len(extent.lost(sender, first[sender], at)) for sender, at in end.items())
        return to_offset(end, skipped + start.get(SKIPPED, 0))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The tasks of one batch: always the same rows for the same offsets."""
        begun = from_offset(start)
        with open_log(self._options) as log:
            extent = log.extent()
            ranges = {}
            for sender, behind in from_offset(end).items():
                first = self._begin(log, extent, begun, sender)
                _check_loss(log, extent, sender, first, behind)
                ranges[sender] = first, behind
            return [LogPartition(parts) for parts in log.tasks(extent, ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `read_partition`."""
        return read_partition(self._options, partition)

    def commit(self, end: dict[str, int]) -> None:
        """Spark is done with everything before `end`: the log need not keep it for this query."""
        self._commit(from_offset(end))

    def _begin(self, log: Log, extent: Extent, begun: Positions, sender: int) -> int:
        """Where a batch begins: where the previous one ended or, for a new sender, where the log begins."""
        if sender in begun:
            return begun[sender]
        return self._new.setdefault(sender, extent.begin(sender, log.is_old))

    def _commit(self, positions: Positions) -> None:
        if self._options.consumer is None or positions == self._committed:
            return
        with open_log(self._options) as log:
            done = {sender: log.done_with(sender, at) for sender, at in positions.items() if at > 0}
            log.store.commit(self._options.consumer, {sender: last for sender, last in done.items() if last >= 0})
        self._committed = positions


def _place(where: str | Positions, extent: Extent, sender: int, earliest: int, default: int) -> int:
    """The position that `where` gives for a sender; the default for a sender that it does not name."""
    names = {"earliest": EARLIEST, "latest": LATEST}
    at = names[where] if isinstance(where, str) else where.get(sender, default)
    return earliest if at == EARLIEST else extent.behind_last(sender) if at == LATEST else at


def _check_loss(log: Log, extent: Extent, sender: int, first: int, behind: int) -> None:
    lost = extent.lost(sender, first, behind)
    if lost:
        named = ", ".join(f"{a}..{b}" if a < b else str(a) for a, b in lost.ranges()[:RANGES_NAMED_MAX])
        more = ", ..." if lost.range_count() > RANGES_NAMED_MAX else ""
        log.lose(f"{len(lost)} packets of sender {sender} were collected before they were read: {named}{more}")


def _check_end(log: Log, extent: Extent, sender: int, position: int) -> None:
    end = extent.behind_last(sender)
    if position > end and not (log.store.forgotten() and sender not in extent.senders()):
        log.lose(
            f"the stream is at {position} of sender {sender}, the log ends at {end}: a different store, or an old copy"
        )
