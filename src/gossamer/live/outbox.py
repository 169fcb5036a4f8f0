"""From events published to one channel to packets: packed until full, sent at once when the loop is idle.

An event after a pause leaves at once. An application that publishes again a moment after something was sent is likely
to go on: its events share packets until the end of the loop's turn, and further, until `coalesce_us` have passed, while
there are more of them every few turns. Turns are counted, because an event loop's timers are too coarse; after a few
without an event everything is sent, so nothing spins while the application is idle.

Nothing is dropped: an event that does not fit raises `Full` before it is taken. What other threads publish goes through
an `Intake`, which has the numbers of packets while they do.
"""

from _thread import get_ident
from collections.abc import Sequence
from functools import partial
from time import time_ns
from typing import Any

from gossamer.core.ids import PacketId, stream_of
from gossamer.live.errors import Full, NotAMember, NotAnEvent
from gossamer.live.home import NOBODY, Home
from gossamer.live.intake import Intake
from gossamer.live.member import Member
from gossamer.pubsub.subjects import check_subject
from gossamer.settings import Settings
from gossamer.wire.events import Packer, count_events, pack_equal, pack_one
from gossamer.wire.fragments import fragments

SUBJECTS_REMEMBERED = 10_000
BURST_BYTES = 60_000
"""Up to this much goes to the kernel in one call, if packets are smaller than that."""
_BUSY_NS = 50_000
"""A moment: an event that is published this soon after something was sent waits for others."""
_QUIET_TURNS = 3
"""After this many turns of the loop without an event nobody waits for another: a task that gets its events from a queue
needs two or three for each."""


