"""Coverage-guided fuzzing of everything that reads bytes from the network: WireError or a value, never another error.

    pip install atheris
    python tests/fuzz/fuzz_decode.py -max_total_time=60 -max_len=2048 [CORPUS_DIR]

The first byte chooses what reads the rest. A crash, a hang or a broken promise ends the run and leaves the input in a
file `crash-*`; give that file as argument to run it again. `tests/wire` has the same promises for Hypothesis.
"""

import sys
from contextlib import suppress

try:
    import atheris
except ImportError:
    sys.exit("atheris is not installed: pip install atheris")

with atheris.instrument_imports(include=["gossamer"]):
    from gossamer.core.packets import Packet
    from gossamer.wire import Header, WireError, blocks, decode, size
    from gossamer.wire.codec import checksummed
    from gossamer.wire.events import count_events, unpack
    from gossamer.wire.fragments import HEAD, Reassembler
    from gossamer.wire.sealing import KeyRing, Opener, Sealer, is_repair, key_id

KEY = bytes(range(32))
KEYS = KeyRing([KEY])
HEADER = b"G\x02\x01\x00" + bytes(12)


def read_datagram(data: bytes) -> None:
    """A message is as long as `size` says, or its bytes were not the shortest that say it."""
    _, message = decode(data)
    assert size(message) <= len(data)


def read_headed_datagram(data: bytes) -> None:
    """The same behind a good header and with a good checksum; the first byte is the code of the message."""
    read_datagram(checksummed(b"G\x02" + data[:1] + bytes(13) + data[1:]))


def read_events(data: bytes) -> None:
    """`count_events` agrees with `unpack`; no event and no attribute is for nothing."""
    body = b"\x01" + bytes(8) + data
    events = unpack(Packet(1, 2, body))
    assert len(events) == count_events(body)
    assert len(events) + sum(len(event.attributes) + len(event.payload) for event in events) <= len(body)


def read_columns(data: bytes) -> None:
    """The same for one block whose outer lengths are right, so that its columns are read."""
    form, count, each = data[0] % 16, data[1] % 4 + 1, data[2] % 4 + 1
    size = each * count if form & 3 else each
    read_events(blocks.HEAD.pack(form, count, size, len(data) - 3) + data[3:] + bytes(each * count))


def read_fragments(data: bytes) -> None:
    """Fragments of 32 bytes, with small numbers in their heads: in the end nothing is held."""
    reassembler = Reassembler(limit_event_bytes=256, limit_total_bytes=70_000)
    for at in range(0, len(data) - 5, 37):
        sender, seqno, index, count, total = data[at : at + 5]
        body = HEAD.pack(2, 0, 0, index, count, total) + data[at + 5 : at + 37]
        with suppress(WireError):
            reassembler.add(Packet(sender & 1, seqno, body))
        assert reassembler.held_bytes <= 70_000
    for sender in (0, 1):
        reassembler.forget(sender)
    assert reassembler.held_bytes == 0


def read_whole(data: bytes) -> None:
    """One fragment that is a whole event."""
    Reassembler().add(Packet(1, 0, HEAD.pack(2, 0, 0, 0, 1, len(data)) + data))


def open_forged(data: bytes) -> None:
    """Whatever was not sealed with the key is refused, and leaves nothing behind."""
    opener = Opener(KEYS)
    for datagram in (data, b"S\x03" + data[:14] + key_id(KEY).to_bytes(4, "big") + data[14:]):
        for check in (True, False):
            with suppress(WireError):
                opener.open(datagram, check)
                raise AssertionError("a forgery was opened")
    assert opener.incarnations == 0


def open_sealed(data: bytes) -> None:
    """What was sealed comes back; what it holds may still be any bytes."""
    opener = Opener(KEYS)
    datagram = checksummed(HEADER[:2] + data[:1] + HEADER[3:] + data[1:])
    sealed = Sealer(KEYS, bytes(8)).seal(datagram)
    assert opener.open(sealed) == datagram
    if is_repair(datagram):
        opener.open_repair(datagram[:-4])
    decode(datagram)


def open_repair(data: bytes) -> None:
    """A good repair of any data."""
    opener = Opener(KEYS)
    sealed = Sealer(KEYS, bytes(8)).seal(checksummed(HEADER + data))
    opener.open_repair(opener.open_content(Sealer(KEYS, b"r" * 8).seal_repair(Header(0, 0), "peer", sealed)))


TARGETS = (
    read_datagram,
    read_headed_datagram,
    read_events,
    read_columns,
    read_fragments,
    read_whole,
    open_forged,
    open_sealed,
    open_repair,
)


def one_input(data: bytes) -> None:
    """Run one input; only WireError is expected."""
    if len(data) > 3:
        with suppress(WireError):
            TARGETS[data[0] % len(TARGETS)](data[1:])


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
