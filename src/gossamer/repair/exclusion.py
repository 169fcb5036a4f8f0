"""The last link of a chain that loses nothing: what nobody gives a member is found out about by a new view.

003 §8: protocols that do not allow a member to miss a packet can simulate a partition in the membership when one cannot
be recovered. Who is on which side is decided by all, in the flush of the view (`membership.view_change`): a member that
left by itself would take the majority away if most lack the packet. While the view changes nobody knows whether the
packet can be had: then the gap goes back to the first repair.
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
        if not self.ladder.membership.stuck(now, out):
            self.ladder.gaps.repairs[0].repair(now, sender, first, last, out)
