"""The ages of packets, when clocks jump."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.store.service_time import RUNS_MAX, ServiceTime

HOUR, DAY = 3600, 86_400


def served(*runs: tuple[int, int]) -> ServiceTime:
    """A store with these runs: what the clock said when each began, and how long it lasted."""
    service = ServiceTime()
    for clock, lasted in runs:
        service.begin(clock)
        service.lasts(lasted)
    return ServiceTime.unpack(service.pack())


def test_within_a_run_the_clock_tells_the_age():
    assert served((1000, 100)).age_ns(1030) == 70
    assert served((1000, 100), (1100, 50)).age_ns(1030) == 120


def test_the_time_between_runs_does_not_count():
    assert served((1000, 100), (1000 + 10 * DAY, 50)).age_ns(1030) == 120


@pytest.mark.parametrize("jump", [10 * DAY, -HOUR, -500_000])
def test_a_packet_is_never_taken_for_older_than_it_is(jump):
    service = served((1_000_000, 100), (1_000_100 + jump, 50), (1_000_200, 10))
    assert service.age_ns(1_000_030) <= 70 + 50 + 10
    assert service.age_ns(1_000_100 + jump + 20) <= 30 + 10


def test_what_is_stamped_in_the_future_is_new():
    assert served((1000, 100)).age_ns(1000 + DAY) == 0


def test_what_was_stored_before_runs_were_recorded_is_as_old_as_the_record():
    assert ServiceTime().age_ns(5) == 0
    assert served((1000, 100)).age_ns(5) == 100


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 1000)), min_size=1, max_size=20), st.data())
def test_whatever_the_clock_does_no_packet_is_older_than_its_time_in_service(runs, data):
    service, before = ServiceTime(), []
    for clock, lasted in runs:
        service.begin(clock)
        moment = data.draw(st.integers(0, lasted))
        before.append((clock + moment, service.total_ns + moment))
        service.lasts(lasted)
    for stamp, stored_at in before:
        assert 0 <= service.age_ns(stamp) <= service.total_ns - stored_at


def test_old_runs_are_forgotten():
    service = served(*((n * 10, 1) for n in range(RUNS_MAX + 50)))
    assert len(service.runs) == RUNS_MAX
    assert service.total_ns == RUNS_MAX + 50
    assert service.age_ns(5) == RUNS_MAX
