"""Logged packets, opened: with the keys of the group, if it has any. Needs neither Arrow nor Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gossamer.core.messages import Data
from gossamer.pipeline.options import KEY_VARIABLE, ReadOptions
from gossamer.pipeline.session import PipelineError
from gossamer.store import LogEntry, LogStore, StoreError, open_store
from gossamer.wire import WireError, decode

SEALED = b"S"
"""What a sealed datagram begins with."""
Open = Callable[[bytes], bytes]
"""Turns a sealed datagram from the log into the datagram before it was sealed."""


@contextmanager
def open_for_reading(path: str) -> Iterator[LogStore]:
    """Open a store, and close it at the end; `PipelineError` says what is wrong with it."""
    try:
        with open_store(path, readonly=True) as store:
            yield store
    except StoreError as error:
        raise PipelineError(str(error)) from None


def body_of(entry: LogEntry, open_datagram: Open) -> bytes:
    """The body of a logged packet; WireError if it is not the packet that the log says it is."""
    datagram = open_datagram(entry.datagram) if entry.datagram[:1] == SEALED else entry.datagram
    _, message = decode(datagram)
    if not isinstance(message, Data) or (message.packet.sender, message.packet.seqno) != (entry.sender, entry.seqno):
        raise WireError("it holds a different packet")
    return message.packet.body


def opener(options: ReadOptions) -> Callable[[bytes], bytes]:
    """A function that opens sealed datagrams with the keys of the options."""
    if not options.keys:
        return _no_key
    from gossamer.wire.sealing import Opener, SealError

    opening = Opener(options.ring())

    def opened(datagram: bytes) -> bytes:
        try:
            return opening.open(datagram, replay_check=False)
        except SealError as error:
            raise PipelineError(f"the key does not open the log: {error}; give the key of its group") from None

    return opened


def _no_key(_: bytes) -> bytes:
    raise PipelineError(f"the log is sealed: give the option key, or set {KEY_VARIABLE} in the environment")
