"""A first pass along the propagation graph of the order (002 §3.2): a packet goes to the primary, and down the tree.

The order knows the graph, so this rung asks it where to send what it publishes and where to pass on what comes;
settings without such an order are refused. Places say when a packet has its turn and show that one is missing, as the
paper's numbers for each edge do. So copies are sent once, unreliably, and what an edge loses is left to the repairs.
"""

from gossamer.core.declares import PROPAGATION_GRAPH, Declares
from gossamer.core.effects import Unicast
from gossamer.core.ladder import Effects
from gossamer.core.messages import Data
from gossamer.core.packets import Run
from gossamer.core.settings import ProtocolSettings
from gossamer.dissemination.passing_on import PassingOn


class GraphPass(PassingOn):
    """Sends to the primary what the member publishes, and passes on what comes down the tree."""

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """Without an order there is no graph."""
        return Declares(needs=(PROPAGATION_GRAPH,))

    def send(self, run: Run, out: Effects) -> None:
        """Where the order says."""
        to = self.ladder.order.onward(run[0].sender)
        messages = [Data(packet) for packet in run] if to else []
        # before what the order may just have said of their places, which would make them missing
        out[:0] = [Unicast(member, message) for message in messages for member in to]
