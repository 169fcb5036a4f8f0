"""Answers to those who ask: a member's profile, or what it knows of one packet (`gossamer who-buffers`)."""

import json
from collections.abc import Callable
from typing import Any

from gossamer.core.questions import WhoKeeps
from gossamer.core.ranges import RangeSet
from gossamer.live.answers import Question
from gossamer.stack import Stack


def answer_to(question: Question, stack: Stack, profile: Callable[[], dict[str, Any]]) -> bytes:
    """What a member answers to anybody who asks how it is, or what it knows of a packet: JSON."""
    if not isinstance(question, WhoKeeps):
        return json.dumps(profile()).encode()
    return json.dumps({"member": stack.me, **standing_of(stack, question.sender, question.seqno)}).encode()


def standing_of(stack: Stack, sender: int, seqno: int) -> dict[str, Any]:
    """`last` is the last packet of the sender that the member knows of; None if it has never heard of the sender.

    `bufferers` are those that should keep the packet for long, None if everybody keeps alike.
    """
    stream = stack.streams.get(sender)
    one = RangeSet.span(seqno, seqno)
    known = stream is not None or stack.streams.is_retired(sender)
    return {
        "buffering": stack.settings.buffering,
        "last": (stack.streams.prefix_of(sender) if stream is None else stream.next - 1) if known else None,
        "has": stream.has(seqno) if stream is not None else stack.streams.is_retired(sender, seqno),
        "keeps": any(not keeper.on_disk and keeper.kept_of(sender, one) for keeper in stack.keepers),
        "logged": any(keeper.on_disk and keeper.kept_of(sender, one) for keeper in stack.keepers),
        "never_sent": stream is not None and stream.never_sent is not None and seqno in stream.never_sent,
        "bufferers": stack.buffer.bufferers_of(sender, seqno),
    }
