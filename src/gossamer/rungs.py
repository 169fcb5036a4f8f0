"""Which rungs a protocol has: from the words of its settings to the parts of a stack.

This is the one place that knows the rungs by name. A new rung is a module in its folder and a line in a table here.
What a rung declares (`core.declares`) is checked here, so that a combination that cannot work is refused when
settings are made.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gossamer.buffering.by_age import ByAge
from gossamer.buffering.by_size import BySize
from gossamer.buffering.hashed import Hashed
from gossamer.buffering.none import NoBuffer
from gossamer.buffering.polled import PolledStability
from gossamer.buffering.server import Server
from gossamer.buffering.shared_gaps import SharedGaps
from gossamer.buffering.stability import AcknowledgedStability, AgedStability
from gossamer.buffering.until_stable import UntilStable
from gossamer.core.declares import (
    AGREED_VIEWS,
    COPIES_KEPT,
    JOINING,
    LOG_REPAIR,
    LOGGERS,
    MEANINGS,
    STABILITY_TOLD,
    Declares,
)
from gossamer.core.ladder import Ladder, Rung
from gossamer.core.parts import Buffer, Keeper, Membership, Order, Pace, Repair
from gossamer.core.schema import SettingError
from gossamer.core.settings import ProtocolSettings
from gossamer.detection.hashed_heartbeat import HashedHeartbeat
from gossamer.detection.variable_heartbeat import VariableHeartbeat
from gossamer.dissemination.direct import CopiesPass, MulticastPass
from gossamer.dissemination.down_the_graph import GraphPass
from gossamer.dissemination.parity import ParityPass
from gossamer.dissemination.trees import Trees
from gossamer.flow.listening import Listening
from gossamer.flow.pacing import PacedFlow
from gossamer.flow.slowest import SlowestWindow
from gossamer.kernel.confirmation import Confirmation
from gossamer.kernel.letters import Letters
from gossamer.kernel.presence import Presence
from gossamer.kernel.retirement import Retirement
from gossamer.kernel.whereabouts import Whereabouts
from gossamer.logging.history import History
from gossamer.logging.logger import Logger
from gossamer.logging.logger_repair import LoggerRepair
from gossamer.logging.refill import Refill
from gossamer.logging.send_buffer import SendBuffer
from gossamer.membership.channel_maps import ChannelMaps
from gossamer.membership.listeners import Listeners
from gossamer.membership.sponsored import Sponsored
from gossamer.membership.suspicion import Suspicion
from gossamer.membership.synchronous import Synchronous
from gossamer.ordering.fifo import Fifo
from gossamer.ordering.none import Unordered
from gossamer.ordering.total import Central, Total
from gossamer.ordering.two_phase import TwoPhase
from gossamer.repair.absences import Absences
from gossamer.repair.acknowledged import Acknowledged
from gossamer.repair.coordinator import Coordinator
from gossamer.repair.digest import digest_gossip
from gossamer.repair.exclusion import Exclusion
from gossamer.repair.priority_lists import fault_of
from gossamer.repair.retries import negative_gossip
from gossamer.repair.srm import Srm

DISSEMINATIONS: Final[Mapping[str, type[Rung]]] = {
    "multicast": MulticastPass,
    "copies": CopiesPass,
    "trees": Trees,
    "graph": GraphPass,
}
REPAIRS: Final[Mapping[str, Callable[[ProtocolSettings], type[Repair]]]] = {
    "acknowledged": lambda settings: Acknowledged,
    "negative": negative_gossip,
    "digest": digest_gossip,
    "coordinator": lambda settings: Coordinator,
    "srm": lambda settings: Srm,
    "logger": lambda settings: LoggerRepair,
    "exclusion": lambda settings: Exclusion,
}
BUFFERS: Final[Mapping[str, type[Buffer]]] = {
    "none": NoBuffer,
    "age": ByAge,
    "size": BySize,
    "hashed": Hashed,
    "unstable": UntilStable,
}
HEARTBEATS: Final[Mapping[str, type[Rung]]] = {"variable": VariableHeartbeat, "hashed": HashedHeartbeat}
MEMBERSHIPS: Final[Mapping[str, type[Membership]]] = {
    "static": Membership,
    "sponsored": Sponsored,
    "synchronous": Synchronous,
}
ORDERS: Final[Mapping[str, type[Order]]] = {
    "none": Unordered,
    "fifo": Fifo,
    "total": Total,
    "central": Central,
    "two-phase": TwoPhase,
}
STABILITIES: Final[Mapping[str, type[Rung]]] = {
    "aged": AgedStability,
    "acknowledged": AcknowledgedStability,
    "polled": PolledStability,
}

_TABLES: Final[Mapping[str, Mapping[str, type[Rung]]]] = {
    "dissemination": DISSEMINATIONS,
    "buffering": BUFFERS,
    "heartbeat": HEARTBEATS,
    "membership": MEMBERSHIPS,
    "ordering": ORDERS,
    "stability": STABILITIES,
}
_SWITCHES: Final[Mapping[str, Declares]] = {  # settings that change what another rung does
    "adaptive": Declares(needs=(LOG_REPAIR,)),
    "durable": Declares(needs=(LOG_REPAIR,)),
    "found_after": Declares(needs=(JOINING,)),
    "loggers": Declares(needs=(LOG_REPAIR,), provides=(LOGGERS,)),
}
_CHANNELS: Final = Declares(excludes=(AGREED_VIEWS, STABILITY_TOLD))
"""What all members agree on, in views or because senders ask them, is one for the whole group as yet."""
_KERNEL: Final = ("no-bogus", "at-most-once")
"""What the stack itself promises, whatever its rungs."""


@dataclass(slots=True)
class Rungs:
    """The parts of one stack; `all` in the order in which they are asked."""

    all: tuple[Rung, ...]
    buffer: Buffer
    order: Order
    pace: Pace
    membership: Membership
    repairs: tuple[Repair, ...]

    @property
    def keepers(self) -> tuple[Keeper, ...]:
        """Those that keep packets for others: the buffer first, the log last."""
        found = [rung for rung in self.all if isinstance(rung, Keeper)]
        return tuple(sorted(found, key=lambda keeper: (keeper.on_disk, keeper is not self.buffer)))


def rungs_of(ladder: Ladder) -> Rungs:
    """The rungs of one member."""
    settings = ladder.settings
    buffer = BUFFERS[settings.buffering](ladder)
    repairs = tuple(REPAIRS[word](settings)(ladder) for word in settings.repair)
    membership = MEMBERSHIPS[settings.membership](ladder)
    pace = _pace_of(settings)(ladder)
    order = ORDERS[settings.ordering](ladder)
    rungs: list[Rung] = [buffer, Presence(ladder), DISSEMINATIONS[settings.dissemination](ladder)]
    if _has_parity(settings):
        rungs.append(ParityPass(ladder))
    if any(repair.from_log for repair in repairs):
        rungs += _of_a_logger(ladder) if ladder.is_logger else [SendBuffer(ladder), History(ladder)]
    if membership.asks or any(repair.asks for repair in repairs):
        rungs += [Server(ladder), Absences(ladder)]  # a repair goes on only with what is not settled
    if settings.buffering == "hashed" and settings.multicast_again:
        rungs.append(SharedGaps(ladder))
    rungs += (*repairs, Confirmation(ladder), Whereabouts(ladder)) if repairs else ()
    rungs += [table[word](ladder) for table, word in _optional(settings) if word in table]
    rungs.append(membership)
    if settings.channels > 1:
        rungs += [Listeners(ladder), ChannelMaps(ladder)]
    if membership.self_organized:
        rungs.append(Letters(ladder))  # only live applications write them
    can_leave = repairs and not any(repair.by_multicast for repair in repairs)
    if settings.unlisten_after and settings.dissemination == "multicast" and can_leave:
        rungs.append(Listening(ladder))  # there is something to leave, and a way to do without it
    if settings.suspect_after:
        rungs += [Suspicion(ladder), Retirement(ladder)]
    return Rungs((*rungs, pace, order), buffer, order, pace, membership, repairs)


def _optional(settings: ProtocolSettings) -> Iterator[tuple[Mapping[str, type[Rung]], str]]:
    yield HEARTBEATS, settings.heartbeat
    yield STABILITIES, settings.stability


def _of_a_logger(ladder: Ladder) -> list[Rung]:
    logger = Logger(ladder)
    return [logger, Refill(ladder, logger.lacking, logger.never_sent)]


def _has_parity(settings: ProtocolSettings) -> bool:
    """Whether there is parity, now or later; one that comes only where it is of use asks for nothing."""
    return settings.parity > 0 or (
        settings.parity < 0 and settings.dissemination == "multicast" and settings.buffering != "none"
    )


def _pace_of(settings: ProtocolSettings) -> type[Pace]:
    if settings.unstable_packets:
        return SlowestWindow
    return PacedFlow if _is_paced(settings) else Pace


def _is_paced(settings: ProtocolSettings) -> bool:
    return bool(settings.rate_limit or settings.admission or settings.window or settings.reach) or (
        settings.congestion != "none"
    )


# What the choices mean, for those who run a stack or look at one from outside.


def self_organized(settings: ProtocolSettings) -> bool:
    """Whether members find out for themselves who belongs to the group."""
    return MEMBERSHIPS[settings.membership].self_organized


def holds_back(settings: ProtocolSettings) -> bool:
    """Whether a gap holds back what follows it."""
    return ORDERS[settings.ordering].holds_back


def resumes(settings: ProtocolSettings) -> bool:
    """Whether a member that crashed goes on, under its name, after what it had acknowledged to a logger."""
    return settings.recovery == "at-least-once"


def may_log(settings: ProtocolSettings) -> bool:
    """Whether there may be loggers."""
    return any(REPAIRS[word](settings).from_log for word in settings.repair)


def tells_stability(settings: ProtocolSettings) -> bool:
    """Whether a member learns that all others have what it published."""
    return settings.stability in STABILITIES


def promises(settings: ProtocolSettings) -> tuple[str, ...]:
    """What a protocol claims of every run, in the words of the specification checkers."""
    last = settings.repair[-1:]
    found = [
        d.always + (d.promises if name != "repair" or word in last else ()) for name, word, d in declared(settings)
    ]
    return (*_KERNEL, *dict.fromkeys(promise for promises in found for promise in promises))


def bounds(settings: ProtocolSettings) -> dict[str, int]:
    """The most packets that a member's buffer may hold, where the protocol sets a bound."""
    most = max(declares.buffer_packets_max for _, _, declares in declared(settings))
    return {"buffer": most} if most else {}


