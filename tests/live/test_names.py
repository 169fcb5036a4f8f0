"""People read names, not numbers of 63 bits: in events, notices, tables, and beside the numbers in JSON."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest

import gossamer
from gossamer.cli.ids import with_ids
from gossamer.cli.sub import as_line
from gossamer.core.effects import HandLetter
from gossamer.core.messages import MemberEntry
from gossamer.live import name_log, names
from gossamer.live.logger_group import logger
from gossamer.live.mail import NAMES
from gossamer.live.probe import probe
from gossamer.wire.fields import ENTRY
from tests.live.members import GROUP, run, settings, until


def test_what_nobody_knows_the_sender_of_has_no_number_for_a_name():
    lost = gossamer.Lost(-1, -1, -1, "no logger answered: nothing from before")
    assert lost.source == "nobody known"
    assert as_line(lost, as_json=False) == "lost: no logger answered: nothing from before"
    assert as_line(lost._replace(sender=7, first=1, last=2), as_json=False).startswith("lost 1..2 of 7: ")


def test_of_a_long_payload_an_event_shows_the_beginning():
    event = gossamer.Event("a", b"x" * 5_000_000, {}, 1, 2, 3.0)
    assert len(repr(event)) < 400
    assert repr(event).endswith("... (5,000,000 bytes), attributes={}, sender=1, seqno=2, time=3.0)")
    assert repr(event._replace(payload=b"5")) == (
        "Event(subject='a', payload=b'5', attributes={}, sender=1, seqno=2, time=3.0)"
    )


def test_an_event_says_what_its_sender_is_called():
    async def story():
        shared = settings()
        names._names.clear()  # both members are in this process, and would know each other
        async with (
            gossamer.join(GROUP, replace(shared, name="billing-1")) as group,
            gossamer.join(GROUP, replace(shared, name="Ärger")) as other,
        ):
            names._names.clear()
            await until(lambda: len(group.members()) == 2)
            heard = group.subscribe(">")
            await until(lambda: group.name_of(other.me) == "Ärger" or (other.publish("poke") and False))
            other.publish("a", b"1")
            events = [await anext(heard)]
            while events[-1].subject != "a":
                events.append(await anext(heard))
            assert events[-1].source == "Ärger"
            assert pickle.loads(pickle.dumps(events[-1])) == events[-1]
            assert events[-1].sender == other.me

    run(story())


def test_a_name_crosses_between_processes():
    shared = settings(name="listens")
    script = (
        "import gossamer, sys; sys.stdin.readline()\nwith gossamer.join_sync(sys.argv[1]) as g: g.publish('a', b'1')"
    )
    env = os.environ | {"GOSSAMER_ADDRESS": shared.address, "GOSSAMER_NAME": "talks"}
    with gossamer.join_sync(GROUP, shared) as group:
        heard, notices = group.subscribe("a"), group.notices()
        subprocess.run([sys.executable, "-c", script, GROUP], env=env, check=True, timeout=60)
        event = heard.get(30)
        assert (event.source, group.name_of(event.sender)) == ("talks", "talks")
        assert notices.get(10).text == "talks is a member"
        assert notices.get(10).text == "member talks has left"


def test_a_member_that_never_said_its_name_is_called_by_its_number():
    assert names.name_of(7) == "7"
    names.learn(7, "seven\n")
    names.learn(7, "")
    names.learn(7, "x" * 101)
    assert names.name_of(7) == "7"


def test_the_table_of_names_is_bounded(monkeypatch):
    monkeypatch.setattr(names, "_names", {})
    monkeypatch.setattr(names, "NAMES_MAX", 3)
    for n in range(5):
        names.learn(n, f"n{n}")
    assert names._names == {2: "n2", 3: "n3", 4: "n4"}


def test_an_entry_without_a_name_is_written_as_it_was_before_there_were_names():
    out = bytearray()
    ENTRY.put(out, MemberEntry(5, 1, 9, True, "1.2.3.4:5"))
    assert bytes(out) == b"\x05\x03\x09\x091.2.3.4:5"


def test_numbers_in_json_have_a_string_beside_them():
    number = 2**62 + 1
    told = with_ids({"member": number, "stats": {"lagging": [number], "sent": 3}, "members": [{"member": 4}]})
    assert told == {
        "member": number,
        "member_id": str(number),
        "stats": {"lagging": [number], "lagging_ids": [str(number)], "sent": 3},
        "members": [{"member": 4, "member_id": "4"}],
    }


def test_live_commands_print_ids_as_strings_and_names():
    shared = settings(name="talks")
    env = os.environ | {"GOSSAMER_ADDRESS": shared.address}
    command = [sys.executable, "-m", "gossamer"]
    with gossamer.join_sync(GROUP, shared) as group:
        for name in ("stats", "members"):
            done = subprocess.run([*command, name, GROUP, "--json"], env=env, capture_output=True, timeout=60)
            (told,) = json.loads(done.stdout)
            assert (told["member_id"], told["members_ids"]) == (str(group.me), [str(group.me)])
        sub = subprocess.Popen([*command, "sub", GROUP, "--json", "--count", "1"], env=env, stdout=subprocess.PIPE)
        while len(group.members()) < 2:
            pass
        group.publish("a", b"1")
        told = json.loads(sub.communicate(timeout=60)[0])
        assert (told["source"], told["sender_id"]) == ("talks", str(group.me))


def test_groups_and_subscriptions_say_what_they_are():
    async def story():
        shared = settings(name="billing-1")
        group = gossamer.join("quotes", shared)
        assert repr(group) == f"<Group 'quotes' at {shared.address}, not joined>"
        async with group:
            assert repr(group) == f"<Group 'quotes' at {shared.address}, 'billing-1', 1 member>"
            heard = group.subscribe("a.*")
            group.publish("a.b", b"1")
            await asyncio.sleep(0.05)
            assert repr(heard) == "<Subscription to 'a.*', open, 1 waiting>"
            heard.close()
            assert "closed" in repr(heard)
        assert repr(group).endswith("'billing-1', left>")

    run(story())


def test_groups_and_subscriptions_say_what_they_are_without_asyncio():
    shared = settings(name="billing-1")
    with gossamer.join_sync("quotes", shared) as group:
        assert repr(group) == f"<SyncGroup 'quotes' at {shared.address}, 'billing-1', 1 member>"
        assert repr(group.subscribe("a")) == "<SyncSubscription to 'a', open, 0 waiting>"


def test_a_member_that_is_still_joining_does_not_answer_and_has_no_error():
    async def story():
        shared = settings()
        group = gossamer.join(GROUP, shared)
        joining = asyncio.create_task(group.__aenter__())
        while not joining.done():
            await probe(GROUP, shared, wait=0.02)
        await joining
        assert group.stats()["dropped"].get("faults", 0) == 0
        assert [told["name"] for told in await probe(GROUP, shared, wait=1.0)] == [shared.name]
        await group.close()

    run(story())


_PUBLISHES = (
    "import gossamer, sys\n"
    "with gossamer.join_sync(sys.argv[1]) as g:\n"
    "    while not g.loggers(): pass\n"
    "    g.publish('a', b'1'); g.flush(30)"
)
_READS = (
    "import gossamer, sys\n"
    "with gossamer.join_sync(sys.argv[1]) as g:\n"
    "    while not g.loggers(): pass\n"
    "    print(g.subscribe('a', start=sys.argv[2]).get(30).source)"
)


def _in_a_process(script: str, *arguments: str, **env: str) -> str:
    command = [sys.executable, "-c", script, GROUP, *arguments]
    done = subprocess.run(command, env=os.environ | env, check=True, timeout=60, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_log_knows_what_a_publisher_was_called_that_left_before_anybody_asked(tmp_path, monkeypatch):
    """Also after the logger was started again, by another process: here it forgets what it knew.

    It does not look for names by itself in so short a life: one that is told to a reader is kept like any other.
    """
    monkeypatch.setattr(name_log, "_LOOK_S", 3600.0)

    async def story():
        shared = settings(name="keeps")
        env = {"GOSSAMER_ADDRESS": shared.address}
        for life in range(2):
            async with logger(GROUP, tmp_path / "log", shared):
                if not life:
                    await asyncio.to_thread(_in_a_process, _PUBLISHES, **env, GOSSAMER_NAME="talked")
                for start in ("beginning", "latest-per-subject"):
                    assert await asyncio.to_thread(_in_a_process, _READS, start, **env) == "talked"
            names._names.clear()

    run(story())


def test_a_reader_of_the_past_that_leaves_at_once_asks_nobody_any_more(tmp_path, caplog):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared):
            async with gossamer.join(GROUP, shared) as group:
                await until(lambda: bool(group.loggers()))
                group.subscribe(">", start="beginning")
            await asyncio.sleep(0.4)

    run(story())
    assert "error" not in caplog.text


@pytest.mark.parametrize("number", ["\u00b2", "9" * 5000, "-1", "x", ""])
def test_a_logger_that_tells_names_of_no_numbers_teaches_nothing_and_breaks_nothing(number):
    async def story():
        shared = settings()
        async with gossamer.join(GROUP, shared) as group:
            asked = group._names
            asked._awaited.add(7)
            before = names.known()
            group._mail.read(HandLetter(7, NAMES, json.dumps({"names": {number: "liar"}}).encode()))
            assert names.known() == before
            assert not asked._awaited

    run(story())


def test_a_logger_keeps_as_many_names_in_memory_as_in_its_store(tmp_path):
    async def story():
        shared = settings()
        async with logger(GROUP, tmp_path / "log", shared) as keeper, gossamer.join(GROUP, shared) as group:
            group.publish("a", b"1")
            await group.flush(30)
            log = keeper._name_log
            log._kept = dict.fromkeys(range(2000), "n" * 60)
            await until(lambda: len(log._kept) < 2000)
            assert group.me in log._kept

    run(story())
