"""A topology from a file: one link per line, `a,b,latency_s[,loss[,bandwidth_bps]]`.

`#` begins a comment and blank lines do not matter. A node's name is any text without `,` and `#`;
nodes are numbered as they appear. A line `members: a,b,c` says where the members live, in that
order; without it they live on the nodes of degree 1, and if there are none, on every node.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike, fspath

from gossamer.sim.topologies.graph import (
    LINKS_MAX,
    Link,
    Topology,
    TopologyError,
    bandwidth_fault,
    check_link,
    latency_fault,
    loss_fault,
    unreached,
)

CHARACTERS_MAX = 128 * LINKS_MAX
LINE = "a,b,latency_s[,loss[,bandwidth_bps]]"


def from_file(path: str | PathLike[str], bandwidth: float = 0.0, loss: float = 0.0) -> Topology:
    """Read an edge list; `bandwidth` and `loss` are for lines that do not give them."""
    check_link(0.0, bandwidth, loss)
    reader = _Reader(fspath(path), bandwidth, loss)
    for number, line in enumerate(_read(fspath(path)).split("\n"), start=1):
        text = line.partition("#")[0].strip()
        if text:
            reader.line(number, text)
    return reader.topology()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(CHARACTERS_MAX + 1)
    except UnicodeError as error:
        raise TopologyError(f"{path}: not a text file in UTF-8 ({error}); lines must be {LINE}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TopologyError(f"{path}: cannot be read ({reason}); give a readable file of lines {LINE}") from error
    if len(text) > CHARACTERS_MAX:
        raise TopologyError(f"{path}: too long; at most {CHARACTERS_MAX} characters, {LINKS_MAX} links are allowed")
    return text


@dataclass(slots=True)
class _Reader:
    path: str
    bandwidth: float
    loss: float
    nodes: dict[str, int] = field(default_factory=dict)
    first_line: list[int] = field(default_factory=list)
    """Of each node: where it is first named."""
    links: dict[tuple[int, int], Link] = field(default_factory=dict)
    link_lines: list[int] = field(default_factory=list)
    members: list[str] | None = None
    members_line: int = 0

    def line(self, number: int, text: str) -> None:
        if text.startswith("members:"):
            self._members(number, text.removeprefix("members:"))
        else:
            self._link(number, [part.strip() for part in text.split(",")])

    def _members(self, number: int, text: str) -> None:
        if self.members is not None:
            raise self._error(number, f"members again: line {self.members_line} gives them; only one line is allowed")
        self.members = [name.strip() for name in text.split(",")]
        self.members_line = number

    def _link(self, number: int, parts: list[str]) -> None:
        if not 3 <= len(parts) <= 5:
            raise self._error(number, f"{len(parts)} fields: must be {LINE}")
        if len(self.links) == LINKS_MAX:
            raise self._error(number, f"too many links: at most {LINKS_MAX} are allowed")
        pair = self._pair(number, *parts[:2])
        latency = self._number(number, "latency", parts[2], latency_fault)
        loss, bandwidth = self.loss, self.bandwidth
        if len(parts) > 3:
            loss = self._number(number, "loss", parts[3], loss_fault)
        if len(parts) > 4:
            bandwidth = self._number(number, "bandwidth", parts[4], bandwidth_fault)
        self.links[pair] = Link(*pair, latency, loss, bandwidth)
        self.link_lines.append(number)

    def _pair(self, number: int, one: str, other: str) -> tuple[int, int]:
        if not one or not other:
            raise self._error(number, f"a node without a name: must be {LINE}")
        if one == other:
            raise self._error(number, f"a link from {one!r} to itself: must be between two nodes")
        a, b = sorted((self._node(number, one), self._node(number, other)))
        if (a, b) in self.links:
            before = self.link_lines[list(self.links).index((a, b))]
            raise self._error(
                number,
                f"link {one!r} to {other!r} again (line {before}): only one link between two nodes is allowed",
            )
        return a, b

    def _node(self, number: int, name: str) -> int:
        node = self.nodes.setdefault(name, len(self.nodes))
        if node == len(self.first_line):
            self.first_line.append(number)
        return node

    def _number(self, number: int, what: str, text: str, fault_of: Callable[[float], str]) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")  # which is never allowed
        fault = fault_of(value)
        if fault:
            raise self._error(number, f"{what} is {text!r}: {fault}")
        return value

    def topology(self) -> Topology:
        if not self.links:
            raise self._error(1, f"no links: must be a file with at least one line {LINE}")
        alone = unreached(len(self.nodes), self.links)
        names = tuple(self.nodes)
        if alone is not None:
            raise self._error(
                self.first_line[alone],
                f"not connected: node {names[alone]!r} cannot be reached from node {names[0]!r}; "
                "must be a network in one piece",
            )
        members = self._fringe() if self.members is None else self._named(self.members)
        return Topology(len(names), tuple(self.links.values()), members, names)

    def _named(self, members: list[str]) -> tuple[int, ...]:
        for name in members:
            if name not in self.nodes:
                raise self._error(self.members_line, f"member {name!r} is on no link: must be the name of a node")
        nodes = tuple(dict.fromkeys(self.nodes[name] for name in members))
        if len(nodes) < len(members):
            raise self._error(self.members_line, "a node twice among the members: only one member per node is allowed")
        if len(nodes) < 2:
            raise self._error(self.members_line, f"{len(nodes)} member: must be 2 or more")
        return nodes

    def _fringe(self) -> tuple[int, ...]:
        degrees = [0] * len(self.nodes)
        for a, b in self.links:
            degrees[a] += 1
            degrees[b] += 1
        fringe = tuple(node for node, degree in enumerate(degrees) if degree == 1)
        if len(fringe) == 1:
            raise self._error(
                self.first_line[fringe[0]],
                f"node {tuple(self.nodes)[fringe[0]]!r} alone has degree 1 and would be the only member: "
                "must be 2 or more; add a line members: a,b,c",
            )
        return fringe or tuple(range(len(self.nodes)))

    def _error(self, number: int, text: str) -> TopologyError:
        return TopologyError(f"{self.path}:{number}: {text}")
