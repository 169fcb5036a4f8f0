"""A disk that is full, fails or lies, and stores that are not for us: an error, never a wrong packet or a crash."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from gossamer.core.ranges import RangeSet
from gossamer.store import Damaged, LogStore, StoreError, StoreFull, open_store
from gossamer.store.data_file import salvage
from gossamer.store.layout import NUMBER, VERSION
from tests.store.samples import entries, entry
from tests.store.test_processes import python

FLIPS = 100


def read_all(store: LogStore, sender: int, last: int) -> tuple[list, list[int]]:
    """Everything that can be read, and the numbers of what is damaged."""
    found, damaged, first = [], [], 0
    while first <= last:
        try:
            found += store.read(sender, first, last)
            break
        except Damaged as damage:
            damaged.append(damage.seqno)
            first = damage.seqno + 1
            found = [kept for kept in found if kept.seqno < first]
    return found, damaged


def flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def position_of(path: Path, entry_) -> int:
    at = path.read_bytes().find(entry_.datagram)
    assert at > 0
    return at


# Flipped bits


def test_a_flipped_bit_is_found_and_can_be_repaired(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append(entries(1, 0, 199, 300))
    flip(tmp_path / "data.mdb", position_of(tmp_path / "data.mdb", entry(1, 70, 300)) + 17, 3)
    with open_store(tmp_path) as store:
        reader = store.read(1, 0, 199)
        before = [next(reader) for _ in range(70)]
        with pytest.raises(Damaged, match="packet 70 of sender 1"):
            next(reader)
        behind = list(store.read(1, 71, 199))
        store.drop(1, 70)
        assert store.held() == {1: RangeSet([(0, 69), (71, 199)])}
        store.append([entry(1, 70, 300)])

        assert [*before, entry(1, 70, 300), *behind] == entries(1, 0, 199, 300) == list(store.read(1, 0, 199))


def test_a_block_whose_table_is_damaged_is_dropped_and_refilled_packet_by_packet(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append(entries(1, 0, 199, 300))
        used = store.bytes_used()
    table_of_second_block = position_of(tmp_path / "data.mdb", entry(1, 64, 300)) - 100
    flip(tmp_path / "data.mdb", table_of_second_block, 0)
    with open_store(tmp_path) as store:
        found, damaged = read_all(store, 1, 199)
        assert damaged == list(range(64, 128))
        assert found == entries(1, 0, 63, 300) + entries(1, 128, 199, 300)
        store.drop(1, 100)
        assert store.held() == {1: RangeSet([(0, 99), (101, 199)])}
        store.append(entries(1, 0, 199, 300))
        assert read_all(store, 1, 199)[1] == [number for number in damaged if number != 100]
        for number in damaged:
            store.drop(1, number)
        store.append(entries(1, 0, 199, 300))
        assert list(store.read(1, 0, 199)) == entries(1, 0, 199, 300)
        assert store.bytes_used() <= used + 3 * 4096
        assert store.collect({1: RangeSet([(0, 199)])}) == 200
        assert store.bytes_used() == 0


SURVEY = """
    import sys
    from gossamer.store import StoreError, open_store
    from tests.store.samples import entry
    from tests.store.test_damage import read_all
    for directory in sys.argv[1:]:
        try:
            with open_store(directory) as store:
                for sender in (1, 2, 3):
                    found, damaged = read_all(store, sender, 299)
                    assert all(one == entry(sender, one.seqno, SIZES[sender]) for one in found), "a wrong packet"
                    for seqno in damaged[:3]:
                        store.drop(sender, seqno)
                store.append([entry(4, 0)])
        except StoreError as error:
            print("refused", error)
        print("done", directory, flush=True)
