"""Datagrams, authenticated and encrypted: AES-256-GCM under a key that only the group knows.

A sealed datagram says in the clear all that is needed to open it, so that no earlier one need have arrived:

 0  the header of the datagram, 16 bytes, but with the magic 'S': without being opened it cannot be taken for ours
16  key id, 4 bytes: which of the group's keys
20  incarnation, 16 bytes: random, chosen by the sealer when its process started
36  counter, 8 bytes: of all datagrams, of whatever kind, that this incarnation sealed; the upper half is never behind
    the clock, in quarters of a second
44  what followed the header, encrypted          .  tag, 16 bytes                     (44 bytes more than it was)

Traffic key = HKDF-SHA256(group key; incarnation, upper half of the counter); nonce = the counter, in 96 bits;
associated data = the first 44 bytes. A nonce never repeats under a key, because an incarnation is random and belongs
to one `Sealer`, which counts upwards and refuses to wrap; the key changes by itself with the upper half of the
counter, long before the limits of GCM.

What was recorded cannot be sent again later. Of an incarnation that it knows, a receiver takes each counter once. One
that it does not know must be alive: its datagram was sealed since the receiver started (and since it last forgot an
incarnation), and within a minute of now. So the clocks of a group may differ by a minute; one that is behind by a
second is heard a second later by a receiver that has just started.

The incarnation is carried and not derived from the source (which would save 8 bytes), so that a member may keep its
number across a restart, as loggers do. The header is authentic either way.

A repair is a header, the phase, and the origin's sealed datagram, verbatim; the repairer seals it like any other
datagram. The outer seal is checked for replays, the inner one only for authenticity, since what it holds may be old or
may have come before. Delivering a packet only once is the protocol's own work. A packet that was recovered by parity
came in no datagram: the member that recovered it seals it in its sender's place.

Anybody who holds the group key can speak as any member: sealing keeps outsiders out, but does not protect members from
each other. Import this module only where it is needed: it needs `cryptography`, which the rest of `wire` does not.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gossamer.core.ids import Phase
from gossamer.core.messages import Data, Repair
from gossamer.wire.codec import HEADER_BYTES, MAGIC, VERSION, Header, WireError, decode
from gossamer.wire.fields import PHASES
from gossamer.wire.keys import KEY_BYTES, KeyRing, key_id, new_key, parse_key
from gossamer.wire.replay import ReplayWindow

__all__ = [
    "KEY_BYTES",
    "SEAL_BYTES",
    "KeyRing",
    "Opener",
    "SealError",
    "Sealer",
    "is_repair",
    "key_id",
    "new_key",
    "parse_key",
    "repair_of",
]

INCARNATION_BYTES: Final = 16
COUNTER_MAX: Final = (1 << 64) - 1
_EPOCH: Final = 1 << 32
_TAG_BYTES: Final = 16
_KEY_AT, _INCARNATION_AT, _COUNTER_AT, _DATA_AT = 16, 20, 36, 44
_EPOCH_END: Final = _COUNTER_AT + 4
_REPAIR_CODE, _REPAIR_AT = b"\x02", HEADER_BYTES + 1
_GROUP_AND_SOURCE: Final = Struct("!IQ")

SEAL_BYTES: Final = _DATA_AT - HEADER_BYTES + _TAG_BYTES
"""How much longer sealing makes a datagram; a repair of a sealed datagram is sealed twice."""

_OPEN, _SEALED, _PAD = bytes([MAGIC]), b"S", bytes(4)
_SEALED_VERSION: Final = _SEALED + bytes([VERSION])
_OPEN_VERSION: Final = _OPEN + bytes([VERSION])
_PREAMBLE: Final = Struct("!2s14s24sI")
"""Magic and version, the rest of the header, the name of the traffic, the lower half of the counter."""
_COPY_MAX: Final = 4096
"""Up to this size, copying a piece out is quicker than taking a view of it."""

Cipher = Callable[[bytes, bytes | memoryview, bytes], bytes]
Clock = Callable[[], float]
"""Seconds since the epoch."""

_CLOCK_BEGINS: Final = 1_577_836_800
_TICKS_PER_S: Final = 4
"""The upper half of a counter counts quarters of a second since 2020: that is enough until 2054."""
_ALIVE_TICKS: Final = 60 * _TICKS_PER_S
"""How far the clocks of a group may differ."""


def _timeless() -> float:
    """For those who read what was stored: nothing in it is new."""
    return float(_CLOCK_BEGINS)


def _ticks(clock: Clock) -> int:
    return int((clock() - _CLOCK_BEGINS) * _TICKS_PER_S)


_Known = tuple[bytes, Cipher, ReplayWindow | None, bytes, int]
"""The name of some traffic (key id, incarnation, upper half of the counter), its cipher, its window if it has one, the
upper half of the counter again as the beginning of the nonce, and what to add to the lower half so that the datagrams
of this sealer are counted one by one."""


class SealError(WireError):
    """A datagram that cannot be sealed, or was not opened; `reason` is a word or two, to count by.

    Reasons: short, unsealed, version, unknown key, forged, replayed, too old, stale; from a `Sealer` also exhausted.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason: Final = reason


