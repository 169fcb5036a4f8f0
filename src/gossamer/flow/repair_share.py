"""The share of a sender's rate that goes to repairs.

What a member repairs crosses the same uplink as what it publishes, and most of the same paths. So while its own rate is
limited by a path, repairs take at most half of that rate, and what they take the first pass does without. A member that
publishes nothing, or less than it may, does not know what its path carries; those that ask do (`request_window`).
"""

from collections.abc import Callable

from gossamer.flow.bucket import Bucket

_SHARE = 0.5
_PACKET_BYTES = 1500


class RepairShare:
    """The budget of repairs beside a bucket; `is_limited` says whether the bucket's rate is what a path carries."""

    __slots__ = ("_is_limited", "_own", "_whole")

    def __init__(self, whole: Bucket, is_limited: Callable[[float], bool]) -> None:
        self._whole = whole
        self._own = Bucket(whole.rate)
        self._is_limited = is_limited

    def take(self, now: float, wanted: int) -> int:
        """How many of `wanted` packets may be sent at `now`; they are spent."""
        if not self._is_limited(now):
            return wanted
        budget = self._budget()
        room = budget.room(now)
        granted = min(wanted, int(room // _PACKET_BYTES) + 1) if room > 0 else 0
        budget.spend(granted * _PACKET_BYTES)
        self._whole.spend(granted * _PACKET_BYTES)
        return granted

    def when(self, now: float) -> float:
        """When the next packet may be sent."""
        return now + self._budget().wait(now) if self._is_limited(now) else now

    def _budget(self) -> Bucket:
        self._own.rate = _SHARE * self._whole.rate
        return self._own
