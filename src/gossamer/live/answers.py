"""Answers to probes: what a member tells anybody who asks, but not too often, and not more than can be abused."""

from collections import Counter
from collections.abc import Callable

from gossamer.core.messages import Probe, Profile
from gossamer.live.envelope import Envelope
from gossamer.live.transport import Address, Transport
from gossamer.wire import size as encoded_size

_PROFILES_PER_S = 20
_ANSWER_TIMES = 3
"""An answer to anybody is at most this many times as long as the question."""


class Answers:
    """The profile of one member, to be told."""

    def __init__(
        self, transport: Transport, envelope: Envelope, profile: Callable[[], bytes], stats: Counter[str]
    ) -> None:
        self._transport = transport
        self._envelope = envelope
        self._profile = profile
        self._stats = stats
        self._next_at = 0.0

    def answer(self, now: float, probe: Probe, address: Address) -> None:
        """Answer a probe with our profile, unless there were too many."""
        self._next_at = max(self._next_at + 1 / _PROFILES_PER_S, now - 1)
        if self._next_at > now:
            return
        answer = self._envelope.close(Profile(probe.nonce, b"{}" if probe.aloud else self._profile()))
        if not self._envelope.is_sealed and len(answer) > _ANSWER_TIMES * encoded_size(probe):
            self._stats["probes too short to be answered"] += 1
        elif probe.aloud:
            self._transport.send_to_group([answer])
        else:
            self._transport.send_to([answer], address)