class Sealer:
    """Seals the datagrams of one incarnation. There must never be two sealers with one incarnation."""

    def __init__(self, keys: KeyRing, incarnation: bytes, counter: int = 0, *, clock: Clock = _timeless) -> None:
        """`incarnation` is 16 new random bytes at each start of the process; `counter` is where to begin."""
        if len(incarnation) != INCARNATION_BYTES:
            raise ValueError(f"an incarnation has {INCARNATION_BYTES} bytes, this one has {len(incarnation)}")
        self._keys: Final = keys
        self._incarnation: Final = bytes(incarnation)
        self._counter = counter
        self._clock = clock
        self._until = -1
        self._until_s = 0.0
        self._generation = -1
        self._name = b""
        self._encrypt: Cipher

    @property
    def counter(self) -> int:
        """Where the next sealer would have to begin."""
        return self._counter

    def seal(self, datagram: bytes) -> bytes:
        """The datagram, sealed with the key in use. SealError, and nothing is sealed, if no counter is left."""
        if self._counter > self._until or self._generation != self._keys.generation or self._clock() >= self._until_s:
            self._renew()
        counter = self._counter
        if datagram[:1] != _OPEN or len(datagram) < HEADER_BYTES:
            raise SealError("short", "only a datagram with a header can be sealed")
        self._counter = counter + 1
        count = counter.to_bytes(8, "big")
        head = b"".join((_SEALED, datagram[1:HEADER_BYTES], self._name, count))
        data = datagram[HEADER_BYTES:] if len(datagram) < _COPY_MAX else memoryview(datagram)[HEADER_BYTES:]
        return head + self._encrypt(_PAD + count, data, head)

    def seal_many(self, datagrams: Iterable[bytes]) -> list[bytes]:
        """Each datagram, sealed."""
        return list(map(self.seal, datagrams))

    def _renew(self) -> None:
        """Take the key in use, until the upper half of the counter changes: when it is full, or time has passed."""
        ticks = _ticks(self._clock)
        if ticks > self._counter // _EPOCH:
            self._counter = min(ticks * _EPOCH + self._counter % _EPOCH, COUNTER_MAX)
        self._until_s = (ticks + 1) / _TICKS_PER_S + _CLOCK_BEGINS
        if self._counter >= COUNTER_MAX:
            raise SealError("exhausted", "this incarnation has no counter left: begin a new one")
        epoch = self._counter // _EPOCH
        number = self._keys.using
        key = self._keys.traffic_key(number, self._incarnation + epoch.to_bytes(4, "big"))
        assert key is not None, "the key in use is installed"
        self._encrypt = AESGCM(key).encrypt
        self._name = number.to_bytes(4, "big") + self._incarnation
        self._until = min((epoch + 1) * _EPOCH, COUNTER_MAX) - 1
        self._generation = self._keys.generation


