"""Events that know where they came from: what they can do depends on their group.

An event is a tuple without room for more, so what it is bound to is in its class, made once for each group.
"""

from collections.abc import Callable
from typing import Any

from gossamer.live.codecs import Codec
from gossamer.live.home import Home
from gossamer.live.names import name_of
from gossamer.wire.events import Event

Replier = Callable[[Event, Any, dict[str, Any]], None]


def event_type(home: Home, reply: Replier, codec: Codec | None, base: type[Event] = Event) -> type[Event]:
    """The class of events of one group: a request can be replied to, from any thread; a codec reads the payload."""

    def answer(self: Event, payload: Any = b"", /, **attributes: Any) -> None:
        if type(self.attributes.get("reply")) is not int:  # an application may have an attribute of that name
            Event.reply(self)
        home.do(lambda: reply(self, payload, attributes))

    members: dict[str, Any] = {"__slots__": (), "__doc__": Event.__doc__, "reply": answer}
    members["source"] = property(lambda self: name_of(self.sender), doc=Event.source.__doc__)
    members["__reduce__"] = lambda self: (tuple.__new__, (base, tuple(self)))  # pickled, it is an event of no group
    if codec is not None:
        members["value"] = property(lambda self: codec.value(self.payload), doc=Event.value.__doc__)
    return type("Event", (base,), members)


def acknowledged_types(
    base: type[Event], home: Home, acknowledge: Callable[[Event], None]
) -> tuple[type[Event], type[Event]]:
    """The classes of events of one subscription: with asyncio `await event.ack()` says that it is done, and without it
    `event.ack()`.
    """

    def said(self: Event) -> None:
        home.do(lambda: acknowledge(self))

    async def awaited(self: Event) -> None:
        said(self)

    with_asyncio, blocking = (
        type("Event", (base,), {"__slots__": (), "__doc__": base.__doc__, "ack": ack}) for ack in (awaited, said)
    )
    return with_asyncio, blocking


def copied(items: list[Any], kind: type[Event]) -> list[Any]:
    """The same items, for one of the subscriptions that have them: copies of the events, of this class."""
    make = tuple.__new__
    return [make(kind, item) if isinstance(item, Event) else item for item in items]


def bind(items: list[Any], kind: type[Event]) -> None:
    """Make the events among these items, which no other subscription has, events of this class."""
    for item in items:
        if isinstance(item, Event):
            item.__class__ = kind


class Acknowledged:
    """The events that were acknowledged, for as long as others of their packet are not: none counts twice."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[int, int], dict[int, Event]] = {}

    def note(self, event: Event) -> bool:
        """Whether this is the first time."""
        same = self._by_place.setdefault((event.sender, event.seqno), {})
        if id(event) in same:
            return False
        same[id(event)] = event  # kept, so that no other has its id
        return True

    def forget(self, sender: int, seqno: int) -> None:
        """All events of this packet were acknowledged."""
        self._by_place.pop((sender, seqno), None)

    def clear(self) -> None:
        """All events were."""
        self._by_place.clear()
