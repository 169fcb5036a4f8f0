"""The last link of a chain that loses nothing: a member that nobody gives a packet leaves the group, and joins anew.

003 §8: protocols that do not allow a member to miss a packet can simulate a partition in the membership when one cannot
be recovered. A member that is cut off, or waits for a new view, has no reason to think that nobody has the packet: then
the gap goes back to the first repair.
"""

from gossamer.core.declares import AGREED_VIEWS, NEVER_LOST, Declares
from gossamer.core.ladder import Effects
from gossamer.core.parts import Repair
from gossamer.core.settings import ProtocolSettings


class Exclusion(Repair):
    """Never fills anything, and never gives up."""

    __slots__ = ()

    place = "last"
    asks = False

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Everything comes, to those that stay; there must be somebody to tell that a member does not."""
        return Declares(promises=("eventual",), needs=(AGREED_VIEWS,), provides=(NEVER_LOST,))

    def repair(self, now: float, sender: int, first: int, last: int, out: Effects) -> None:
        """It is our turn: nobody had them."""
        gaps = self.ladder.gaps
        if not self.ladder.membership.resign(now, f"nobody has packet {first} of member {sender}", out):
            gaps.repairs[0].repair(now, sender, first, last, out)