""".replace("SIZES", "{1: 300, 2: 20, 3: 5000}")


def test_no_flipped_bit_gives_a_wrong_packet_or_kills_the_reader(tmp_path: Path) -> None:
    original = tmp_path / "original"
    with open_store(original) as store:
        store.append(entries(1, 0, 299, 300) + entries(2, 0, 299, 20) + entries(3, 0, 29, 5_000))
        for number in range(100, 200, 2):
            store.collect({2: RangeSet([(number, number)])})
        used = store.bytes_used() + 40 * 4096
    random = Random(os.urandom(8).hex())
    copies = []
    for number in range(FLIPS):
        copy = tmp_path / str(number)
        copy.mkdir()
        with (original / "data.mdb").open("rb") as file:
            (copy / "data.mdb").write_bytes(file.read(used + (1 << 20)))
        for _ in range(random.choice([1, 1, 4, 20])):
            page = random.randrange(used // 4096)
            flip(copy / "data.mdb", page * 4096 + random.choice([random.randrange(64), random.randrange(4096)]), 5)
        copies.append(copy)
    reader = python(SURVEY, *copies, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = reader.communicate(timeout=120)

    assert reader.returncode == 0, f"status {reader.returncode} after {out[-60:]!r}: {err[-2000:]}"
    assert out.count("done") == FLIPS
    assert 0 < out.count("refused") < FLIPS


# Cut short


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.9])
def test_a_truncated_file_is_refused_and_its_rest_can_be_salvaged(tmp_path: Path, share: float) -> None:
    with open_store(tmp_path) as store:
        store.append(entries(1, 0, 1_999, 1_400))
        used = store.bytes_used()
    os.truncate(tmp_path / "data.mdb", int(used * share))
    for readonly in (False, True):
        with pytest.raises(StoreError, match=r"cut short|not the data file"):
            open_store(tmp_path, readonly=readonly)

    left = salvage(tmp_path).get(1, RangeSet())
    assert set(left) <= set(range(2_000))


def test_everything_can_be_salvaged_from_a_whole_file(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for first in range(0, 2_000, 100):
            store.append([*entries(1, first, first + 99, 1_400), entry(2, first, 10)])
        held = store.held()
    assert salvage(tmp_path) == held


# Full


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(store: LogStore, first: int) -> int:
    """Append until the disk is full; the number behind the last that was acknowledged."""
    for at in range(first, first + 100_000, 100):
        try:
            store.append(entries(1, at, at + 99, 1_400))
        except StoreFull:
            return at
    raise AssertionError("the disk is never full")


def fill_with_rubbish(path: Path) -> None:
    """Take all that is free on its disk."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4_096)):
            pass


def test_a_full_disk_harms_nothing_and_collecting_makes_room(small_disk: Path) -> None:
    with open_store(small_disk / "store") as store:
        end = fill(store, 0)
        assert end > 2_000
        assert store.held() == {1: RangeSet([(0, end - 1)])}
        assert list(store.read(1, 0, end)) == entries(1, 0, end - 1, 1_400)
        with pytest.raises(StoreFull):
            store.append(entries(1, end, end + 99, 1_400))
        store.commit("still", {1: 5})
        for _ in range(3):
            assert store.collect({1: RangeSet([(end - 1_000, end - 501)])}) == 500
            assert fill(store, end) >= end + 200
            end = store.held()[1].last + 1
    fill_with_rubbish(small_disk / "rubbish")
    with open_store(small_disk / "store") as store:  # a logger comes back to a full disk: it must be able to collect
        store.collect({1: RangeSet([(0, 99)])})
        assert store.consumers()[0].committed == {1: 5}
        kept = store.held()[1]
        assert list(store.read(1, 0, end)) == [entry(1, number, 1_400) for number in kept]


def test_a_disk_full_of_something_else_harms_nothing(small_disk: Path) -> None:
    with open_store(small_disk / "store") as store:
        store.append(entries(1, 0, 99, 1_400))
        rubbish = small_disk / "rubbish"
        fill_with_rubbish(rubbish)
        fill(store, 100)
        rubbish.unlink()
        end = store.held()[1].last + 1
        store.append(entries(1, end, end + 99, 1_400))
        assert list(store.read(1, 0, end + 99)) == entries(1, 0, end + 99, 1_400)