class Opener:
    """Opens sealed datagrams from anybody in the group; `refused` counts what it did not open, by reason.

    It remembers at most `incarnations_max` replay windows, and allocates one only when a datagram was authentic: forged
    ones cost time but no memory. If there are more incarnations, the one that was silent longest is forgotten
    (`forgotten` counts them), and is heard again only by what it seals from then on.
    """

    def __init__(
        self, keys: KeyRing, *, window: int = 65_536, incarnations_max: int = 1024, clock: Clock = _timeless
    ) -> None:
        """`window` in counters per incarnation, a power of two, must cover what can wait in the receiver's sockets.

        A sender counts over all its datagrams, so those in the multicast socket's queue fall behind those that were
        taken from the unicast socket meanwhile.
        """
        if incarnations_max < 1:
            raise ValueError(f"incarnations_max is {incarnations_max}: must be at least 1")
        ReplayWindow(window)  # refuses a bad size now, not at the first datagram
        self._keys: Final = keys
        self._window: Final = window
        self._max: Final = incarnations_max
        self._windows: OrderedDict[bytes, ReplayWindow] = OrderedDict()
        self._ciphers: OrderedDict[bytes, Cipher] = OrderedDict()
        self._generation = keys.generation
        self._last: _Known | None = None
        self._clock = clock
        self._alive_since = _ticks(clock)
        self.forgotten = 0
        self.refused: dict[str, int] = {}

    @property
    def incarnations(self) -> int:
        """How many replay windows there are."""
        return len(self._windows)

    def knows(self, datagram: bytes) -> bool:
        """Whether this names an incarnation that was authentic before; cheap, to let strangers wait in a flood."""
        return datagram[_INCARNATION_AT:_COUNTER_AT] in self._windows

    def open(self, datagram: bytes, replay_check: bool = True) -> bytes:
        """The datagram as it was before it was sealed; SealError, never any other error, if it is not authentic.

        `replay_check=False` is for what a repair holds: it may be old, or have been opened before.
        """
        if type(datagram) is not bytes:
            datagram = bytes(datagram)
        if len(datagram) < _DATA_AT + _TAG_BYTES:
            raise self._refuse(*_what_is_wrong(datagram))
        sealed_version, head, name, epoch_count = _PREAMBLE.unpack_from(datagram)
        if sealed_version != _SEALED_VERSION:
            raise self._refuse(*_what_is_wrong(datagram))
        if self._generation != self._keys.generation:
            self._forget_ciphers()
        last = self._last
        known = last if last is not None and last[0] == name else self._find(name, epoch_count)
        _, decrypt, window, nonce, base = known
        counter = base + epoch_count
        if replay_check and window is not None:
            reason = window.refuses(counter)
            if reason is not None:
                raise self._refuse(reason, f"the datagram with counter {counter} is {reason}")
        data = datagram[_DATA_AT:] if len(datagram) < _COPY_MAX else memoryview(datagram)[_DATA_AT:]
        try:
            plain = decrypt(nonce + datagram[_EPOCH_END:_DATA_AT], data, datagram[:_DATA_AT])
        except InvalidTag:
            raise self._refuse("forged", "the datagram is not authentic") from None
        if known is not last:
            if replay_check and window is None and not self._is_alive(int.from_bytes(name[20:], "big")):
                raise self._refuse("stale", "the datagram is not from now, and its sealer was not heard before")
            window = self._keep(known, replay_check)
        if replay_check and window is not None:
            window.mark(counter)
        return b"".join((_OPEN_VERSION, head, plain))

    def open_many(self, datagrams: Iterable[bytes], replay_check: bool = True) -> list[bytes | None]:
        """Each datagram opened, or None in its place; `refused` counts why."""
        opened: list[bytes | None] = []
        for datagram in datagrams:
            try:
                opened.append(self.open(datagram, replay_check))
            except SealError:
                opened.append(None)
        return opened

    def open_repair(self, repair: bytes) -> tuple[Header, Repair, bytes]:
        """What an opened repair (see `is_repair`) holds: header, message, and the origin's datagram, still sealed.

        Keep the latter, to repair others with `repair_of`. WireError if it does not hold authentic data of its group.
        """
        if not is_repair(repair) or len(repair) < _REPAIR_AT or repair[HEADER_BYTES] >= len(PHASES):
            raise WireError("not a repair, or cut short, or it names no phase")
        sealed = repair[_REPAIR_AT:]
        origin, message = decode(self.open(sealed, replay_check=False))
        header = Header(*_GROUP_AND_SOURCE.unpack_from(repair, 4))
        if not isinstance(message, Data) or origin.group != header.group or header.source >= 1 << 63:
            raise WireError("repair does not hold data of its group")
        return header, Repair(message.packet, PHASES[repair[HEADER_BYTES]]), sealed

    def _is_alive(self, ticks: int) -> bool:
        """Whether a sealer of which we know nothing is there now, not only in a recording."""
        return ticks >= self._alive_since and abs(ticks - _ticks(self._clock)) <= _ALIVE_TICKS

    def _find(self, name: bytes, count: int) -> _Known:
        """What is needed to open traffic with this name; nothing is remembered, because it may be forged."""
        decrypt = self._ciphers.get(name)
        if decrypt is None:
            number = int.from_bytes(name[:4], "big")
            key = self._keys.traffic_key(number, name[4:])
            if key is None:
                raise self._refuse("unknown key", f"sealed with key {number:08x}, which is not installed")
            decrypt = AESGCM(key).decrypt
        window = self._windows.get(name[4:20])
        return name, decrypt, window, _PAD + name[20:], _EPOCH if window is None else window.base(count, _EPOCH)

    def _keep(self, known: _Known, replay_check: bool) -> ReplayWindow | None:
        """Remember traffic that proved authentic; the traffic that was silent longest is forgotten."""
        name, decrypt, window, nonce, base = known
        self._ciphers[name] = decrypt
        self._ciphers.move_to_end(name)
        if len(self._ciphers) > 2 * self._max:
            self._ciphers.popitem(last=False)
        if not replay_check:
            return window
        if window is None:
            window = ReplayWindow(self._window)
        incarnation = name[4:20]
        self._windows[incarnation] = window
        self._windows.move_to_end(incarnation)
        if len(self._windows) > self._max:
            self._windows.popitem(last=False)
            self._alive_since = max(self._alive_since, _ticks(self._clock) + 1)
            self.forgotten += 1
        self._last = (name, decrypt, window, nonce, base)
        return window

    def _forget_ciphers(self) -> None:
        """A removed key opens nothing more; the windows stay, because an incarnation counts across all its keys."""
        self._ciphers.clear()
        self._last = None
        self._generation = self._keys.generation

    def _refuse(self, reason: str, text: str) -> SealError:
        self.refused[reason] = self.refused.get(reason, 0) + 1
        return SealError(reason, text)


def is_repair(datagram: bytes) -> bool:
    """Whether an opened datagram is a repair, for `open_repair`; all others are for `decode`."""
    return datagram[2:3] == _REPAIR_CODE


def repair_of(header: Header, phase: Phase, sealed: bytes) -> bytes:
    """The datagram of a repair that holds the origin's sealed datagram as it came; seal it before it is sent."""
    head = b"".join((_OPEN_VERSION, _REPAIR_CODE, b"\x00", _GROUP_AND_SOURCE.pack(header.group, header.source)))
    return b"".join((head, bytes([PHASES.index(phase)]), sealed))


def _what_is_wrong(datagram: bytes) -> tuple[str, str]:
    if datagram[:1] != _SEALED:
        return "unsealed", "the datagram is not sealed, and this group has a key"
    if datagram[1:2] not in (b"", _SEALED_VERSION[1:]):
        return "version", f"version {datagram[1]} is not {VERSION}: update the older side"
    return "short", f"{len(datagram)} bytes are shorter than any sealed datagram"
