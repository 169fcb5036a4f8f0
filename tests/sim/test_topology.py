"""Every kind of topology: its shape, its bounds, its errors, and the routes through it."""

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.sim.topologies import edge_list
from gossamer.sim.topology import (
    LINKS_MAX,
    Link,
    Topology,
    TopologyError,
    from_file,
    lan,
    mesh,
    routes,
    star,
    tiers,
    transit_stub,
    tree,
    with_slow_members,
)

LATENCY, BANDWIDTH, LOSS = 0.01, 1e8, 0.001
REST = (LATENCY, BANDWIDTH, LOSS)

GENERATORS: dict[str, Callable[[int, random.Random], Topology]] = {
    "lan": lambda members, rng: lan(members, *REST),
    "star": lambda members, rng: star(members, *REST),
    "mesh": lambda members, rng: mesh(members, *REST),
    "tree": lambda members, rng: tree(members, rng.randint(2, 5), None, *REST),
    "transit-stub": lambda members, rng: transit_stub(members, *REST, rng),
    "tiers": lambda members, rng: tiers(members, None, *REST, rng),
}
every_kind = pytest.mark.parametrize("kind", GENERATORS)
seeds = st.integers(0, 2**32)


def degrees(topology: Topology) -> list[int]:
    count = Counter(node for link in topology.links for node in (link.a, link.b))
    return [count[node] for node in range(topology.nodes)]


def path_to(topology: Topology, source: int, target: int) -> list[Link]:
    parent_node, parent_link = routes(topology, source)
    path = []
    while target != source:
        path.append(topology.links[parent_link[target]])
        target = parent_node[target]
    return path


def latency_between(topology: Topology, one: int, other: int) -> float:
    """Between members, one way."""
    path = path_to(topology, topology.members[one], topology.members[other])
    return sum(link.latency for link in path)


# --- every generator ---


@every_kind
@given(members=st.integers(2, 60), seed=seeds)
@settings(max_examples=40, deadline=None)
def test_every_topology_is_connected_and_has_its_members(kind: str, members: int, seed: int) -> None:
    topology = GENERATORS[kind](members, random.Random(seed))

    parent_node, _ = routes(topology, topology.members[0])
    assert parent_node.count(-1) == 1  # the source alone
    assert len(set(topology.members)) == members
    assert len({(link.a, link.b) for link in topology.links}) == len(topology.links)
    for link in topology.links:
        assert 0 <= link.a < link.b < topology.nodes
        assert link.latency > 0
        assert (link.loss, link.bandwidth) == (LOSS, BANDWIDTH)


@every_kind
def test_the_same_seed_gives_the_same_topology(kind: str) -> None:
    generate = GENERATORS[kind]
    assert generate(50, random.Random(7)) == generate(50, random.Random(7))


@pytest.mark.parametrize("kind", ["transit-stub", "tiers"])
def test_another_seed_gives_another_topology(kind: str) -> None:
    generate = GENERATORS[kind]
    assert generate(50, random.Random(7)) != generate(50, random.Random(8))


FINGERPRINT = """
import hashlib, random
from gossamer.sim.topology import *
made = [transit_stub(40, 0.01, 1e8, 0.0, random.Random(3)), tiers(40, None, 0.01, 1e8, 0.0, random.Random(3)),
        tree(40, 3, None, 0.01, 1e8, 0.0), mesh(9, 0.0, 1e8, 0.0)]
routed = [routes(topology, node, frozenset([1])) for topology in made for node in topology.members]
print(hashlib.sha256(repr((made, routed)).encode()).hexdigest())
"""