def test_a_full_disk_has_no_room_for_a_new_store(small_disk: Path) -> None:
    fill_with_rubbish(small_disk / "rubbish")
    with pytest.raises(StoreFull):
        open_store(small_disk / "store")


# Failing

FAILING = """
    import ctypes, struct, sys
    from gossamer.store import StoreError, StoreFull, open_store
    from tests.store.samples import entries
    store = open_store(sys.argv[1])
    store.append(entries(1, 0, 99, 1_400))
    # From now on the kernel answers fdatasync (75) and fsync (74) with EIO, as a dying disk does.
    load, equal, answer = 0x20, 0x15, 0x06
    program = b"".join(struct.pack("HBBI", *line) for line in [
        (load, 0, 0, 0), (equal, 1, 0, 75), (equal, 0, 1, 74), (answer, 0, 0, 0x50005), (answer, 0, 0, 0x7FFF0000)
    ])
    buffer = ctypes.create_string_buffer(program)
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 5, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filters) == 0, ctypes.get_errno()
    for attempt in range(2):
        try:
            store.append(entries(1, 100, 199, 1_400))
        except StoreFull:
            raise
        except StoreError as error:
            print(error)
    assert list(store.read(1, 0, 500)) == entries(1, 0, 99, 1_400)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the system calls are those of x86-64")
def test_a_failed_sync_acknowledges_nothing_and_stops_the_store(tmp_path: Path) -> None:
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    writer = python(FAILING, tmp_path, stdout=subprocess.PIPE)
    out, _ = writer.communicate(timeout=60)
    first, second = out.splitlines()

    assert writer.returncode == 0
    assert "Input/output error" in first
    assert "nothing more is stored until the store is opened again" in second
    with open_store(tmp_path) as store:
        assert list(store.read(1, 0, 99)) == entries(1, 0, 99, 1_400)
        store.append(entries(1, 100, 199, 1_400))
        assert list(store.read(1, 0, 500)) == entries(1, 0, 199, 1_400)


# Not for us


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store._put_about({b"version": NUMBER.pack(VERSION + 1)})
    for readonly in (False, True):
        with pytest.raises(StoreError, match=f"version {VERSION + 1}, this gossamer knows {VERSION}; update gossamer"):
            open_store(tmp_path, readonly=readonly)


def test_a_store_of_another_group_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path, group="quotes") as store:
        assert store.group == "quotes"
    with pytest.raises(StoreError, match="group 'quotes', not of 'orders'"):
        open_store(tmp_path, group="orders")
    with open_store(tmp_path, readonly=True) as store:
        assert store.group == "quotes"


def test_what_is_not_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        open_store(tmp_path / "nowhere", readonly=True)
    (tmp_path / "data.mdb").write_bytes(b"something else " * 10_000)
    with pytest.raises(StoreError, match="not the data file of a store"):
        open_store(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot make a store here"):
        open_store(tmp_path / "file")


def test_an_lmdb_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    import lmdb

    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as transaction:
        transaction.put(b"theirs", b"1")
    for readonly in (False, True):
        with pytest.raises(StoreError, match="not a store of gossamer"):
            open_store(tmp_path, readonly=readonly)


def test_a_lost_table_of_ranges_is_rebuilt(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append(entries(1, 0, 199) + entries(2, 5, 5))
        store.collect({1: RangeSet([(60, 70)])})
        held = store.held()
        store._env.write(lambda transaction: transaction.drop(store._db("held"), delete=False), 0)
    with open_store(tmp_path) as store:
        assert store.held() == held
        assert list(store.read(1, 55, 75)) == entries(1, 55, 59) + entries(1, 71, 75)


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="the store is closed"):
        store.append(entries(1, 0, 0))
    shutil.rmtree(tmp_path)
