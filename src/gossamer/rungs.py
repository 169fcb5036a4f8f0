"""Which rungs a protocol has: from the words of its settings to the parts of a stack."""

from collections.abc import Callable, Mapping
from typing import Final

from gossamer.buffering.by_age import ByAge
from gossamer.buffering.by_size import BySize
from gossamer.buffering.none import NoBuffer
from gossamer.core.ladder import Buffer, Ladder, Rung
from gossamer.core.protocol import ProtocolSettings
from gossamer.dissemination.first_pass import CopiesPass, MulticastPass
from gossamer.dissemination.flow import Flow
from gossamer.dissemination.trees import Trees
from gossamer.membership.sponsored import Sponsored
from gossamer.membership.suspicion import Suspicion
from gossamer.ordering.fifo import Fifo
from gossamer.ordering.none import Unordered
from gossamer.repair.acknowledged import Acknowledged
from gossamer.repair.asking_again import negative_gossip
from gossamer.repair.digest import digest_gossip
from gossamer.repair.hashed_heartbeat import HashedHeartbeat
from gossamer.repair.history import History
from gossamer.repair.logger import Logger
from gossamer.repair.logger_client import LoggerClient
from gossamer.repair.refill import Refill
from gossamer.repair.send_buffer import SendBuffer
from gossamer.repair.variable_heartbeat import VariableHeartbeat

MakeRung = Callable[[Ladder], Rung]
DISSEMINATIONS: Final[Mapping[str, MakeRung]] = {
    "multicast": MulticastPass,
    "copies": CopiesPass,
    "trees": Trees,
}
REPAIRS: Final[Mapping[str, MakeRung]] = {
    "acknowledged": Acknowledged,
    "negative": negative_gossip,
    "digest": digest_gossip,
}
HEARTBEATS: Final[Mapping[str, type[Rung]]] = {"variable": VariableHeartbeat, "hashed": HashedHeartbeat}
MEMBERSHIPS: Final[Mapping[str, type[Rung]]] = {"sponsored": Sponsored}
ORDERS: Final[Mapping[str, type[Unordered] | type[Fifo]]] = {"none": Unordered, "fifo": Fifo}


def rungs_of(ladder: Ladder) -> tuple[Rung, ...]:
    """The rungs of one member, in the order in which they are asked."""
    settings = ladder.settings
    kinds: list[MakeRung | None] = [DISSEMINATIONS[settings.dissemination]]
    if ladder.peers.loggers or settings.membership == "sponsored":  # then loggers may come later
        kinds += [Logger, Refill] if ladder.is_logger else [SendBuffer, History]
        kinds += [LoggerClient]
    kinds += [REPAIRS.get(settings.repair), HEARTBEATS.get(settings.heartbeat)]
    kinds += [MEMBERSHIPS.get(settings.membership)]
    if settings.suspect_after:
        kinds += [Suspicion]
    if settings.rate_limit or settings.admission or settings.window:
        kinds += [Flow]
    return tuple(kind(ladder) for kind in kinds if kind is not None)


def buffer_of(settings: ProtocolSettings) -> Buffer:
    """What a member keeps for others."""
    match settings.buffering:
        case "age":
            return ByAge(settings.gc_rounds)
        case "size":
            return BySize(settings.buffer_packets, settings.buffer_bytes)
        case _:
            return NoBuffer()
