"""What the tests of the store share."""

from random import Random

from gossamer.store import LogEntry


def entry(sender: int, seqno: int, size: int = 100) -> LogEntry:
    """An entry whose content follows from its number, so that any copy can be judged."""
    return LogEntry(sender, seqno, 1_000_000_000 + seqno, Random(sender << 64 | seqno).randbytes(size))


def entries(sender: int, first: int, last: int, size: int = 100) -> list[LogEntry]:
    """The entries `first` to `last`."""
    return [entry(sender, seqno, size) for seqno in range(first, last + 1)]
