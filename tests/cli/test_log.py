"""`gossamer log` as a user meets it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gossamer.cli import main
from gossamer.core.messages import Data
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.store import LogEntry, open_store
from gossamer.wire import Header, encode
from gossamer.wire.events import Packer
from gossamer.wire.fragments import fragments
from gossamer.wire.keys import KeyRing, new_key, parse_key
from gossamer.wire.sealing import Sealer
from tests.live import members as live

TIME_NS = 1_700_000_000_000_000_000
PACKETS, EVENTS = 300, 5


@pytest.fixture
def gossamer(monkeypatch, capsys):
    """Run the command in this process: status, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gossamer", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def datagram(sender: int, seqno: int, body: bytes) -> bytes:
    return encode(Header(7, sender), Data(Packet(sender, seqno, body)))


def packet(sender: int, seqno: int) -> LogEntry:
    """Events `seqno * 5` to `seqno * 5 + 4`."""
    packer = Packer(1_300)
    for event in range(seqno * EVENTS, (seqno + 1) * EVENTS):
        assert packer.add("quotes.nyse.ibm", b"value %d" % event, {"key": f"k{event}", "price": event / 2})
    return LogEntry(sender, seqno, TIME_NS, datagram(sender, seqno, packer.body(TIME_NS + seqno * 1_000_000)))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """300 packets of one sender with a gap of 10, one event in fragments of another, and a consumer."""
    path = tmp_path / "store"
    with open_store(path, group="quotes") as opened:
        opened.append([packet(3, seqno) for seqno in range(PACKETS)])
        parts = fragments("big.one", b"\xff" * 3_000, {"n": 1}, 1_300, 0, time_ns=TIME_NS)
        opened.append([LogEntry(4, i, TIME_NS, datagram(4, i, body)) for i, body in enumerate(parts)])
        opened.collect({3: RangeSet([(100, 109)])})
        opened.commit("archive", {3: 249})
    return path


def test_info_says_what_is_in_the_store(gossamer, store: Path) -> None:
    status, out, err = gossamer("log", "info", store)

    assert (status, err) == (0, "")
    for text in ("quotes", "293", "0-99, 110-299", "100-109", "archive", "3: 249", "53 packets"):
        assert text in out


def test_info_as_json(gossamer, store: Path) -> None:
    status, out, _ = gossamer("log", "info", store, "--json", "--verify")
    found = json.loads(out)

    assert status == 0
    assert (found["group"], found["packets"], found["damaged"]) == ("quotes", 293, [])
    assert found["senders"]["3"] == {
        "name": "",
        "packets": 290,
        "held": [[0, 99], [110, 299]],
        "collected": [[100, 109]],
        "oldest_ns": TIME_NS,
        "newest_ns": TIME_NS,
    }
    assert found["consumers"]["archive"]["committed"] == {"3": 249}
    assert found["consumers"]["archive"]["behind"] == 53
    assert found["oldest_ns"] == TIME_NS
    assert 0 < found["bytes"] <= found["file_bytes"]


def test_info_while_a_logger_writes(gossamer, store: Path) -> None:
    with open_store(store) as opened:
        opened.append([packet(3, 300)])
        status, out, _ = gossamer("log", "info", store, "--json")

    assert (status, json.loads(out)["packets"]) == (0, 294)


def test_info_of_a_damaged_packet(gossamer, store: Path) -> None:
    data = (store / "data.mdb").read_bytes()
    at = data.find(packet(3, 42).datagram)
    (store / "data.mdb").write_bytes(data[: at + 50] + bytes([data[at + 50] ^ 1]) + data[at + 51 :])

    status, out, _ = gossamer("log", "info", store, "--verify", "--json")
    assert (status, json.loads(out)["damaged"]) == (1, [[3, 42]])
    status, out, _ = gossamer("log", "info", store, "--verify")
    assert status == 1
    assert "damaged packet 42 of sender 3" in out
    assert "1 of 293 packets are damaged" in out
    out_file = store.parent / "events.parquet"
    status, out, err = gossamer("log", "export", store, "--out", out_file)
    assert status == 1
    assert "packet 42 of sender 3 is damaged" in err
    assert pq.read_metadata(out_file).num_rows == 289 * EVENTS + 1