def settle_s(settings: ProtocolSettings, members: int) -> float:
    """How long it takes, at the most, until members that reach each other have one coordinator: twice what it takes to
    miss one, to probe everybody, and to hear of the one that remains."""
    once = (2 * settings.null_misses + 4) * settings.null_period + members * settings.probe_period
    return 2 * once


def check(settings: ProtocolSettings) -> None:
    """SettingError, in one line that says what to change, for a combination that cannot work."""
    _check_chain(settings.repair)
    _check_pace(settings)
    _check_lists(settings)
    choices = list(declared(settings))
    provided = {word: (name, value) for name, value, declares in choices for word in declares.provides}
    for name, value, declares in choices:
        for word in declares.needs:
            if word not in provided:
                remedy = _remedy(word, settings)
                raise SettingError(f"protocol.{name} = {value}: needs {MEANINGS[word]}; set {remedy}")
        for word in declares.excludes:
            if word in provided:
                other, its_value = provided[word]
                raise SettingError(f"protocol.{name} = {value}: cannot be combined with protocol.{other} = {its_value}")


def _check_chain(repair: tuple[str, ...]) -> None:
    shown = f"protocol.repair = {list(repair)}"
    if len(set(repair)) < len(repair):
        raise SettingError(f"{shown}: names a repair twice; name each once")
    for at, word in enumerate(repair):
        place = REPAIRS[word](ProtocolSettings()).place
        if word == "exclusion" and len(repair) == 1:
            raise SettingError(f"{shown}: exclusion needs a repair before it")
        if (place == "first" and at > 0) or (place == "last" and at < len(repair) - 1):
            raise SettingError(f"{shown}: {word} must come {place}")


