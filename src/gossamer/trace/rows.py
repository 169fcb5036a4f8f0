"""A batch of trace rows as numpy columns, the form in which checkers read a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from gossamer.trace.buffer import Chunk, Codes, RowBuffer, pack
from gossamer.trace.schema import CODE, KINDS, Row

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length, in trace order; `number` is a row's place in the whole trace, from 0.

    `kind` holds codes into `schema.KINDS`, `phase` codes into `phases`. Two batches may number their phases
    differently: compare phases by name (`phase_is`).
    """

    number: Ints
    t_ns: Ints
    member: Ints
    kind: NDArray[np.int8]
    sender: Ints
    seqno: Ints
    peer: Ints
    bytes: NDArray[np.int32]
    phase: NDArray[np.int32]
    phases: list[str]

    def __len__(self) -> int:
        return len(self.number)

    @property
    def first(self) -> int:
        """The number of the first row; 0 if there is none."""
        return int(self.number[0]) if len(self) else 0

    def select(self, where: Mask | Ints | slice) -> Rows:
        """The rows under a mask, at these positions or in this slice."""
        return Rows(
            self.number[where],
            self.t_ns[where],
            self.member[where],
            self.kind[where],
            self.sender[where],
            self.seqno[where],
            self.peer[where],
            self.bytes[where],
            self.phase[where],
            self.phases,
        )

    def of(self, *kinds: str) -> Rows:
        """The rows of these kinds."""
        wanted = np.zeros(len(KINDS), np.bool_)
        wanted[[CODE[kind] for kind in kinds]] = True
        return self.select(np.flatnonzero(wanted[self.kind]))

    def phase_is(self, name: str) -> Mask:
        mask: Mask = self.phase == (self.phases.index(name) if name in self.phases else -1)
        return mask

    def describe(self, i: SupportsIndex) -> dict[str, object]:
        """Row `i` of this batch by column name, for a report."""
        return {
            "row": int(self.number[i]),
            "t_ns": int(self.t_ns[i]),
            "member": int(self.member[i]),
            "kind": KINDS[self.kind[i]],
            "sender": int(self.sender[i]),
            "seqno": int(self.seqno[i]),
            "peer": int(self.peer[i]),
            "bytes": int(self.bytes[i]),
            "phase": self.phases[self.phase[i]],
        }

    def batches(self, size: int) -> Iterator[Rows]:
        """The same rows in batches of at most `size`."""
        return (self.select(slice(at, at + size)) for at in range(0, len(self), size))


class RowFeed(RowBuffer):
    """Passes the rows it takes to `feed` as `Rows`, batch by batch: a trace that is never written to a file.

    Call `close` at the end to pass on the last batch.
    """

    def __init__(self, feed: Callable[[Rows], None]) -> None:
        super().__init__()
        self._feed = feed
        self._next = 0
        self._phases = Codes()

    def close(self) -> None:
        self._spill_rest()

    def _take(self, chunks: list[Chunk]) -> None:
        rows = _unpack(pack(chunks, self._phases), self._next, list(self._phases))
        self._next += len(rows)
        self._feed(rows)


def rows_from(rows: Iterable[Row], first: int = 0) -> Rows:
    """Make `Rows` from tuples (t_ns, member, kind, sender, seqno, peer, bytes, phase), numbered from `first`."""
    phases = Codes()
    packed = pack([[value for row in rows for value in row]], phases)
    return _unpack(packed, first, list(phases))


def joined(parts: Sequence[Rows], first: int, phases: list[str]) -> Rows:
    """The rows of these batches, whose phases have the same codes, in the order of time, numbered from `first`."""
    t_ns = np.concatenate([part.t_ns for part in parts])
    order = np.argsort(t_ns, kind="stable")
    columns = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in _MERGED}
    return Rows(number=np.arange(first, first + len(order), dtype=np.int64), phases=phases, **columns)


_MERGED = ("t_ns", "member", "kind", "sender", "seqno", "peer", "bytes", "phase")


def _unpack(packed: dict[str, bytes], first: int, phases: list[str]) -> Rows:
    t_ns, member, sender, seqno, peer = (
        np.frombuffer(packed[name], np.int64) for name in ("t_ns", "member", "sender", "seqno", "peer")
    )
    return Rows(
        number=np.arange(first, first + len(t_ns), dtype=np.int64),
        t_ns=t_ns,
        member=member,
        kind=np.frombuffer(packed["kind"], np.int32).astype(np.int8),
        sender=sender,
        seqno=seqno,
        peer=peer,
        bytes=np.frombuffer(packed["bytes"], np.int32),
        phase=np.frombuffer(packed["phase"], np.int32),
        phases=phases,
    )
