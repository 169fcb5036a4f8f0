"""Datagrams, authenticated and encrypted: AES-256-GCM under a key that only the group knows.

A sealed datagram says in the clear all that is needed to open it, so that no earlier one need have arrived:

 0  the header of the datagram, 16 bytes, but with the magic 'S' and a version of its own: without being opened it
    cannot be taken for ours. Its source and the salt name an incarnation of a process
16  key id, 4 bytes: which of the group's keys
20  salt, 8 bytes: random, chosen by the sealer when its process started
28  counter, 8 bytes: of all datagrams, of whatever kind, that this sealer sealed; the upper half is never behind the
    clock, in quarters of a second
36  of a packet its number, 8 bytes: so what is encrypted is its body and nothing else
 .  what followed, but for the checksum, encrypted          .  tag, 16 bytes           (32 bytes more than it was)

Traffic key = HKDF-SHA256(group key; source, salt, upper half of the counter); nonce = bytes 24 to 36, the counter after
half of the salt; associated data = all that is in the clear. A nonce never repeats under a key: a salt is random and
belongs to one `Sealer`, which counts upwards and refuses to wrap; the key changes by itself with the upper half of the
counter, long before the limits of GCM. Two starts of a member that keeps its number, as loggers do, would have to draw
the same salt and to seal in the same quarter of a second.

What was recorded cannot be sent again later. Of an incarnation that it knows, a receiver takes each counter once. One
that it does not know must be alive: its datagram was sealed since the receiver started (and since it last forgot an
incarnation), and within a minute of now. So the clocks of a group may differ by a minute; one that is behind by a
second is heard a second later by a receiver that has just started. A sealer that finds its counter ahead of its clock
begins a new incarnation once others agree with that clock; until then those that know it go on hearing it.

A repair is a header, the phase, and the origin's sealed datagram, verbatim; the repairer seals it like any other
datagram. The outer seal is checked for replays, the inner one only for authenticity, since what it holds may be old or
may have come before. Delivering a packet only once is the protocol's own work. A packet that was recovered by parity
came in no datagram: the member that recovered it seals it in its sender's place, under its own salt.

Anybody who holds the group key can speak as any member: sealing keeps outsiders out, but does not protect members from
each other. Import this module only where it is needed: it needs `cryptography`, which the rest of `wire` does not.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import sha256
from struct import Struct
from typing import Final, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gossamer.core.ids import Phase
from gossamer.core.messages import Data, Repair
from gossamer.core.packets import Packet, Run
from gossamer.wire.codec import (
    CHECKSUM_BYTES,
    DATA_CODE,
    HEADER_BYTES,
    MAGIC,
    REPAIR_CODE,
    SEQNO_BYTES,
    VERSION,
    Header,
    WireError,
    checksummed,
    decode_intact,
)
from gossamer.wire.fields import PHASES
from gossamer.wire.keys import KEY_BYTES, KeyRing, key_id, new_key, parse_key
from gossamer.wire.liveness import AGREED_TICKS, CLOCK_BEGINS, TICKS_PER_S, Clock, Liveness, ticks_of, timeless
from gossamer.wire.replay import ReplayWindow

__all__ = [
    "KEY_BYTES",
    "SALT_BYTES",
    "SEAL_BYTES",
    "KeyRing",
    "Opener",
    "SealError",
    "Sealer",
    "is_repair",
    "key_id",
    "new_key",
    "parse_key",
]

SALT_BYTES: Final = 8
COUNTER_MAX: Final = (1 << 64) - 1
_EPOCH: Final = 1 << 32
_TAG_BYTES: Final = 16
_SOURCE_AT, _KEY_AT, _SALT_AT, _NONCE_AT, _COUNTER_AT, _COUNT_AT, _CLEAR_BYTES = 8, 16, 20, 24, 28, 32, 36
_PACKET_CLEAR_BYTES: Final = _CLEAR_BYTES + SEQNO_BYTES
_PACKET_BYTES_MIN: Final = _PACKET_CLEAR_BYTES + _TAG_BYTES
_DATA_CODE, _REPAIR_CODE = bytes([DATA_CODE]), bytes([REPAIR_CODE])

SEAL_BYTES: Final = _CLEAR_BYTES - HEADER_BYTES + _TAG_BYTES - CHECKSUM_BYTES
"""How much longer sealing makes a datagram; a repair of a sealed datagram is sealed twice."""

_SEALED_VERSION: Final = b"S\x03"
_OPEN_VERSION: Final = bytes([MAGIC, VERSION])
_HEAD: Final = Struct("!28sQq")
"""Of a packet: everything up to the counter, the counter, the number."""
_NUMBERS: Final = Struct("!Iq")
"""Of a packet, from `_COUNT_AT` on: the lower half of the counter, the number."""
_GROUP_AND_SOURCE: Final = Struct("!IQ")
_PACKET_BEGINS: Final = Struct("!2sBBI")
_NOTHING: Final = bytes(_COUNT_AT)
"""No datagram begins like this."""
_VERSION_2, _VERSION_2_CLEAR_BYTES = b"S\x02", 44
_COPY_MAX: Final = 4096
"""Up to this size, copying a piece out is quicker than taking a view of it."""

Cipher = Callable[[bytes, bytes | memoryview, bytes], bytes]
T = TypeVar("T")

_Known = tuple[bytes, Cipher, ReplayWindow | None, int]
"""The name of some traffic (source, key id, salt, upper half of the counter), its cipher, its window if it has one, and
what to add to the lower half of the counter so that the datagrams of this sealer are counted one by one."""
_ShortPath = tuple[bytes, Cipher, ReplayWindow, int, int]
"""How the next packet of the sender that was heard last begins, its cipher, window and base, and the sender."""


class SealError(WireError):
    """A datagram that cannot be sealed, or was not opened; `reason` is a word or two, to count by.

    Reasons: short, unsealed, version, unknown key, forged, replayed, too old, stale; from a `Sealer` also exhausted.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason: Final = reason


