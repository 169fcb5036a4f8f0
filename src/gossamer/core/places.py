"""The one order of a group: places that packets get in it, the graph that gives them, and what members say of both.

A *place* is a number that every member gives to the same packet. Places are given by the primary of a numbered graph,
and are kept by its sites; what most sites keep is settled and stays (002 §5).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from gossamer.core.packet_sets import Horizon


@dataclass(frozen=True, slots=True)
class Sites:
    """The members that keep an order, each with its life, so that one that has lost its memory is another."""

    primary: int
    lives: Horizon

    def has(self, member: int, life: int) -> bool:
        """Whether this member, in this life, is one of them."""
        return self.lives.get(member) == life

    def are_most(self, some: Collection[int]) -> bool:
        """Whether these are more than half of them, or half of them with the primary."""
        present = sum(member in some for member in self.lives)
        return 2 * present > len(self.lives) or (2 * present == len(self.lives) and self.primary in some)

    def kept_by_most(self, kept: Mapping[int, int]) -> int:
        """The highest place below which most keep everything; `kept` says below which place each of them does."""
        for place in sorted({kept.get(member, 0) for member in self.lives}, reverse=True):
            if self.are_most([member for member in self.lives if kept.get(member, 0) >= place]):
                return place
        return 0


@dataclass(frozen=True, slots=True)
class Segment:
    """Places that follow on: `count` packets of `sender` from `first` on or, in one place, the `sites` from there on.

    `graph` is the number of the graph whose primary gave these places.
    """

    graph: int
    sender: int = 0
    first: int = 0
    count: int = 1
    sites: Sites | None = None


@dataclass(slots=True)
class Places:
    """The primary of `graph` gives places, from `first` on; everything below `settled` stays as it is.

    `before` is the graph that gave the place before `first`. `order` tells orders apart that were founded apart. From a
    member that is not the primary, as an answer, `graph` is 0.
    """

    kind: ClassVar[str] = "order"
    order: int
    graph: int
    first: int
    before: int
    settled: int
    segments: list[Segment] = field(default_factory=list)


@dataclass(slots=True)
class PlacesKept:
    """The source, in this life, keeps everything below `below` as the primary of `graph` gave it."""

    kind: ClassVar[str] = "order"
    order: int
    graph: int
    life: int
    below: int


@dataclass(slots=True)
class PlacesWanted:
    """Please tell the source the places from `first` on."""

    kind: ClassVar[str] = "order"
    order: int
    first: int


@dataclass(slots=True)
class EnterOrder:
    """The source wants to be a site. If it `begins`, it asks where: it is owed what follows `horizon`."""

    kind: ClassVar[str] = "order"
    life: int
    begins: bool
    horizon: Horizon


@dataclass(slots=True)
class OrderBegins:
    """The answer to an `EnterOrder` of this life: its order begins at `first`.

    `placed` is the highest number of each sender that has a place before that, `primary` and `lives` are the sites.
    """

    kind: ClassVar[str] = "order"
    order: int
    life: int
    first: int
    before: int
    placed: Horizon
    primary: int
    lives: Horizon


@dataclass(slots=True)
class CloseGraph:
    """The source closes every graph below `graph`, to open that one (002 §5.1): do nothing for them any more."""

    kind: ClassVar[str] = "order"
    order: int
    graph: int


@dataclass(slots=True)
class GraphClosed:
    """The source does nothing any more for graphs below `graph`, which `opener` may open.

    It keeps places below `below`, the last of them given by graph `last`, and knows that those below `settled` stay.
    """

    kind: ClassVar[str] = "order"
    order: int
    graph: int
    opener: int
    life: int
    last: int
    below: int
    settled: int


@dataclass(slots=True)
class Unplaced:
    """The source waits for places of packets of these senders, up to these numbers."""

    kind: ClassVar[str] = "order"
    lasts: Horizon
