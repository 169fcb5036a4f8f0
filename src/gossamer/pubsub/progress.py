"""How far a durable subscription is: what was given to the application, and what of that is done.

Positions are numbers of packets, since that is what a log keeps: a packet is done when all its events are. What does
not match the subscription is done as soon as its turn has come.
"""

from collections import Counter
from collections.abc import Mapping

from gossamer.core.packet_sets import Horizon
from gossamer.pubsub.unread import Place


class Progress:
    """The position of one subscription."""

    def __init__(self) -> None:
        self._given: Horizon = {}
        self._before: Horizon | None = None  # the positions before events that were given together, and are not done
        self._open: dict[int, Counter[int]] = {}  # by sender, by packet: events that were given and are not done
        self._unread: Horizon = {}  # by sender: the first packet of which not everything was read

    def gave(self, marks: Horizon, rewound: Horizon, *, together: bool = False) -> None:
        """Everything below `marks` was given to the application, or below `rewound` where the past still comes.

        What is given `together` is done when `all_but` says so.
        """
        if together and self._before is None:
            self._before = self.positions()
        self._given = {**marks, **rewound}

    def expect(self, events: Mapping[Place, int]) -> None:
        """So many events of these packets are acknowledged one by one."""
        for (sender, seqno), count in events.items():
            self._open.setdefault(sender, Counter())[seqno] += count

    def done(self, sender: int, seqno: int) -> bool:
        """One event of this packet is done; returns whether all are."""
        packets = self._open.get(sender, Counter())
        packets[seqno] -= 1
        if packets[seqno] > 0:
            return False
        del packets[seqno]
        if not packets:
            self._open.pop(sender, None)
        return True

    def separate(self, events: Mapping[Place, int]) -> None:
        """What was given together, so many events of these packets, is from now on acknowledged one by one."""
        self._before = None
        self._unread = {}
        self.expect(events)

    def all_but(self, unread: Horizon) -> None:
        """All events that were given are done, but for those from these packets of their senders on."""
        self._open.clear()
        self._before = None
        self._unread = unread

    def positions(self) -> Horizon:
        """For each sender the last packet that is done, with all before it."""
        if self._before is not None:
            return self._before
        following = dict(self._given)
        for sender, packets in self._open.items():
            following[sender] = min(min(packets), following.get(sender, 0))
        for sender, first in self._unread.items():
            following[sender] = min(first, following.get(sender, 0))
        return {sender: first - 1 for sender, first in following.items() if first > 0}
