"""`maxOffsetsPerTrigger` counts rows, and no sender starves."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.pipeline.row_limit import limited

senders = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 30), max_size=40), min_size=1)
"""By sender, the rows of its packets."""


def batch(packets: dict[int, list[int]], most: int, start: dict[int, int] | None = None) -> tuple[dict[int, int], int]:
    """Where a batch ends, and how many rows it has."""
    begun = start or dict.fromkeys(packets, 0)
    end = {sender: len(rows) for sender, rows in packets.items()}
    reached = limited(begun, end, most, lambda sender, a, b: iter(list(enumerate(packets[sender]))[a:b]))
    return reached, sum(sum(packets[sender][begun[sender] : reached[sender]]) for sender in packets)


@given(senders, st.integers(1, 100))
def test_batches_keep_to_the_limit_and_read_everything_in_the_end(packets, most):
    at = dict.fromkeys(packets, 0)
    end = {sender: len(rows) for sender, rows in packets.items()}
    for _ in range(sum(map(len, packets.values())) + 1):
        if at == end:
            break
        reached, rows = batch(packets, most, at)
        assert all(at[sender] <= reached[sender] <= end[sender] for sender in packets)
        assert reached != at, "a batch that takes nothing never ends"
        assert rows <= most or sum(reached.values()) == sum(at.values()) + 1, "only a packet by itself may be larger"
        at = reached
    assert at == end


def test_a_limit_is_used_up_as_far_as_packets_allow():
    _, rows = batch({1: [10] * 100, 2: [10] * 50}, 200)
    assert rows >= 180


def test_a_small_sender_does_not_starve_beside_a_large_one():
    reached, _ = batch({1: [1] * 100_000, 2: [1]}, 10)
    assert reached[2] == 1


def test_if_no_packet_fits_the_largest_backlog_gets_one():
    assert batch({1: [50] * 9, 2: [50]}, 10) == ({1: 1, 2: 0}, 50)


def test_only_as_many_packets_are_looked_at_as_are_needed():
    looked = []

    def rows_of(sender, first, behind):
        for number in range(first, behind):
            looked.append(number)
            yield number, 1

    limited({1: 0}, {1: 1_000_000}, 100, rows_of)
    assert len(looked) <= 102


def test_a_range_without_packets_is_passed():
    assert limited({1: 5}, {1: 20}, 10, lambda *_: iter(())) == {1: 20}
