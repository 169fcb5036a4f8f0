"""Which counters of one sealer were seen: a window of bits that slides up with the highest (after RFC 6479).

The bits are a ring of bytes; moving up clears whole bytes, so that the usual step, one counter further, costs next to
nothing, and the memory never changes. A counter below the window may never have been seen, but is refused all the same.
"""

from typing import Final, Literal

Refusal = Literal["replayed", "too old"]


class ReplayWindow:
    """The counters seen by one receiver of one sealer."""

    __slots__ = ("_bits", "_bytes", "_top", "following")

    def __init__(self, size: int) -> None:
        """`size` in counters is a power of two, at least 64; up to 7 fewer are remembered."""
        if size < 64 or size & (size - 1):
            raise ValueError(f"a window of {size} counters: must be a power of two, and at least 64")
        self._bytes: Final = size >> 3
        self._bits: Final = bytearray(self._bytes)
        self._top = -1
        self.following = 0
        """The counter after the highest seen: from here on nothing is refused."""

    def base(self, low: int, span: int) -> int:
        """What to add to a counter of which we have only the part below `span`, to be as near to the highest as can be.

        Also below 0, if fewer than `span` were counted since we listen.
        """
        top = self._top << 3
        base = top - top % span
        ahead = base + low - top
        return base - span if ahead > span // 2 else base + span if ahead < -span // 2 else base

    def refuses(self, counter: int) -> Refusal | None:
        """Why a datagram with this counter must not be taken, or None. Nothing changes: it may yet be a forgery."""
        at = counter >> 3
        if at > self._top:
            return None
        if at <= self._top - self._bytes:
            return "too old"
        return "replayed" if self._bits[at & self._bytes - 1] >> (counter & 7) & 1 else None

    def mark(self, counter: int) -> None:
        """Remember a counter that was not refused, now that its datagram is authentic."""
        at = counter >> 3
        if at > self._top:
            self._clear(self._top + 1, min(at - self._top, self._bytes))
            self._top = at
        self._bits[at & self._bytes - 1] |= 1 << (counter & 7)
        if counter >= self.following:
            self.following = counter + 1

    def mark_all(self, first: int, following: int) -> None:
        """Remember all counters from `first` up to and without `following`, none of which was refused.

        Where packets are lost these are few each time, and a step for each of them would be most of the work.
        """
        if first >= following:
            return
        at, last = first >> 3, following - 1 >> 3
        if last > self._top:
            self._clear(self._top + 1, min(last - self._top, self._bytes))
            self._top = last
        if following > self.following:
            self.following = following
        begins, ends = 0xFF << (first & 7) & 0xFF, 0xFF >> (~(following - 1) & 7)
        bits, mask = self._bits, self._bytes - 1
        if at == last:
            bits[at & mask] |= begins & ends
            return
        oldest = last - mask  # what came before is below the window by now
        if at >= oldest:
            bits[at & mask] |= begins
        for whole in range(max(at + 1, oldest), last):
            bits[whole & mask] = 0xFF
        bits[last & mask] |= ends

    def _clear(self, first: int, count: int) -> None:
        first &= self._bytes - 1
        upper = min(count, self._bytes - first)
        self._bits[first : first + upper] = bytes(upper)
        self._bits[: count - upper] = bytes(count - upper)
