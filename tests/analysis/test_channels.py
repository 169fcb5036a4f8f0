"""Which subjects share a channel: waste as defined, groupings that keep it small, how close they are to the best."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from gossamer.analysis.channels import Demand, Grouping, best, hashed, improved, merged, waste
from gossamer.pipeline.channels.workload import Workload, demand, subject_names


def made(weights: list[float], wants: list[list[int]], members: int) -> Demand:
    table = np.zeros((len(weights), members), np.int8)
    for subject, found in enumerate(wants):
        table[subject, found] = 1
    return Demand(np.array(weights, np.float64), csr_matrix(table))


@st.composite
def demands(draw: st.DrawFn, subjects_max: int = 12) -> Demand:
    members = draw(st.integers(1, 6))
    weights = draw(st.lists(st.integers(0, 50), min_size=1, max_size=subjects_max))
    some = st.lists(st.integers(0, members - 1), unique=True)
    return made(weights, [draw(some) for _ in weights], members)


def by_definition(found: Demand, grouping: Grouping) -> float:
    """For each member and each event that reaches it through a channel that it listens to: 1 if it is not wanted."""
    wants = found.wants.toarray().astype(bool)
    total = 0.0
    for member in range(wants.shape[1]):
        listens = {grouping[s] for s in range(len(grouping)) if wants[s, member]}
        total += sum(found.weights[s] for s in range(len(grouping)) if grouping[s] in listens and not wants[s, member])
    return total


def all_groupings(subjects: int, channels: int) -> Iterator[Grouping]:
    """Every way to put subjects into at most this many channels."""

    def extend(front: list[int]) -> Iterator[list[int]]:
        if len(front) == subjects:
            yield front
            return
        for channel in range(min(max(front, default=-1) + 2, channels)):
            yield from extend([*front, channel])

    return (np.array(grouping, np.int64) for grouping in extend([]))


@given(demands(), st.integers(1, 5), st.data())
def test_waste_is_what_members_hear_and_do_not_want(found: Demand, channels: int, data: st.DataObject) -> None:
    grouping = np.array([data.draw(st.integers(0, channels - 1)) for _ in found.weights], np.int64)

    assert waste(found, grouping, channels) == pytest.approx(by_definition(found, grouping))


@given(demands(), st.integers(1, 5), st.data())
def test_moves_never_make_a_grouping_worse(found: Demand, channels: int, data: st.DataObject) -> None:
    grouping = np.array([data.draw(st.integers(0, channels - 1)) for _ in found.weights], np.int64)

    after = improved(found, grouping, channels)

    assert waste(found, after, channels) <= waste(found, grouping, channels) + 1e-6
    assert set(after) <= set(range(channels))


@given(demands(), st.integers(1, 4))
def test_subjects_that_the_same_members_want_can_be_taken_as_one(found: Demand, channels: int) -> None:
    kinds, became = found.alike()
    grouping = merged(kinds, channels)

    assert waste(kinds, grouping, channels) == pytest.approx(waste(found, grouping[became], channels))
    assert kinds.wanted == pytest.approx(found.wanted)


@given(demands())
def test_a_channel_for_each_subject_wastes_nothing(found: Demand) -> None:
    count = len(found.weights)

    assert waste(found, merged(found, count), count) == pytest.approx(0)
    assert waste(found, merged(found, count + 3), count + 3) == pytest.approx(0)


def test_on_small_cases_the_grouping_is_the_optimum_or_close_to_it() -> None:
    """Of 40 random cases of 8 subjects, 6 members and 3 channels, with all 1,094 groupings tried."""
    random = np.random.default_rng(5)
    ratios = []
    for _ in range(40):
        wants = [np.flatnonzero(random.random(6) < 0.4).tolist() for _ in range(8)]
        found = made(random.integers(1, 100, 8).tolist(), wants, 6)
        least = min(waste(found, grouping, 3) for grouping in all_groupings(8, 3))
        reached = waste(found, best(found, 3)[0], 3)
        assert reached >= least - 1e-6
        ratios.append((reached + 1) / (least + 1))

    assert sum(ratio < 1.001 for ratio in ratios) >= 25  # the optimum itself
    assert float(np.mean(ratios)) < 1.06
    assert max(ratios) < 1.5


@pytest.mark.parametrize("locality", [0.0, 0.9])
def test_twice_the_channels_never_waste_more(locality: float) -> None:
    kinds, _ = demand(Workload(subjects=600, members=120, wishes=12, communities=12, locality=locality)).alike()

    wasted = [waste(kinds, best(kinds, channels)[0], channels) for channels in (1, 2, 4, 8, 16, 32)]

    assert wasted == sorted(wasted, reverse=True)


def test_where_interests_are_local_the_map_wastes_a_small_part_of_what_hashing_does() -> None:
    load = Workload(subjects=2000, members=300, wishes=20, communities=16)
    found = demand(load)
    kinds, _ = found.alike()

    reached = waste(kinds, best(kinds, 16)[0], 16)

    assert reached < waste(found, hashed(subject_names(load), 16), 16) / 4


def test_a_better_start_is_taken() -> None:
    found = made([1.0, 1.0, 1.0, 1.0], [[0], [1], [0], [1]], 2)
    poor, good = np.zeros(4, np.int64), np.array([0, 1, 0, 1], np.int64)

    grouping, told = best(found, 2, {"poor": poor, "good": good})

    assert waste(found, grouping, 2) == 0
    assert told["waste"]["poor"]["start"] == 4
    assert set(told["waste"]) == {"merge", "poor", "good"}
