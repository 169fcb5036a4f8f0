"""An event as a subscriber gets it, and its place in the one order of a group that has one."""

from collections.abc import Awaitable, Callable
from itertools import count, groupby, repeat
from operator import add, itemgetter
from typing import Any, Final, NamedTuple

from gossamer.core.errors import Misuse
from gossamer.core.ids import channel_of, owner_of
from gossamer.wire.attributes import Attribute, Attributes

_SEQNO: Final = itemgetter(4)
_SHOWN_BYTES: Final = 200


class Event(NamedTuple):
    """What an application published, as a subscriber gets it."""

    subject: str
    payload: bytes
    attributes: Attributes
    sender: int
    seqno: int
    """The number of the packet that it came in; of the last one if it came in fragments."""
    time: float
    """Seconds since the epoch: when the first event of its packet was published."""

    @property
    def place(self) -> tuple[int, int, int] | None:
        """Where it is in the one order of the group: that of its packet, in the trunk and in a branch, and its own in
        that; None without such an order. All members of the group see an event in the same place."""
        return None

    @property
    def source(self) -> str:
        """What people call its sender (`Settings.name`); the sender's number, if it has not said."""
        return str(owner_of(self.sender))

    @property
    def key(self) -> Attribute:
        """What `publish(..., key=...)` said: events of one key belong together; None without one."""
        return self.attributes.get("key")

    @property
    def value(self) -> Any:
        """What was published, as `Settings.codec` reads the payload; the payload itself without a codec."""
        return self.payload

    @property
    def channel(self) -> int:
        """The channel that it came by. `sender` is the stream of its publisher in that channel."""
        return channel_of(self.sender)

    @property
    def member(self) -> int:
        """The member that published it; in channel 0 that is the `sender`."""
        return owner_of(self.sender)

    def __repr__(self) -> str:
        """All of it, but of a long payload only the beginning."""
        shown = dict(zip(self._fields, map(repr, self), strict=False))
        if len(self.payload) > _SHOWN_BYTES:
            shown["payload"] = f"{bytes(self.payload[:_SHOWN_BYTES])!r}... ({len(self.payload):,} bytes)"
        return f"Event({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def ack(self) -> Awaitable[None]:
        """This event, of a subscription with `durable=` or `queue=` that is read one by one, is done.

        Without asyncio it is a plain call, `event.ack()`. Misuse if nobody waits for it.
        """
        raise Misuse(
            "nobody waits for this event to be acknowledged: subscribe with durable= or queue=, and read one by one; "
            "what `batches` and `take` return is acknowledged by `await subscription.commit()`"
        )

    def reply(self, payload: Any = b"", /, **attributes: Any) -> None:
        """Answer the request that this is: the reply goes to the member that made it, and to nobody else.

        Returns at once; the reply is repeated until that member has it. Misuse if nobody asked.
        """
        raise Misuse(f"an event of {self.subject!r} asks for no reply: only what `group.request` sends does")


class PlacedEvent(Event):
    """An event of a group with one order for all: its place is three more items of the tuple."""

    __slots__ = ()

    @property
    def place(self) -> tuple[int, int, int] | None:
        """Where it is in the order."""
        return self[6:] or None

    def __repr__(self) -> str:
        return f"{Event(*self[:6])!r} at {self.place}"


Where = Callable[[int], tuple[int, ...]]
"""From the number of a packet to its place."""


def places_from(first: int, place: int, under: int = -1) -> Where:
    """The places of packets from `first` on, which follow on from `place`.

    Places of a branch come after the place `under` of the trunk, and before the next one.
    """
    before = place - first
    return (lambda seqno: (before + seqno, 0)) if under < 0 else (lambda seqno: (under, 1 + before + seqno))


def in_places(events: list[Event], where: Where, kind: type[Event] = PlacedEvent) -> list[Event]:
    """The same events as `kind`, with their places; without a call for each."""
    placed: list[Event] = []
    for seqno, of_packet in groupby(events, _SEQNO):
        places = zip(*map(repeat, where(seqno)), count(), strict=False)
        placed += map(tuple.__new__, repeat(kind), map(add, of_packet, places))
    return placed
