"""A first pass over random spanning trees (004 §4), where there is no IP multicast.

Every member derives the same `trees` trees from the membership, without a word: tree t is a permutation of the sorted
members, drawn from the number t, read as a heap in which a node has `tree_degree` children. The permutation is
turned so that a packet's sender comes first: it is the root, and a packet is never more than log_k(n) hops away.

A channel has trees of its own, of those that listen to it; a sender that does not is their root all the same.

A packet goes over tree (sender + seqno) mod `trees`, so that consecutive packets take different trees and a member
that fails to forward costs those below it one packet in `trees`. A copy names neither its tree nor its forwarder;
both follow from its id. Copies are sent once, unreliably: what a tree loses is left to the repair.
"""

from functools import lru_cache
from random import Random

from gossamer.core.effects import Unicast
from gossamer.core.ids import channel_of, owner_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.messages import Data
from gossamer.core.packets import Packet, Run
from gossamer.core.roster import Roster
from gossamer.dissemination.passing_on import PassingOn

MemberIds = tuple[int, ...]


@lru_cache(maxsize=64)  # members of one process share what they would all derive alike
def permutation(members: MemberIds, tree: int) -> MemberIds:
    """The order of the members in tree number `tree`."""
    order = sorted(members)
    Random(f"tree/{tree}").shuffle(order)
    return tuple(order)


def children(members: MemberIds, tree: int, degree: int, sender: int, me: int) -> MemberIds:
    """The members to which `me` sends or forwards what `sender` published, in tree number `tree`."""
    if sender not in members or me not in members:
        return ()
    order = permutation(members, tree)
    root, count = order.index(sender), len(order)
    first = (order.index(me) - root) % count * degree + 1
    return tuple(order[(root + at) % count] for at in range(first, min(first + degree, count)))


class Trees(PassingOn):
    """Sends down the tree what the member publishes, and forwards what comes down to it."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._members: dict[int, MemberIds] = {}  # by sender
        self._children: dict[tuple[int, int], MemberIds] = {}  # by tree and sender

    def view_changed(self, now: float, before: Roster, out: Effects) -> None:
        """Other members, other trees."""
        self._members.clear()
        self._children.clear()

    def send(self, run: Run, out: Effects) -> None:
        """Down the tree of each packet."""
        for packet in run:
            message = Data(packet)
            out.extend(Unicast(child, message) for child in self._below(packet))

    def _below(self, packet: Packet) -> MemberIds:
        settings = self.ladder.settings
        tree = (packet.sender + packet.seqno) % settings.trees
        known = self._children.get((tree, packet.sender))
        if known is None:
            members = self._members_of(packet.sender)
            known = children(members, tree, settings.tree_degree, owner_of(packet.sender), self.ladder.me)
            self._children[tree, packet.sender] = known
        return known

    def _members_of(self, sender: int) -> MemberIds:
        if sender not in self._members:
            roster, owner = self.ladder.roster, owner_of(sender)
            members = roster.listeners(channel_of(sender))
            outside = owner in roster.members and owner not in members
            self._members[sender] = tuple(sorted((*members, owner))) if outside else members
        return self._members[sender]
