"""The planner with the message sizes of our wire format, used by `Settings.planned` and `gossamer plan`."""

from numbers import Real
from typing import TYPE_CHECKING

from gossamer.core.messages import Ack, Data, Gossip, Heartbeat, Heartbeats, Repair, Request
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.schema import SettingError
from gossamer.wire import size as wire_size

if TYPE_CHECKING:
    from gossamer.analysis.forecast import Sizes
    from gossamer.analysis.planner import Plan

SENDERS = 4
"""How many members publish, unless the plan says otherwise."""
TYPICAL_SEQNO = 100_000


def plan(*, members: int, size: int = 1024, senders: int | None = None, **demand: float) -> "Plan":
    """Make the plan of `Settings.planned` and `gossamer plan`: `analysis.planner` with the sizes of our messages.

    SettingError names the argument, its value and what is allowed if there is no such plan.
    """
    from gossamer.analysis.forecast import Demand
    from gossamer.analysis.planner import check
    from gossamer.analysis.planner import plan as make

    for name, value in {"members": members, "size": size, "senders": senders or 1, **demand}.items():
        if not isinstance(value, Real):
            raise SettingError(f"{name} is {value!r}; allowed: a number")
    senders = min(SENDERS, members - 1) if senders is None else senders
    wanted = Demand(members=members, size=size, senders=senders, **demand)
    try:
        check(wanted)
        return make(wanted, wire_sizes(size))
    except ValueError as error:
        raise SettingError(str(error)) from None


def wire_sizes(size: int, seqno: int = TYPICAL_SEQNO) -> "Sizes":
    """The lengths of messages that carry packets of `size` bytes, or sequence numbers near `seqno`."""
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
        seen=wire_size(Gossip(seen={0: seqno, 1: seqno})) - wire_size(Gossip(seen={0: seqno})),
        request=wire_size(Request(one)),
        ack=wire_size(Ack(one)),
        heartbeat=wire_size(Heartbeat(seqno)),
        heartbeats=wire_size(Heartbeats({}, answer=True)),
    )
