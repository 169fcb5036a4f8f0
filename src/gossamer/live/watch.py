"""Looks at a member a few times a second, compares with what it saw before, and posts what an application should know.

It only reads counters, so it costs nothing where packets are handled. Members that come and go are noted by the stack.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic

from gossamer.core.effects import Note
from gossamer.core.ids import FIRST_PASS, PEER, channel_of, owner_of
from gossamer.core.ids import LOGGER as BY_LOGGER
from gossamer.live.envelope import Envelope
from gossamer.live.inbox import Inbox
from gossamer.live.ledger import known_members
from gossamer.live.member import Member
from gossamer.live.names import name_of
from gossamer.live.notices import Bulletin, Kind
from gossamer.live.transport import Endpoint
from gossamer.trace.recorder import Recorder

LOOK_S = 0.25
AGAIN_S = 10.0
"""What goes on is told again after this long."""
STUCK_S = 5.0
"""A logger that acknowledges nothing for this long is worth a word."""
ALONE_S = 10.0
REPAIRED_MIN = 20
"""After this many packets of others without a single one by multicast, multicast does not work."""

_REFUSED: dict[str, tuple[Kind, str]] = {
    "unknown key": ("key-mismatch", "were sealed with a key that this member does not have; give all the same key"),
    "forged": ("key-mismatch", "are not authentic: somebody has another key, or forges datagrams"),
    "unsealed": ("key-mismatch", "are not sealed: a member at this address has no key; give all the same key"),
    "stale": (
        "clock-skew",
        "are not from now: the clocks of the members differ by more than a minute, or it is a replay",
    ),
    "version": ("other-version", "are of another version of Gossamer; update the older side"),
    "malformed": ("unreadable", "cannot be read: they are damaged, or come from a member that has a key"),
}

_GONE: dict[str, tuple[Kind, str]] = {
    "left": ("member-left", "has left"),
    "disconnected": ("member-suspected", "does not answer, or said that it is away; what it misses is kept for it"),
}


class Witness(Recorder):
    """A recorder that also tells when the view changes, so that no visitor is missed between two looks."""

    view_changed: Callable[[int, str], None] | None = None

    def note(self, now: float, member: int, effect: Note) -> None:
        """What a stack notes about itself."""
        super().note(now, member, effect)
        if effect.kind == "view" and self.view_changed is not None:
            self.view_changed(effect.peer, effect.phase)


class Watch:
    """What was last seen of one member."""

    def __init__(
        self,
        bulletin: Bulletin,
        member: Member,
        envelope: Envelope,
        inbox: Inbox,
        endpoint: Endpoint,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._bulletin = bulletin
        self._member = member
        self._envelope = envelope
        self._inbox = inbox
        self._endpoint = endpoint
        self._is_local = endpoint.is_loopback
        self._clock = clock
        self._since = clock()
        self._others = self._other_members()
        self._lagging: set[int] = set()
        self._full: set[int] = set()
        self._counts: Counter[tuple[str, str]] = Counter()  # what was told, by kind and reason
        self._told: dict[tuple[str, str], float] = {}  # and when
        self._refusing = ""
        self._settled, self._settled_at = -1, self._since
        self._was_alone = not self._others
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from now on."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._next)

    def stop(self) -> None:
        """Look no more, after a last time."""
        if self._timer is not None:
            self._timer.cancel()
            self.look()
        self._bulletin.close()

    def _next(self) -> None:
        self.look()
        self.start()

    def look(self) -> None:
        """Compare, and tell."""
        self._look_at_receivers()
        self._look_at_subscriptions()
        for reason, lost in self._inbox.lost.items():
            self._tell_more("loss", reason, lost, "packets are lost: " + reason)
        for reason, refused in self._envelope.refused().items():
            kind, text = _REFUSED.get(reason, ("unreadable", f"are refused: {reason}"))
            self._tell_more(kind, reason, refused, f"datagrams at {self._endpoint.group} {text}")
        self._look_at_log()
        self._look_at_multicast()

    def _other_members(self) -> set[int]:
        return {member for member in known_members(self._member) if member != self._member.me}

    def view_changed(self, member: int, status: str) -> None:
        """A member joined, left, or cannot be reached, as the view says now."""
        name = name_of(member)
        if status == "member" and member not in self._others and member != self._member.me:
            self._others.add(member)
            self._was_alone = False
            self._bulletin.post("member-joined", f"{name} is a member", member=member)
        elif status in ("left", "disconnected") and member in self._others:
            self._others.remove(member)
            kind, text = _GONE[status]
            self._bulletin.post(kind, f"member {name} {text}", member=member)

    def _look_at_receivers(self) -> None:
        before, self._lagging = self._lagging, set(self._member.stack.pace.lagging())
        for member in sorted(self._lagging - before):
            text = f"member {name_of(member)} is too slow for what is published here: it is no longer waited for"
            self._bulletin.post("member-lagging", text, member=member)

    def _look_at_subscriptions(self) -> None:
        before, self._full = self._full, set()
        for key, subscription in self._inbox.half_full():
            self._full.add(key)
            if key not in before:
                text = (
                    f"the subscription to {subscription.pattern!r} is not read fast enough: {subscription.waiting} wait"
                )
                self._bulletin.post("subscription-lags", text, times=subscription.waiting)

    def _look_at_log(self) -> None:
        stack, disk, now = self._member.stack, self._member.disk, self._clock()
        if disk is not None and disk.failure != self._refusing:
            self._refusing = disk.failure
            if self._refusing:
                self._bulletin.post("logger-refuses", f"this logger accepts nothing more: {self._refusing}")
        settled = sum(stack.settled(channel_of(stream)) for stream in stack.own)
        unlogged = sum(stream.next for stream in stack.own.values()) - settled
        if settled != self._settled or not unlogged or not stack.awaits_loggers():
            self._settled, self._settled_at = settled, now
        elif now - self._settled_at > STUCK_S:
            self._settled_at = now + AGAIN_S - STUCK_S
            text = (
                f"no logger has acknowledged anything for {STUCK_S:.0f} s, {unlogged} packets wait: it is away, or "
                "refuses because its disk is full; `gossamer stats` says why"
            )
            self._bulletin.post("not-logged", text, times=unlogged)

    def _look_at_multicast(self) -> None:
        received = self._inbox.received
        repaired = received[PEER] + received[BY_LOGGER]
        if repaired and not received[FIRST_PASS] and self._packets() >= REPAIRED_MIN and self._member.stack.hearing.on:
            text = (
                f"multicast does not reach this member at {self._endpoint.group}: all of {repaired} events came by "
                "repair; check the interface and the switches, or set first_pass='trees' with contacts"
            )
            self._tell_once("multicast", text)
        if self._was_alone and not self._is_local and self._clock() - self._since > ALONE_S:
            text = (
                f"no other member was heard on {self._endpoint.interface} within {ALONE_S:.0f} s; if there are any, "
                "address, interface and key must fit theirs; `gossamer doctor` checks the network"
            )
            self._tell_once("alone", text)

    def _packets(self) -> int:
        """How many packets of others there were: hundreds of events may have come in one, which was lost by chance."""
        me, streams = self._member.me, self._member.stack.streams
        return sum(stream.next - stream.start for sender, stream in streams.items() if owner_of(sender) != me)

    def _tell_once(self, kind: Kind, text: str) -> None:
        if (kind, "") not in self._told:
            self._told[kind, ""] = self._clock()
            self._bulletin.post(kind, text)

    def _tell_more(self, kind: Kind, reason: str, total: int, text: str) -> None:
        """Tell of what is counted, with how many there are since the last time, but not too often."""
        key, now = (kind, reason), self._clock()
        more = total - self._counts[key]
        if more > 0 and now - self._told.get(key, -AGAIN_S) >= AGAIN_S:
            self._counts[key], self._told[key] = total, now
            self._bulletin.post(kind, f"{more} {text}", times=more)
