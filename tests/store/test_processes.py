"""Several processes at one store: a writer that is killed, readers meanwhile, and loggers that must not be two."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from random import Random

import pytest

from gossamer.core.ranges import RangeSet
from gossamer.store import StoreError, open_store
from tests.store.samples import entries, entry

ROOT = Path(__file__).parents[2]
KILLS = 20

WRITER = """
    import os, sys, time
    from gossamer.core.ranges import RangeSet
    from gossamer.store import open_store
    from tests.store.samples import entries
    with open_store(sys.argv[1], map_bytes=1 << 20) as store:  # small: the map grows under the readers
        held = store.held().get(1, RangeSet())
        first = held.last + 1 if held else 0
        for number in range(first, first + int(sys.argv[2]), 50):
            store.append(entries(1, number, number + 49, 1_400) + entries(2, number, number + 9, 20))
            os.write(1, b"%d\\n" % (number + 49))  # acknowledged
            if number % 1_000 == 950:
                store.collect({2: RangeSet([(0, number - 500)])})
"""


def python(code: str, *arguments: object, **options) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, **options)


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    random = Random(os.urandom(8).hex())
    acknowledged = -1
    for kill in range(KILLS):
        writer = python(WRITER, tmp_path, 1_000_000, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        acknowledged = int(writer.stdout.readline())  # it is under way
        time.sleep(random.uniform(0, 0.05))
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, writer.stdout.read().splitlines())])
        writer.wait()
        with open_store(tmp_path) as store:
            held = store.held()
            assert held[1].gaps(0, acknowledged) == [], f"kill {kill}"
            assert list(store.read(1, acknowledged - 499, acknowledged)) == entries(
                1, max(0, acknowledged - 499), acknowledged, 1_400
            )
            assert all(found == entry(2, found.seqno, 20) for found in store.read(2, 0, 1 << 62))
    with open_store(tmp_path, readonly=True) as store:
        assert list(store.read(1, 0, acknowledged)) == entries(1, 0, acknowledged, 1_400)


def test_readers_see_whole_transactions_while_the_writer_writes(tmp_path: Path) -> None:
    count = 4_000
    writer = python(WRITER, tmp_path, count, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    looks = 0
    with open_store(tmp_path, readonly=True) as reader:
        while reader.held()[1].last < count - 1:
            held = reader.held()
            assert held[1].ranges() == [(0, held[1].last)]
            assert held[1].last % 50 == 49
            tail = held[1].last - 60
            assert list(reader.read(1, tail, held[1].last)) == entries(1, max(0, tail), held[1].last, 1_400)
            reader.commit("reader", {1: held[1].last})
            looks += 1
            assert writer.poll() in (None, 0)
        assert reader.consumers()[0].committed[1] < count
    assert writer.wait(30) == 0
    assert looks > 2


def test_a_second_logger_is_refused_with_the_process_that_has_the_store(tmp_path: Path) -> None:
    holder = python(
        "import sys, time; from gossamer.store import open_store; s = open_store(sys.argv[1]);"
        "print('open', flush=True); time.sleep(60)",
        tmp_path,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        with pytest.raises(StoreError, match=f"another logger has this store, process {holder.pid}"):
            open_store(tmp_path)
        with open_store(tmp_path, readonly=True) as reader:
            assert reader.held() == {}
            with pytest.raises(StoreError, match="opened for reading"):
                reader.append(entries(1, 0, 0))
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with open_store(tmp_path) as store:  # the lock died with its process
        store.append(entries(1, 0, 0))


def test_two_writers_in_one_process_are_refused_too(tmp_path: Path) -> None:
    with open_store(tmp_path), pytest.raises(StoreError, match=f"process {os.getpid()}"):
        open_store(tmp_path)


def test_a_child_can_open_what_its_parent_has_open(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append(entries(1, 0, 9))
        child = os.fork()
        if not child:
            status = 1
            try:
                with open_store(tmp_path, readonly=True) as reader:
                    status = 0 if list(reader.read(1, 0, 9)) == entries(1, 0, 9) else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        store.append(entries(1, 10, 19))
        assert list(store.read(1, 0, 99)) == entries(1, 0, 19)


def test_a_reader_that_was_killed_does_not_keep_pages_forever(tmp_path: Path) -> None:
    reader = python(
        "import os, signal, sys; from gossamer.store import open_store; s = open_store(sys.argv[1], readonly=True)\n"
        "with s._env.reading(): os.kill(os.getpid(), signal.SIGKILL)",
        tmp_path,
    )
    with open_store(tmp_path) as store:
        store.append(entries(1, 0, 999, 1_400))
        reader.wait()
        size = (tmp_path / "data.mdb").stat().st_size
        for first in range(1_000, 30_000, 1_000):  # 40 MB through a store that keeps 1.4
            store.collect({1: RangeSet([(first - 1_000, first - 1)])})
            store.append(entries(1, first, first + 999, 1_400))
        assert (tmp_path / "data.mdb").stat().st_size < size + (24 << 20)


def test_another_process_can_commit(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        code = (
            "import sys; from gossamer.store import open_store as o; o(sys.argv[1], readonly=True).commit('c', {1: 7})"
        )
        assert python(code, tmp_path).wait(30) == 0
        assert [(consumer.name, consumer.committed) for consumer in store.consumers()] == [("c", {1: 7})]
        store.append(entries(1, 0, 0))


def test_threads_read_while_one_writes_and_the_map_grows(tmp_path: Path) -> None:
    wrong: list[str] = []
    looks = 0
    with open_store(tmp_path, map_bytes=1 << 20) as store:
        done = threading.Event()

        def look() -> None:
            nonlocal looks
            while not done.is_set():
                held = store.held().get(1, RangeSet())
                last = held.last if held else -1
                if last >= 0 and list(store.read(1, last - 9, last)) != entries(1, last - 9, last, 1_400):
                    wrong.append(f"at {last}")
                looks += 1
                time.sleep(0.005)  # leave the interpreter to the writer

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for first in range(0, 3_000, 100):
            store.append(entries(1, first, first + 99, 1_400))
        done.set()
        for thread in threads:
            thread.join()
        assert list(store.read(1, 0, 5_000)) == entries(1, 0, 2_999, 1_400)
    assert wrong == []
    assert looks > 5


def test_lmdb_is_only_imported_for_a_store_on_disk() -> None:
    code = """
        import sys
        from gossamer.store import MemoryStore
        MemoryStore()
        assert "lmdb" not in sys.modules
    """
    assert python(code).wait(timeout=60) == 0
