"""The position of a reader in a log: for each sender, the next number to read.

A starting position is inclusive and an ending position exclusive, as in Kafka. A reader has seen everything below its
position. So a stream may pass a number that is not in the log only if it will never be there:

- *collected* numbers were in the log and are gone: passing one is a data loss, unless the reader is just starting;
- a *gap* is passed when it is old: the packets at both its edges have been in the log for longer than a time-out. A
  logger that is still filling it stores new packets at its edges; a number that was never used stays a gap for ever.

A batch waits for nothing: it reads what is held.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gossamer.core.packet_sets import PacketSets
from gossamer.core.ranges import RangeSet
from gossamer.pipeline.session import PipelineError

Positions = dict[int, int]
"""By sender, the next number to read."""

EARLIEST, LATEST = -2, -1
"""In the JSON of startingOffsets, as in Kafka: not numbers, but the beginning and the end of the log."""
SKIPPED = "skipped"
"""In the offset of a stream, next to the senders: how many packets were collected before they were read."""

IsOld = Callable[[int, int, int], bool]
"""Whether the gap `first..last` of a sender is old enough to be passed."""


@dataclass(frozen=True)
class Extent:
    """What a log held and had collected at one moment."""

    held: PacketSets
    collected: PacketSets

    def senders(self) -> list[int]:
        """All senders that the log has or had packets of."""
        return sorted({*self.held, *self.collected})

    def first_held(self, sender: int) -> int:
        """Where a batch that reads everything begins."""
        held = self.held.get(sender)
        return held.first if held else self.behind_last(sender)

    def behind_last(self, sender: int) -> int:
        """The number after everything that the log ever had of this sender."""
        known = self.known(sender)
        return known.last + 1 if known else 0

    def known(self, sender: int) -> RangeSet:
        """What the log has or had of this sender."""
        known = self.held.get(sender, RangeSet()).copy()
        known.update(self.collected.get(sender, RangeSet()))
        return known

    def begin(self, sender: int, is_old: IsOld) -> int:
        """Where a stream that wants everything begins: the first number that is held or may still come."""
        held, at = self.held.get(sender, RangeSet()), 0
        for first, last in self.known(sender).ranges():
            if first > at and not is_old(sender, at, first - 1):
                return at
            inside = held.within(first, last)
            if inside:
                return inside[0][0]
            at = last + 1
        return at

    def reach(self, sender: int, position: int, is_old: IsOld) -> int:
        """How far a stream at `position` may read now."""
        known, at = self.known(sender), position
        if not known or known.last < at:
            return at
        for first, last in known.within(at, known.last):
            if first > at and not is_old(sender, at, first - 1):
                return at
            at = last + 1
        return at

    def lost(self, sender: int, first: int, behind: int) -> RangeSet:
        """What was collected of the numbers from `first` up to but not including `behind`."""
        collected = self.collected.get(sender, RangeSet())
        return RangeSet(collected.within(first, behind - 1) if behind > first else ())


def parse(option: str, text: str) -> Positions:
    """Parse a JSON object `{"sender": seqno}`; `PipelineError` if it is not one."""
    shape = f'{option} = {text[:60]!r}: must be earliest, latest or JSON like {{"17": 1200}}, next number by sender'
    try:
        found = json.loads(text)
        positions = {int(sender): number for sender, number in found.items() if sender != SKIPPED}
    except (ValueError, AttributeError, RecursionError):
        raise PipelineError(shape) from None
    for number in positions.values():
        if type(number) is not int or number < EARLIEST:
            raise PipelineError(shape)
    return positions


def to_offset(positions: Mapping[int, int], skipped: int = 0) -> dict[str, int]:
    """Convert to the offset of a stream, as Spark stores it in the checkpoint and shows it in the query's progress."""
    offset = {str(sender): positions[sender] for sender in sorted(positions)}
    return {**offset, SKIPPED: skipped} if skipped else offset


def from_offset(offset: Mapping[str, int]) -> Positions:
    """Convert from the offset of a stream."""
    return {int(sender): number for sender, number in offset.items() if sender != SKIPPED}
