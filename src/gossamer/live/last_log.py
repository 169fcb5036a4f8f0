"""The last events in a log, read when somebody asks for them, and from there on when somebody asks again."""

from collections.abc import Callable

from gossamer.core.messages import Data
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Packet
from gossamer.pubsub.last_values import LastValues, newest
from gossamer.store.contract import Damaged, LogStore
from gossamer.wire import WireError, decode
from gossamer.wire.events import Event, is_fragment, unpack
from gossamer.wire.fragments import Reassembler

SUBJECTS_MAX = 100_000
"""Of so many subjects of each sender a logger knows the last event; the first that it met make room."""
_SEALED = b"S"


class LastLog:
    """A store, and the last events of it as far as it was read."""

    def __init__(self, store: LogStore, opened: Callable[[bytes], bytes]) -> None:
        """`opened` makes a datagram of a sealed one."""
        self.unreadable = 0
        self._store = store
        self._opened = opened
        self._by_sender: dict[int, LastValues[Event]] = {}
        self._read: Horizon = {}
        self._reassembler = Reassembler()

    def catch_up(self, packets: int) -> bool:
        """Read what is new, but not more than about so many packets at a time; returns whether all was read."""
        for sender, numbers in self._store.held().items():
            first = max(self._read.get(sender, -1) + 1, numbers.first)
            last = min(numbers.last, first + packets - 1)
            self._read_on(sender, first, last)
            packets -= max(0, last - first + 1)
            if last < numbers.last or packets <= 0:
                return False
        return True

    def matching(self, matches: Callable[[str], bool]) -> list[Event]:
        """Of what was read, the last event of each subject that matches, by the time of its publication."""
        return newest([event for table in self._by_sender.values() for event in table.matching(matches)])

    def _read_on(self, sender: int, first: int, last: int) -> None:
        table = self._by_sender.setdefault(sender, LastValues(SUBJECTS_MAX))
        self._read[sender] = max(last, first - 1)
        while first <= last:
            try:
                for entry in self._store.read(sender, first, last):
                    first = entry.seqno + 1
                    table.note(self._events(sender, entry.seqno, entry.datagram))
                break
            except (Damaged, WireError) as error:
                first = error.seqno + 1 if isinstance(error, Damaged) else first
                self.unreadable += 1

    def _events(self, sender: int, seqno: int, datagram: bytes) -> list[Event]:
        _, message = decode(self._opened(datagram) if datagram[:1] == _SEALED else datagram)
        if not isinstance(message, Data):
            raise WireError("it holds no packet")
        packet = Packet(sender, seqno, message.packet.body)
        if is_fragment(packet.body):
            event = self._reassembler.add(packet)
            return [] if event is None else [event]
        return unpack(packet)
