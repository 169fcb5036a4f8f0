"""Priority lists: acyclic and jointly complete, however they were made. Reference: 001 §4.1 - §5.1"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.repair.priority_lists import OwnList, arbitrary, fault_of, sdf, tree, tree_cost

SAMPLE = {1: [], 2: [1], 3: [1, 2], 4: [3, 5, 2, 1], 5: [1, 3, 2]}
"""The lists of 001 §4.2 for the network of Fig. 2.1, whose hosts are h1 to h5."""
A = {1: [], 2: [1], 3: [1, 2], 4: [3, 1, 2], 5: [3, 4, 1, 2]}
B = {1: [], 2: [1, 4, 5], 3: [1, 2, 4, 5], 4: [1, 5], 5: [1]}
"""The assignments of 001 §5."""

LINKS = {
    ("h1", "s1"): 1,
    ("h2", "s2"): 1,
    ("h3", "s4"): 1,
    ("h4", "s5"): 1,
    ("h5", "s6"): 1,
    ("s1", "s2"): 1,
    ("s1", "s3"): 1,
    ("s2", "s3"): 1,
    ("s3", "s4"): 10,
    ("s4", "s5"): 1,
    ("s4", "s6"): 1,
}
"""Fig. 2.1 as far as the text tells it: eleven links, l6 (s3 - s4) with the small bandwidth of §5."""

members = st.sets(st.integers(0, 40), min_size=1, max_size=9).map(sorted)
times = st.dictionaries(st.integers(0, 40), st.floats(0, 1), max_size=9)


def hops(links: dict[tuple[str, str], int]) -> dict[tuple[int, int], float]:
    """The distance between every two hosts."""
    nodes = sorted({node for link in links for node in link})
    known = {(a, b): 0.0 if a == b else float("inf") for a in nodes for b in nodes}
    for (a, b), cost in links.items():
        known[a, b] = known[b, a] = cost
    for via in nodes:
        for a in nodes:
            for b in nodes:
                known[a, b] = min(known[a, b], known[a, via] + known[via, b])
    return {(a, b): known[f"h{a}", f"h{b}"] for a in range(1, 6) for b in range(1, 6)}


def far(a: int, b: int) -> float:
    return hops(LINKS)[a, b]


@pytest.mark.parametrize("lists", [SAMPLE, A, B], ids=["sample", "A", "B"])
def test_the_lists_of_the_paper_are_correct(lists):
    """Reference: 001 §4.2, §5"""
    assert fault_of(lists) == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({4: [3, 2, 1]}, "of members 4 and 5 neither may lead the other"),
        ({2: [1, 4]}, "members 2, 3, 4, 5 lead each other in a circle"),
        ({3: [1, 2, 9]}, "the list of member 3 names 9, which is no member"),
        ({3: [1, 2, 1]}, "the list of member 3 names a member twice"),
        ({1: [1]}, "the list of member 1 names itself"),
        ({1: [2]}, "members 1, 2 lead each other in a circle"),
    ],
)
def test_lists_that_are_not_correct_are_found_out(change, says):
    """The first two are the paper's own counterexamples. Reference: 001 §4.2"""
    assert fault_of({**SAMPLE, **change}) == says


def test_figure_4_1():
    """Cut off from the source: h4 and h5 turn to h3, h3 to h2. Reference: 001 Fig. 4.1"""
    for lists in (SAMPLE, A):
        assert tree(lists, [2, 3, 4, 5]) == {2: 2, 3: 2, 4: 3, 5: 3}


def test_figure_5_1():
    """Two connections of the other tree cross the expensive link. Reference: 001 Fig. 5.1"""
    assert tree(B, [2, 3, 4, 5]) == {2: 4, 3: 2, 4: 5, 5: 5}


def test_a_tree_follows_when_a_partition_splits():
    """h4 and h5 alone: h4 turns to h5. Reference: 001 §4.2"""
    assert tree(SAMPLE, [4, 5]) == {4: 5, 5: 5}


def test_sdf_gives_assignment_a():
    """h4 and h5 are equally far from the source: we break the tie as the paper does. Reference: 001 §5.1"""
    assert far(4, 5) == 4
    assert sdf(range(1, 6), 1, far) == A


def test_sdf_trees_cost_less_and_have_their_coordinator_nearer_to_the_source():
    """Reference: 001 §5"""
    good, bad = tree(sdf(range(1, 6), 1, far), [2, 3, 4, 5]), tree(B, [2, 3, 4, 5])
    assert tree_cost(good, far) < tree_cost(bad, far)
    roots = [next(m for m, parent in found.items() if m == parent) for found in (good, bad)]
    assert far(roots[0], 1) < far(roots[1], 1)


@given(members, st.integers(0, 999))
def test_arbitrary_lists_are_correct(group, seed):
    lists = arbitrary(group, Random(seed))
    assert fault_of(lists) == ""
    assert lists[group[-1]] == []


@given(members, st.integers(0, 999), st.data())
def test_sdf_lists_are_correct_for_any_distances(group, seed, data):
    rng = Random(seed)
    known = {frozenset((a, b)): rng.choice((0.0, 1.0, rng.random())) for a in group for b in group}
    source = data.draw(st.sampled_from(group))
    lists = sdf(group, source, lambda a, b: known[frozenset((a, b))])
    assert fault_of(lists) == ""
    assert lists[source] == []


@given(members, st.data())
def test_the_coordinator_of_an_sdf_partition_is_the_member_nearest_to_the_source(group, data):
    """Reference: 001 §5.1"""
    places = {member: data.draw(st.integers(0, 9)) for member in group}
    source, *cut_off = group
    if not cut_off:
        return

    def distance(a: int, b: int) -> float:
        return abs(places[a] - places[b])

    parents = tree(sdf(group, source, distance), cut_off)
    (root,) = [member for member, parent in parents.items() if member == parent]
    assert distance(root, source) == min(distance(member, source) for member in cut_off)


@given(members, st.data())
def test_lists_that_each_member_makes_for_itself_are_correct_whatever_it_has_measured(group, data):
    loggers = data.draw(st.lists(st.sampled_from(group), max_size=2))
    lists = {}
    for member in group:
        own = OwnList(member)
        own.follow(loggers)
        lists[member] = own.made(group, data.draw(times))
    assert fault_of(lists) == ""


@given(members, st.data())
def test_own_lists_are_acyclic_and_complete_for_all_that_know_each_other_while_views_differ(group, data):
    """Members join and leave, loggers among them: at any moment each knows some of the others, and what they are."""
    loggers = data.draw(st.sets(st.sampled_from(group), max_size=3))
    views = {m: {m, *data.draw(st.sets(st.sampled_from(group)))} for m in group}
    lists = {}
    for member, known in views.items():
        own = OwnList(member)
        own.follow(loggers & known)
        lists[member] = own.made(sorted(known), data.draw(times))
    assert "circle" not in fault_of(lists)
    for one in group:
        for other in group:
            if one != other and one in views[other] and other in views[one]:
                assert one in lists[other] or other in lists[one]


@given(members, times)
def test_the_nearest_comes_first(group, known):
    made = OwnList(max(group)).made(group, known)
    measured = [known[m] for m in made if m in known]
    assert measured == sorted(measured)


def test_a_given_list_is_kept_but_for_members_that_are_not_there():
    own = OwnList(4, {member: list(named) for member, named in SAMPLE.items()})
    assert own.made([1, 2, 4, 5], {5: 0.001}) == [5, 2, 1]
    assert own.leads(5, 4)
    assert not own.leads(4, 5)
