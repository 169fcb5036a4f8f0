"""An outbox for each channel, and the map that says which one takes an event.

Without a map there is one, and `publish` is its own: nothing is asked before it. A new map takes effect between two
packets: everything published before is closed, and the first packet to a channel after that says how far the others
were (`wire.switches`), so that receivers keep the order of each subject.
"""

from _thread import get_ident
from collections.abc import Callable, Sequence
from functools import partial
from time import time_ns
from typing import Any

from gossamer.core.ids import PacketId
from gossamer.core.packet_sets import Horizon
from gossamer.live.home import Home
from gossamer.live.outbox import Outbox
from gossamer.pubsub.channel_map import ChannelMap
from gossamer.wire.switches import pack_switch


class Outboxes:
    """All outboxes of one member."""

    def __init__(self, home: Home, make: Callable[[int], Outbox]) -> None:
        self._home = home
        self._make = make
        self._map: ChannelMap | None = None
        self._boxes: dict[int, Outbox] = {0: make(0)}
        self._switched: Horizon = {}  # by channel: where each was when the map changed
        self._unmarked: dict[int, None] = {}  # channels to which nothing was published since then
        self._is_closed = False
        self._error: BaseException | None = None
        self.publish: Callable[[str, bytes, dict[str, Any] | None], PacketId] = self._boxes[0].publish
        """Take one event, from whatever thread; returns the packet that will carry it."""

    @property
    def first(self) -> Outbox:
        """The one of channel 0."""
        return self._boxes[0]

    @property
    def published(self) -> int:
        """Events that were published."""
        return sum(box.published for box in self._boxes.values())

    def lasts(self) -> Horizon:
        """By channel: the number after the last packet published so far."""
        return {channel: box.last for channel, box in self._boxes.items()}

    def use(self, channels: ChannelMap) -> None:
        """From now on this map says where events go."""
        self.first.lend_no_more()
        self.send()
        self._map = channels
        self._switched = {channel: box.last - 1 for channel, box in self._boxes.items()}
        self._unmarked = dict.fromkeys(range(channels.channels))
        self.publish = self._publish

    def take(self, subject: str, payloads: Sequence[bytes], at: int) -> tuple[int, int]:
        """Take as many of `payloads[at:]` as there is room for; returns how many, and the packets the next needs."""
        return self._box(subject).take(subject, payloads, at)

    def room(self, packets: int = 1) -> bool:
        """Whether this many more packets may be begun, whatever their channel."""
        return all(box.room(packets) for box in self._boxes.values())

    def send(self) -> None:
        """Send all that is there, as far as there is room; the rest follows when there is more."""
        for box in self._boxes.values():
            box.send()

    def close(self, error: BaseException | None = None) -> None:
        """Let nothing more be published, because of an error if there is one: to other channels, too."""
        self._is_closed, self._error = True, error
        for box in self._boxes.values():
            box.close(error)

    def _publish(self, subject: str, payload: bytes, attributes: dict[str, Any] | None) -> PacketId:
        if get_ident() != self._home.thread:
            return self._home.call(partial(self._publish, subject, payload, attributes))
        return self._box(subject).publish(subject, payload, attributes)

    def _box(self, subject: str) -> Outbox:
        channel = 0 if self._map is None else self._map.channel_of(subject)
        box = self._boxes.get(channel)
        if box is None:
            box = self._boxes[channel] = self._make(channel)
            if self._is_closed:
                box.close(self._error)
        if channel in self._unmarked and not self._is_closed:
            others = {c: last for c, last in self._switched.items() if c != channel and last >= 0}
            if others:
                box.begin_with(pack_switch(time_ns(), others))
            del self._unmarked[channel]
        return box