def test_info_of_a_store_cut_short_says_what_is_readable(gossamer, store: Path) -> None:
    with open_store(store) as opened:
        for first in range(PACKETS, PACKETS + 1_000, 25):
            opened.append([packet(3, seqno) for seqno in range(first, first + 25)])
        used = opened.bytes_used()
    os.truncate(store / "data.mdb", used // 2)

    status, out, err = gossamer("log", "info", store, "--json")
    found = json.loads(out)
    assert (status, err) == (1, "")
    assert "cut short" in found["error"]
    assert 100 < found["packets"] < 1_303
    status, out, _ = gossamer("log", "info", store)
    assert status == 1
    assert "readable:" in out


def test_info_survives_a_file_that_kills_its_reader(gossamer, store: Path, monkeypatch) -> None:
    monkeypatch.setattr("gossamer.store.survey._survey", lambda *_: os.kill(os.getpid(), signal.SIGKILL))

    status, out, _ = gossamer("log", "info", store, "--json")
    assert status == 1
    assert "SIGKILL" in json.loads(out)["error"]
    assert json.loads(out)["packets"] >= 293


def test_export_to_parquet(gossamer, store: Path, tmp_path: Path) -> None:
    out_file = tmp_path / "events.parquet"
    status, out, err = gossamer("log", "export", store, "--out", out_file)
    rows = pq.read_table(out_file).to_pylist()

    assert (status, err) == (0, "")
    assert "1,451 events of 293 packets" in out
    assert len(rows) == 290 * EVENTS + 1
    row = rows[7]
    assert (row["key"], row["value"], row["topic"]) == (b"k7", b"value 7", "quotes.nyse.ibm")
    assert (row["sender"], row["seqno"], row["offset"]) == (3, 1, 65_536 + 2)
    assert dict(row["headers"]) == {"key": "k7", "price": "3.5"}
    assert row["timestamp"].timestamp() == pytest.approx((TIME_NS + 1_000_000) / 1e9)
    assert (rows[-1]["topic"], rows[-1]["value"], rows[-1]["sender"]) == ("big.one", b"\xff" * 3_000, 4)
    assert list(tmp_path.glob(".*")) == []


def test_export_to_lines(gossamer, store: Path, tmp_path: Path) -> None:
    out_file = tmp_path / "events.jsonl"
    status, _, _ = gossamer("log", "export", store, "--out", out_file)
    rows = [json.loads(line) for line in out_file.read_text().splitlines()]

    assert status == 0
    assert len(rows) == 290 * EVENTS + 1
    assert rows[0]["value"] == "value 0"
    assert rows[0]["headers"] == {"key": "k0", "price": "0.0"}
    assert rows[0]["timestamp"].startswith("2023-11-14T22:13:20")
    assert rows[-1]["value"]["base64"].startswith("////")


def test_a_sealed_log_needs_its_key(gossamer, tmp_path: Path) -> None:
    key = new_key(bytes(range(32)))
    sealer = Sealer(KeyRing([parse_key(key)]), bytes(8))
    with open_store(tmp_path / "store") as opened:
        opened.append([entry._replace(datagram=sealer.seal(entry.datagram)) for entry in [packet(3, 0), packet(3, 1)]])
    (tmp_path / "right").write_text(key)
    (tmp_path / "wrong").write_text(new_key(bytes(range(1, 33))))
    out_file = tmp_path / "events.jsonl"

    for arguments, says in ((), "sealed"), (("--key-file", tmp_path / "wrong"), "does not open"):
        expect_one_line(gossamer("log", "export", tmp_path / "store", "--out", out_file, *arguments), says)
        assert not out_file.exists()
    status, _, _ = gossamer("log", "export", tmp_path / "store", "--out", out_file, "--key-file", tmp_path / "right")
    assert (status, len(out_file.read_text().splitlines())) == (0, 2 * EVENTS)


def expect_one_line(result: tuple[int, str, str], *says: str) -> None:
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    for text in says:
        assert text in err


def test_an_error_is_one_clear_line(gossamer, store: Path, tmp_path: Path) -> None:
    expect_one_line(gossamer("log", "info", tmp_path / "nowhere"), "there is no store")
    (tmp_path / "data.mdb").write_bytes(b"no such thing" * 1_000)
    expect_one_line(gossamer("log", "info", tmp_path), "not the data file of a store")
    expect_one_line(gossamer("log", "export", tmp_path / "nowhere", "--out", tmp_path / "x.jsonl"), "there is no store")
    expect_one_line(gossamer("log", "export", store, "--out", tmp_path / "x.csv"), ".parquet or .jsonl")
    expect_one_line(gossamer("log", "export", store, "--out", tmp_path / "no" / "x.jsonl"), "No such file")


def test_the_tail_of_a_log_names_the_senders(gossamer, store: Path) -> None:
    with open_store(store) as opened:
        opened.keep_names({3: "ticker-7"})

    status, out, _ = gossamer("log", "tail", store, "--last", "1000", "--json")

    assert status == 0
    assert {(row["sender"], row["source"]) for row in map(json.loads, out.splitlines())} == {(3, "ticker-7"), (4, "4")}


def test_the_log_shows_its_durable_readers_and_forgets_them(tmp_path):
    group, place = f"durable {os.getpid()}", live.settings()
    store = str(tmp_path / "log")
    with live.processes() as start:
        logger = start(place, "logger", group, "--store", store)
        logger.popen.stderr.readline()
        first = start(place, "sub", group, "--durable", "billing", "--start", "beginning", "--count", "3")
        assert start(place, "pub", group, "bill", "--count", "3", "--wait", "2").wait()[0] == 0
        assert first.wait()[:2] == (0, "bill 0\nbill 1\nbill 2\n")
        assert start(place, "pub", group, "more", "--count", "2").wait()[0] == 0
        second = start(place, "sub", group, "--durable", "billing", "--count", "2")
        assert second.wait()[:2] == (0, "more 0\nmore 1\n")
        shown = gossamer_command("log", "consumers", store, "--json")
        (row,) = json.loads(shown.stdout)
        assert (row["name"], row["kind"]) == ("billing", "subscriber")
        assert "billing" in gossamer_command("log", "consumers", store).stdout
        tail = gossamer_command("log", "tail", store, "--last", "2")
        assert tail.stdout.splitlines() == ["more 0", "more 1"]
        following = subprocess.Popen(
            [sys.executable, "-m", "gossamer", "log", "tail", store, "-f", "--last", "0", "--count", "1", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            while following.poll() is None:
                start(place, "pub", group, "late", "now").wait()
            assert json.loads(following.stdout.read())["subject"] == "late"
        finally:
            following.kill()
            following.wait()
        assert gossamer_command("log", "forget", store, "billing").returncode == 0
        again = gossamer_command("log", "forget", store, "billing")
        assert (again.returncode, again.stderr) == (1, f"{store}: no durable reader 'billing'; there are: none\n")
        assert gossamer_command("log", "consumers", store).stdout == f"{store}: no durable readers\n"


def test_a_durable_sub_without_a_logger_says_what_to_start():
    with live.processes() as start:
        status, out, err = start(live.settings(), "sub", f"none {os.getpid()}", "--durable", "x").wait()
    assert (status, out) == (1, "")
    assert "start one with `gossamer logger" in err


def gossamer_command(*words):
    return subprocess.run([sys.executable, "-m", "gossamer", *words], capture_output=True, text=True, timeout=60)
