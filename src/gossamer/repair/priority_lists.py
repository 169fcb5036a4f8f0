"""Priority lists (001 §4.1): whom a member asks for a coordinator, in which order, and who may lead whom.

A list names every member that may lead its owner. Together the lists must be *acyclic* (nobody leads itself, over
however many steps) and *jointly complete* (of any two members one may lead the other): then every part of the group has
one coordinator (Theorem 4.1). Such lists are a total order: the set of a list follows from it, and only the sequence is
free. So lists can be made in two ways:

- once, for everybody: `arbitrary` (§4.2), or `sdf` from known distances (§5.1, Fig. 5.2);
- by each member for itself (`OwnList`): whom a list names follows from an order that all know without asking, loggers
  before others and lower numbers before higher ones, and the sequence from the round trips that the owner has measured,
  the nearest first. That is the dynamic version of SDF: the sequence changes whenever times or the view do, the order
  never. Therefore the lists are acyclic whatever each member believes of the group, and jointly complete for any two
  members that know each other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

Lists = dict[int, list[int]]
"""For each member the members that may lead it, the best first."""
Distance = Callable[[int, int], float]


def arbitrary(members: Sequence[int], rng: Random) -> Lists:
    """Any lists that are correct (001 §4.2): the last of `members`, the source, gets an empty one."""
    lists, left = {}, list(members)
    for member in members:
        left.remove(member)
        lists[member] = rng.sample(left, len(left))
    return lists


def sdf(members: Iterable[int], source: int, distance: Distance) -> Lists:
    """Shortest distance first (001 Fig. 5.2).

    The member that is farthest from the source gets its list first, and nobody else's list names it; in each list the
    nearest comes first. Of two at the same distance the one that is nearer to the source is preferred, then the lower
    number (the paper breaks the ties that are left arbitrarily).
    """
    queue = sorted(members, key=lambda m: (m != source, distance(m, source), m), reverse=True)
    lists = {}
    for at, owner in enumerate(queue):
        lists[owner] = sorted(queue[at + 1 :], key=lambda m: (distance(owner, m), distance(m, source), m))
    return lists


def fault_of(lists: Mapping[int, Sequence[int]]) -> str:
    """Why these lists are not correct, in a few words; empty if they are."""
    for owner, named in lists.items():
        strangers = [member for member in named if member not in lists]
        if strangers:
            return f"the list of member {owner} names {strangers[0]}, which is no member"
        if len(set(named)) < len(named):
            return f"the list of member {owner} names a member twice"
    return _cycle(lists) or _incomplete(lists)


def _cycle(lists: Mapping[int, Sequence[int]]) -> str:
    """Take away, again and again, members whose lists name nobody that is left, then members that no list names: who
    stays is on a cycle, or between two."""
    left = {owner: set(named) for owner, named in lists.items()}
    free = [owner for owner, named in left.items() if not named]
    followers: dict[int, list[int]] = {}
    for owner, named in lists.items():
        for member in named:
            followers.setdefault(member, []).append(owner)
    while free:
        gone = free.pop()
        del left[gone]
        for owner in followers.get(gone, ()):
            left[owner].discard(gone)
            if not left[owner]:
                free.append(owner)
    while idle := left.keys() - set().union(*left.values()):
        left = {owner: named for owner, named in left.items() if owner not in idle}
    if len(left) == 1:
        return f"the list of member {min(left)} names itself"
    return f"members {', '.join(map(str, sorted(left)))} lead each other in a circle" if left else ""


def _incomplete(lists: Mapping[int, Sequence[int]]) -> str:
    """Lists without a cycle are jointly complete if each is longer by one than the next shorter one."""
    by_length = sorted(lists, key=lambda owner: len(lists[owner]))
    for at, owner in enumerate(by_length):
        lacking = set(by_length[:at]) - set(lists[owner])
        if lacking:
            return f"of members {min(lacking)} and {owner} neither may lead the other"
    return ""


def tree(lists: Mapping[int, Sequence[int]], partition: Iterable[int]) -> dict[int, int]:
    """Who turns to whom if only these members reach each other, and every probe is answered: the coordinator tree.

    A member that finds nobody on its list is its own parent: the coordinator.
    """
    inside = dict.fromkeys(partition)
    return {member: next((m for m in lists[member] if m in inside), member) for member in inside}


def tree_cost(parents: Mapping[int, int], distance: Distance) -> float:
    """The sum of the distances between children and parents (001 §5.1)."""
    return sum(distance(child, parent) for child, parent in parents.items() if child != parent)


class OwnList:
    """The list that a member makes for itself, and its notion of who may lead whom."""

    __slots__ = ("_given", "_loggers", "_me")

    def __init__(self, me: int, given: Lists | None = None) -> None:
        """`given` are lists that were made once, for everybody: then nothing is measured."""
        self._me = me
        self._given = given
        self._loggers: frozenset[int] = frozenset()

    def follow(self, loggers: Iterable[int]) -> None:
        """These are the loggers now."""
        self._loggers = frozenset(loggers)

    def leads(self, one: int, other: int) -> bool:
        """Whether `one` may lead `other`, so that `other` may turn to it."""
        if self._given is not None:
            return one in self._given.get(other, ())
        return self._place(one) < self._place(other)

    def made(self, members: Iterable[int], times: Mapping[int, float]) -> list[int]:
        """The list, for these members of the group and these round-trip times."""
        if self._given is not None:
            there = set(members)
            return [member for member in self._given.get(self._me, ()) if member in there]
        named = [member for member in members if self.leads(member, self._me)]
        farthest = max(times.values(), default=0.0)
        return sorted(named, key=lambda m: (times.get(m, farthest), self._place(m)))

    def _place(self, member: int) -> tuple[bool, int]:
        """In the order that all members know: whoever comes first may lead."""
        return member not in self._loggers, member