def test_topologies_and_routes_do_not_depend_on_the_hash_seed() -> None:
    def fingerprint(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", FINGERPRINT]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    assert fingerprint("1") == fingerprint("4242")


@every_kind
@pytest.mark.parametrize("members", [-1, 0, 1, LINKS_MAX + 1])
def test_too_few_or_too_many_members_are_refused(kind: str, members: int) -> None:
    with pytest.raises(TopologyError, match=rf"members is {members}: must be 2 to"):
        GENERATORS[kind](members, random.Random(1))


@pytest.mark.parametrize(
    ("latency", "bandwidth", "loss", "message"),
    [
        (-0.01, 0.0, 0.0, r"latency is -0.01: must be seconds >= 0"),
        (float("inf"), 0.0, 0.0, r"latency is inf: must"),
        (float("nan"), 0.0, 0.0, r"latency is nan: must"),
        (0.01, -1.0, 0.0, r"bandwidth is -1.0: must be bits/s >= 0, where 0 is unlimited"),
        (0.01, 0.0, 1.5, r"loss is 1.5: must be a probability in \[0, 1\)"),
        (0.01, 0.0, 1.0, r"loss is 1.0: must"),
        (0.01, 0.0, -0.1, r"loss is -0.1: must"),
    ],
)
def test_impossible_links_are_refused(latency: float, bandwidth: float, loss: float, message: str) -> None:
    rng = random.Random(1)
    for generate in (
        lambda: lan(5, latency, bandwidth, loss),
        lambda: star(5, latency, bandwidth, loss),
        lambda: mesh(5, latency, bandwidth, loss),
        lambda: tree(5, 2, None, latency, bandwidth, loss),
        lambda: transit_stub(5, latency, bandwidth, loss, rng),
        lambda: tiers(5, None, latency, bandwidth, loss, rng),
    ):
        with pytest.raises(TopologyError, match=message):
            generate()


@pytest.mark.parametrize(
    "topology",
    [
        lambda: Topology(3, (Link(0, 1, 0.1, 0.0, 0.0),), (0, 1)),
        lambda: Topology(2, (Link(0, 1, 0.1, 0.0, 0.0), Link(1, 0, 0.1, 0.0, 0.0)), (0, 1)),
        lambda: Topology(2, (Link(0, 1, 0.1, 0.0, 0.0),), (0, 2)),
        lambda: Topology(2, (Link(0, 1, 0.1, 0.0, 0.0),), (1, 1)),
    ],
    ids=["in two pieces", "two links for one pair", "member on no node", "two members on a node"],
)
def test_a_topology_asserts_what_it_is(topology: Callable[[], Topology]) -> None:
    with pytest.raises(AssertionError):
        topology()


# --- the regular kinds ---


@every_kind
def test_only_the_links_of_slow_members_are_slow(kind: str) -> None:
    topology = GENERATORS[kind](9, random.Random(1))
    slowed = with_slow_members(topology, [2, 5], 1e6)

    slow = {slowed.members[2], slowed.members[5]}
    assert slow <= {node for link in slowed.links if link.bandwidth == 1e6 for node in (link.a, link.b)}
    for before, after in zip(topology.links, slowed.links, strict=True):
        assert after.bandwidth == (1e6 if {after.a, after.b} & slow else BANDWIDTH)
        assert (after.a, after.b, after.latency, after.loss) == (before.a, before.b, before.latency, before.loss)


def test_a_slow_member_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TopologyError, match="slow names member 4: there are only 0 to 3"):
        with_slow_members(lan(4, *REST), [1, 4], 1e6)


def test_on_a_lan_any_two_members_are_one_latency_apart() -> None:
    topology = lan(5, *REST)
    assert topology.nodes == 6
    for one in range(5):
        for other in range(one):
            assert latency_between(topology, one, other) == pytest.approx(LATENCY)


def test_on_a_star_every_member_is_one_latency_from_the_hub() -> None:
    topology = star(4, *REST)
    assert topology.links == tuple(Link(member, 4, LATENCY, LOSS, BANDWIDTH) for member in range(4))
    assert latency_between(topology, 0, 3) == pytest.approx(2 * LATENCY)


def test_in_a_mesh_every_pair_has_its_link_and_uses_it() -> None:
    topology = mesh(7, *REST)
    assert (topology.nodes, len(topology.links)) == (7, 21)
    for one in range(7):
        for other in range(one):
            assert [(link.a, link.b) for link in path_to(topology, one, other)] == [(other, one)]


def test_the_size_of_a_mesh_is_bounded() -> None:
    with pytest.raises(TopologyError, match="this mesh has 1000405 links: at most 1000000 are allowed"):
        mesh(1415, *REST)


def test_a_tree_with_1024_leaves_by_depth_and_by_members() -> None:
    topology = tree(None, 4, 5, *REST)
    assert (topology.nodes, len(topology.links), len(topology.members)) == (1365, 1364, 1025)
    assert topology.members[0] == 0
    assert Counter(degrees(topology)) == {4: 1, 5: 340, 1: 1024}
    assert all(degrees(topology)[node] == 1 for node in topology.members[1:])
    assert tree(1025, 4, None, *REST) == topology
    assert tree(1025, 4, 5, *REST) == topology


