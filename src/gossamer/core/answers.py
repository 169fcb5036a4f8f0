"""Which packets of an answer were lost: those that a member must have sent before others that have come from it.

What has not come in time may only be late. A member on a busy host stands still for many round trips, also in the
middle of an answer, and to the clock that looks like a queue that drops the rest of it. But what a member sends rarely
overtakes what it has sent before. So (as in RACK, RFC 8985) an answer that is not complete in time is judged when its
last packet is here, or the first of a later one of the same member. What that member has sent until then was only late,
even if another was faster.
"""

from collections import deque
from math import inf
from typing import NamedTuple

from gossamer.core.packet_sets import PacketSets, count, remove
from gossamer.core.packets import Run

_WAITING_MAX = 16
"""Answers of one member that wait to be judged: that of one is much like that of others."""
_MEMBERS_MAX = 1000
_NOTHING = -inf, False


class Answer(NamedTuple):
    """What became of a request."""

    asked_at: float
    asked: int
    missing: PacketSets

    @property
    def missing_count(self) -> int:
        """How many packets have not come."""
        return count(self.missing)


class Answers:
    """The answers that were not complete in time, until it is known what of them was lost.

    A member below 0 stands for several: nothing is known of the order in which these send.
    """

    __slots__ = ("_reached", "_waiting")

    def __init__(self) -> None:
        self._reached: dict[int, tuple[float, bool]] = {}  # by member: the latest request with its first packet or last
        self._waiting: dict[int, deque[Answer]] = {}  # by member

    def over(self, member: int, asked_at: float, asked: int, missing: PacketSets) -> list[Answer]:
        """The time is over for what `member` was asked for then; returns which answers can be judged."""
        if not missing or member < 0 or (asked_at, True) <= self._reached.get(member, _NOTHING):
            return [Answer(asked_at, asked, missing)]
        if member not in self._waiting and len(self._waiting) >= _MEMBERS_MAX:
            self._waiting.clear()
        waiting = self._waiting.setdefault(member, deque(maxlen=_WAITING_MAX))
        waiting.append(Answer(asked_at, asked, {sender: numbers.copy() for sender, numbers in missing.items()}))
        return []

    def came(self, member: int, run: Run) -> None:
        """`member` has sent these, however late."""
        for answer in self._waiting.get(member, ()):
            remove(answer.missing, run[0].sender, run[0].seqno, run[-1].seqno)

    def reached(self, member: int, asked_at: float, is_last: bool) -> list[Answer]:
        """The first packet that `member` was asked for then is here, or the last; returns which can be judged."""
        if member not in self._reached and len(self._reached) >= _MEMBERS_MAX:
            self._reached.clear()
        reached = self._reached[member] = max((asked_at, is_last), self._reached.get(member, _NOTHING))
        waiting = self._waiting.get(member)
        judged = []
        while waiting and (waiting[0].asked_at, True) <= reached:
            judged.append(waiting.popleft())
        return judged
