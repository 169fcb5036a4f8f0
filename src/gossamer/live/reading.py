"""Which sockets a member reads: all, or none while its application is slow; but an answer that it waits for must come.

There is the group's, the member's own, and one for each channel that it hears besides channel 0. An application that
does not read because it waits for a reply, or for a commit, would wait for ever.
"""

import asyncio
import logging
import socket
from collections import Counter
from functools import partial
from time import time

from gossamer.core.ids import CHANNELS_MAX, channel_of, channels_in
from gossamer.core.packet_sets import Horizon
from gossamer.live.transport import Arrived, Transport, TransportError
from gossamer.trace.recorder import Recorder

_log = logging.getLogger("gossamer")


class Reading:
    """The sockets of one member. `stats` counts channels that cannot be heard: their packets come by repair."""

    def __init__(self, transport: Transport, arrived: Arrived, stats: Counter[str], recorder: Recorder) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._arrived = arrived
        self._stats = stats
        self._recorder = recorder
        self._on = False
        self._closed = False
        self._expected = 0
        self._channels: dict[int, socket.socket] = {}
        self._wanted = self._listens = self._count = 1
        self._begun = 0

    def begin(self) -> None:
        """Read all, each time beginning with another one.

        The kernel offers them in the order in which they are added: if the application soon has enough again, those at
        the end would never be read, and their senders would not wait for ever.
        """
        self._on = True
        sockets = [self._transport.multicast, *self._channels.values()]
        first = self._begun % len(sockets)
        self._begun += 1
        for sock in sockets[first:] + sockets[:first]:
            self._read_aloud(sock)
        self._read_letters(True)

    def end(self) -> None:
        """Read none, but for letters that are expected."""
        self._on = False
        for sock in (self._transport.multicast, *self._channels.values()):
            self._loop.remove_reader(sock)
        self._read_letters(self._expected > 0)

    def close(self) -> None:
        """Read nothing more."""
        self._closed = True
        self._expected = 0
        self.end()

    def expect(self, answers: int) -> None:
        """This many more answers are expected by letter, or fewer."""
        self._expected = max(0, self._expected + answers)
        if not self._on and not self._closed:
            self._read_letters(self._expected > 0)

    # Channels.

    def hear(self, channels: int) -> None:
        """Hear these channels, as far as the group has them, and no others but channel 0."""
        self._wanted = channels
        for channel in [channel for channel in self._channels if not channels >> channel & 1]:
            self._loop.remove_reader(self._channels.pop(channel))
            self._transport.close_channel(channel)
        for channel in channels_in(channels & ((1 << self._count) - 2)):
            if channel not in self._channels and not self._closed:
                self._begin_channel(channel)

    def has_channels(self, count: int) -> None:
        """The group has so many channels now: a logger, which hears all, hears these."""
        self._count = max(self._count, min(count, CHANNELS_MAX))
        self.hear(self._wanted)

    def listens(self, me: int, channels: int, horizon: Horizon) -> None:
        """The member is owed these channels now: note that in the trace."""
        before, self._listens = self._listens, channels
        for channel in channels_in(before & ~channels):
            self._recorder.stopped_listening(time(), me, channel)
        for channel in channels_in(channels & ~before):
            of_channel = {stream: last for stream, last in horizon.items() if channel_of(stream) == channel}
            self._recorder.listened(time(), me, channel, of_channel)

    def _begin_channel(self, channel: int) -> None:
        try:
            sock = self._channels[channel] = self._transport.open_channel(channel)
        except (TransportError, OSError) as error:
            self._stats["channels that cannot be heard"] += 1
            _log.warning("channel %d: %s; its packets come by repair alone, more slowly", channel, error)
            return
        if self._on:
            self._read_aloud(sock)

    def _read_aloud(self, sock: socket.socket) -> None:
        self._loop.add_reader(sock, self._transport.read, sock, partial(self._arrived, aloud=True))

    def _read_letters(self, on: bool) -> None:
        unicast = self._transport.unicast
        if on:
            self._loop.add_reader(unicast, self._transport.read, unicast, self._arrived)
        else:
            self._loop.remove_reader(unicast)
