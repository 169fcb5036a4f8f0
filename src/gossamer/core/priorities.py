"""What members say to each other in two-phase order (002 §2): priorities that are proposed, and that are decided."""

from dataclasses import dataclass
from typing import ClassVar

from gossamer.core.packet_sets import Horizon


@dataclass(slots=True)
class Proposed:
    """The source gives packets of `stream` these priorities, by number; it is owed nothing of it below `below`."""

    kind: ClassVar[str] = "order"
    stream: int
    below: int
    priorities: Horizon


@dataclass(slots=True)
class Decided:
    """By number: the priorities of packets of `stream` in the order of all; -1 if its sender does not know any more."""

    kind: ClassVar[str] = "order"
    stream: int
    priorities: Horizon


@dataclass(slots=True)
class HighestPriority:
    """The highest priority that the source has given or heard of."""

    kind: ClassVar[str] = "order"
    priority: int
