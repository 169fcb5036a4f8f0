"""The oracle's ledger: which members are owed which packet, when they got it, and the summary at the end.

It watches deliveries from outside and knows nothing of the protocol, so it can tell when everything is
delivered or given up, and count what a protocol must never do (duplicates, bogus packets).
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from gossamer.core.ids import Phase, channel_of, owner_of
from gossamer.core.packets import Packet, Run

_NOT_OWED, _OWED, _DELIVERED, _EXCUSED, _LOST = range(5)

_LOG_MAX = 1 << 16
_MANY = 40


class _Record:
    """One packet: when it was sent, and its state at each member."""

    __slots__ = ("everywhere_at", "remaining", "sent_at", "states")

    def __init__(self, sent_at: float, states: bytearray) -> None:
        self.sent_at = sent_at
        self.states = states
        self.remaining = states.count(_OWED)
        self.everywhere_at = -1.0


class Ledger:
    """What was owed and what came."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._records: dict[int, dict[int, _Record]] = {}
        self._forgotten: dict[int, int] = {}  # by stream: what its sender had published when it lost its memory
        self._latencies = array("d")  # as they happened, each with the number of members it holds for
        self._repeats = array("q")
        self._log = array("q")  # every delivery in order: sender, seqno, members; hashed now and then
        self._digest = blake2b(digest_size=16)
        self.outstanding = 0
        self.sent = self.expected = self.duplicate = self.bogus = self.refused = 0
        self.again = 0
        """Deliveries that were undone."""
        self.by_phase = {"first_pass": 0, "peer": 0, "logger": 0}
        self._placed: list[list[int]] = [[] for _ in range(members)]  # of each delivery: sender, seqno, and its place

    def published(self, now: float, packet: Packet, owed_to: Sequence[int]) -> None:
        """`packet` exists, and these members are owed it."""
        if len(owed_to) == self._members:
            states = bytearray((_OWED,)) * self._members
        else:
            states = bytearray(self._members)
            for member in owed_to:
                states[member] = _OWED
        record = _Record(now, states)
        self._records.setdefault(packet.sender, {})[packet.seqno] = record
        self.sent += 1
        self.expected += record.remaining
        self.outstanding += record.remaining

    def delivered(self, now: float, members: list[int], packet: Packet, phase: Phase) -> None:
        """The applications of `members` got this packet."""
        record = self._records.get(packet.sender, {}).get(packet.seqno)
        if record is None:
            self.bogus += len(members)
            return
        log = self._log
        if len(log) > _LOG_MAX:
            self._hash_log()
        log.append(packet.sender)
        log.append(packet.seqno)
        states = record.states
        if len(members) == 1 and states[members[0]] == _OWED:  # where links differ, they come one by one
            states[members[0]] = _DELIVERED
            log.append(members[0])
            self.by_phase[phase] += 1
            self._latencies.append(now - record.sent_at)
            self._repeats.append(1)
            self._settle(now, record, 1)
            return
        unusual = (_enter_many if len(members) >= _MANY else _enter_few)(members, states, log)
        again = unusual.count(_DELIVERED)
        unowed = len(unusual) - again  # not owed it any more, or not yet: got it all the same
        usual = len(members) - len(unusual)
        self.duplicate += again
        self.expected += unowed
        self.by_phase[phase] += usual + unowed
        self._latencies.append(now - record.sent_at)
        self._repeats.append(usual + unowed)
        self._settle(now, record, usual)

    def placed(self, member: int, run: Run, first: int, under: int) -> None:
        """The application of `member` gets these packets, in places of the one order from `first` on."""
        for at, packet in enumerate(run, first):
            place = (at, 0) if under < 0 else (under, 1 + at)
            self._placed[member].extend((packet.sender, packet.seqno, *place))

    def undone(self, member: int, packets: list[tuple[int, int]]) -> None:
        """The application of `member` has to undo these, the last first, and is owed them again."""
        placed = self._placed[member]
        for sender, seqno in packets:
            if (placed[-4], placed[-3]) == (sender, seqno):  # else it was a loss
                del placed[-4:]
            record = self._records[sender][seqno]
            self.again += record.states[member] == _DELIVERED
            record.states[member] = _OWED
            record.remaining += 1
            self.outstanding += 1

    def in_one_order(self) -> bool:
        """Whether all members gave packets the same places, and delivered them in the order of these."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for placed in self._placed:
            latest = (-1, -1)
            for sender, seqno, *place in zip(*[iter(placed)] * 4, strict=True):
                here = place[0], place[1]
                if sender < 0:  # it lost its memory
                    latest = (-1, -1)
                elif here <= latest or found.setdefault((sender, seqno), here) != here:
                    return False
                else:
                    latest = here
        return True

    def given_up(self, now: float, member: int, sender: int, first: int, last: int) -> None:
        """`member` was told that these will not come."""
        records = self._records.get(sender, {})
        for seqno in range(first, last + 1):
            record = records.get(seqno)
            if record is not None and record.states[member] == _OWED:
                record.states[member] = _LOST
                self._settle(now, record, 1)

    def begins_anew(self, member: int) -> None:
        """`member` has lost its memory."""
        self._placed[member].extend((-1, -1, -1, -1))

    def joined(self, now: float, member: int, horizon: dict[int, int], channel: int = 0) -> None:
        """`member` is owed what was published to `channel` after `horizon`, and nothing else that there is so far.

        It may have been a member before, alone: then it missed what the others published meanwhile.
        """
        for sender, records in self._of_channel(channel):
            last = horizon.get(sender)
            forgotten = self._forgotten.get(sender, -1)
            for seqno, record in records.items():
                if last is None or seqno <= max(last, forgotten) or owner_of(sender) == member:
                    self._excuse(now, record, member)
                elif record.states[member] == _NOT_OWED:
                    record.states[member] = _OWED
                    record.remaining += 1
                    self.expected += 1
                    self.outstanding += 1

    def excuse_member(self, now: float, member: int) -> None:
        """`member` is no longer owed what was published so far and has not reached it."""
        for records in self._records.values():
            for record in records.values():
                self._excuse(now, record, member)

    def stopped_listening(self, now: float, member: int, channel: int) -> None:
        """`member` is no longer owed what was published to `channel` so far and has not reached it."""
        for _, records in self._of_channel(channel):
            for record in records.values():
                self._excuse(now, record, member)

    def excuse_sender(self, now: float, sender: int) -> None:
        """What `sender` published so far may never arrive, if it has not yet (000 §6.1)."""
        for stream in [stream for stream in self._records if owner_of(stream) == sender]:
            self._forgotten[stream] = max(self._records[stream])
            for record in self._records[stream].values():
                for member in range(self._members):
                    self._excuse(now, record, member)

    def _of_channel(self, channel: int) -> list[tuple[int, dict[int, _Record]]]:
        return [(stream, records) for stream, records in self._records.items() if channel_of(stream) == channel]

    def horizon(self) -> dict[int, int]:
        """The last number of each sender."""
        return {sender: max(records) for sender, records in sorted(self._records.items())}

    def _hash_log(self) -> None:
        self._digest.update(self._log.tobytes())
        del self._log[:]

    def _excuse(self, now: float, record: _Record, member: int) -> None:
        if record.states[member] == _OWED:
            record.states[member] = _EXCUSED
            self.expected -= 1
            self._settle(now, record, 1)

    def _settle(self, now: float, record: _Record, pairs: int) -> None:
        record.remaining -= pairs
        self.outstanding -= pairs
        if record.remaining == 0 and pairs:
            record.everywhere_at = now

    def summary(self) -> dict[str, Any]:
        """The parts of a result that concern packets and deliveries."""
        records = [r for _, by_number in sorted(self._records.items()) for r in by_number.values()]
        everywhere = [r for r in records if r.remaining == 0 and _LOST not in r.states and _DELIVERED in r.states]
        latencies = np.repeat(np.array(self._latencies), np.array(self._repeats))
        spread = np.array([r.everywhere_at - r.sent_at for r in everywhere])
        return {
            "packets": {
                "sent": self.sent,
                "everywhere": len(everywhere),
                "lost": self.sent - len(everywhere),
                "refused": self.refused,
            },
            "deliveries": {
                "expected": self.expected,
                "actual": len(latencies) - self.again,
                "duplicate": self.duplicate,
                "bogus": self.bogus,
                **self.by_phase,
            },
            "latency": _statistics(latencies, ("mean", "p50", "p99", "max")),
            "everywhere_latency": _statistics(spread, ("mean", "std", "p50", "p99", "max")),
        }

    def by_channel(self) -> dict[int, dict[str, int]]:
        """For each channel: the packets sent, and the deliveries of them, expected and actual."""
        found: dict[int, dict[str, int]] = {}
        for stream, records in self._records.items():
            counts = found.setdefault(channel_of(stream), {"sent": 0, "expected": 0, "actual": 0})
            for record in records.values():
                delivered, owed = record.states.count(_DELIVERED), record.states.count(_OWED)
                counts["sent"] += 1
                counts["expected"] += delivered + owed + record.states.count(_LOST)
                counts["actual"] += delivered
        return found

    def digest(self) -> "blake2b":
        """A hash of every delivery: who, what, when, in order."""
        self._hash_log()
        digest = self._digest.copy()
        digest.update(self._latencies.tobytes())
        return digest


def _enter_few(members: list[int], states: bytearray, log: "array[int]") -> list[int]:
    """Mark and log deliveries; returns the states, other than owed, in which they found the packet."""
    unusual = [states[member] for member in members if states[member] != _OWED]
    for member in members:
        states[member] = _DELIVERED
    log.extend(members)
    return unusual


def _enter_many(members: list[int], states: bytearray, log: "array[int]") -> list[int]:
    """The same, several times faster for many members."""
    indices = np.array(members, dtype=np.int64)
    table = np.frombuffer(states, dtype=np.uint8)
    before = table[indices]
    table[indices] = _DELIVERED
    log.frombytes(indices.tobytes())
    unusual: list[int] = before[before != _OWED].tolist()
    return unusual


def _statistics(values: np.ndarray[Any, np.dtype[np.float64]], names: tuple[str, ...]) -> dict[str, float]:
    if not len(values):
        return dict.fromkeys(names, 0.0)
    known = {
        "mean": lambda: np.mean(values),
        "std": lambda: np.std(values),
        "p50": lambda: np.percentile(values, 50),
        "p99": lambda: np.percentile(values, 99),
        "max": lambda: np.max(values),
    }
    return {name: float(known[name]()) for name in names}
