"""Which sockets a member reads: both, or none while its application is slow; but an answer that it waits for must come.

An application that does not read because it waits for a reply, or for a commit, would wait for ever.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from gossamer.live.transport import Transport


class Reading:
    """The two sockets of one member, each with what is called when it can be read."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: Transport, arrived: Callable[..., Any]) -> None:
        self._loop = loop
        self._transport = transport
        self._arrived = arrived
        self._on = False
        self._closed = False
        self._expected = 0

    def begin(self) -> None:
        """Read both."""
        self._on = True
        multicast = self._transport.multicast
        self._loop.add_reader(multicast, self._transport.read, multicast, partial(self._arrived, aloud=True))
        self._read_letters(True)

    def end(self) -> None:
        """Read none, but for letters that are expected."""
        self._on = False
        self._loop.remove_reader(self._transport.multicast)
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

    def _read_letters(self, on: bool) -> None:
        unicast = self._transport.unicast
        if on:
            self._loop.add_reader(unicast, self._transport.read, unicast, self._arrived)
        else:
            self._loop.remove_reader(unicast)