class Sealer:
    """Seals the datagrams of one incarnation. There must never be two sealers with one salt."""

    def __init__(
        self,
        keys: KeyRing,
        salt: bytes,
        counter: int = 0,
        *,
        clock: Clock = timeless,
        is_agreed: Callable[[], bool] = bool,
    ) -> None:
        """`salt` is 8 new random bytes at each start of the process; `counter` is where to begin.

        `is_agreed` tells whether others agree with our clock.
        """
        if len(salt) != SALT_BYTES:
            raise ValueError(f"a salt has {SALT_BYTES} bytes, this one has {len(salt)}")
        self._keys: Final = keys
        self._salt = bytes(salt)
        self._counter = counter
        self._clock = clock
        self._is_agreed = is_agreed
        self._until = -1
        self._until_s = 0.0
        self._generation = -1
        self._key_and_salt = b""
        self._ciphers: dict[bytes, Cipher] = {}  # by source: ours, and those in whose place we seal

    @property
    def counter(self) -> int:
        """Where the next sealer would have to begin."""
        return self._counter

    def seal(self, datagram: bytes) -> bytes:
        """The datagram, sealed with the key in use. SealError, and nothing is sealed, if no counter is left."""
        at = HEADER_BYTES + (SEQNO_BYTES if datagram[2:3] == _DATA_CODE else 0)
        if datagram[:2] != _OPEN_VERSION or len(datagram) < at + CHECKSUM_BYTES:
            raise SealError("short", "only a datagram with a header and a checksum can be sealed")
        return self._seal(datagram[2:HEADER_BYTES], datagram[HEADER_BYTES:at], datagram[at:-CHECKSUM_BYTES])

    def seal_many(self, datagrams: Iterable[bytes]) -> list[bytes]:
        """Each datagram, sealed."""
        return list(map(self.seal, datagrams))

    def seal_repair(self, header: Header, phase: Phase, sealed: bytes) -> bytes:
        """The sealed datagram of a repair that holds the origin's sealed datagram as it came."""
        kind = _REPAIR_CODE + b"\x00" + _GROUP_AND_SOURCE.pack(header.group, header.source)
        return self._seal(kind, b"", bytes([PHASES.index(phase)]) + sealed)

    def seal_packets(self, group: int, run: Run) -> list[bytes]:
        """The sealed datagrams of packets of one sender: a loop without calls, because a publisher does little else."""
        self._prepare(len(run))
        kind = _DATA_CODE + b"\x00" + _GROUP_AND_SOURCE.pack(group, run[0].sender)
        begins, encrypt = _SEALED_VERSION + kind + self._key_and_salt, self._cipher(kind[6:])
        head_of, next_counter = _HEAD.pack, self._counter
        self._counter += len(run)
        sealed: list[bytes] = []
        for counter, packet in enumerate(run, next_counter):
            head = head_of(begins, counter, packet.seqno)
            sealed.append(head + encrypt(head[_NONCE_AT:_CLEAR_BYTES], packet.body, head))
        return sealed

    def _seal(self, kind: bytes, number: bytes, content: bytes) -> bytes:
        self._prepare(1)
        counter = self._counter
        self._counter = counter + 1
        head = b"".join((_SEALED_VERSION, kind, self._key_and_salt, counter.to_bytes(8, "big"), number))
        return head + self._cipher(kind[6:])(head[_NONCE_AT:_CLEAR_BYTES], content, head)

    def _prepare(self, count: int) -> None:
        """Have a key under which the next `count` datagrams may be sealed."""
        last = self._counter + count - 1
        is_now = self._until_s - 1 / TICKS_PER_S <= self._clock() < self._until_s
        if last > self._until or self._generation != self._keys.generation or not is_now:
            self._renew(count)

    def _renew(self, count: int) -> None:
        """Take the key in use, until the upper half of the counter changes: when it is full, or time has passed."""
        ticks = ticks_of(self._clock)
        if self._counter // _EPOCH > ticks + AGREED_TICKS and self._is_agreed():
            self._begin_anew()
        if ticks > self._counter // _EPOCH:
            self._counter = min(ticks * _EPOCH + self._counter % _EPOCH, COUNTER_MAX)
        if (self._counter + count - 1) // _EPOCH != self._counter // _EPOCH:
            self._counter = min((self._counter // _EPOCH + 1) * _EPOCH, COUNTER_MAX)
        self._until_s = (ticks + 1) / TICKS_PER_S + CLOCK_BEGINS
        if self._counter + count - 1 >= COUNTER_MAX:
            raise SealError("exhausted", "this incarnation has no counter left: begin a new one")
        self._ciphers.clear()
        self._key_and_salt = self._keys.using.to_bytes(4, "big") + self._salt
        self._until = min((self._counter // _EPOCH + 1) * _EPOCH, COUNTER_MAX) - 1
        self._generation = self._keys.generation

    def _begin_anew(self) -> None:
        """The clock was ahead, and is right now: those that do not know us would take us for a recording."""
        self._salt = sha256(self._salt + self._counter.to_bytes(8, "big")).digest()[:SALT_BYTES]
        self._counter = 0

    def _cipher(self, source: bytes) -> Cipher:
        """The cipher for what is sealed now as coming from `source`."""
        encrypt = self._ciphers.get(source)
        if encrypt is None:
            epoch = (self._until // _EPOCH).to_bytes(4, "big")
            key = self._keys.traffic_key(self._keys.using, source + self._salt + epoch)
            assert key is not None, "the key in use is installed"
            encrypt = self._ciphers[source] = AESGCM(key).encrypt
        return encrypt


class Opener:
    """Opens sealed datagrams from anybody in the group; `refused` counts what it did not open, by reason.

    It remembers at most `incarnations_max` replay windows, and allocates one only when a datagram was authentic: forged
    ones cost time but no memory. If there are more incarnations, the one that was silent longest is forgotten
    (`forgotten` counts them), and is heard again only by what it seals from then on.
    """

    def __init__(
        self, keys: KeyRing, *, window: int = 65_536, incarnations_max: int = 1024, clock: Clock = timeless
    ) -> None:
        """`window` in counters per incarnation, a power of two, must cover what can wait in the receiver's sockets.

        A sender counts over all its datagrams, so those in the multicast socket's queue fall behind those that were
        taken from the unicast socket meanwhile.
        """
        if incarnations_max < 1:
            raise ValueError(f"incarnations_max is {incarnations_max}: must be at least 1")
        self._none: Final = ReplayWindow(window)  # of nobody; refuses a bad size now, not at the first datagram
        self._keys: Final = keys
        self._window: Final = window
        self._max: Final = incarnations_max
        self._windows: OrderedDict[bytes, ReplayWindow] = OrderedDict()
        self._ciphers: OrderedDict[bytes, Cipher] = OrderedDict()
        self._generation = keys.generation
        self._last: _Known | None = None
        self.liveness: Final = Liveness(clock)
        self.forgotten = 0
        self.refused: dict[str, int] = {}

    @property
    def incarnations(self) -> int:
        """How many replay windows there are."""
        return len(self._windows)

    def knows(self, datagram: bytes) -> bool:
        """Whether this names an incarnation that was authentic before; cheap, to let strangers wait in a flood."""
        return _incarnation(datagram[_SOURCE_AT:_COUNT_AT]) in self._windows

    def open(self, datagram: bytes, replay_check: bool = True) -> bytes:
        """The datagram as it was before it was sealed; SealError, never any other error, if it is not authentic.

        `replay_check=False` is for what a repair or a log holds: it may be old, or have been opened before.
        """
        return checksummed(self.open_content(datagram, replay_check))

    def open_content(self, datagram: bytes, replay_check: bool = True) -> bytes:
        """The same without the checksum, for `decode_intact`: that it is authentic says more."""
        if type(datagram) is not bytes:
            datagram = bytes(datagram)
        clear = _PACKET_CLEAR_BYTES if datagram[2:3] == _DATA_CODE else _CLEAR_BYTES
        if len(datagram) < clear + _TAG_BYTES or datagram[:2] != _SEALED_VERSION:
            if datagram[:2] == _VERSION_2 and not replay_check:
                return self._open_version_2(datagram)
            raise self._refuse(*_what_is_wrong(datagram))
        if self._generation != self._keys.generation:
            self._forget_ciphers()
        last, name = self._last, datagram[_SOURCE_AT:_COUNT_AT]
        count = int.from_bytes(datagram[_COUNT_AT:_CLEAR_BYTES], "big")
        known = last if last is not None and last[0] == name else self._find(name, count)
        _, decrypt, window, base = known
        counter = base + count
        if replay_check and window is not None:
            reason = window.refuses(counter)
            if reason is not None:
                raise self._refuse(reason, f"the datagram with counter {counter} is {reason}")
        data = datagram[clear:] if len(datagram) < _COPY_MAX else memoryview(datagram)[clear:]
        try:
            plain = decrypt(datagram[_NONCE_AT:_CLEAR_BYTES], data, datagram[:clear])
        except InvalidTag:
            raise self._refuse("forged", "the datagram is not authentic") from None
        if known is not last:
            if replay_check and window is None and not self.liveness.is_alive(int.from_bytes(name[-4:], "big")):
                raise self._refuse("stale", "the datagram is not from now, and its sealer was not heard before")
            window = self._keep(known, replay_check)
        if replay_check and window is not None:
            window.mark(counter)
        return b"".join((_OPEN_VERSION, datagram[2:HEADER_BYTES], datagram[_CLEAR_BYTES:clear], plain))

    def open_many(self, datagrams: Iterable[bytes], replay_check: bool = True) -> list[bytes | None]:
        """Each datagram opened, or None in its place; `refused` counts why."""
        opened: list[bytes | None] = []
        for datagram in datagrams:
            try:
                opened.append(self.open(datagram, replay_check))
            except SealError:
                opened.append(None)
        return opened

    def open_runs(
        self, datagrams: Iterable[bytes | memoryview], group: int, otherwise: Callable[[bytes], Packet | T | None]
    ) -> list[Run | T]:
        """The runs of packets of this group among `datagrams`, quickly; for all others, what `otherwise` makes of them.

        Most datagrams are packets that follow on, and come many at a time, so this is a loop without a call of ours for
        each. What is new to the window is marked there for many at once, before anybody else looks at the window.
        """
        found: list[Run | T] = []
        run: Run = []
        expected = by = -1
        clear = _PACKET_CLEAR_BYTES
        begins, decrypt, window, base, sender = self._short_path(group)
        first = following = window.following
        for datagram in datagrams:
            sealed = datagram if type(datagram) is bytes else bytes(datagram)
            is_next = sealed.startswith(begins) and len(sealed) >= _PACKET_BYTES_MIN
            if is_next:
                count, seqno = _NUMBERS.unpack_from(sealed, _COUNT_AT)
                counter = base + count
                is_next = counter >= following and seqno >= 0
            if is_next:
                data = sealed[clear:] if len(sealed) < _COPY_MAX else memoryview(sealed)[clear:]
                try:
                    body = decrypt(sealed[_NONCE_AT:_CLEAR_BYTES], data, sealed[:clear])
                except InvalidTag:
                    self._refuse("forged", "the datagram is not authentic")
                    continue
                if counter != following:
                    window.mark_all(first, following)
                    first = counter
                following = counter + 1
                packet = Packet(sender, seqno, body, sealed)
            else:
                window.mark_all(first, following)
                opened = otherwise(sealed)
                begins, decrypt, window, base, sender = self._short_path(group)
                first = following = window.following
                if not isinstance(opened, Packet):
                    found += [] if opened is None else [opened]
                    expected = -1
                    continue
                packet = opened
            if packet.seqno == expected and packet.sender == by:
                run.append(packet)
            else:
                run, by = [packet], packet.sender
                found.append(run)
            expected = packet.seqno + 1
        window.mark_all(first, following)
        return found

    def open_repair(self, repair: bytes) -> tuple[Header, Repair, bytes]:
        """What an opened repair (see `is_repair`) holds: header, message, and the origin's datagram, still sealed.

        Keep the latter, to repair others with `seal_repair`. WireError if it does not hold authentic data of its group.
        """
        if not is_repair(repair) or len(repair) <= HEADER_BYTES or repair[HEADER_BYTES] >= len(PHASES):
            raise WireError("not a repair, or cut short, or it names no phase")
        sealed = repair[HEADER_BYTES + 1 :]
        origin, message = decode_intact(self.open_content(sealed, replay_check=False))
        header = Header(*_GROUP_AND_SOURCE.unpack_from(repair, 4))
        if not isinstance(message, Data) or origin.group != header.group or header.source >= 1 << 63:
            raise WireError("repair does not hold data of its group")
        return header, Repair(message.packet, PHASES[repair[HEADER_BYTES]]), sealed

    def _find(self, name: bytes, count: int) -> _Known:
        """What is needed to open traffic with this name; nothing is remembered, because it may be forged."""
        decrypt = self._ciphers.get(name)
        if decrypt is None:
            decrypt = self._decrypt(int.from_bytes(name[8:12], "big"), name[:8] + name[12:])
        window = self._windows.get(_incarnation(name))
        return name, decrypt, window, _EPOCH if window is None else window.base(count, _EPOCH)

    def _decrypt(self, number: int, traffic: bytes) -> Cipher:
        key = self._keys.traffic_key(number, traffic)
        if key is None:
            raise self._refuse("unknown key", f"sealed with key {number:08x}, which is not installed")
        return AESGCM(key).decrypt

    def _short_path(self, group: int) -> _ShortPath:
        """For packets of this group from the member that was heard last; nothing begins like that if there is none."""
        if self._generation != self._keys.generation:
            self._forget_ciphers()
        if self._last is None:
            return _NOTHING, _never, self._none, 0, -1
        name, decrypt, window, base = self._last
        assert window is not None, "what was heard last has one"
        sender = int.from_bytes(name[:8], "big")
        begins = _PACKET_BEGINS.pack(_SEALED_VERSION, DATA_CODE, 0, group) + name if sender < 1 << 63 else _NOTHING
        return begins, decrypt, window, base, sender

    def _keep(self, known: _Known, replay_check: bool) -> ReplayWindow | None:
        """Remember traffic that proved authentic; the traffic that was silent longest is forgotten."""
        name, decrypt, window, base = known
        if replay_check and name not in self._ciphers:
            self.liveness.heard(int.from_bytes(name[-4:], "big"))
        self._ciphers[name] = decrypt
        self._ciphers.move_to_end(name)
        if len(self._ciphers) > 2 * self._max:
            self._ciphers.popitem(last=False)
        if not replay_check:
            return window
        if window is None:
            window = ReplayWindow(self._window)
        incarnation = _incarnation(name)
        self._windows[incarnation] = window
        self._windows.move_to_end(incarnation)
        if len(self._windows) > self._max:
            self._windows.popitem(last=False)
            self.liveness.forgot()
            self.forgotten += 1
        self._last = (name, decrypt, window, base)
        return window

    def _open_version_2(self, datagram: bytes) -> bytes:
        """The content of a datagram that an older version sealed: logs are full of them.

        There the incarnation was 16 random bytes, the counter in 96 bits the nonce, and number and checksum encrypted.
        """
        if len(datagram) < _VERSION_2_CLEAR_BYTES + _TAG_BYTES:
            raise self._refuse(*_what_is_wrong(datagram))
        clear, nonce = datagram[:_VERSION_2_CLEAR_BYTES], bytes(4) + datagram[36:44]
        try:
            decrypt = self._decrypt(int.from_bytes(datagram[16:20], "big"), datagram[20:40])
            plain = decrypt(nonce, datagram[_VERSION_2_CLEAR_BYTES:], clear)
        except InvalidTag:
            raise self._refuse("forged", "the datagram is not authentic") from None
        return b"".join((_OPEN_VERSION, datagram[2:HEADER_BYTES], plain[:-CHECKSUM_BYTES]))

    def _forget_ciphers(self) -> None:
        """A removed key opens nothing more; the windows stay, because an incarnation counts across all its keys."""
        self._ciphers.clear()
        self._last = None
        self._generation = self._keys.generation

    def _refuse(self, reason: str, text: str) -> SealError:
        self.refused[reason] = self.refused.get(reason, 0) + 1
        return SealError(reason, text)


def is_repair(datagram: bytes) -> bool:
    """Whether an opened datagram is a repair, for `open_repair`; all others are for `decode_intact`."""
    return datagram[2:3] == _REPAIR_CODE


def _never(nonce: bytes, data: bytes | memoryview, clear: bytes) -> bytes:
    raise AssertionError("there is nothing to open")


def _incarnation(name: bytes) -> bytes:
    """Whose traffic this is, whatever the key and the time: source and salt."""
    return name[:8] + name[12:20]


def _what_is_wrong(datagram: bytes) -> tuple[str, str]:
    if datagram[:1] != _SEALED_VERSION[:1]:
        return "unsealed", "the datagram is not sealed, and this group has a key"
    if datagram[1:2] not in (b"", _SEALED_VERSION[1:]):
        return "version", f"version {datagram[1]} is not {_SEALED_VERSION[1]}: update the older side"
    return "short", f"{len(datagram)} bytes are shorter than any sealed datagram"
