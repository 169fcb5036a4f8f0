"""Whatever is passed in the wrong place is refused with an error of ours that says what to pass instead."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import gossamer
from tests.live.members import GROUP, joined, run, settings

NO_TIMES = ["1", b"1", [1], True, float("nan")]
WRONG = (gossamer.WrongType, gossamer.WrongValue)


async def called(call: Any) -> None:
    """Make the call, whatever it returns."""
    outcome = call()
    if inspect.isasyncgen(outcome):
        async for _ in outcome:
            pass
    elif inspect.isawaitable(outcome):
        await outcome
    elif inspect.isgenerator(outcome):
        list(outcome)


def waits(group: Any) -> list[Any]:
    """Every call that waits."""
    events, notices = group.subscribe("nothing"), group.notices()
    packet = group.publish("a")
    return [
        group.close,
        group.flush,
        lambda timeout: group.stable(packet, timeout),
        lambda timeout: group.request("a", timeout=timeout),
        lambda timeout: group.request_many("a", timeout=timeout),
        lambda timeout: group.channels_used(timeout=timeout),
        events.get,
        events.take,
        events.batches,
        events.caught_up,
        events.commit,
        notices.get,
    ]


@pytest.mark.parametrize("timeout", NO_TIMES, ids=repr)
def test_a_timeout_that_is_no_number_of_seconds_is_refused_by_every_call_that_waits(timeout):
    async def story() -> None:
        async with joined(1, settings()) as (group,):
            for wait in waits(group):
                with pytest.raises(WRONG, match="a timeout must be a number of seconds"):
                    await asyncio.wait_for(called(lambda wait=wait: wait(timeout)), 5)

    run(story())
    with gossamer.join_sync(GROUP, settings()) as group:
        for wait in waits(group):
            with pytest.raises(WRONG, match="a timeout must be a number of seconds"):
                list(wait(timeout) or ())


CALLS = [
    (lambda group: group.publish(["a"]), gossamer.WrongType, r"a subject must be a str, .* not list \['a'\]"),
    (lambda group: group.flush(copies="2"), gossamer.WrongType, "copies must be a whole number, not str '2'"),
    (lambda group: group.flush(copies=0), gossamer.WrongValue, "copies = 0: must be at least 1"),
    (lambda group: group.stable(5), gossamer.WrongType, "what publish returned, a packet, not int 5"),
    (lambda group: group.request_many("a", limit="2"), gossamer.WrongType, "limit must be a whole number"),
    (lambda group: group.request_many("a", limit=0), gossamer.WrongValue, "limit = 0: must be at least 1"),
    (lambda group: group.request("a", reply=5), gossamer.WrongValue, "call yours something else"),
    (lambda group: group.name_of("me"), gossamer.WrongType, "such as event.sender, not str 'me'"),
    (lambda group: group.reply("a", b""), gossamer.WrongType, "the event of a request, not str 'a'"),
    (lambda group: group.install_channels({}), gossamer.WrongType, "takes a gossamer.ChannelMap, not dict"),
    (lambda group: group.subscribe("a", queue_by="key"), gossamer.SettingError, "with queue=, which is not given"),
    (lambda group: group.subscribe("a", when_full=""), gossamer.SettingError, "when_full = '': must be 'pause'"),
]


@pytest.mark.parametrize(("call", "error", "says"), CALLS, ids=range(len(CALLS)))
def test_an_argument_that_cannot_be_meant_is_refused_with_what_to_pass(call, error, says):
    async def story() -> None:
        async with joined(1, settings()) as (group,):
            with pytest.raises(error, match=says):
                await called(lambda: call(group))

    run(story())
    with gossamer.join_sync(GROUP, settings()) as group, pytest.raises(error, match=says):
        asyncio.run(called(lambda: call(group)))


def test_an_attribute_that_an_application_calls_reply_does_not_make_a_request():
    async def story() -> None:
        async with joined(1, settings()) as (group,):
            heard = group.subscribe("chat")
            group.publish("chat", b"", reply="yes")
            with pytest.raises(gossamer.Misuse, match="asks for no reply"):
                (await heard.get(5)).reply(b"")

    run(story())


@pytest.mark.parametrize("nothing", [{}, "", [], 0], ids=repr)
def test_settings_that_are_none_are_refused_also_if_they_are_empty(nothing):
    for join in (gossamer.join, gossamer.join_sync):
        with pytest.raises(gossamer.WrongType, match=r"settings must be gossamer.Settings\(...\)"):
            join("quotes", nothing)


def test_a_setting_that_is_a_function_says_so():
    with pytest.raises(gossamer.SettingError, match="worth_repairing = 5: must be a function or left out"):
        gossamer.Settings(worth_repairing=5)


@pytest.mark.parametrize(("name", "value"), [("members", 1), ("loss", 2), ("rate", "fast"), ("members", None)])
def test_a_plan_that_cannot_be_made_is_a_setting_that_cannot_be(name, value):
    pytest.importorskip("scipy")
    with pytest.raises(gossamer.SettingError, match=f"{name} is {value!r}; allowed: "):
        gossamer.Settings.planned(**{"members": 10, "loss": 0.01, name: value})


@pytest.mark.parametrize("rules", [None, 5, ["a"], [("a",)], [5]], ids=repr)
def test_a_channel_map_of_no_rules_says_what_rules_are(rules):
    with pytest.raises(gossamer.ChannelMapError, match=r"rules must be a list of Rule\(pattern, channel\)"):
        gossamer.ChannelMap(1, 3, rules)


# A group that is not joined yet, or was left.


def test_a_blocking_group_that_was_not_joined_cannot_be_left_nor_one_be_joined_twice():
    group = gossamer.join_sync(GROUP, settings())
    with pytest.raises(gossamer.NotAMember, match="not in the group yet"):
        group.close()
    with group, pytest.raises(gossamer.NotAMember, match="join again for a new one"):
        group.__enter__()
    with pytest.raises(gossamer.NotAMember, match="join again for a new one"):
        group.__enter__()


def test_what_a_blocking_group_told_is_read_after_it_was_left_and_can_be_closed():
    shared = settings()
    with gossamer.join_sync(GROUP, shared) as group:
        notices, events = group.notices(), group.subscribe("a")
        with gossamer.join_sync(GROUP, shared):
            assert notices.get(timeout=10).kind == "member-joined"
            group.publish("a", b"1")
    assert {notice.kind for notice in notices} <= {"member-left", "member-suspected"}
    assert notices.get(timeout=1) is None
    assert group.is_over
    assert [event.payload for event in events] == [b"1"]
    notices.close()
    events.close()
