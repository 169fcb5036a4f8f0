"""Traffic per link, counted once per transmission instead of once per crossing, and summed up at the end.

A multicast adds one to the count of its tree and subtracts the ranges that it did not reach; this is spread over the
links only when somebody asks. A unicast in a network that is a tree goes up a part of one member's way to the root and
down a part of another's; these parts are noted, and the notes are counted now and then, all at once.
"""

from array import array
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from gossamer.sim.routing import DEPTH_MAX, Tree, Way

_NOTES_MAX = 1 << 16
_STRIDE = DEPTH_MAX + 1


class _TreeTraffic:
    """One tree: transmissions over all of it, and the ranges of positions that some did not cross."""

    __slots__ = ("bytes", "packets", "spared")

    def __init__(self) -> None:
        self.packets = 0
        self.bytes = 0
        self.spared: dict[tuple[int, int], list[int]] = {}


class Accounting:
    """Packets and bytes per directed link."""

    def __init__(self, directed_links: int, ways: Sequence[Way] = ()) -> None:
        self._packets = [0] * directed_links
        self._bytes = [0] * directed_links
        self._trees: dict[Tree, _TreeTraffic] = {}
        self._ways = ways
        self._ascents, self._descents, self._sizes = array("q"), array("q"), array("q")

    def multicast(self, tree: Tree, size: int) -> None:
        """A packet goes over the whole tree ..."""
        traffic = self._trees.get(tree)
        if traffic is None:
            traffic = self._trees[tree] = _TreeTraffic()
        traffic.packets += 1
        traffic.bytes += size

    def spare(self, tree: Tree, first: int, end: int, size: int) -> None:
        """... but did not cross the links of positions `first .. end-1`."""
        if first < end:
            counts = self._trees[tree].spared.setdefault((first, end), [0, 0])
            counts[0] += 1
            counts[1] += size

    def link(self, link: int, size: int) -> None:
        """A packet crosses one link."""
        self._packets[link] += 1
        self._bytes[link] += size

    def path(self, links: list[int], size: int) -> None:
        """A packet crosses one link after the other."""
        packets, sizes = self._packets, self._bytes
        for link in links:
            packets[link] += 1
            sizes[link] += size

    def by_ways(self, source: int, target: int, shared: int, size: int) -> None:
        """A packet goes up from `source` and down to `target`, except for the links that their ways share."""
        self._ascents.append(source * _STRIDE + shared)
        self._descents.append(target * _STRIDE + shared)
        self._sizes.append(size)
        if len(self._sizes) >= _NOTES_MAX:
            self._count_notes()

    def _count_notes(self) -> None:
        sizes = np.array(self._sizes)
        for notes, ascends in ((self._ascents, True), (self._descents, False)):
            keys = np.array(notes)
            packets = np.bincount(keys)
            total = np.bincount(keys, weights=sizes)
            for key in np.flatnonzero(packets).tolist():
                way, shared = self._ways[key // _STRIDE], key % _STRIDE
                for link in way.up[: len(way.up) - shared] if ascends else way.down[shared:]:
                    self._packets[link] += int(packets[key])
                    self._bytes[link] += int(total[key])
            del notes[:]
        del self._sizes[:]

    def settle(self) -> None:
        """Spread what was counted over the links."""
        self._count_notes()
        for tree, traffic in self._trees.items():
            packets = [traffic.packets] * len(tree.links)
            sizes = [traffic.bytes] * len(tree.links)
            for (first, end), (spared, spared_bytes) in traffic.spared.items():
                for position in range(first, end):
                    packets[position] -= spared
                    sizes[position] -= spared_bytes
            for position in range(1, len(tree.links)):
                self._packets[tree.links[position]] += packets[position]
                self._bytes[tree.links[position]] += sizes[position]
        self._trees.clear()

    def per_link(self) -> dict[int, tuple[int, int]]:
        """For each undirected link that carried anything: packets, bytes."""
        self.settle()
        found: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for directed, packets in enumerate(self._packets):
            if packets:
                before = found[directed // 2]
                found[directed // 2] = (before[0] + packets, before[1] + self._bytes[directed])
        return dict(found)