def test_a_tree_by_members_is_filled_from_the_left_and_pruned() -> None:
    # Of the 8 leaves of the smallest binary tree that holds 5, the first 5; the last inner node has one.
    topology = tree(6, 2, None, *REST)
    pairs = [(link.a, link.b) for link in topology.links]
    assert pairs == [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (3, 6), (3, 7), (4, 8), (4, 9), (5, 10)]
    assert topology.members == (0, 6, 7, 8, 9, 10)


def test_the_smallest_tree_is_a_root_and_a_leaf() -> None:
    assert tree(2, 4, None, *REST) == Topology(2, (Link(0, 1, LATENCY, LOSS, BANDWIDTH),), (0, 1))


@given(members=st.integers(2, 500), branching=st.integers(2, 9))
@settings(max_examples=60, deadline=None)
def test_all_leaves_of_a_tree_are_equally_deep_and_no_inner_node_is_bare(members: int, branching: int) -> None:
    topology = tree(members, branching, None, *REST)
    parent_node, _ = routes(topology, 0)

    def depth(node: int) -> int:
        return 0 if node == 0 else 1 + depth(parent_node[node])

    (leaf_depth,) = {depth(leaf) for leaf in topology.members[1:]}
    assert leaf_depth == 1 or branching ** (leaf_depth - 1) < members - 1
    assert members - 1 <= branching**leaf_depth
    assert max(Counter(parent_node).values()) <= branching
    assert set(range(topology.nodes)) - set(parent_node) == set(topology.members[1:])


