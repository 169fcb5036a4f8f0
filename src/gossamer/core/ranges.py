"""A set of sequence numbers kept as sorted, disjoint, non-touching ranges.

What a member has, lacks or may forget is almost always a few long ranges, so the cost of every operation
follows the number of ranges, not of numbers: a million ids in three ranges cost as much as three.
Ranges are inclusive, `(first, last)`, because that is how requests, losses and the wire speak of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from gossamer.core import varint

Range = tuple[int, int]


class RangeSet:
    """A mutable set of non-negative integers; `first..last` ranges in and out.

    `firsts` and `lasts` are for reading only. They are open because the hottest paths look at them: whether a list is
    empty is known without a call.
    """

    __slots__ = ("firsts", "lasts")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    @classmethod
    def span(cls, first: int, last: int) -> "RangeSet":
        """One range: what most sets are."""
        made = cls.__new__(cls)
        made.firsts, made.lasts = [first], [last]
        return made

    def add(self, first: int, last: int | None = None) -> None:
        """Put `first..last` (or `first` alone) in, joining what it touches."""
        last = first if last is None else last
        if first > last or first < 0:
            raise ValueError(f"range {first}..{last}: first must be from 0 to last")
        firsts, lasts = self.firsts, self.lasts
        if not lasts or first > lasts[-1] + 1:  # the usual cases: beyond all that is known, ...
            firsts.append(first)
            lasts.append(last)
            return
        if first == lasts[-1] + 1:  # ... or right after it
            lasts[-1] = last
            return
        low = bisect_left(lasts, first - 1)  # the first range that touches or follows
        high = bisect_right(firsts, last + 1)  # the first range beyond
        if low < high:
            first = min(first, firsts[low])
            last = max(last, lasts[high - 1])
        firsts[low:high] = [first]
        lasts[low:high] = [last]

    def discard(self, first: int, last: int | None = None) -> int:
        """Take `first..last` (or `first` alone) out, as far as it is in; how many numbers that were."""
        last = first if last is None else last
        firsts, lasts = self.firsts, self.lasts
        if not firsts:
            return 0
        if first <= firsts[0] <= last < lasts[0]:  # the usual case: the oldest go
            there = last + 1 - firsts[0]
            firsts[0] = last + 1
            return there
        low = bisect_left(lasts, first)
        high = bisect_right(firsts, last)
        if low >= high:
            return 0
        if high == low + 1 and first <= firsts[low] and lasts[low] <= last:  # ... or one whole range
            return lasts.pop(low) + 1 - firsts.pop(low)
        there = sum(lasts[low:high]) - sum(firsts[low:high]) + high - low
        keep: list[Range] = []
        if firsts[low] < first:
            keep.append((firsts[low], first - 1))
        if lasts[high - 1] > last:
            keep.append((last + 1, lasts[high - 1]))
        firsts[low:high] = [r[0] for r in keep]
        lasts[low:high] = [r[1] for r in keep]
        return there - sum(b - a + 1 for a, b in keep)

    def update(self, other: "RangeSet") -> None:
        """Put all of `other` in."""
        for first, last in zip(other.firsts, other.lasts, strict=True):
            self.add(first, last)

    def subtract(self, other: "RangeSet") -> None:
        """Take all of `other` out."""
        for first, last in zip(other.firsts, other.lasts, strict=True):
            self.discard(first, last)

    def clear(self) -> None:
        """Take everything out."""
        self.firsts.clear()
        self.lasts.clear()

    def __contains__(self, value: int) -> bool:
        at = bisect_left(self.lasts, value)
        return at < len(self.firsts) and self.firsts[at] <= value

    def __len__(self) -> int:
        return sum(self.lasts) - sum(self.firsts) + len(self.firsts)

    def __bool__(self) -> bool:
        return bool(self.firsts)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and (self.firsts, self.lasts) == (other.firsts, other.lasts)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"RangeSet([{', '.join(f'({a}, {b})' for a, b in self.ranges())}])"

    @property
    def first(self) -> int:
        """The smallest number in it (IndexError if empty)."""
        return self.firsts[0]

    @property
    def last(self) -> int:
        """The largest number in it (IndexError if empty)."""
        return self.lasts[-1]

    def range_count(self) -> int:
        """How many ranges it takes: what the set costs in memory and on the wire."""
        return len(self.firsts)

    def ranges(self) -> list[Range]:
        """All of it, ascending, as a list that later changes do not touch."""
        return list(zip(self.firsts, self.lasts, strict=True))

    def front(self, ranges: int) -> "RangeSet":
        """The first `ranges` of it: a copy, or the set itself if that is all."""
        if len(self.firsts) <= ranges:
            return self
        some = RangeSet()
        some.firsts, some.lasts = self.firsts[:ranges], self.lasts[:ranges]
        return some

    def newest(self) -> list[Range]:
        """All of it, most recent range first (004 §4, optimization 4)."""
        return list(zip(reversed(self.firsts), reversed(self.lasts), strict=True))

    def within(self, first: int, last: int) -> list[Range]:
        """The parts of `first..last` that are in the set; none if that is nothing."""
        if first > last:
            return []
        low = bisect_left(self.lasts, first)
        high = bisect_right(self.firsts, last)
        return [(max(self.firsts[i], first), min(self.lasts[i], last)) for i in range(low, high)]

    def around(self, value: int) -> Range | None:
        """The whole range that has `value` in it, if any."""
        at = bisect_left(self.lasts, value)
        found = at < len(self.firsts) and self.firsts[at] <= value
        return (self.firsts[at], self.lasts[at]) if found else None

    def touching(self, other: "RangeSet") -> "RangeSet":
        """The whole ranges of this set of which anything is in the other."""
        return RangeSet(
            (self.firsts[at], self.lasts[at])
            for first, last in other.ranges()
            for at in range(bisect_left(self.lasts, first), bisect_right(self.firsts, last))
        )

    def gaps(self, first: int, last: int) -> list[Range]:
        """The parts of `first..last` that are not in the set."""
        found = []
        for inside_first, inside_last in self.within(first, last):
            if first < inside_first:
                found.append((first, inside_first - 1))
            first = inside_last + 1
        if first <= last:
            found.append((first, last))
        return found

    def difference(self, other: "RangeSet") -> "RangeSet":
        """What is in this set and not in `other`."""
        found = RangeSet()
        firsts, lasts = other.firsts, other.lasts
        at, end = 0, len(firsts)
        for first, last in zip(self.firsts, self.lasts, strict=True):
            at = bisect_left(lasts, first, at)
            while at < end and firsts[at] <= last:
                if first < firsts[at]:
                    found.firsts.append(first)
                    found.lasts.append(firsts[at] - 1)
                first = lasts[at] + 1
                if first > last:
                    break  # the next range of ours may be in this one, too
                at += 1
            if first <= last:
                found.firsts.append(first)
                found.lasts.append(last)
        return found

    def intersection(self, other: "RangeSet") -> "RangeSet":
        """What is in both; the work follows the one that has fewer ranges."""
        if len(self.firsts) > len(other.firsts):
            return other.intersection(self)
        found = RangeSet()
        firsts, lasts = other.firsts, other.lasts
        at, end = 0, len(firsts)
        for first, last in zip(self.firsts, self.lasts, strict=True):
            at = bisect_left(lasts, first, at)
            while at < end and firsts[at] <= last:
                found.firsts.append(max(first, firsts[at]))
                found.lasts.append(min(last, lasts[at]))
                if lasts[at] >= last:
                    break  # the next range of ours may be in this one, too
                at += 1
        return found

    def union(self, other: "RangeSet") -> "RangeSet":
        """What is in either."""
        both = self.copy()
        both.update(other)
        return both

    def copy(self) -> "RangeSet":
        """An equal set of its own."""
        twin = RangeSet.__new__(RangeSet)
        twin.firsts, twin.lasts = self.firsts[:], self.lasts[:]
        return twin

    def encode(self, out: bytearray) -> None:
        """Append the compact form: the number of ranges, then per range its distance from the last and length."""
        varint.put(out, len(self.firsts))
        behind = 0
        for first, last in zip(self.firsts, self.lasts, strict=True):
            varint.put(out, first - behind)
            varint.put(out, last - first)
            behind = last + 2  # the next range cannot start earlier: ranges do not touch

    def encoded_size(self) -> int:
        """How many bytes `encode` appends."""
        total = varint.size(len(self.firsts))
        behind = 0
        for first, last in zip(self.firsts, self.lasts, strict=True):
            distance, length = first - behind, last - first
            total += 1 if distance < 0x80 else varint.size(distance)
            total += 1 if length < 0x80 else varint.size(length)
            behind = last + 2
        return total

    @classmethod
    def decode(cls, data: bytes | memoryview, at: int) -> tuple["RangeSet", int]:
        """The set at offset `at` and the offset after it; ValueError if malformed. Work follows the input's length."""
        count, at = varint.get(data, at)
        if count > (len(data) - at) // 2:
            raise ValueError(f"{count} ranges cannot fit in {len(data) - at} bytes")
        found = cls()
        behind = 0
        for _ in range(count):
            distance, at = varint.get(data, at)
            length, at = varint.get(data, at)
            first = behind + distance
            last = first + length
            if last >= 1 << 62:  # so that whatever is counted or added up still fits into 63
                raise ValueError("sequence number beyond 62 bits")
            found.firsts.append(first)
            found.lasts.append(last)
            behind = last + 2
        return found, at
