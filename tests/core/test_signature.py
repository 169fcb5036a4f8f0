"""The hash of a set that changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.signature import Signature

NUMBERS = st.integers(-(2**63), 2**63 - 1)
SETS = st.sets(st.tuples(NUMBERS, NUMBERS), max_size=20)


@given(SETS, SETS)
def test_what_counts_is_the_set_and_not_how_it_came_about(before, after):
    signature = Signature(before)
    for item in before - after:
        signature.remove(*item)
    for item in sorted(after - before):
        signature.add(*item)
    assert signature.value() == Signature(sorted(after, reverse=True)).value()
    assert 0 < signature.value() < 2**64
    assert (signature.value() == Signature(before).value()) == (before == after)


def test_a_signature_is_the_same_on_every_machine():
    assert Signature([(1, 2), (3, -1)]).value() == 9436277701190551922
