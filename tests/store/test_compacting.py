"""`gossamer log compact`: a smaller file with the same log, and never while somebody else has it open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.core.ranges import RangeSet
from gossamer.store import StoreError, open_store
from gossamer.store.compacting import compact
from gossamer.store.contract import StoreFull
from tests.store.samples import entries

KEPT = 200


@pytest.fixture
def swollen(tmp_path: Path) -> Path:
    """A store that has collected most of what it held, with a consumer."""
    with open_store(tmp_path, group="quotes") as store:
        for first in range(0, 6_000, 1_000):
            store.append(entries(1, first, first + 999, 1_400))
        store.commit("billing", {1: 6_000 - KEPT})
        store.collect({1: RangeSet([(0, 5_999 - KEPT)])})
    return tmp_path


def everything(path: Path) -> tuple:
    with open_store(path, readonly=True) as store:
        return (list(store.read(1, 0, 30_000)), store.held(), store.collected(), store.consumers(), store.group)


def test_a_compacted_store_holds_the_same_in_a_smaller_file_and_takes_more(swollen: Path) -> None:
    held = everything(swollen)
    before, after = compact(swollen)
    assert before > 8_000_000
    assert after == (swollen / "data.mdb").stat().st_size < 2_000_000
    assert everything(swollen) == held
    assert len(held[0]) == KEPT
    with open_store(swollen, group="quotes") as store:
        store.append(entries(1, 6_000, 6_099, 1_400))
    assert len(everything(swollen)[0]) == KEPT + 100
    assert [path.name for path in swollen.glob(".compact*")] == []


def test_a_store_in_use_is_not_compacted(swollen: Path) -> None:
    with open_store(swollen, group="quotes"), pytest.raises(StoreError, match="another logger has this store"):
        compact(swollen)
    reader = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from gossamer.store import open_store\n"
            "with open_store(sys.argv[1], readonly=True): print('open', flush=True); input()",
            str(swollen),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match="another process reads this store"):
            compact(swollen)
    finally:
        reader.communicate("\n", timeout=30)
    compact(swollen)


def test_what_is_no_store_or_has_no_room_is_left_alone(swollen: Path, tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(StoreError, match="no store here"):
        compact(tmp_path / "elsewhere")
    held = everything(swollen)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(StoreFull, match="only 1,000 are free"):
        compact(swollen)
    assert everything(swollen) == held