@pytest.mark.parametrize(
    ("members", "branching", "depth", "message"),
    [
        (None, 4, None, "a tree needs depth or members"),
        (18, 4, 2, "members is 18: branching 4 and depth 2 allow only 17"),
        (18, 1, None, "branching is 1: must be 2 to"),
        (None, 4, 0, "depth is 0: must be 1 to 9 with branching 4"),
        (None, 4, 10**9, "depth is 1000000000: must be 1 to 9"),
        (None, 2, 19, "this tree has 1048574 links: at most 1000000 are allowed"),
    ],
)
def test_impossible_trees_are_refused(members: int | None, branching: int, depth: int | None, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        tree(members, branching, depth, *REST)


# --- the hierarchical kinds ---


def test_the_thesis_has_thirty_nodes_of_which_the_eighteen_at_the_fringe_are_members() -> None:
    """Reference: 000 §7.1"""
    topology = tiers(18, None, *REST, random.Random(1))
    fringe = tuple(node for node, degree in enumerate(degrees(topology)) if degree == 1)
    assert topology.nodes == 30
    assert topology.members == fringe
    assert len(fringe) == 18


@given(members=st.integers(2, 80), inner=st.integers(1, 120), seed=seeds)
@settings(max_examples=150, deadline=None)
def test_the_members_of_tiers_are_exactly_its_fringe(members: int, inner: int, seed: int) -> None:
    topology = tiers(members, members + inner, *REST, random.Random(seed))
    fringe = tuple(node for node, degree in enumerate(degrees(topology)) if degree == 1)
    assert topology.nodes == members + inner
    assert topology.members == fringe


def test_tiers_are_slower_the_farther_up_and_the_core_is_redundant() -> None:
    topology = tiers(180, None, *REST, random.Random(1))
    wan, inner = 40, 120
    ranges = {"wan": (2.0, 6.0), "man": (1.0, 2.0), "lan": (0.2, 0.6)}
    count: Counter[str] = Counter()
    for link in topology.links:
        tier = "wan" if link.b < wan else "man" if link.b < inner else "lan"
        count[tier] += 1
        low, high = ranges[tier]
        assert low * LATENCY <= link.latency <= high * LATENCY
    assert count == {"wan": 39 + 20, "man": 80, "lan": 180}


@pytest.mark.parametrize("nodes", [-5, 0, 17, 18, LINKS_MAX + 1])
def test_tiers_with_an_impossible_number_of_nodes_are_refused(nodes: int) -> None:
    with pytest.raises(TopologyError, match=rf"nodes is {nodes}: must be 19"):
        tiers(18, nodes, *REST, random.Random(1))


def test_the_transit_domain_carries_what_goes_from_stub_to_stub() -> None:
    networkx = pytest.importorskip("networkx")
    topology = transit_stub(100, *REST, random.Random(1))
    transit = range(topology.nodes - 100)
    assert topology.members == tuple(range(len(transit), topology.nodes))
    for link in topology.links:
        tiers_crossed = (link.a in transit) + (link.b in transit)  # 2 within the transit domain, 0 within a stub
        low, high = {2: (2.0, 6.0), 1: (1.0, 2.0), 0: (0.2, 0.6)}[tiers_crossed]
        assert low * LATENCY <= link.latency <= high * LATENCY

    graph = networkx.Graph([(link.a, link.b) for link in topology.links])
    assert networkx.is_connected(graph.subgraph(transit))
    stubs = list(networkx.connected_components(graph.subgraph(topology.members)))
    assert len(stubs) == 17
    for stub in stubs:
        assert len(list(networkx.edge_boundary(graph, stub))) == 1  # its one gateway


# --- files ---


@pytest.fixture
def edges(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "edges.txt"
        path.write_text(text, encoding="utf-8")
        return path

    return write


Edges = Callable[[str], Path]


def test_a_file_gives_links_names_and_the_fringe_as_members(edges: Edges) -> None:
    path = edges("# a comment\n\nhub, Zürich 1 ,0.01\n  b,hub,2e-3,0.25 # lossy\r\nhub,c,0,0,1e6\n")
    topology = from_file(path, bandwidth=5.0, loss=0.5)
    assert topology.names == ("hub", "Zürich 1", "b", "c")
    assert topology.links == (
        Link(0, 1, 0.01, 0.5, 5.0),
        Link(0, 2, 0.002, 0.25, 5.0),
        Link(0, 3, 0.0, 0.0, 1e6),
    )
    assert topology.members == (1, 2, 3)


def test_a_file_may_name_its_members_before_the_links(edges: Edges) -> None:
    topology = from_file(edges("members: c, a\na,b,0.1\nb,c,0.1\nc,d,0.1"))
    assert [topology.names[node] for node in topology.members] == ["c", "a"]


def test_in_a_ring_every_node_is_a_member(edges: Edges) -> None:
    assert from_file(edges("a,b,1\nb,c,1\nc,a,1\n")).members == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a,b,1\nb,c,fast\n", 2, "latency is 'fast': must be seconds >= 0"),
        ("a,b,1\nb,c,\n", 2, "latency is '': must be seconds >= 0"),
        ("a,b,-1\n", 1, "latency is '-1': must be seconds >= 0"),
        ("a,b,inf\n", 1, "latency is 'inf': must be seconds >= 0"),
        ("a,b,nan\n", 1, "latency is 'nan': must be seconds >= 0"),
        ("a,b,1,some\n", 1, "loss is 'some': must be a probability in [0, 1)"),
        ("a,b,1,1\n", 1, "loss is '1': must be a probability in [0, 1)"),
        ("a,b,1,-0.1\n", 1, "loss is '-0.1': must be a probability in [0, 1)"),
        ("a,b,1,0,much\n", 1, "bandwidth is 'much': must be bits/s >= 0"),
        ("a,b,1,0,-1\n", 1, "bandwidth is '-1': must be bits/s >= 0"),
        ("a,b\n", 1, "2 fields: must be a,b,latency_s[,loss[,bandwidth_bps]]"),
        ("a,b,1,0,0,0\n", 1, "6 fields: must be a,b,latency_s[,loss[,bandwidth_bps]]"),
        ("a,,1\n", 1, "a node without a name: must be a,b,latency_s"),
        ("a,b,1\n\nb,b,1\n", 3, "a link from 'b' to itself: must be between two nodes"),
        ("a,b,1\nb,c,1\nb,a,1\n", 3, "link 'b' to 'a' again (line 1): only one link between two nodes is allowed"),
        ("a,b,1\nc,d,1\n", 2, "not connected: node 'c' cannot be reached from node 'a'"),
        ("a,b,1\nmembers: a\n", 2, "1 member: must be 2 or more"),
        ("a,b,1\nmembers:\n", 2, "member '' is on no link: must be the name of a node"),
        ("a,b,1\nmembers: a,z\n", 2, "member 'z' is on no link: must be the name of a node"),
        ("a,b,1\nmembers: a,b,a\n", 2, "a node twice among the members: only one member per node is allowed"),
        ("members: a,b\na,b,1\nmembers: a,b\n", 3, "members again: line 1 gives them"),
        ("a,b,1\nb,c,1\nc,a,1\nc,d,1\n", 4, "node 'd' alone has degree 1 and would be the only member"),
        ("# nothing\n", 1, "no links: must be a file with at least one line"),
        ("", 1, "no links: must be a file with at least one line"),
    ],
)
def test_a_wrong_line_is_named_with_what_is_allowed(edges: Edges, text: str, line: int, message: str) -> None:
    path = edges(text)
    with pytest.raises(TopologyError) as raised:
        from_file(path)
    assert str(raised.value).startswith(f"{path}:{line}: {message}")
    assert "allowed" in str(raised.value) or "must be" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_size_of_a_file_is_bounded(edges: Edges, monkeypatch: pytest.MonkeyPatch) -> None:
    path = edges("a,b,1\nb,c,1\nc,d,1\n")
    monkeypatch.setattr(edge_list, "LINKS_MAX", 2)
    with pytest.raises(TopologyError, match=r"edges.txt:3: too many links: at most 2 are allowed"):
        from_file(path)
    monkeypatch.setattr(edge_list, "CHARACTERS_MAX", 9)
    with pytest.raises(TopologyError, match=r"edges.txt: too long; at most 9 characters"):
        from_file(path)


