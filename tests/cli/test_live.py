"""`pub`, `sub`, `stats` and `members` as real processes: what they print, how they end, what they refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gossamer
from tests.live.members import GROUP, PATIENCE_S, lines, processes, settings


def gossamer_says(*words: str, **changes: str) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **changes}
    done = subprocess.run(
        [sys.executable, "-m", "gossamer", *words], capture_output=True, text=True, env=environment, timeout=PATIENCE_S
    )
    return done.returncode, done.stdout, done.stderr


def wait_for_members(group: gossamer.SyncGroup, number: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while len(group.members()) != number:
        assert time.monotonic() < end, f"{group.members()} instead of {number}"
        time.sleep(0.01)


def test_what_is_published_is_printed():
    place = settings()
    with processes() as start, gossamer.join_sync(GROUP, place) as here:
        as_json = start(place, "sub", GROUP, "q.>", "--where", "price > 100", "--count", "2", "--json")
        as_text = start(place, "sub", GROUP, "--count", "4")
        wait_for_members(here, 3)
        here.publish("q.a", b"99", price=99)
        here.publish("other", b"x", price=500)
        here.publish("q.b", b"\xff\x00", price=101.5, note="a b")
        published = start(place, "pub", GROUP, "q.c", "text", "-a", "price=200", "--wait", "3", "--json")
        status, out, err = as_json.wait()
        assert (status, err) == (0, "")
        binary, text = lines(out)
        assert binary["payload_base64"] == "/wA="
        assert binary["attributes"] == {"price": 101.5, "note": "a b"}
        assert binary["sender"] == here.me
        assert (text["subject"], text["payload"]) == ("q.c", "text")
        assert as_text.wait()[1].splitlines() == [
            "q.a 99 price=99",
            "other x price=500",
            "q.b \\xff\x00 price=101.5 note=a b",
            "q.c text price=200",
        ]
        status, out, _ = published.wait()
        assert (status, json.loads(out)["published"]) == (0, 1)


def test_lines_of_standard_input_become_events_even_if_the_last_one_has_no_newline():
    place = settings()
    with processes() as start, gossamer.join_sync(GROUP, place) as here:
        heard = here.subscribe(">")
        publisher = start(place, "pub", GROUP, "line", "--stdin", "--wait", "1")
        assert publisher.popen.stdin is not None
        publisher.popen.stdin.write(b"one\n\nthree\n" + b"x" * 200_000 + b"\nlast")
        publisher.popen.stdin.close()
        publisher.popen.stdin = None
        got = [heard.get(timeout=PATIENCE_S).payload for _ in range(5)]
        assert got == [b"one", b"", b"three", b"x" * 200_000, b"last"]
        assert publisher.popen.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("words", [("sub",), ("pub", "line", "--stdin")])
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_a_clean_goodbye(words, by):
    place = settings()
    with processes() as start, gossamer.join_sync(GROUP, place) as here:
        process = start(place, words[0], GROUP, *words[1:])
        wait_for_members(here, 2)
        process.signal(by)
        status, _, err = process.wait(10.0)  # within a second, on a machine that does nothing else
        assert status == (0 if words[0] == "sub" and by == signal.SIGTERM else 130)  # that is how a service ends
        assert "Traceback" not in err
        wait_for_members(here, 1)


def test_sub_ends_quietly_when_its_reader_goes_away():
    place = settings()
    with processes() as start, gossamer.join_sync(GROUP, place) as here:
        process = start(place, "sub", GROUP)
        wait_for_members(here, 2)
        assert process.popen.stdout is not None
        process.popen.stdout.close()
        process.popen.stdout = None
        here.publish("n", b"1")
        _, _, err = process.wait()
        assert err == ""
        wait_for_members(here, 1)


def test_stats_and_members_are_asked_over_the_network():
    place = settings(name="the one here")
    with gossamer.join_sync(GROUP, place) as here:
        here.publish("n", b"1")
        here.flush()
        status, out, _ = gossamer_says("stats", GROUP, "--json", "--wait", "2", "--address", place.address)
        (profile,) = json.loads(out)
        assert (status, profile["name"], profile["stats"]["published"]) == (0, "the one here", 1)
        status, out, _ = gossamer_says("members", GROUP, "--wait", "1", "--address", place.address, COLUMNS="200")
        assert status == 0
        assert "the one here" in out
        assert str(here.me) in out
        assert len(here.members()) == 1  # who asks is no member
    status, out, err = gossamer_says("stats", GROUP, "--wait", "0.1", "--address", place.address)
    assert (status, out) == (1, "")
    assert "nobody" in err


def test_partitions_show_who_coordinates_whom():
    place = settings(protocol="redelivery")
    where = ("--address", place.address, "--json")
    with gossamer.join_sync(GROUP, place) as here, gossamer.join_sync(GROUP, place) as there:
        wait_for_members(here, 2)
        end = time.monotonic() + PATIENCE_S
        while here.stats()["partition"]["coordinator"] != there.stats()["partition"]["coordinator"]:
            assert time.monotonic() < end
            time.sleep(0.05)
        status, out, _ = gossamer_says("partitions", GROUP, *where)
        (side,) = json.loads(out)
        assert status == 0
        assert {member["member"] for member in side["members"]} == {here.me, there.me}
        assert side["coordinator"]["member"] == min(here.me, there.me)
        assert side["absent"] == []


def test_partitions_of_a_group_without_coordinators_say_so():
    place = settings()
    with gossamer.join_sync(GROUP, place):
        status, out, _ = gossamer_says("partitions", GROUP, "--address", place.address)
        assert (status, out.strip()) == (0, f"group {GROUP} has no coordinators: its protocol is rpbcast")


def test_who_buffers_names_those_that_keep_a_packet_and_says_if_there_is_none():
    place = settings(tuning={"buffering": "hashed", "bufferers": 5}, name="publisher")
    where = ("--address", place.address)
    with gossamer.join_sync(GROUP, place) as here:
        packet = here.publish("q.a", b"99")
        here.flush()
        status, out, _ = gossamer_says("who-buffers", GROUP, str(packet.sender), str(packet.seqno), *where, "--json")
        found = json.loads(out)
        assert (status, found["exists"], found["hashed"]) == (0, True, True)
        one = {"member": here.me, "member_id": str(here.me), "name": "publisher", "has": True, "keeps": True}
        assert found["bufferers"] == [one]
        status, out, err = gossamer_says("who-buffers", GROUP, "publisher", str(packet.seqno), *where)
        assert (status, err) == (0, "")
        assert "publisher" in out
        status, out, err = gossamer_says("who-buffers", GROUP, "publisher", "77777", *where)
        assert (status, out) == (1, "")
        assert "there is no packet 77777: the last packet of sender" in err
        status, out, err = gossamer_says("who-buffers", GROUP, "nobody", "0", *where, "--wait", "0.3")
        assert status == 1
        assert "'nobody' is no member's name" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("pub", "g", "bad subject"), "subject 'bad subject'"),
        (("pub", "g", ""), "subject ''"),
        (("pub", "g", "x", "-a", "n=1" + 30 * "0"), "beyond 64 bits"),
        (("pub", "g", "x", "-a", "1x=3"), "must look like price=101.5"),
        (("sub", "g", ">.x"), "pattern '>.x'"),
        (("sub", "g", "--where", "price >"), "expected an attribute"),
        (("sub", "g", "--start", "yesterday"), "--start 'yesterday'"),
        (("sub", "g", "--stats", "/no/such/place"), "there is no directory"),
        (("sub", "g", "--interface", "no such"), "only 127.0.0.1 is allowed"),
        (("pub", "g", "x", "--key", "abc"), "a key has 32 bytes"),
        (("pub", "g", "x", "--impair", "loss=3"), "loss = 3.0"),
        (("pub", "g", "x", "--count", "0"), "--count"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(words, says):
    status, out, err = gossamer_says(*words)
    assert (status, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1


def test_in_a_group_without_a_channel_map_all_rules_of_a_new_one_would_be_added(tmp_path: Path):
    file = tmp_path / "map.toml"
    file.write_text('version = 1\nchannels = 2\n[[rule]]\npattern = "x.>"\nchannel = 1\n')
    address = {"GOSSAMER_ADDRESS": settings().address}

    assert gossamer_says("channels", "diff", GROUP, str(file), **address) == (1, "+ x.> -> 1\n", "")
    status, out, _ = gossamer_says("channels", "diff", GROUP, str(file), "--json", **address)
    assert (status, json.loads(out)["from"], json.loads(out)["added"]) == (1, None, [["x.>", 1]])
