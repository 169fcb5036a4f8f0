"""The propagation graph, figure by figure. Reference: 002 §3.1, appendix I"""

from dataclasses import replace
from random import Random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.ordering.graph import ROOT, Graph, balanced, faults, greedy

FIG_1 = ("abcd", "cdef")
FIG_3 = ("cd", "abc", "bcde", "def", "ef", "bg", "ch", "dj")
FIG_5 = ("abcde", "bfgh", "ab")
FIG_6 = ("abcde", "cde", "ab")


def heard(groups):
    """Channels 1, 2, ... with the sites of the paper's groups, which are letters."""
    return {at: [ord(site) for site in group] for at, group in enumerate(groups, 1)}


def shown(graph: Graph) -> dict[str, str]:
    """By site: those right below it; the roots below nobody."""
    return {
        "" if above == ROOT else chr(above): "".join(map(chr, below)) for above, below in sorted(graph.children.items())
    }


def primaries(graph: Graph) -> str:
    return "".join(map(chr, graph.primaries.values()))


def paper(groups, prefer=""):
    return greedy(heard(groups), [ord(site) for site in prefer])


def test_two_groups_are_merged_by_a_site_that_is_in_both():
    """Reference: 002 Fig. 2"""
    graph = paper(FIG_1)
    assert shown(graph) == {"": "c", "c": "abdef"}
    assert primaries(graph) == "cc"
    assert faults(graph) == []


def test_the_graph_of_eight_groups():
    """d is in as many groups as c, c of the first partition as b, and e of the second as f: the paper takes these.

    Reference: 002 Fig. 3
    """
    graph = paper(FIG_3, prefer="dce")
    assert shown(graph) == {"": "d", "d": "cej", "c": "abh", "e": "f", "b": "g"}
    assert primaries(graph) == "dcddebcd"
    assert faults(graph) == []
    assert not any(map(graph.extra, graph.primaries))


def test_the_first_level_of_the_graph_of_eight_groups():
    """One child for each partition, and j, which is in no other group.

    Reference: 002 Fig. 4
    """
    assert shown(paper(FIG_3, prefer="dce"))["d"] == "cej"


def test_a_ninth_group_leaves_the_tree_as_it_is_but_has_an_extra_node():
    """Reference: 002 §3.1, the group alpha-9"""
    graph = paper((*FIG_3, "da"), prefer="dce")
    assert shown(graph) == shown(paper(FIG_3, prefer="dce"))
    assert graph.extra(9) == [ord("c")]
    assert graph.path(9, ord("a")) == [ord("d"), ord("c"), ord("a")]
    assert not any(graph.extra(channel) for channel in range(1, 9))


def test_load_is_traded_for_depth():
    """b has less to send, nobody passes on what it does not hear, and the tree is one level deeper.

    Reference: 002 §4.1, Fig. 5
    """
    star, tree = paper(FIG_5), balanced(heard(FIG_5))
    assert shown(star) == {"": "b", "b": "acdefgh"}
    assert star.load[ord("b")] == 3 + 8
    assert tree.load[ord("b")] < star.load[ord("b")]
    assert max(tree.load.values()) == tree.load[ord("b")]
    assert max(map(tree.depth, tree.primaries)) == 2
    assert not any(map(tree.extra, tree.primaries))
    assert faults(tree) == []


def test_the_graph_of_the_failure_example():
    """Reference: 002 Fig. 6"""
    graph = paper(FIG_6)
    assert primaries(graph) == "aca", "alpha and gamma enter at a, beta at c"
    assert graph.parents[ord("c")] == ord("a")
    assert graph.parents[ord("d")] == graph.parents[ord("e")] == ord("c")


def test_load_counts_what_is_received_and_what_is_sent():
    """c gets one packet of each group and passes three of each on."""
    load = paper(FIG_1).load
    assert load[ord("c")] == 2 + 6
    assert load[ord("d")] == 2
    assert load[ord("a")] == 1


def test_groups_that_share_nobody_are_trees_of_their_own():
    graph = paper(("ab", "cd"))
    assert shown(graph)[""] == "ac"


def test_one_channel_is_a_star_around_its_primary_destination():
    """Reference: 002 §1 (b)"""
    graph = greedy({0: range(10)})
    assert graph.children == {ROOT: [0], 0: list(range(1, 10))}
    assert graph.depth(0) == 1


groups = st.dictionaries(st.integers(0, 12), st.sets(st.integers(0, 15), min_size=1), min_size=1, max_size=12)


@given(groups, st.randoms(use_true_random=False))
def test_every_graph_has_the_properties_whatever_the_order_of_the_input(listeners, rng):
    for make in (greedy, balanced):
        graph = make(listeners)
        assert faults(graph) == []
        assert set(graph.parents) == {member for members in listeners.values() for member in members}
        shuffled = {c: rng.sample(sorted(listeners[c]), len(listeners[c])) for c in rng.sample(*two(listeners))}
        assert make(shuffled) == graph


def two(listeners):
    return sorted(listeners), len(listeners)


@given(groups)
def test_two_members_that_both_hear_two_channels_are_below_the_member_that_merges_them(listeners):
    """Reference: 002 appendix II"""
    for graph in (greedy(listeners), balanced(listeners)):
        for one, first in graph.primaries.items():
            for other, second in graph.primaries.items():
                shared = graph.listeners[one] & graph.listeners[other]
                for member in shared:
                    up = graph.path_up(member)
                    assert first in up
                    assert second in up


@given(groups)
def test_balancing_adds_no_extra_nodes_and_at_most_one_level(listeners):
    before, after = greedy(listeners), balanced(listeners)
    for channel in before.primaries:
        assert set(after.extra(channel)) == set(before.extra(channel))
        assert after.depth(channel) <= before.depth(channel) + 1
    assert max(after.load.values()) <= max(before.load.values())


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda g: replace(g, primaries={1: ord("c")}), "PG1: channel 2"),
        (lambda g: replace(g, parents={**g.parents, ord("d"): ROOT}), "PG2: no path from 99 to member 100"),
        (lambda g: replace(g, parents={**g.parents, ord("c"): ord("d")}), "PG2: member 99 is above itself"),
        (lambda g: replace(g, primaries={1: ord("c"), 2: ord("a")}), "PG3: the primary destination 97 of channel 2"),
    ],
)
def test_a_graph_that_cannot_keep_the_order_is_found_out(damage, fault):
    assert any(found.startswith(fault) for found in faults(damage(paper(FIG_1))))


def test_a_thousand_members_and_forty_channels_take_well_under_a_second():
    rng = Random(1)
    listeners = {channel: rng.sample(range(1000), 40) for channel in range(40)}
    began = process_time()
    graph = balanced(listeners)
    assert process_time() - began < 0.5
    assert faults(graph) == []
