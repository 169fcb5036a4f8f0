"""A mended link is filled and not overflowed, however much was missed (`scenarios/heal.toml`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gossamer.sim.checked import traced
from gossamer.sim.scenario import load
from gossamer.trace.reader import read

SCENARIO = Path(__file__).parents[2] / "scenarios" / "heal.toml"
MENDED_S = 12.0
MISSED = 10 * 500
WIRE_BITS = 8 * 1060
FAR = 4
"""Members from this number on are behind the link."""


def run(tmp_path: Path, *overrides: str) -> tuple[dict[str, Any], float, int]:
    """The result, when the far side had what it missed, in seconds after the heal, and what was dropped since then."""
    path = tmp_path / "trace.parquet"
    result = traced(load(SCENARIO, list(overrides)), path)
    caught_up = drops = 0
    for rows in (batch.of("deliver", "drop") for batch in read(path)):
        for row in map(rows.describe, range(len(rows))):
            if row["t_ns"] < MENDED_S * 1e9:
                continue
            if row["kind"] == "drop":
                drops += 1
            elif row["member"] >= FAR and row["seqno"] < MENDED_S * 500 * 0.95:
                caught_up = max(caught_up, row["t_ns"])
    assert result["violations"] == []
    assert result["packets"]["everywhere"] == result["packets"]["sent"]
    return result, caught_up / 1e9 - MENDED_S, drops


@pytest.mark.parametrize(("mbit", "latency"), [(100, 0.0005), (100, 0.01), (10, 0.005)])
def test_what_a_side_missed_fills_the_link_and_does_not_overflow_it(tmp_path, mbit, latency):
    edges = (SCENARIO.parent / "heal.edges").read_text().replace("0.0005,0,100e6", f"{latency},0,{mbit}e6")
    (tmp_path / "heal.edges").write_text(edges)
    result, caught_up, drops = run(tmp_path, f'topology.path="{tmp_path / "heal.edges"}"')
    needed = MISSED * WIRE_BITS / (mbit * 1e6 - 500 * WIRE_BITS)  # beside what is published meanwhile
    learning = 10 * 2 * latency  # a window that grows by a quarter per round trip grows tenfold
    assert caught_up < 0.4 + learning + 1.1 * needed
    assert drops <= MISSED / 100
    assert result["links"]["0-1"]["bytes"] < 1.1 * result["packets"]["sent"] * 1028


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_queue_that_is_shorter_than_the_path_overflows_only_until_its_length_is_known(tmp_path, seed):
    """What was lost is asked for again, and comes: if requests were judged after that, nothing seemed to be missing."""
    edges = (SCENARIO.parent / "heal.edges").read_text().replace("0.0005,0,100e6", "0.01,0,100e6")
    (tmp_path / "heal.edges").write_text(edges)
    changes = (f'topology.path="{tmp_path / "heal.edges"}"', "topology.queue=50", f"seed={seed}")
    result, caught_up, _ = run(tmp_path, *changes)
    assert caught_up < 1.2
    assert result["queue_drops"] <= 0.05 * MISSED


def test_what_is_lost_on_the_mended_link_is_sent_again_once(tmp_path):
    edges = (SCENARIO.parent / "heal.edges").read_text().replace("0.0005,0,100e6", "0.0005,0.02,100e6")
    (tmp_path / "heal.edges").write_text(edges)
    result, caught_up, _ = run(tmp_path, f'topology.path="{tmp_path / "heal.edges"}"')
    assert caught_up < 2.0
    assert result["links"]["0-1"]["bytes"] < 1.2 * result["packets"]["sent"] * 1028


def test_without_a_limit_the_link_overflows(tmp_path):
    """What the limit is good for: as long as everything is asked for at once, most of it is dropped."""
    _, _, drops = run(tmp_path, "protocol.request_packets=0")
    assert drops > MISSED / 4
