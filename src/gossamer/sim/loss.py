"""Ways to lose packets: independent losses, drawn by jumping to the next one, and bursts.

A loss of probability p hits a sequence of trials at geometric distances. Drawing the distance instead of a
number per trial makes a million lossless crossings cost nothing.
"""

from math import inf, log
from random import Random


class LossSampler:
    """Independent losses of one probability over a sequence of trials."""

    __slots__ = ("_log_keep", "_rng", "until")

    def __init__(self, probability: float, rng: Random) -> None:
        self._rng = rng
        self._log_keep = log(1.0 - probability) if probability > 0 else 0.0
        self.until = self._draw()

    def _draw(self) -> float:
        """Trials that pass before the next loss: P(k) = (1 - p)^k p."""
        if self._log_keep == 0.0:
            return inf
        return int(log(1.0 - self._rng.random()) / self._log_keep)

    def one(self) -> bool:
        """Whether the next single trial is a loss."""
        if self.until:
            self.until -= 1
            return False
        self.until = self._draw()
        return True

    def hits(self, trials: int) -> list[int]:
        """Which of the next `trials` trials are losses, ascending."""
        if self.until >= trials:
            self.until -= trials
            return []
        found = []
        at = self.until
        while at < trials:
            found.append(int(at))
            self.until = self._draw()
            at += 1 + self.until
        self.until = at - trials
        return found


class Burst:
    """Gilbert-Elliott at one receiver: in the bad state everything is lost."""

    __slots__ = ("_bad", "_rng", "_to_bad", "_to_good")

    def __init__(self, to_bad: float, to_good: float, rng: Random) -> None:
        self._to_bad, self._to_good, self._rng = to_bad, to_good, rng
        self._bad = False

    def one(self) -> bool:
        """Whether the next packet is lost."""
        change = self._to_good if self._bad else self._to_bad
        if self._rng.random() < change:
            self._bad = not self._bad
        return self._bad
