"""Delivery in the order of places: what is settled is handed over, in order, as far as it is here.

Where places come from is not decided here (`total.py`); what waits for its turn is in `turns.py`.
"""

from math import inf
from typing import Any

from gossamer.core.declares import AGREED_VIEWS, HOLDING_BACK, ONE_ORDER, Declares
from gossamer.core.effects import Note, ReportBlocked
from gossamer.core.ids import FIRST_PASS, Phase
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import PacketSets, put
from gossamer.core.packets import Run
from gossamer.core.parts import Order
from gossamer.core.places import Sites
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings
from gossamer.core.streams import Stream
from gossamer.ordering.place_log import PlaceLog
from gossamer.ordering.turns import Turns

_HISTORY = 100_000
"""Segments of settled places that are kept, for members that were away."""


class InPlaces(Order):
    """The places that this member knows, how far they are settled, and whose turn it is."""

    in_stream_order = False
    holds_back = True

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self.turns = Turns(ladder)
        self._limit = ladder.settings.hold_bytes
        self._log: PlaceLog | None = None
        self._settled = 0  # places below this one stay as they are
        self._turn = 0
        self._releasing = self._more = False
        self._graph = 0  # the graph that we are in, and its primary
        self._primary = -1
        self._blocked_since = inf
        self._blocked_s = 0.0  # before that, in all

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """One order, and in it that of each sender."""
        return Declares(promises=("agreement", "fifo"), provides=(HOLDING_BACK, ONE_ORDER), excludes=(AGREED_VIEWS,))

    # What others may want to know.

    def blocked(self) -> str:
        """Why nothing can be delivered now, though there may be something; empty if nothing is in the way."""
        if self._blocked_since == inf:
            return ""
        if self._log is None:
            return "the order has not begun for this member"
        sites = self._log.sites_at(self._log.end)
        return f"graph {self._graph} has no primary in reach, or not most of its {len(sites.lives)} sites"

    def standing(self, now: float) -> dict[str, Any]:
        """What this member knows of the order."""
        sites = Sites(-1, {}) if self._log is None else self._log.sites_at(self._log.end)
        return {
            "graph": self._graph,
            "primary": self._primary,
            "sites": list(sites.lives),
            "depth": min(1, len(sites.lives) - 1),
            "places": self._settled,
            "delivered": self._turn,
            "blocked": self.blocked(),
            "blocked_seconds": self._blocked_s + (now - self._blocked_since if self._blocked_since < inf else 0.0),
        }

    def full(self) -> str:
        """Nothing is published while the order cannot go on: it would wait here without bound."""
        return f"the order is blocked: {self.blocked()}" if self._blocked_since < inf else ""

    def is_full(self) -> bool:
        """Whether as much waits as may."""
        return 0 < self._limit <= self.turns.bytes

    def urgent(self, wanted: PacketSets) -> PacketSets:
        """If it is full, only those whose turn it is."""
        if not self.is_full() or self._log is None:
            return wanted
        urgent: PacketSets = {}
        for place, segment in self._log.walk(self._turn):
            if place >= self._settled or urgent:
                break
            if segment.sites is None and segment.sender in wanted:
                parts = wanted[segment.sender].within(segment.first, segment.first + segment.count - 1)
                put(urgent, segment.sender, RangeSet(parts))
        return urgent

    def _begin_at(self, place: int, log: PlaceLog) -> None:
        """The order begins here, with everything below this place settled."""
        self._log = log
        self._settled = self._turn = place

    # Packets.

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Our own packets need a place like any other."""
        self.arrived(now, [run], FIRST_PASS, self.ladder.streams[self.ladder.me], out)

    def arrived(self, now: float, parts: list[Run], phase: Phase, stream: Stream, out: Effects) -> None:
        """They wait for their turn; the primary gives them their places."""
        for run in parts:
            self.turns.wait(run, phase, out)
        self._came(now, parts[0][0].sender, out)

    def given_up(self, now: float, sender: int, first: int, last: int, why: str, stream: Stream, out: Effects) -> None:
        """A loss has its place in the order."""
        self.turns.lose(sender, first, last, why, out)
        self._came(now, sender, out)

    def rewound(self, sender: int, first: int) -> None:
        """What is held of it comes again."""
        self.turns.forget(sender, first)

    def taken_back(self, sender: int, first: int, last: int) -> None:
        """They are awaited again."""
        self.turns.await_again(sender, first, last)

    def _came(self, now: float, sender: int, out: Effects) -> None:
        self._came_from(now, sender, out)
        self._release(now, out)

    def _came_from(self, now: float, sender: int, out: Effects) -> None:
        """Something of `sender` is here, or will never be: whoever gives places may give some."""

    def _release(self, now: float, out: Effects) -> None:
        """Hand over everything whose turn has come. What turns out to be missing may be given up at once, so again."""
        if self._releasing or self._log is None:
            self._more = True
            return
        self._releasing = True
        try:
            self._more = True
            while self._more:
                self._more = False
                self._hand_over(now, out)
        finally:
            self._releasing = False
        self._log.drop(_HISTORY, self._turn)

    def _hand_over(self, now: float, out: Effects) -> None:
        assert self._log is not None
        for place, segment in self._log.walk(self._turn):
            if place >= self._settled:
                break
            end = min(place + segment.count, self._settled)
            if segment.sites is None:
                number = segment.first + self._turn - place
                last = segment.first + end - place - 1
                self._turn += self.turns.hand_over(now, segment.sender, number, last, self._turn, out) - number
            else:
                self._turn = end
            if self._turn < end:
                break

    def _block(self, now: float, why: str, out: Effects) -> None:
        if self._blocked_since == inf:
            self._blocked_since = now
            out.append(Note("block", seqno=self._graph, phase=why))
            out.append(ReportBlocked(self.blocked()))

    def _unblock(self, now: float) -> None:
        if self._blocked_since < inf:
            self._blocked_s += now - self._blocked_since
            self._blocked_since = inf
