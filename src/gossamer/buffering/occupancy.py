"""How full a buffer is over time, exactly and cheaply.

The time integral of a count is the sum, over everything that was in, of leaving time minus entering time; so it
is enough to add up entering times, and nothing needs to be done while time passes.
"""


class Occupancy:
    """Count, peak and mean of what is in a buffer."""

    __slots__ = ("_area", "count", "peak")

    def __init__(self) -> None:
        self.count = 0
        self.peak = 0
        self._area = 0.0

    def entered(self, count: int, entering_time_sum: float) -> None:
        """`count` packets are in, whose entering times add up to `entering_time_sum`."""
        self.count += count
        self._area -= entering_time_sum
        if self.count > self.peak:
            self.peak = self.count

    def left(self, now: float, count: int) -> None:
        """`count` packets left at `now`."""
        self.count -= count
        self._area += count * now

    def exchanged(self, now: float, came: int, went: int) -> None:
        """At `now` `went` packets left for `came` others."""
        self.count += came - went
        self._area += (went - came) * now
        if self.count > self.peak:
            self.peak = self.count

    def so_far(self, now: float, entering: int = 0, entering_time_sum: float = 0.0) -> tuple[int, float]:
        """The peak, and the mean count until `now`, counting in what has entered and was not told yet."""
        count = self.count + entering
        area = self._area - entering_time_sum + count * now
        return max(self.peak, count), area / now if now > 0 else float(count)
