"""The order of a subject that moves from one channel to another: what comes by the new one waits for the old one.

A publisher says in the first packet to a channel, after a change of the map, how far its streams in the others were
(`wire.switches`). What follows in that stream waits until the others were handed over up to there, as far as this
member listens to them. What may wait is bounded in bytes; beyond that it waits no longer.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

from gossamer.core.effects import ReportLost
from gossamer.core.ids import Phase, owner_of, stream_of
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Run, memory_of
from gossamer.wire.codec import WireError
from gossamer.wire.events import is_switch
from gossamer.wire.switches import unpack_switch

_HELD_BYTES_MAX = 64 << 20


class Switches:
    """Streams that wait for others of the same publisher."""

    def __init__(self, hears: Callable[[int], bool], handed_over: Callable[[], Horizon], stats: Counter[str]) -> None:
        self._hears = hears
        self._handed_over = handed_over  # by stream: everything below was
        self._stats = stats
        self._waits: dict[int, Horizon] = {}  # by stream: the streams that it waits for, and up to which number
        self._held: dict[int, list[Callable[[], None]]] = {}
        self._bytes = 0
        self._moved = self._releasing = False

    def pass_on(self, run: Run, phase: Phase, deliver: Callable[[Run, Phase], None]) -> Run:
        """What of a run may be handed over now; `deliver` is called with the rest when its turn comes."""
        stream = run[0].sender
        if stream in self._waits:
            self._hold(stream, run, phase, deliver)
            return []
        for at, packet in enumerate(run):
            if is_switch(packet.body) and (after := self._after(stream, packet.body)):
                self._waits[stream] = after
                if run[at + 1 :]:
                    self._hold(stream, run[at + 1 :], phase, deliver)
                return run[: at + 1]
        return run

    def holds(self, effect: ReportLost, report: Callable[[ReportLost], None]) -> bool:
        """Whether a loss has to wait like the packets of its stream; then `report` is called with it in its turn."""
        if effect.sender not in self._waits:
            return False
        self._held.setdefault(effect.sender, []).append(partial(report, effect))
        return True

    def went_on(self) -> None:
        """More was handed over: streams that waited for that go on, and others after them."""
        self._moved = True
        while self._moved and not self._releasing:
            self._moved = False
            marks = self._handed_over() if self._waits else {}
            for stream, after in list(self._waits.items()):
                left = {s: last for s, last in after.items() if marks.get(s, 0) <= last and self._hears(s)}
                if not left or self._bytes > _HELD_BYTES_MAX:
                    self._stats["order across channels given up"] += bool(left)
                    self._release(stream)
                else:
                    self._waits[stream] = left

    def _after(self, stream: int, body: bytes) -> Horizon:
        try:
            lasts = unpack_switch(body)
        except WireError:
            return {}
        owner, marks = owner_of(stream), self._handed_over()
        streams = {stream_of(owner, channel): last for channel, last in lasts.items()}
        return {s: last for s, last in streams.items() if s != stream and self._hears(s) and marks.get(s, 0) <= last}

    def _hold(self, stream: int, run: Run, phase: Phase, deliver: Callable[[Run, Phase], None]) -> None:
        self._bytes += memory_of(run)
        self._held.setdefault(stream, []).append(partial(self._deliver, run, phase, deliver))

    def _deliver(self, run: Run, phase: Phase, deliver: Callable[[Run, Phase], None]) -> None:
        self._bytes -= memory_of(run)
        deliver(run, phase)

    def _release(self, stream: int) -> None:
        """What is handed over may move others on: that is looked at afterwards (`went_on`)."""
        del self._waits[stream]
        self._releasing = True
        try:
            for go in self._held.pop(stream, []):
                go()
        finally:
            self._releasing = False
