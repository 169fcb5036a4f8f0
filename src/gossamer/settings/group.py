"""What an application says of its group: the protocol, where to meet, and whom to trust.

Everything has a default that works on one machine. `tuning` overrides single settings of the protocol, and
`Settings.planned` works them out from what is wanted, as `gossamer plan` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from gossamer.core.messages import Ack, Data, Gossip, Heartbeat, Heartbeats, Repair, Request
from gossamer.core.packets import Packet
from gossamer.core.protocol import ProtocolSettings
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import SettingError
from gossamer.stack import preset
from gossamer.wire import size as wire_size

if TYPE_CHECKING:
    from gossamer.analysis.forecast import Sizes
    from gossamer.analysis.planner import Plan

SENDERS = 4
"""How many members a plan takes to publish, unless it is told."""
TYPICAL_SEQNO = 100_000


@dataclass(frozen=True, slots=True)
class Settings:
    """A group's settings; SettingError, at once, for what cannot be."""

    protocol: str = "rpbcast"
    """A preset: rpbcast, pbcast, lbrm, basic, unreliable."""
    address: str = "239.192.77.7:7700"
    """Multicast address and port at which the group meets."""
    interface: str = "127.0.0.1"
    """The network interface, by its address; the default never leaves the machine."""
    key: str | None = field(default=None, repr=False)
    """The group's secret; without one, only loopback is allowed."""
    insecure: bool = False
    """Allow a network without a key."""
    tuning: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the protocol that differ from its preset, by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tuning", dict(self.tuning))
        self.protocol_settings()

    def protocol_settings(self) -> ProtocolSettings:
        """The preset with the tuning."""
        if "name" in self.tuning:
            raise SettingError("tuning: a preset is named by Settings.protocol, not by tuning['name']")
        return preset(self.protocol, self.tuning)

    @classmethod
    def planned(
        cls,
        *,
        members: int,
        loss: float,
        failure: float = 1e-8,
        rate: float = 100.0,
        size: int = 1024,
        rtt: float = 0.05,
        senders: int | None = None,
    ) -> Self:
        """Settings for a group of `members` with `loss`, ready for `join`; the numbers of `gossamer plan`.

        ValueError with the name, the value and what is allowed if there is no such plan. For an address or a key,
        `dataclasses.replace` the result.
        """
        wanted = plan(members=members, loss=loss, failure=failure, rate=rate, size=size, rtt=rtt, senders=senders)
        return cls(tuning=wanted.settings)


def plan(*, members: int, size: int = 1024, senders: int | None = None, **demand: float) -> "Plan":
    """The plan behind `Settings.planned` and `gossamer plan`: `analysis.planner` with the sizes of our wire."""
    from gossamer.analysis.forecast import Demand
    from gossamer.analysis.planner import check
    from gossamer.analysis.planner import plan as make

    senders = min(SENDERS, members - 1) if senders is None else senders
    wanted = Demand(members=members, size=size, senders=senders, **demand)
    check(wanted)
    return make(wanted, wire_sizes(size))


def wire_sizes(size: int, seqno: int = TYPICAL_SEQNO) -> "Sizes":
    """How long messages are that carry packets of `size` bytes, or speak of sequence numbers about `seqno`."""
    from gossamer.analysis.forecast import Sizes

    packet = Packet(0, seqno, bytes(size))
    one = {0: RangeSet([(seqno, seqno)])}
    two = {0: RangeSet([(seqno, seqno), (seqno + 3, seqno + 3)])}
    gossip = wire_size(Gossip({}, view=1))
    return Sizes(
        data=wire_size(Data(packet)),
        repair=wire_size(Repair(packet, "peer")),
        gossip=gossip,
        signature=wire_size(Gossip({}, heartbeats=1, view=1)) - gossip,
        gap=wire_size(Gossip(one, view=1)) - gossip,
        next_gap=wire_size(Gossip(two, view=1)) - wire_size(Gossip(one, view=1)),
        seen=wire_size(Gossip({}, {0: seqno}, view=1)) - gossip,
        request=wire_size(Request(one)),
        ack=wire_size(Ack(one)),
        heartbeat=wire_size(Heartbeat(seqno)),
        heartbeats=wire_size(Heartbeats({}, answer=True)),
    )
