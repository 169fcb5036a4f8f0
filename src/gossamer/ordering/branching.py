"""Which channels should have a branch of their own, as the primary of the trunk sees it (002 §3.1, §5.1).

All hear channel 0, so that the propagation graph of a group is one tree: the primary of the trunk on top, and below it,
for every part of the group whose channels nobody else hears, one that merges what these channels get with what the
trunk has. Such a part gets a branch once it has stayed as it is for a while. It is worth one if others are spared its
places, and if it does not stop when a single member fails. A branch has to end when somebody else wants to hear one of
its channels: they go back to the trunk, until the parts have stayed as they are again.
"""

from collections.abc import Mapping

from gossamer.core.ids import channels_in
from gossamer.core.places import Mark
from gossamer.core.roster import Roster
from gossamer.ordering.graph import ROOT, greedy
from gossamer.ordering.marks import Marks

BRANCHES_MAX = 32
SITES_MIN = 3
"""With two, either would block the other by failing."""

Part = tuple[int, tuple[int, ...]]
"""Channels, a bit for each, and all members that hear any of them."""


def parts_of(listening: Mapping[int, int]) -> list[Part]:
    """The parts of a group that have no channel in common but channel 0."""
    found: list[Part] = []
    for member, heard in sorted(listening.items()):
        mask = heard & ~1
        touched = [part for part in found if part[0] & mask]
        if mask:
            found = [part for part in found if part not in touched]
            members = [other for part in touched for other in part[1]]
            for part in touched:
                mask |= part[0]
            found.append((mask, tuple(sorted([*members, member]))))
    return sorted(found)


class Branching:
    """What the primary of the trunk has seen of the parts of the group."""

    def __init__(self) -> None:
        self._since: dict[Part, float] = {}

    def wanted(self, now: float, patience: float, roster: Roster, lives: Mapping[int, int], marks: Marks) -> list[Mark]:
        """The marks to place: branches that have to end, and those that should be opened."""
        listening = {member: roster.channels_of(member) for member in roster.members}
        parts = [part for part in parts_of(listening) if _is_worth_it(part, lives, len(roster), marks)]
        self._since = {part: self._since.get(part, now) for part in parts}
        ready = [part for part, since in self._since.items() if now - since >= patience]
        room = BRANCHES_MAX - len(marks.branches)
        return [
            *(Mark("close", branch) for branch in marks.branches if _has_to_end(branch, listening, lives, marks)),
            *(_open(part, listening, lives) for part in ready[: max(0, room)]),
        ]


def _is_worth_it(part: Part, lives: Mapping[int, int], members: int, marks: Marks) -> bool:
    channels, hearing = part
    if not SITES_MIN <= len(hearing) < members or channels & marks.channels:
        return False
    taken = {member for mark in marks.branches.values() for member in mark.table}
    return all(member in lives and member not in taken for member in hearing)


def _has_to_end(branch: int, listening: Mapping[int, int], lives: Mapping[int, int], marks: Marks) -> bool:
    opened = marks.branches[branch]
    strangers = [m for m, heard in listening.items() if heard & opened.channels and opened.table.get(m) != lives.get(m)]
    return bool(strangers) and branch not in marks.closing


def _open(part: Part, listening: Mapping[int, int], lives: Mapping[int, int]) -> Mark:
    channels, hearing = part
    listeners = {c: [m for m in hearing if listening[m] >> c & 1] for c in channels_in(channels)}
    (root,) = greedy(listeners).children[ROOT]  # they hang together
    return Mark("open", root, channels, {member: lives[member] for member in hearing})
