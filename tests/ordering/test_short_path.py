"""Nearly all places are taken in by a short path (`Follower._is_next`), which must come to the same as the long one."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest

from gossamer.ordering.following import Follower
from gossamer.ordering.giving import Primary
from gossamer.sim.checked import traced
from gossamer.sim.scenario import parse
from tests.ordering.test_total import scenario


def only_the_long_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Follower, "_is_next", lambda *_: False)
    monkeypatch.setattr(Primary, "_may_be_enough", lambda *_: True)


@pytest.mark.parametrize("members", [4, 6])
@pytest.mark.parametrize("failures", ["atomic", "non-atomic"])
@pytest.mark.parametrize("name", ["static", "the primary crashes"])
def test_every_row_of_the_trace_is_the_same(name, failures, members, tmp_path: Path, monkeypatch):
    table = scenario(name, 7, order_failures=failures).as_dict()
    table["topology"]["members"] = members
    made, traces = parse(table), [tmp_path / "short", tmp_path / "long"]
    traced(made, traces[0], check=False)
    only_the_long_path(monkeypatch)
    traced(made, traces[1], check=False)
    short, long = (pyarrow.parquet.read_table(trace).to_pylist() for trace in traces)
    assert short == long
    assert len(short) > 1000
