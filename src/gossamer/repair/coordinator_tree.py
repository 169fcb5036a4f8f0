"""Who coordinates whom: the election of 001, appendix I, by six pairs of events and actions.

Every member follows a coordinator, which may be itself. The coordinator says so by multicast every `null_period` (δ);
that is its null message, too. A member that has not heard its own for `null_misses` (m) of them takes over for itself
(event 1) and probes the members on its priority list, one after the other and round again, until one answers with
*its* coordinator, which the member then follows (events 2, 3). One that remains alone at the top goes on probing: so
it notices when a partition heals. It also follows whoever on its list it hears saying that it coordinates (event 6),
and so do those that follow it.

The differences from the paper: there is a coordinator at all times, not only after a failure, so that one null message
for each part of the group is enough, however many senders there are; and its multicast is heard by everybody in reach,
not only by those that it knows of, which makes elections short. A member that takes over for itself waits a little
before it says so, the longer the more could lead it: most of them have found somebody to follow by then.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from gossamer.core.effects import Note, Unicast
from gossamer.core.ladder import Effects, Ladder, MessageHandler
from gossamer.core.messages import CoordinatorIs, Seek
from gossamer.core.round_trips import stamp_of
from gossamer.repair.priority_lists import Lists, OwnList

_STAMP_S = 10.0
"""An answer that took longer than this measures nothing."""


class CoordinatorTree:
    """One member's place in the tree."""

    def __init__(self, ladder: Ladder, attached: Callable[[float, int, Effects], None]) -> None:
        """`attached` is called with the coordinator that a member has found which led itself until now."""
        self.coordinator: int | None = None
        """NIL until anything is known."""
        self.since = 0.0
        """When that was found out."""
        self.changes = 0
        self.whole = True
        """Whether all members follow the coordinator, as it says."""
        self._reported_to: int | None = None  # whom this member last told of those that followed it
        self._attached = attached
        self._ladder = ladder
        self._own = OwnList(ladder.me, _given(ladder.settings.lists))
        self._heard_at = self._quiet_until = 0.0
        self._probed = 0
        self._timer = ladder.timer(self._probe)

    def messages(self) -> Mapping[type, MessageHandler]:
        """Probes and their answers."""
        return {Seek: self._sought, CoordinatorIs: self._answered}

    @property
    def leads(self) -> bool:
        """Whether this member coordinates."""
        return self.coordinator == self._ladder.me

    @property
    def speaks_for_others(self) -> bool:
        """Whether this member coordinates, or did, and has told its coordinator of those that followed it."""
        return self.leads or self._reported_to == self.coordinator

    def speaks(self, now: float) -> bool:
        """Whether it is time for a coordinator to say so."""
        return self.leads and now >= self._quiet_until

    def list(self) -> list[int]:
        """The priority list, as it is now: of all members that belong to the group, in reach or not."""
        roster = self._ladder.roster
        self._own.follow(roster.loggers)
        return self._own.made(roster.others_owed(), self._ladder.round_trips.times)

    def may_lead(self, one: int, other: int) -> bool:
        """Whether `other` may follow `one`."""
        return self._own.leads(one, other)

    def standing(self, now: float) -> dict[str, Any]:
        """For those who look."""
        return {"coordinator": self.coordinator, "since_s": now - self.since, "changes": self.changes}

    def begin(self, now: float) -> None:
        """Nothing is known."""
        self.coordinator = None
        self._heard_at = now
        self._timer.set(inf)

    def look(self, now: float, out: Effects) -> None:
        """Event 1: the coordinator, or any, was not heard for mδ. A member that nobody may lead need not wait."""
        settings = self._ladder.settings
        if self.coordinator is None and not self.list():
            self._take_over(now, out)
            self._quiet_until = now
        elif not self.leads and now - self._heard_at > settings.null_misses * settings.null_period:
            self.search(now, out)

    def search(self, now: float, out: Effects) -> None:
        """Action 1."""
        if not self.leads:
            self._take_over(now, out)
        self._probed = 0
        self._probe(now, out)

    def view_changed(self, now: float, out: Effects) -> None:
        """The coordinator has left, or there are others to follow."""
        if self.coordinator is None:
            return
        if not self.leads and not self._ladder.roster.knows(self.coordinator):
            self.search(now, out)
        elif self.leads and self.list():
            self._timer.arm(now)

    def measure(self, now: float, out: Effects) -> None:
        """Probe one member of the list, in turn, to learn how far it is."""
        listed = self.list()
        if listed:
            self._probed += 1
            self._seek(now, listed[self._probed % len(listed)], out)

    def heard(self, now: float, source: int, out: Effects) -> bool:
        """Event 6: `source` says that it coordinates; returns whether it is the one that this member follows now."""
        if source == self.coordinator:
            self._heard_at = now
            return True
        led_itself = self.leads
        if self.coordinator is None:
            better = self.may_lead(source, self._ladder.me)
        else:
            better = self.may_lead(source, self.coordinator)
        if better:
            self._follow(now, source, source, "told", out)
            if led_itself:
                self._attach(now, source, out)
        return better

    def _take_over(self, now: float, out: Effects) -> None:
        place = len(self.list()) / max(1, len(self._ladder.roster.owed))
        self._quiet_until = now + self._ladder.settings.null_period * (0.5 + place)
        self._become(now, self._ladder.me, self._ladder.me, "elected", out)

    def _follow(self, now: float, coordinator: int, told_by: int, how: str, out: Effects) -> None:
        self._heard_at = now
        self._timer.set(inf)
        self._become(now, coordinator, told_by, how, out)

    def _attach(self, now: float, coordinator: int, out: Effects) -> None:
        """Action 3: this member led itself, and perhaps others, until now."""
        self._reported_to = coordinator
        self.whole = False
        self._attached(now, coordinator, out)

    def _become(self, now: float, coordinator: int, told_by: int, how: str, out: Effects) -> None:
        self.coordinator, self.since = coordinator, now
        self.changes += 1
        out.append(Note("coordinator", sender=told_by, peer=coordinator, phase=how))

    def _probe(self, now: float, out: Effects) -> None:
        """The next on the list, and round again: the first time quickly, then as often as null messages are sent."""
        listed = self.list()
        if not self.leads or not listed or not self._ladder.is_member:
            return
        settings, again = self._ladder.settings, self._probed >= len(listed)
        self._seek(now, listed[self._probed % len(listed)], out)
        self._probed += 1
        self._timer.set(now + max(settings.probe_period, settings.null_period if again else 0.0))

    def _seek(self, now: float, member: int, out: Effects) -> None:
        out.append(Unicast(member, Seek(stamp_of(now))))

    def _sought(self, now: float, source: int, message: Seek, out: Effects) -> None:
        """Event 2: say who coordinates; a member that does not know begins to find out."""
        if self.coordinator is None:
            self.search(now, out)
        assert self.coordinator is not None
        out.append(Unicast(source, CoordinatorIs(self.coordinator, message.stamp)))

    def _answered(self, now: float, source: int, message: CoordinatorIs, out: Effects) -> None:
        """Event 3: follow that coordinator, unless there is one already."""
        if 0 <= now - message.stamp / 1e6 < _STAMP_S:
            self._ladder.round_trips.echoed(now, source, message.stamp)
        found, me = message.coordinator, self._ladder.me
        if not self.leads or found == me:
            return
        if not self._ladder.roster.knows(found) or not self.may_lead(found, me):
            self._ladder.ignored["coordinators that cannot be"] += 1  # forged, or of another view
            return
        self._follow(now, found, source, "attached", out)
        self._attach(now, found, out)


def _given(lists: tuple[tuple[int, ...], ...]) -> Lists | None:
    return {owner: list(named) for owner, named in enumerate(lists)} if lists else None
