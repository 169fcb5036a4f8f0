"""Answers to probes: what a member tells anybody who asks, but not too often, and not more than can be abused."""

from collections import Counter
from collections.abc import Callable

from gossamer.core.questions import Probe, Profile, WhoKeeps
from gossamer.live.envelope import Envelope
from gossamer.live.transport import Address, Transport
from gossamer.wire import size as encoded_size

Question = Probe | WhoKeeps

_PROFILES_PER_S = 20
_ANSWER_TIMES = 3
"""An answer to anybody is at most this many times as long as the question."""


class Answers:
    """The profile of one member, to be told; an empty one is not, because the member is still joining."""

    def __init__(
        self, transport: Transport, envelope: Envelope, profile: Callable[[Question], bytes], stats: Counter[str]
    ) -> None:
        self._transport = transport
        self._envelope = envelope
        self._profile = profile
        self._stats = stats
        self._next_at = 0.0

    def answer(self, now: float, probe: Question, address: Address) -> None:
        """Answer a probe with our profile, or with what we know of a packet, unless there were too many."""
        aloud = isinstance(probe, Probe) and probe.aloud
        self._next_at = max(self._next_at + 1 / _PROFILES_PER_S, now - 1)
        if self._next_at > now:
            return
        told = b"{}" if aloud else self._profile(probe)
        if not told:
            return
        answer = self._envelope.close(Profile(probe.nonce, told))
        if not self._envelope.is_sealed and len(answer) > _ANSWER_TIMES * encoded_size(probe):
            self._stats["probes too short to be answered"] += 1
        elif aloud:
            self._transport.send_to_group([answer])
        else:
            self._transport.send_to([answer], address)
