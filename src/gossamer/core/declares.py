"""What a choice of rung declares, so that a combination that cannot work is refused before it runs.

A rung promises something of every run (in the words of the specification checkers), needs something that another choice
provides, and may be unable to work beside something. The words for what is needed and provided are here, with what to
call them in an error; `rungs.check` compares them.
"""

from dataclasses import dataclass

LAST_PACKETS = "last-packets"
COPIES_KEPT = "copies-kept"
LOGGERS = "loggers"
LOG_REPAIR = "log-repair"
JOINING = "joining"
WINDOW = "window"
AGEING = "ageing"
ONE_MULTICAST = "one-multicast"
STABILITY_TOLD = "stability-told"
UNSTABLE_KEPT = "unstable-kept"
HOLDING_BACK = "holding-back"
NEVER_LOST = "never-lost"
AGREED_VIEWS = "agreed-views"
PROPAGATION_GRAPH = "propagation-graph"

MEANINGS = {
    LAST_PACKETS: "a way to notice that a sender's last packet was lost",
    COPIES_KEPT: "members that keep packets for each other",
    LOGGERS: "a logger, now or later",
    LOG_REPAIR: "repair by loggers",
    JOINING: "members that join and leave by themselves",
    WINDOW: "a window",
    AGEING: "a buffer by age",
    STABILITY_TOLD: "members that are told what all of them have",
    UNSTABLE_KEPT: "a buffer that keeps what not all members have",
    HOLDING_BACK: "an order in which a gap holds back what follows it",
    NEVER_LOST: "a chain of repairs that reports nothing as lost",
    AGREED_VIEWS: "views that all members agree on",
    PROPAGATION_GRAPH: "an order that is made by a propagation graph",
    ONE_MULTICAST: "a first pass that sends each packet once, to everyone",
}


@dataclass(frozen=True, slots=True)
class Declares:
    """What one choice declares."""

    promises: tuple[str, ...] = ()
    """What holds in every run, if this is the last word on it: see `spec.promises`."""
    always: tuple[str, ...] = ()
    """What holds in every run, also if another choice has the last word."""
    needs: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    """What it cannot be combined with: words that no other choice may provide."""
    buffer_packets_max: int = 0
    """The most packets that a member's buffer may hold, where the choice sets a bound."""


NOTHING = Declares()
