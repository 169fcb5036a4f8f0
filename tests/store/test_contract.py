"""The contract of `LogStore`, held against every implementation."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.core.ranges import RangeSet
from gossamer.store import LogStore, MemoryStore, StoreError, open_store
from tests.store.samples import entries, entry


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    with MemoryStore("g") if request.param == "memory" else open_store(tmp_path / "store", group="g") as opened:
        yield opened


def test_what_was_appended_is_read_in_order(store: LogStore) -> None:
    store.append(reversed(entries(1, 5, 9)))
    store.append(entries(1, 0, 2) + entries(2, 7, 7))

    assert list(store.read(1, 0, 100)) == entries(1, 0, 2) + entries(1, 5, 9)
    assert list(store.read(1, 2, 6)) == [entry(1, 2), entry(1, 5), entry(1, 6)]
    assert list(store.read(2, 0, 100)) == [entry(2, 7)]
    assert list(store.read(3, 0, 100)) == []
    assert list(store.read(1, -5, 1)) == entries(1, 0, 1)
    assert list(store.read(1, 6, 5)) == []
    assert list(store.read(1, 9, 1 << 70)) == [entry(1, 9)]
    assert store.held() == {1: RangeSet([(0, 2), (5, 9)]), 2: RangeSet([(7, 7)])}


@pytest.mark.parametrize("size", [0, 1, 1_400, 65_507])
def test_datagrams_of_every_size_can_be_stored(store: LogStore, size: int) -> None:
    store.append(entries(1, 0, 150, size))

    assert list(store.read(1, 0, 150)) == entries(1, 0, 150, size)
    assert list(store.read(1, 77, 77)) == [entry(1, 77, size)]


def test_the_smallest_and_largest_numbers_can_be_stored(store: LogStore) -> None:
    last = (1 << 63) - 1
    at_the_ends = [entry(0, 0), entry(0, last), entry((1 << 64) - 1, 0), entry((1 << 64) - 1, last)]
    store.append(at_the_ends)

    assert [found for sender in (0, (1 << 64) - 1) for found in store.read(sender, 0, last)] == at_the_ends


def test_an_entry_that_is_there_stays_as_it_is(store: LogStore) -> None:
    store.append(entries(1, 0, 3))
    store.append([entry(1, 2)._replace(datagram=b"another"), entry(1, 4), entry(1, 4)._replace(datagram=b"again")])

    assert list(store.read(1, 0, 9)) == entries(1, 0, 4)


@pytest.mark.parametrize(
    "impossible",
    [
        entry(1, 0)._replace(datagram=bytes(65_536)),
        entry(-1, 0),
        entry(1, 0)._replace(seqno=1 << 63),
        entry(1 << 64, 0),
    ],
)
def test_an_append_with_one_impossible_entry_stores_nothing(store: LogStore, impossible) -> None:
    with pytest.raises(StoreError):
        store.append([*entries(1, 5, 6), impossible])

    assert store.held() == {}
    store.append(entries(1, 5, 6))
    assert list(store.read(1, 0, 9)) == entries(1, 5, 6)


def test_what_is_collected_is_gone_and_stays_out(store: LogStore) -> None:
    store.append(entries(1, 0, 99) + entries(2, 0, 9))

    assert store.collect({1: RangeSet([(10, 19), (90, 120)]), 3: RangeSet([(1, 2)])}) == 20
    store.append(entries(1, 0, 125))

    assert store.held() == {1: RangeSet([(0, 9), (20, 89), (121, 125)]), 2: RangeSet([(0, 9)])}
    assert store.collected() == {1: RangeSet([(10, 19), (90, 120)]), 3: RangeSet([(1, 2)])}
    assert list(store.read(1, 5, 25)) == entries(1, 5, 9) + entries(1, 20, 25)
    assert store.collect({1: RangeSet([(0, 200)])}) == 85
    assert store.held() == {2: RangeSet([(0, 9)])}


def test_collecting_frees_the_room(store: LogStore) -> None:
    store.append(entries(1, 0, 999, 1_400))
    full = store.bytes_used()
    store.collect({1: RangeSet([(0, 498)])})  # block by block, not in one go
    store.collect({1: RangeSet([(499, 949)])})

    assert full >= 1_400_000
    assert store.bytes_used() < full / 5


def test_collecting_does_not_disturb_a_reader(store: LogStore) -> None:
    store.append(entries(1, 0, 9_999))
    reader = store.read(1, 0, 9_999)
    first = next(reader)
    store.collect({1: RangeSet([(0, 8_999)])})
    rest = list(reader)

    assert first == entry(1, 0)
    assert rest[-1000:] == entries(1, 9_000, 9_999)


def test_a_dropped_entry_is_as_if_it_had_never_come(store: LogStore) -> None:
    store.append(entries(1, 0, 9))
    store.drop(1, 4)
    store.drop(1, 44)

    assert store.held() == {1: RangeSet([(0, 3), (5, 9)])}
    assert store.collected() == {}
    assert list(store.read(1, 0, 9)) == entries(1, 0, 3) + entries(1, 5, 9)
    store.append(entries(1, 3, 5))
    assert list(store.read(1, 0, 9)) == entries(1, 0, 9)
    assert store.collect({1: RangeSet([(0, 9)])}) == 10
    assert list(store.read(1, 0, 9)) == []


def test_a_consumers_position_never_goes_back(store: LogStore) -> None:
    store.commit("spark", {1: 10, 2: 5})
    store.commit("archive", {})
    store.commit("spark", {1: 7, 2: 8, 3: 0})

    archive, spark = store.consumers()
    assert (archive.name, archive.committed) == ("archive", {})
    assert (spark.name, spark.committed) == ("spark", {1: 10, 2: 8, 3: 0})
    assert 0 < archive.time_ns <= spark.time_ns
    assert store.forget_consumer("archive")
    assert not store.forget_consumer("archive")
    assert [consumer.name for consumer in store.consumers()] == ["spark"]


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_the_name_of_a_consumer_has_1_to_255_bytes(store: LogStore, name: str) -> None:
    with pytest.raises(StoreError, match="a name has"):
        store.commit(name, {})


def test_reserved_numbers_only_grow(store: LogStore) -> None:
    assert store.reserved() == 0
    store.reserve(1_000)
    store.reserve(500)
    assert store.reserved() == 1_000


def test_what_held_returns_is_the_callers_own(store: LogStore) -> None:
    store.append(entries(1, 0, 9))
    store.held()[1].clear()
    store.collected().clear()

    assert store.held() == {1: RangeSet([(0, 9)])}


def test_the_service_time_is_recorded(store: LogStore) -> None:
    assert store.service_time().runs == []
    service = store.service_time()
    service.begin(100)
    store.keep_service_time(service)
    assert store.service_time().runs == service.runs


def test_what_a_consumer_wants_is_spared(store: LogStore) -> None:
    store.append(entries(1, 0, 99) + entries(2, 0, 9))
    store.commit("reader", {})
    assert store.collect({1: RangeSet([(0, 49)])}, spare=True) == 0
    assert store.held()[1] == RangeSet([(0, 99)])
    store.commit("reader", {1: 19})
    assert store.collect({1: RangeSet([(0, 49)]), 2: RangeSet([(0, 9)])}, spare=True) == 20
    assert store.collected() == {1: RangeSet([(0, 19)])}
    assert store.collect({1: RangeSet([(0, 49)])}) == 30  # the fail-safe spares nothing
    store.forget_consumer("reader")
    assert store.collect({2: RangeSet([(0, 9)])}, spare=True) == 10


def test_names_are_recorded_and_of_very_many_the_last_ones(store: LogStore) -> None:
    assert store.names() == {}
    store.keep_names({1: "billing", 2**54: "Ärger"})
    assert store.names() == {1: "billing", 2**54: "Ärger"}
    store.keep_names(dict.fromkeys(range(2000), "x" * 100))
    kept = list(store.names())
    assert kept == list(range(kept[0], 2000))
