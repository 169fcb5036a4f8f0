"""Senders that left are retired: of many that came, published and went, nothing is said any more.

What is known of a sender is gossiped about, compared, acknowledged and told to newcomers. That ends when it has left,
nothing of it is missing here, and it has been silent for so long that those who may have missed it are known to be
away (`streams.rest_of`). Each member decides this for itself, at about the same time as the others; nothing is sent. A
late duplicate is still known as one.

When a member that was away is back, the senders that were retired meanwhile are spoken of again, for as long: it learns
of them as of any others, and gets what peers keep or a logger holds.
"""

from gossamer.core.ids import owner_of
from gossamer.core.ladder import Effects, Ladder, Rung
from gossamer.core.roster import Roster
from gossamer.core.streams import rest_of

_LOOK_ROUNDS = 16


class Retirement(Rung):
    """Who is away, and since when, as far as this member knows."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._away: dict[int, float] = {}
        self._rest = rest_of(ladder.settings)

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """Look for senders that left."""
        if number % _LOOK_ROUNDS == 0:
            ladder, before = self.ladder, now - self._rest
            resting = [sender for sender, stream in ladder.streams.items() if stream.rests_since(before)]
            for sender in resting:
                if sender not in ladder.own and not ladder.roster.knows(owner_of(sender)):
                    ladder.retire(now, sender)

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Members go away, and come back."""
        roster = self.ladder.roster
        in_reach = set(roster.members)
        back = [since for member, since in self._away.items() if member in in_reach]
        self._away = {m: self._away.get(m, now) for m in roster.owed if m not in in_reach}
        for sender in self.ladder.streams.retired_since(min(back)) if back else ():
            self.ladder.revive(now, sender)
