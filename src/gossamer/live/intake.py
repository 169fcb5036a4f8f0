"""Events of threads other than the group's, packed by those threads until the loop takes them.

A packet's number must be known when `publish` returns, so at any time either the loop or this intake gives out the
numbers. The loop lends them when another thread publishes, and takes them back when it publishes itself. What is here
is limited: a thread that has filled it waits for the loop, never for a peer.

An interrupt (Ctrl-C) may come between any two steps of the main thread. So the events of the open packet are also kept
one by one: if a thread was interrupted while it packed one, the others are packed again.
"""

from collections.abc import Callable
from threading import Lock
from time import time_ns
from typing import Any

from gossamer.core.ids import PacketId
from gossamer.wire.events import Packer

AHEAD_PACKETS = 256
"""Threads may be this far ahead of the loop: enough that waking it costs little, and soon sent."""


class Intake:
    """Takes events from any thread. A lock guards it, so no signal handler may publish."""

    def __init__(self, body_bytes: int, subjects: set[str], wake: Callable[[], None]) -> None:
        """`subjects` are known to be right; `wake` has the loop look in here, and raises if the loop does not run."""
        self._lock = Lock()
        self._body_bytes = body_bytes
        self._subjects = subjects
        self._wake = wake
        self._packer = Packer(body_bytes)
        self._id = PacketId(0, 0)
        self._begun_ns = 0
        self._bodies: list[bytes] = []
        self._events = 0  # in those bodies
        self._open: list[tuple[str, bytes, dict[str, Any] | None]] = []
        self._room = 0
        self._is_whole = True
        self._is_waking = False

    def put(self, subject: str, payload: bytes, attributes: dict[str, Any] | None) -> PacketId | None:
        """Take an event; returns its packet, or None if the loop must take it: there is no room, or it is too large.

        TypeError or ValueError if it is not an event.
        """
        with self._lock:
            if self._room < 1 or not self._is_whole or subject not in self._subjects:
                return None
            if not self._is_waking:
                self._wake()
                self._is_waking = True
            self._is_whole = False
            is_taken = self._pack(subject, payload, attributes)
            self._is_whole = True
            return self._id if is_taken else None

    def lend(self, first: PacketId, room: int) -> None:
        """Number packets from `first` on; there is room for `room` of them."""
        with self._lock:
            self._id = first
            self._room = min(room, AHEAD_PACKETS)

    def allow(self, room: int) -> None:
        """There is room for `room` packets in all, those that are here included."""
        with self._lock:
            self._room = min(room, AHEAD_PACKETS) - len(self._bodies)

    def collect(self, *, last: bool = False) -> tuple[list[bytes], int]:
        """All packets so far, and how many events they have; if it is the `last` time, nothing more is taken."""
        with self._lock:
            if not self._is_whole:
                self._pack_again()
            if self._open:
                self._close()
            if last:
                self._room = 0
            self._is_waking = False
            bodies, self._bodies = self._bodies, []
            events, self._events = self._events, 0
            return bodies, events

    def waiting(self) -> int:
        """How many packets are here."""
        with self._lock:
            return len(self._bodies) + bool(self._open)

    def _pack(self, subject: str, payload: bytes, attributes: dict[str, Any] | None) -> bool:
        if not self._packer.add(subject, payload, attributes):
            if self._room < 2 or not self._open:
                return False
            self._close()
            if not self._packer.add(subject, payload, attributes):
                return False
        if not self._open:
            self._begun_ns = time_ns()
        self._open.append((subject, payload, attributes))
        return True

    def _close(self) -> None:
        """Close the open packet: no interrupt comes between assignments that call nothing, so they are one step."""
        body, following = [self._packer.body(self._begun_ns)], PacketId(self._id.sender, self._id.seqno + 1)
        events = len(self._open)
        self._bodies += body
        self._events += events
        self._open = []
        self._id = following
        self._room -= 1

    def _pack_again(self) -> None:
        self._packer = Packer(self._body_bytes)
        for event in self._open:
            assert self._packer.add(*event), "it fitted before"
        self._is_whole = True