def _check_pace(settings: ProtocolSettings) -> None:
    """There is one pace: a window for the slowest member leaves nothing to the settings of the other."""
    if settings.unstable_packets and _is_paced(settings):
        name = _paced_by(settings)
        raise SettingError(
            f"protocol.unstable_packets = {settings.unstable_packets}: cannot be combined with protocol.{name}"
            f" = {getattr(settings, name)}"
        )


def _check_lists(settings: ProtocolSettings) -> None:
    fault = fault_of(dict(enumerate(settings.lists)))
    if fault:
        raise SettingError(f"protocol.lists: {fault}; lists must be acyclic and jointly complete (001 §4.2)")


def declared(settings: ProtocolSettings) -> Iterator[tuple[str, str, Declares]]:
    """Every choice: the setting, its value, and what that declares."""
    for word in settings.repair:
        yield "repair", word, REPAIRS[word](settings).declares(settings)
    for name, table in _TABLES.items():
        word = getattr(settings, name)
        if word in table:
            yield name, word, table[word].declares(settings)
    if _is_paced(settings):
        name = _paced_by(settings)
        yield name, str(getattr(settings, name)), PacedFlow.declares(settings)
    if settings.unstable_packets:
        yield "unstable_packets", str(settings.unstable_packets), SlowestWindow.declares(settings)
    if settings.parity > 0:
        yield "parity", str(settings.parity), ParityPass.declares(settings)
    if settings.suspect_after:
        yield "suspect_after", str(settings.suspect_after), Suspicion.declares(settings)
    for name, declares in _SWITCHES.items():
        if value := getattr(settings, name):
            yield name, str(value).lower(), declares
    if settings.channels > 1:
        yield "channels", str(settings.channels), _CHANNELS
    if settings.log_copies > 1:
        yield "log_copies", str(settings.log_copies), Declares(needs=(LOG_REPAIR,))
    if settings.recovery == "at-least-once":
        yield "recovery", settings.recovery, Declares(needs=(LOG_REPAIR, JOINING))


def _paced_by(settings: ProtocolSettings) -> str:
    """The setting because of which senders are paced."""
    names = ("reach", "admission", "congestion", "window", "rate_limit")
    return next(name for name in names if getattr(settings, name) not in (0, "none"))


def _remedy(word: str, settings: ProtocolSettings) -> str:
    """Every choice that provides what is missing."""
    found = [
        f"protocol.{name} to {' or '.join(values)}"
        for name, table in _TABLES.items()
        if (values := [value for value, rung in table.items() if word in rung.declares(settings).provides])
    ]
    chains = [value for value, repair in REPAIRS.items() if word in repair(settings).declares(settings).provides]
    if chains:
        found.append(f"protocol.repair to a chain with {' or '.join(chains)}")
    if word == LOGGERS:
        found.append("protocol.loggers to at least 1")
    if word == COPIES_KEPT:
        return found[0]
    return ", or ".join(found) or "protocol.window"
