"""The log as readers see it: a store opened for reading, what it holds, and its packets, unsealed.

A store is opened for each piece of work and closed after it: readers are pickled and sent elsewhere, open files cannot
be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import time_ns

import pyarrow as pa

from gossamer.core.ranges import RangeSet
from gossamer.pipeline.log_rows import Part, Reading, fragment_place, matching
from gossamer.pipeline.opening import SEALED, Open, body_of, open_for_reading, opener
from gossamer.pipeline.options import ReadOptions
from gossamer.pipeline.positions import Extent
from gossamer.pipeline.session import PipelineError
from gossamer.pubsub.subjects import compile_pattern
from gossamer.store import Damaged, LogEntry, LogStore
from gossamer.wire import WireError
from gossamer.wire.events import count_events, is_fragment

_logger = logging.getLogger(__name__)

TASKS, TASK_BYTES_MIN, TASK_BYTES_MAX = 8, 1 << 20, 32 << 20
"""How many tasks a read is split into, and the least and most bytes for each; small senders share one."""


@dataclass(frozen=True)
class Log:
    """An open store, read as the options say."""

    store: LogStore
    options: ReadOptions
    open_datagram: Open

    def extent(self) -> Extent:
        """What the log holds now. What is collected meanwhile may be in both sets, but is never in neither."""
        held = self.store.held()
        return Extent(held, self.store.collected())

    def check_key(self, extent: Extent) -> None:
        """Open one packet, so that a missing or wrong key is found before any task starts."""
        for sender, held in extent.held.items():
            entry = self._entry(sender, held.first)
            if entry is not None and entry.datagram[:1] == SEALED:
                self.open_datagram(entry.datagram)
                return

    def is_old(self, sender: int, first: int, last: int) -> bool:
        """Whether the packets at both edges of the gap `first..last` have been there for longer than the time-out."""
        edges = [entry.time_ns for at in (first - 1, last + 1) if at >= 0 and (entry := self._entry(sender, at))]
        return time_ns() - max(edges, default=0) > self.options.gap_timeout_s * 1e9

    def done_with(self, sender: int, position: int) -> int:
        """The last number that a reader at `position` no longer needs: an unfinished event needs all its fragments."""
        entry = self._entry(sender, position - 1)
        try:
            body = body_of(entry, self.open_datagram) if entry is not None else b""
            index, count = fragment_place(body) if is_fragment(body) else (0, 1)
        except WireError:
            return position - 1
        return position - 1 if index + 1 == count else position - 2 - index

    def rows(self, sender: int, first: int, behind: int) -> Iterator[tuple[int, int]]:
        """The held packets of a sender from `first` up to but not including `behind`, with the rows of each."""
        while first < behind:
            try:
                for entry in self.store.read(sender, first, behind - 1):
                    yield entry.seqno, self._rows_of(entry)
                return
            except Damaged as damage:
                yield damage.seqno, 0
                first = damage.seqno + 1

    def _rows_of(self, entry: LogEntry) -> int:
        """How many events a packet has; a fragment counts if it is the last of its event."""
        try:
            body = body_of(entry, self.open_datagram)
            if is_fragment(body):
                index, count = fragment_place(body)
                return int(index + 1 == count)
            return count_events(body)
        except WireError:
            return 0

    def tasks(self, extent: Extent, ranges: dict[int, tuple[int, int]]) -> list[list[Part]]:
        """Split the ranges `(first, behind)` of each sender into tasks of about equally many packets."""
        held = {s: extent.held.get(s, RangeSet()).within(a, b - 1) if b > a else [] for s, (a, b) in ranges.items()}
        wanted = sum(last - first + 1 for inside in held.values() for first, last in inside)
        most = self._packets_per_task(extent, wanted)
        tasks: list[list[Part]] = []
        room = 0
        for sender, inside in held.items():
            for first, last in inside:
                while first <= last:
                    if not room:
                        tasks.append([])
                        room = most
                    behind = min(first + room, last + 1)
                    _extend(tasks[-1], sender, first, behind)
                    room -= behind - first
                    first = behind
        return tasks

    def _packets_per_task(self, extent: Extent, wanted: int) -> int:
        """A number that gives a task neither too little nor too much to do, as far as `minPartitions` allows."""
        packet_bytes = max(1, self.store.bytes_used() // max(1, sum(map(len, extent.held.values()))))
        task_bytes = min(max(wanted * packet_bytes // TASKS, TASK_BYTES_MIN), TASK_BYTES_MAX)
        return max(1, min(task_bytes // packet_bytes, wanted // self.options.partitions_min))

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part; missing packets are a loss."""
        wants = compile_pattern(self.options.subscribe)
        reading = Reading(self.store, part, self.open_datagram, self.lose)
        for batch in reading.batches():
            wanted = batch if self.options.subscribe == ">" else matching(batch, wants)
            if wanted.num_rows:
                yield wanted
        if reading.packets < part.packets:
            self.lose(
                f"{part.packets - reading.packets} packets of sender {part.sender} were collected while being read"
            )

    def lose(self, what: str) -> None:
        """Handle a loss: raise PipelineError, or log a warning and continue, as the options say."""
        if self.options.fail_on_data_loss:
            raise PipelineError(f"{what} (failOnDataLoss=false continues anyway)")
        _logger.warning("skipped: %s", what)

    def _entry(self, sender: int, seqno: int) -> LogEntry | None:
        try:
            return next(iter(self.store.read(sender, seqno, seqno)), None)
        except Damaged:
            return None


def _extend(parts: list[Part], sender: int, first: int, behind: int) -> None:
    """Add one more run of held packets; a part spans the gaps between runs of one sender."""
    if parts and parts[-1].sender == sender:
        last = parts.pop()
        parts.append(Part(sender, last.first, behind, last.packets + behind - first))
    else:
        parts.append(Part(sender, first, behind, behind - first))


@contextmanager
def open_log(options: ReadOptions) -> Iterator[Log]:
    """Open the log that the options name, and close it at the end; `PipelineError` says what is wrong with it."""
    with open_for_reading(options.store) as store:
        yield Log(store, options, opener(options))