@pytest.mark.parametrize("name", ["absent.txt", ".", "nul\0.txt"])
def test_an_unreadable_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TopologyError, match="cannot be read"):
        from_file(f"{tmp_path}/{name}")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_bytes(b"a,b,1\n\xff\xfe\n")
    with pytest.raises(TopologyError, match="not a text file in UTF-8"):
        from_file(path)


@given(st.text(alphabet="ab,.1-#\n: members", max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_topology_or_a_topology_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_text(text, encoding="utf-8")
    try:
        topology = from_file(path)
    except TopologyError:
        return
    assert len(topology.members) >= 2


# --- routes ---


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Topology, int, frozenset[int]]:
    """A random connected graph, with equal and zero latencies among its links, a source, and links down."""
    nodes = draw(st.integers(2, 25))
    rng = random.Random(draw(seeds))
    pairs = dict.fromkeys((rng.randrange(node), node) for node in range(1, nodes))
    pairs |= dict.fromkeys((a, b) for b in range(nodes) for a in range(b) if rng.random() < 0.15)
    links = tuple(Link(a, b, rng.choice([0.0, 1.0, 1.0, 2.0, rng.random()]), 0.0, 0.0) for a, b in pairs)
    down = frozenset(index for index in range(len(links)) if rng.random() < draw(st.sampled_from([0.0, 0.2])))
    return Topology(nodes, links, (0, 1)), rng.randrange(nodes), down


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_routes_are_as_short_as_those_of_networkx(case: tuple[Topology, int, frozenset[int]]) -> None:
    networkx = pytest.importorskip("networkx")
    topology, source, down = case
    graph = networkx.Graph()
    graph.add_nodes_from(range(topology.nodes))
    graph.add_weighted_edges_from(
        (link.a, link.b, link.latency) for index, link in enumerate(topology.links) if index not in down
    )
    expected = networkx.single_source_dijkstra_path_length(graph, source)

    parent_node, parent_link = routes(topology, source, down)

    for node in range(topology.nodes):
        assert (parent_node[node] == -1) == (parent_link[node] == -1)
        assert (parent_node[node] == -1) == (node == source or node not in expected)
    for node in expected:
        length, hops, at = 0.0, 0, node
        while at != source:
            link = topology.links[parent_link[at]]
            assert parent_link[at] not in down
            assert {link.a, link.b} == {at, parent_node[at]}
            length, hops, at = length + link.latency, hops + 1, parent_node[at]
            assert hops < topology.nodes, "a circle"
        assert length == pytest.approx(expected[node])


def test_a_link_that_is_down_is_routed_around_and_used_again_when_mended() -> None:
    ring = Topology(4, tuple(Link(*pair, 1.0, 0.0, 0.0) for pair in [(0, 1), (1, 2), (2, 3), (0, 3)]), (0, 2))
    assert routes(ring, 0, frozenset([0])) == ([-1, 2, 3, 0], [-1, 1, 2, 3])
    assert routes(ring, 0)[0][1] == 0
    assert routes(ring, 0, frozenset([0, 3])) == ([-1, -1, -1, -1], [-1, -1, -1, -1])


def test_routes_are_plain_ints() -> None:
    parent_node, parent_link = routes(star(3, *REST), 0)
    assert {type(value) for value in parent_node + parent_link} == {int}
