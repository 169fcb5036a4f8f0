"""How many packets may be on the way where a queue is so short that it overflows before its delay shows.

A queue that overflows drops a part of what an answer brings; a bad line does so, too. The difference is that what a
line loses does not depend on how much is asked for. So when more is missing than usual, the window is cut to what did
come. If less is missing then, it was the queue: the window is kept there and grows slowly. If as much is missing as
before, it was the line, and that much is usual.

Only answers that came in part are looked at. Where nothing came, the request was lost, or the member that was asked had
nothing to send. And what is only late is not missing (`answers`).
"""

from math import inf

_SAMPLE = 128
"""Packets that were asked for, before their loss is judged: of fewer, chance decides."""
_EXCESS, _EXCESS_WAITING = 0.12, 0.05
"""A share that is missing beyond what is usual, and that is no chance any more; where answers wait in a queue, less."""
_MARGIN = 0.9
_RISE = 1.005
"""With every change of the window: the path may be wider by then, or others may have left it."""
SPARE, _SPARE_MIN = 20, 2
"""Packets that may wait on the way: 30 KB, if they are as long as Ethernet allows. Less where a queue was too short for
that, because others ask, too."""


class Overflow:
    """The limit that losses set to a window; `spare` is how many packets of ours may wait on the way."""

    __slots__ = ("_before", "_ceiling", "_cut_at", "_missing", "_of", "_usual", "spare")

    def __init__(self) -> None:
        self.spare = SPARE
        self._ceiling = inf
        self._of = self._missing = 0
        self._usual = 0.0  # the share that the line loses
        self._before: float | None = None  # the share that was missing when the window was cut, if that was just now
        self._cut_at = -inf

    def answered(
        self, now: float, asked_at: float, asked: int, missing: int, size: int, *, waiting: bool = False
    ) -> bool:
        """Of `asked` packets in one request so many have not come; returns whether the window, of `size`, was cut.

        `waiting`: whether answers have waited somewhere.
        """
        if missing >= asked or asked_at < self._cut_at:
            return False
        self._of += asked
        self._missing += missing
        if self._of < _SAMPLE:
            return False
        share, self._of, self._missing = self._missing / self._of, 0, 0
        return self._judge(now, share, self._usual + (_EXCESS_WAITING if waiting else _EXCESS), size)

    def _judge(self, now: float, share: float, tolerated: float, size: int) -> bool:
        if self._before is not None and share > self._before / 2:  # it did not help: the line is bad
            tolerated += max(0.0, share - self._usual)
            self._usual = max(self._usual, share)
            self._ceiling, self.spare = inf, min(SPARE, 2 * self.spare)
        cut = share > tolerated
        self._before = share if cut else None
        if cut:
            self._ceiling = _MARGIN * (1 - share) * size
            self.spare = max(_SPARE_MIN, self.spare // 2)
            self._cut_at = now
        return cut

    def within(self, size: float) -> float:
        """As much of `size` as does not overflow the queue, as far as we know."""
        self._ceiling *= _RISE
        return min(size, self._ceiling)

    def forget(self) -> None:
        """The line may be another by now."""
        self._usual = 0.0
