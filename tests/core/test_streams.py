"""Gap detection and acceptance of one sender's packets."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.packets import Packet, split_into_runs
from gossamer.core.streams import Stream


def run(*seqnos: int) -> list[Packet]:
    return [Packet(7, n, b"") for n in seqnos]


def test_a_run_that_follows_on_is_all_new():
    stream = Stream()
    assert stream.accept(run(0, 1, 2)) == (run(0, 1, 2), None)
    assert stream.next == 3


def test_a_jump_reveals_a_gap():
    stream = Stream()
    stream.accept(run(0))
    assert stream.accept(run(4, 5)) == (run(4, 5), (1, 3))
    assert stream.missing.ranges() == [(1, 3)]


def test_a_heartbeat_reveals_a_gap_and_an_old_one_reveals_nothing():
    stream = Stream()
    assert stream.learn(2) == (0, 2)
    assert stream.learn(1) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=40))
def test_each_packet_is_accepted_once_and_every_number_is_accepted_or_missing(arrivals):
    """Reference: 000 §3.3, Properties 3.4 and 3.5"""
    stream, accepted = Stream(), []
    for first, length in arrivals:
        fresh, _ = stream.accept(run(*range(first, first + length)))
        accepted += [p.seqno for p in fresh]
        assert len(set(accepted)) == len(accepted)
        assert sorted([*accepted, *stream.missing]) == list(range(stream.next))
        assert all(stream.has(n) == (n in accepted) for n in range(30))


def test_runs_are_cut_where_sender_or_numbers_jump():
    packets = [*run(1, 2), *run(4), Packet(8, 5, b""), Packet(8, 6, b"")]
    assert [[p.seqno for p in part] for part in split_into_runs(packets)] == [[1, 2], [4], [5, 6]]
