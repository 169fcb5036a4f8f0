"""The one order of a group: places that packets get in it, the graph that gives them, and what members say of both.

A *place* is a number that every member gives to the same packet. Places are given by the primary of a numbered graph,
and are kept by its sites; what most sites keep is settled and stays (002 §5). In all messages, `branch` is the place of
the trunk with which a branch was opened, or 0 for the trunk itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

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
        present = len(self.lives.keys() & some)
        return 2 * present > len(self.lives) or (2 * present == len(self.lives) and self.primary in some)

    def kept_by_most(self, kept: Mapping[int, int]) -> int:
        """The highest place below which most keep everything; `kept` says below which place each of them does."""
        places = sorted([kept.get(member, 0) for member in self.lives], reverse=True)
        if not places:
            return 0
        half, odd = divmod(len(places), 2)
        by_half = 0 if odd or self.primary not in self.lives else min(places[half - 1], kept.get(self.primary, 0))
        return max(places[half], by_half)


EVERYBODY: Final = 1
"""All sites should say what they keep."""


MARKS: Final = ("open", "close", "back", "trunk", "end")
"""What a mark can say; a number of these goes by wire."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One place that is no packet's, but says where others are.

    A group's *trunk* has places for all channels but those of its open *branches*, which have places for a few channels
    and the members that hear them. In the trunk: from here on `channels` have their places in a branch, which is known
    by this place, and has these sites with `number` as their primary (`open`); branch `number` should end (`close`);
    its channels are back, and `table` is the highest number of each sender that has a place there (`back`). In a
    branch: it is the turn of all places of the trunk below `number` (`trunk`), and then the branch is over (`end`).
    """

    kind: str
    number: int = 0
    channels: int = 0
    table: Horizon = field(default_factory=dict)


@dataclass(slots=True)
class Segment:
    """Places that follow on: `count` packets of `sender` from `first` on. Never changed after it was made.

    Or, in one place, the `sites` from there on, or a `mark`. `graph` is the number of the graph whose primary gave
    these places.
    """

    graph: int
    sender: int = 0
    first: int = 0
    count: int = 1
    sites: Sites | None = None
    mark: Mark | None = None

    @property
    def has_packets(self) -> bool:
        """Whether packets have these places."""
        return self.sites is None and self.mark is None


@dataclass(slots=True)
class Places:
    """The primary of `graph` gives places, from `first` on; everything below `settled` stays as it is.

    `before` is the graph that gave the place before `first`. `order` tells orders apart that were founded apart. From a
    member that is not the primary, as an answer, `graph` is 0. `asked` are the sites that should say at once that they
    keep these: all (`EVERYBODY`), or the one of rank r, by number, if the bit of 2 << r is there.
    """

    kind: ClassVar[str] = "order"
    order: int
    graph: int
    first: int
    before: int
    settled: int
    segments: list[Segment] = field(default_factory=list)
    branch: int = 0
    asked: int = EVERYBODY


@dataclass(slots=True)
class PlacesKept:
    """The source, in this life, keeps everything below `below` as the primary of `graph` gave it."""

    kind: ClassVar[str] = "order"
    order: int
    graph: int
    life: int
    below: int
    branch: int = 0


@dataclass(slots=True)
class PlacesWanted:
    """Please tell the source the places from `first` on."""

    kind: ClassVar[str] = "order"
    order: int
    first: int
    branch: int = 0


@dataclass(slots=True)
class EnterOrder:
    """The source wants to be a site or, if it `goes`, no more, because it is about to leave.

    If it `begins`, it asks where: it is owed what follows `horizon`.
    """

    kind: ClassVar[str] = "order"
    life: int
    begins: bool
    horizon: Horizon
    branch: int = 0
    goes: bool = False


@dataclass(slots=True)
class OrderBegins:
    """The answer to an `EnterOrder` of this life: its order begins at `first`.

    `placed` is the highest number of each sender that has a place before that, `primary` and `lives` are the sites, and
    `branches` the marks with which those that are open were opened, each with its place for a graph.
    """

    kind: ClassVar[str] = "order"
    order: int
    life: int
    first: int
    before: int
    placed: Horizon
    primary: int
    lives: Horizon
    branch: int = 0
    branches: list[Segment] = field(default_factory=list)


@dataclass(slots=True)
class CloseGraph:
    """The source closes every graph below `graph`, to open that one (002 §5.1): do nothing for them any more."""

    kind: ClassVar[str] = "order"
    order: int
    graph: int
    branch: int = 0


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
    branch: int = 0


@dataclass(slots=True)
class Unplaced:
    """The source waits for places of packets of these senders, up to these numbers."""

    kind: ClassVar[str] = "order"
    lasts: Horizon


@dataclass(slots=True)
class BranchEnded:
    """The branch is over; `placed` is the highest number of each sender that has a place in it."""

    kind: ClassVar[str] = "order"
    order: int
    branch: int
    placed: Horizon