class Outbox:
    """Events that are published and not yet packets."""

    def __init__(
        self, home: Home, member: Member, settings: Settings, body_bytes: int, fifo: bool, channel: int = 0
    ) -> None:
        self.published = 0
        self._channel = channel
        self._home = home
        self._member = member
        self._packer = Packer(body_bytes)
        self._body_bytes = body_bytes
        self._event_bytes_max = settings.event_bytes_max
        self._coalesce_ns = settings.coalesce_us * 1000
        self._fifo = fifo
        self._burst = max(1, BURST_BYTES // body_bytes)
        self._nearly_full = body_bytes * 3 // 4  # what others could add is not worth the wait, nor to cut them in two
        self._bodies: list[bytes] = []
        self._large = 0
        self._scheduled = False
        self._wait_until_ns = 0  # what is published waits for more until then,
        self._quiet_turns = 0  # or for a few turns that bring nothing
        self._seen = 0  # events, at the end of the last turn
        self.last_ns = 0
        """When the packet that is being filled was begun; if there is none, when the last one was."""
        self._sent_ns = 0
        self._closed = False
        self._error: BaseException | None = None
        self._loop = home.loop
        self._subjects: set[str] = set()
        self._id = PacketId(stream_of(member.me, channel), member.stack.following(channel))
        self._intake = Intake(body_bytes, self._subjects, self._wake)
        self._lends = channel == 0
        home.publisher = home.thread

    def publish(self, subject: str, payload: bytes, attributes: dict[str, Any] | None) -> PacketId:
        """Take one event, from whatever thread; returns the packet that will carry it."""
        if get_ident() != self._home.publisher:
            return self._publish_elsewhere(subject, payload, attributes)
        if subject not in self._subjects:
            self._check(subject)
        if not self._scheduled:
            self.last_ns = time_ns()
            if self.last_ns > self._sent_ns + _BUSY_NS:
                return self._publish_now(subject, payload, attributes)
            self._schedule()
        if not self._packer.add(subject, payload, attributes):
            return self._add_to_next(subject, payload, attributes)
        return self._id

    def _publish_now(self, subject: str, payload: bytes, attributes: dict[str, Any] | None) -> PacketId:
        """Publish at once: nothing was sent recently, so this event does not wait for others."""
        packet = self._id
        body = None if attributes else pack_one(subject, payload, self._body_bytes, self.last_ns)
        if body is not None and self.room():
            self.published += 1
            self._number(1)
            self._member.publish([body], self._channel)
            self._sent_ns = time_ns()
            return packet
        if not self._packer.add(subject, payload, attributes):
            return self._add_to_next(subject, payload, attributes)
        self.send()
        return packet

    def _publish_elsewhere(self, subject: str, payload: bytes, attributes: dict[str, Any] | None) -> PacketId:
        """Publish from another thread, or from the loop while other threads have the numbers."""
        home = self._home
        if get_ident() == home.thread:
            self._take_back()
            return self.publish(subject, payload, attributes)
        if not home.is_copy:  # in a forked child the intake may be locked for ever
            packet = self._intake.put(subject, payload, attributes)
            if packet is not None:
                return packet
        return home.call(partial(self._publish_and_lend, subject, payload, attributes))

    def _publish_and_lend(self, subject: str, payload: bytes, attributes: dict[str, Any] | None) -> PacketId:
        """Publish what the intake did not take, and have it take what follows."""
        self._take_back()
        packet = self.publish(subject, payload, attributes)
        self.send()
        if not self._packer.count and not self._closed and self._lends:
            self._intake.lend(self._id, self._member.stack.pace.room())
            self._home.publisher = NOBODY
        return packet

    def lend_no_more(self) -> None:
        """There are other outboxes: events of other threads come by the loop, which knows where each belongs."""
        self._lends = False
        self._take_back()

    def _take_back(self) -> None:
        if self._home.publisher == NOBODY:
            self._collect(last=True)
            self._home.publisher = self._home.thread

    def _collect(self, *, last: bool = False) -> None:
        bodies, events = self._intake.collect(last=last)
        self._bodies += bodies
        self.published += events
        self._number(len(bodies))
        self._pass_on()

    def _wake(self) -> None:
        """Have the loop look into the intake."""
        self._home.check()
        self._loop.call_soon_threadsafe(self.send)

    def take(self, subject: str, payloads: Sequence[bytes], at: int) -> tuple[int, int]:
        """Take as many of `payloads[at:]` as there is room for; returns how many, and the packets the next needs."""
        self._take_back()
        if subject not in self._subjects:
            self._check(subject)
        if not self._scheduled:
            self.last_ns = time_ns()
        try:
            return self._take(subject, payloads, at)
        finally:  # also if one of them is no event: those before it are
            self._send_if_nearly_full()

    def _send_if_nearly_full(self) -> None:
        if len(self._packer) >= self._nearly_full and self.room():
            self._close_packet()
            self._pass_on()
            self._sent_ns = time_ns()
        elif not self._scheduled and (self._packer.count or self._bodies):
            self._schedule()

    def _take(self, subject: str, payloads: Sequence[bytes], at: int) -> tuple[int, int]:
        taken = self._packer.add_many(subject, payloads, at)
        taken += self._take_full(subject, payloads, at + taken)
        while at + taken < len(payloads) and self._turn_over(1):
            more = self._packer.add_many(subject, payloads, at + taken)
            if not more:
                try:
                    self._add_large(subject, payloads[at + taken], None)
                except Full as full:
                    return taken, full.packets
                more = 1
            taken += more
        return taken, 1

    def _take_full(self, subject: str, payloads: Sequence[bytes], at: int) -> int:
        """Take whole packets of events of one length, without packing them one by one; returns how many events."""
        if at >= len(payloads) or not self._turn_over(1):
            return 0
        bodies = pack_equal(subject, payloads, at, self._body_bytes, time_ns())
        bodies = bodies[: max(0, self._member.stack.pace.room() - len(self._bodies))]
        if not bodies:
            return 0
        each = count_events(bodies[0])
        self.published += each * len(bodies)
        self._number(len(bodies))
        waiting, self._bodies = self._bodies + bodies, []
        last = len(waiting) - len(waiting) % self._burst
        for at in range(0, last, self._burst):
            self._member.publish(waiting[at : at + self._burst], self._channel)
        self._bodies = waiting[last:]
        return each * len(bodies)

    def room(self, packets: int = 1) -> bool:
        """Whether this many more packets may be begun."""
        return self._member.stack.pace.room() >= len(self._bodies) + packets

    def begin_with(self, body: bytes) -> None:
        """Send this packet before any further event; `Full` if there is no room for it and one more."""
        self.send()
        if self._packer.count or not self.room(2):
            raise Full("too much is published and not yet sent: try again later, or await publish_wait(...)")
        self._bodies.append(body)
        self._number(1)
        self._pass_on()

    def close(self, error: BaseException | None = None) -> None:
        """Let nothing more be published, because of an error if there is one.

        `publish` checks for this only with a subject that it does not know, so the check costs nothing before.
        """
        self._take_back()
        self._closed = True
        self._error = error
        self._subjects.clear()

    def send(self) -> None:
        """Send all that is there, as far as there is room; the rest follows when there is more."""
        if self._home.publisher == NOBODY:
            self._collect()
            self._intake.allow(self._member.stack.pace.room())
        if self._packer.count and self.room():
            self._close_packet()
        self._pass_on()
        self._sent_ns = time_ns()
        self._scheduled = bool(self._packer.count)
        if self._scheduled:
            self._loop.call_later(0.001, self.send)

    @property
    def last(self) -> int:
        """The number after the last packet published so far."""
        return self._id.seqno + (1 if self._packer.count else 0) + self._intake.waiting()

    def _schedule(self) -> None:
        self._scheduled = True
        is_busy = self.last_ns <= self._sent_ns + _BUSY_NS
        self._wait_until_ns = self.last_ns + self._coalesce_ns if is_busy else 0
        self._quiet_turns = self._seen = 0
        self._loop.call_soon(self._turn_ends)

    def _turn_ends(self) -> None:
        """Wait for another turn if the application seems to go on and the first event may still wait; else send."""
        events = self.published + self._packer.count
        self._quiet_turns = self._quiet_turns + 1 if events == self._seen else 0
        self._seen = events
        goes_on = self._quiet_turns < _QUIET_TURNS and len(self._packer) < self._nearly_full
        if goes_on and time_ns() < self._wait_until_ns:
            self._loop.call_soon(self._turn_ends)
        else:
            self.send()

    def _check(self, subject: str) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise NotAMember("this member has left the group: it cannot publish any more; join again")
        check_subject(subject)
        if len(self._subjects) >= SUBJECTS_REMEMBERED:
            self._subjects.clear()
        self._subjects.add(subject)

    def _add_to_next(self, subject: str, payload: bytes, attributes: dict[str, Any] | None) -> PacketId:
        if not self._turn_over(1):
            raise Full("too much is published and not yet sent: try again later, or await publish_wait(...)")
        if not self._packer.add(subject, payload, attributes):
            self._add_large(subject, payload, attributes)
            return PacketId(self._id.sender, self._id.seqno - 1)
        return self._id

    def _add_large(self, subject: str, payload: bytes, attributes: dict[str, Any] | None) -> None:
        if not self._fifo:
            raise NotAnEvent(
                f"an event of {len(payload)} bytes does not fit into a packet of {self._body_bytes}: larger events "
                "need order='fifo'"
            )
        bodies = fragments(
            subject,
            payload,
            attributes,
            self._body_bytes,
            self._large,
            time_ns=time_ns(),
            limit_event_bytes=self._event_bytes_max,
        )
        if not self.room(len(bodies)):
            full = Full(f"no room for the {len(bodies)} packets of this event now: try again later")
            full.packets = len(bodies)
            raise full
        self._large += 1
        self._bodies += bodies
        self._number(len(bodies))
        self.published += 1
        self._pass_on()

    def _turn_over(self, packets: int) -> bool:
        """Begin the next packet; returns False if there is no room for it."""
        if not self._packer.count:
            return True
        if self._member.stack.pace.room() < len(self._bodies) + packets:
            self._pass_on()
            if self._member.stack.pace.room() < packets:
                return False
        self._close_packet()
        if len(self._bodies) >= self._burst:
            self._pass_on()
        self.last_ns = time_ns()
        return True

    def _close_packet(self) -> None:
        self.published += self._packer.count
        self._bodies.append(self._packer.body(self.last_ns))
        self._number(1)

    def _number(self, packets: int) -> None:
        self._id = PacketId(self._id.sender, self._id.seqno + packets)

    def _pass_on(self) -> None:
        if self._bodies:
            bodies, self._bodies = self._bodies, []
            self._member.publish(bodies, self._channel)
