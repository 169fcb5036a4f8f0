"""What a member counts, as a plain dict: the loss ledger, every counter, and what it answers to a probe."""

from time import monotonic
from typing import Any

from gossamer.core.ids import FIRST_PASS, LOGGER, PEER, channel_of
from gossamer.core.packet_sets import count
from gossamer.live.channels import GroupChannels
from gossamer.live.envelope import Envelope
from gossamer.live.inbox import Inbox
from gossamer.live.member import Member
from gossamer.live.names import name_of
from gossamer.live.outboxes import Outboxes
from gossamer.settings import Settings


def known_members(member: Member) -> tuple[int, ...]:
    """The members of the group, as far as this one knows, without those that are still joining."""
    roster = member.stack.roster
    return tuple(other for other in roster.members if other not in roster.joining)


class Ledger:
    """The counters of one member."""

    def __init__(
        self,
        group: str,
        settings: Settings,
        member: Member,
        envelope: Envelope,
        inbox: Inbox,
        outboxes: Outboxes,
        channels: GroupChannels,
    ) -> None:
        self._group = group
        self._settings = settings
        self._member = member
        self._envelope = envelope
        self._inbox = inbox
        self._outboxes = outboxes
        self._channels = channels
        self._since = self._sampled_at = monotonic()
        self._sampled = (0, 0)

    def counters(self) -> dict[str, Any]:
        """`received` = `first_pass` + `peer` + `logger`: events from others, by the rung through which they came."""
        inbox, member, stack = self._inbox, self._member, self._member.stack
        by_rung: dict[str, int] = {phase: inbox.received[phase] for phase in (FIRST_PASS, PEER, LOGGER)}
        received = sum(by_rung.values())
        log = member.disk.stats() if member.disk is not None else {}
        return {
            "received": received,
            **by_rung,
            "own": inbox.received["own"],
            "again": inbox.received["again"],
            "expired": inbox.expired,
            "published": self._outboxes.published,
            "lost": dict(inbox.lost),
            "duplicates": stack.duplicates,
            "recovered": stack.recoveries,
            "dropped": {k: n for k, n in (self._envelope.refused() | dict(member.stats)).items() if n},
            "sent": dict(member.sent),
            "waiting": inbox.waiting,
            "unsent": stack.pace.unsent(),
            "unlogged": sum(stream.next - stack.settled(channel_of(s)) for s, stream in stack.own.items()),
            "logged": sum(stack.settled(channel_of(s)) for s in stack.own),
            "missing": count({sender: stream.missing for sender, stream in stack.streams.items()}),
            "buffered": stack.buffered(),
            "buffer": stack.buffer.standing(),
            "connected": not member.is_offline,
            "suspicions": member.suspicions,
            "lagging": sorted(stack.pace.lagging()),
            "listening": {"on": stack.hearing.on, "why": stack.hearing.why, "left": stack.hearing.times},
            "pace": stack.pace.limits().plain(),
            "rates": self._rates(received),
            "round_trip": {str(peer): rtt for peer, rtt in stack.round_trips.times.items()},
            "log": log,
            "partition": _named(stack.partition(member.now())),
            "channels": self._channels.standing(),
            "order": stack.order.standing(member.now()) | ({"undos": dict(inbox.undos)} if inbox.undos else {}),
            "subscriptions": inbox.subscribed(),
        }

    def profile(self) -> dict[str, Any]:
        """Who this member is, whom it knows, and its counters."""
        member = self._member
        return {
            "member": member.me,
            "name": self._settings.name,
            "group": self._group,
            "protocol": self._settings.protocol,
            "address": member.stack.address,
            "logger": member.disk is not None,
            "uptime": monotonic() - self._since,
            "members": list(known_members(member)),
            "loggers": list(member.stack.roster.loggers),
            "stats": self.counters(),
        }

    def _rates(self, received: int) -> dict[str, float]:
        """Events per second since the last call."""
        now, before = monotonic(), self._sampled_at
        counts = (received, self._outboxes.published)
        seconds = max(now - before, 1e-9)
        rates = [(new - old) / seconds for new, old in zip(counts, self._sampled, strict=True)]
        if seconds > 0.1:
            self._sampled_at, self._sampled = now, counts
        return {"received": rates[0], "published": rates[1]}


def _named(partition: dict[str, Any]) -> dict[str, Any]:
    """With the names of those that cannot be asked, as far as they ever said them here."""
    others = [*partition.get("absent", ()), partition.get("coordinator")]
    names = {str(one): name_of(one) for one in others if one is not None}
    return partition and {**partition, "names": {number: name for number, name in names.items() if name != number}}
