"""Every error has one base, can be caught under `gossamer`, and says what to do."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil

import pytest

import gossamer
from tests.live.members import GROUP, joined, run, settings

INTERNAL = {"BlockError", "SealError"}
"""Errors that never leave the package: a damaged block and a broken seal are counted."""


def errors_of_the_package() -> set[type[Exception]]:
    found = set()
    for module in pkgutil.walk_packages(gossamer.__path__, "gossamer."):
        if module.name.endswith("__main__"):
            continue
        for _, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(value, Exception) and value.__module__.startswith("gossamer."):
                found.add(value)
    return found


def test_every_error_of_the_package_is_a_gossamer_error_and_can_be_imported_from_it():
    errors = errors_of_the_package()

    assert len(errors) > 20
    assert {error.__name__ for error in errors if not issubclass(error, gossamer.Error)} == set()
    hidden = {error.__name__ for error in errors if getattr(gossamer, error.__name__, None) is not error}
    assert hidden == INTERNAL


def test_errors_keep_the_bases_that_a_python_programmer_expects():
    assert issubclass(gossamer.Timeout, TimeoutError)
    assert issubclass(gossamer.SettingError, ValueError)
    assert issubclass(gossamer.WrongType, TypeError)
    assert issubclass(gossamer.TransportError, OSError)
    assert issubclass(gossamer.NotAMember, RuntimeError)
    assert issubclass(gossamer.Unsent, RuntimeError)


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (5, r"must be bytes, not int 5: .* publish\(subject, value=5\)"),
        ("text", r"must be bytes, not str 'text': .* text\.encode\(\)"),
        (None, "must be bytes, not NoneType None"),
        ({"a": 1}, r"must be bytes, not dict .* json\.dumps"),
    ],
)
def test_a_payload_of_the_wrong_type_is_refused_with_what_to_pass(payload, says):
    async def story():
        async with joined(1, settings()) as (group,):
            for _ in range(2):  # the first event after a pause takes another way than those that follow it
                with pytest.raises(gossamer.WrongType, match=says):
                    group.publish("a", payload)
                group.publish("a", b"fine")
            with pytest.raises(gossamer.WrongType, match=says):
                await group.publish_many("a", [b"fine", payload])
            with pytest.raises(gossamer.WrongType, match="attribute 'x' is of type list"):
                group.publish("a", b"", x=[])
            with pytest.raises(gossamer.NotAnEvent, match="beyond 64 bits"):
                group.publish("a", b"", x=1 << 64)

    run(story())


@pytest.mark.parametrize("payloads", [5, b"abc", "abc", (b"%d" % n for n in range(3))])
def test_many_payloads_are_a_list(payloads):
    async def story():
        async with joined(1, settings()) as (group,):
            with pytest.raises(gossamer.WrongType, match="takes a list of payloads"):
                await group.publish_many("a", payloads)

    run(story())


def test_a_group_needs_a_name_and_settings():
    with pytest.raises(gossamer.WrongType, match="name must be a str, like 'quotes', not int 5"):
        gossamer.join(5)
    with pytest.raises(gossamer.SettingError, match="must not be empty"):
        gossamer.join("")
    with pytest.raises(gossamer.WrongType, match=r"must be gossamer.Settings\(...\), not dict"):
        gossamer.join("quotes", {"key": "x"})
    with pytest.raises(gossamer.WrongType, match="name must be a str"):
        gossamer.join_sync(5)


@pytest.mark.parametrize(
    ("patterns", "callback", "says"),
    [
        ((5,), None, r"a pattern must be a str, not int 5"),
        ((["a", "b"],), None, r"not list \['a', 'b'\]; pass several as subscribe\('a.\*', 'b.>'\)"),
        (("a", None), None, "not NoneType None"),
        (("a",), "print", "a callback must be a function that takes an event, not str 'print'"),
    ],
)
def test_a_subscription_with_the_wrong_types_is_refused_with_what_to_pass(patterns, callback, says):
    async def story():
        async with joined(1, settings()) as (group,):
            with pytest.raises(gossamer.WrongType, match=says):
                group.subscribe(*patterns, callback=callback)

    run(story())
    with gossamer.join_sync(GROUP, settings()) as group, pytest.raises(gossamer.WrongType, match=says):
        group.subscribe(*patterns, callback=callback)


def test_a_timeout_says_what_was_waited_for():
    async def story():
        async with joined(2, settings(durable=True, leave_timeout=0.0)) as (group, _):
            with pytest.raises(gossamer.Timeout, match=r"nothing came within 0.01 s"):
                await group.subscribe("a").take(0.01)
            group.publish("a", b"1")
            with pytest.raises(TimeoutError, match=r"no logger has acknowledged 1 packets after 0.01 s"):
                await group.flush(timeout=0.01)

    run(story())


def test_a_timeout_of_stable_names_the_packet():
    async def story():
        async with joined(2, settings(leave_timeout=0.0)) as (group, other):
            other.disconnect()  # it will be back, so it counts
            packet = group.publish("a", b"1")
            with pytest.raises(gossamer.Timeout, match=r"packet .*: not every member has confirmed it after 0.05 s"):
                await group.stable(packet, timeout=0.05)

    run(story())


def test_what_a_lone_member_published_is_stable_at_once():
    async def story():
        async with gossamer.join(GROUP, settings()) as group:
            await asyncio.wait_for(group.stable(group.publish("a", b"1")), 5)

    run(story())


@pytest.mark.parametrize("start", ["now", "new", "last"])
def test_three_words_mean_from_now_on(start):
    async def story():
        async with joined(1, settings()) as (group,):
            group.publish("a", b"before")
            await group.flush()
            heard = group.subscribe("a", start=start)
            group.publish("a", b"after")
            assert (await anext(heard)).payload == b"after"

    run(story())


def test_the_past_that_no_logger_knows_is_lost_before_what_came_since():
    async def story():
        async with joined(1, settings(tuning={"retry_period": 0.01})) as (group,):
            heard = group.subscribe("a", start="beginning")
            group.publish("a", b"after")
            assert "no logger answered" in (await anext(heard)).reason
            assert (await anext(heard)).payload == b"after"

    run(story())
