"""Whatever others say, a member does not fall over, and what it says itself can be read.

A stack is fed with messages drawn at random, from members, from strangers and in its own name: any that the wire can
carry. Numbers are drawn from all sizes, most of them near what the member knows.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from gossamer.core.arrival import arrival
from gossamer.core.effects import Collect, Effect, Multicast, MulticastRun, Persist, Replay, TellHoldings, Unicast
from gossamer.core.inputs import (
    Disconnecting,
    Input,
    LeaveAsked,
    LetterWritten,
    NamesakeHeard,
    Paused,
    Published,
    Reconnected,
    Resumed,
    RewindAsked,
    Started,
    Woke,
)
from gossamer.core.letters import Letter, LetterSeen
from gossamer.core.messages import (
    Ack,
    AskAll,
    Collected,
    CoordinatorIs,
    Data,
    Descendants,
    Digest,
    Echo,
    Gossip,
    Heartbeat,
    Heartbeats,
    Here,
    Holdings,
    HowFar,
    IAmCoordinator,
    Join,
    Leave,
    LetGo,
    LossReport,
    Message,
    MulticastAgain,
    NeverSent,
    Parity,
    Piece,
    Progress,
    Recall,
    Repair,
    Request,
    RequestFor,
    Seek,
    SeenReport,
    Session,
    Solicit,
    StablePoll,
    ViewUpdate,
    Where,
)
from gossamer.core.packets import Packet
from gossamer.core.questions import Call, Challenge, Profile, Proof
from gossamer.core.ranges import RangeSet
from gossamer.core.views import EnterView, Excluded, Flush, FlushAnswer, MemberEntry, NewView, ViewBeat, ViewReady
from gossamer.presets import LIVE, LIVE_PRESETS, PRESETS, preset
from gossamer.stack import Stack
from gossamer.wire import Header, WireError, decode, encode

QUICK_STEPS = 50_000
SOAK_STEPS = 10_000_000
LIFE_STEPS = 400
"""After this many steps a new stack begins: what can go wrong soon is tried often."""
MEMBERS = (0, 1, 2, 3)
ME, LOGGER_ID, OTHER_LOGGER = 1, 3, 2
STRANGERS = (7, 8, 1 << 40, (1 << 63) - 1)
EPOCH = 1_790_000_000.0
HUGE = (1 << 31, 1 << 53, 1 << 61, (1 << 62) - 1, 1 << 62, (1 << 63) - 2, (1 << 63) - 1)
EXTRAS: list[dict[str, Any]] = [
    {},
    {"ordering": "fifo", "window": 64, "reach": 128, "request_packets": 8, "patience": 0.01, "unlisten_after": 0.1},
    {"repair": ["negative", "coordinator", "logger"], "buffering": "size", "buffer_packets": 30},
    {"repair": ["srm", "logger"], "adaptive_timers": True, "service_limit": 100, "gc_rounds": 20},
    {"buffering": "hashed", "bufferers": 2, "short_rounds": 1, "gc_rounds": 3},
    {"buffering": "hashed", "bufferers": 1, "buffer_bytes": 60, "short_bytes": 20, "buffer_hash": "shuffle"},
    {"multicast_after": 2, "retention_bytes": 1000, "rate_limit": 1000.0, "recovery": "at-least-once"},
]


class Liar:
    """Draws what a member is told."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = EPOCH
        self.overheard: list[Message] = []

    def message(self, stack: Stack) -> Message:
        if self.overheard and self.rng.random() < 0.05:
            return self.rng.choice(self.overheard)
        rng, number, numbers, sets = self.rng, self.number, self.horizon, self.sets
        signature = rng.choice((0, 1, stack.roster.signature, rng.getrandbits(64)))
        make = rng.choice(
            (
                lambda: Data(self.packet()),
                lambda: Data(self.packet()),
                lambda: Repair(self.packet(), rng.choice(("first_pass", "peer", "logger"))),
                lambda: Ack(sets()),
                lambda: Request(sets()),
                lambda: AskAll(sets(), numbers()),
                lambda: Session(numbers(), number(), numbers()),
                lambda: RequestFor(self.who(), sets()),
                lambda: MulticastAgain(sets()),
                lambda: Gossip(
                    rng.choice((None, sets())),
                    rng.choice((None, Digest(number(), sets(), numbers()))),
                    numbers(),
                    number() - 1,
                    rng.choice((0, rng.getrandbits(64))),
                    signature,
                    number(),
                ),
                lambda: Collected(sets()),
                lambda: NeverSent(sets(), rng.random() < 0.5),
                lambda: Echo(number()),
                lambda: Heartbeat(number() - 1),
                lambda: Heartbeats(numbers(), rng.random() < 0.5),
                lambda: Solicit(number(), sets()),
                lambda: SeenReport(number()),
                lambda: LetGo(rng.random() < 0.5),
                lambda: HowFar(numbers()),
                lambda: Progress(numbers()),
                lambda: Where(number()),
                lambda: Here(number(), number() - 1),
                lambda: Parity(number(), number(), number(), rng.randbytes(rng.randrange(40))),
                lambda: LossReport(number(), number()),
                lambda: Seek(number()),
                lambda: CoordinatorIs(self.who(), number()),
                lambda: IAmCoordinator(numbers(), rng.random() < 0.5),
                lambda: Descendants(numbers(), sets(), self.others(), rng.random() < 0.5, rng.random() < 0.5),
                lambda: Recall(number()),
                lambda: Holdings(sets(), rng.choice((0, number())), rng.randrange(3), rng.randrange(3), sets()),
                lambda: Profile(number(), b"{}"),
                lambda: Letter(number(), number(), number() % 4, number() % 4, bytes(number() % 50)),
                lambda: LetterSeen(number(), number() % 4),
                lambda: Challenge(number()),
                lambda: Call(number()),
                lambda: Proof(number()),
                lambda: Piece(number(), number(), number(), b"x"),
                lambda: Join(self.entry(), rng.random() < 0.3, rng.choice((0, 10**6, 2**63 - 1))),
                lambda: Leave(self.freshness()),
                lambda: ViewUpdate(
                    [self.entry() for _ in range(rng.randrange(4))],
                    rng.random() < 0.5,
                    numbers(),
                    rng.random() < 0.5,
                ),
                lambda: StablePoll(number() - 1, number() - 1),
                lambda: ViewBeat(rng.choice((1, number())), number(), rng.random() < 0.5),
                lambda: EnterView(self.entry(), number()),
                lambda: Flush(rng.choice((1, number())), number(), {self.who(): 0 for _ in range(rng.randrange(3))}),
                lambda: self.view(),
                lambda: FlushAnswer(rng.choice((1, number())), number(), numbers(), self.sets()),
                lambda: ViewReady(number(), number()),
                lambda: Excluded(number()),
            )
        )
        return make()

    def view(self) -> Message:
        """A view that could be, or could not."""
        rng, entries = self.rng, [MemberEntry(m, 1, 0) for m in MEMBERS[: self.rng.randrange(1, 5)]]
        if rng.random() < 0.3:
            entries.append(self.entry())
        starts = {entry.member: rng.choice((0, 5, 50, self.number())) for entry in entries}
        attempt = rng.choice((1, 2, self.number()))
        return NewView(
            rng.choice((2, 3, self.number())), attempt, entries, self.horizon(), starts, {}, rng.random() < 0.5
        )

    def who(self) -> int:
        return self.rng.choice((*MEMBERS, *MEMBERS, *STRANGERS, self.rng.getrandbits(63)))

    def number(self) -> int:
        rng = self.rng
        if rng.random() < 0.1:
            return rng.choice((*HUGE, rng.getrandbits(rng.randrange(1, 64))))
        return rng.choice((0, rng.randrange(4), rng.randrange(40)))

    def freshness(self) -> int:
        if self.rng.random() < 0.2:
            return self.number()
        return int((self.now + self.rng.uniform(-2, 2)) * 1e6)

    def packet(self) -> Packet:
        return Packet(self.who(), self.number(), self.rng.randbytes(self.rng.randrange(3)))

    def sets(self) -> dict[int, RangeSet]:
        return {self.who(): self.ranges() for _ in range(self.rng.randrange(3))}

    def others(self) -> dict[int, dict[int, RangeSet]]:
        return {self.who(): self.sets() for _ in range(self.rng.randrange(3))}

    def ranges(self) -> RangeSet:
        found = RangeSet()
        for _ in range(self.rng.randrange(3)):
            first = self.number()
            found.add(first, max(first, self.rng.choice((first, first + self.rng.randrange(5), self.number()))))
        return found

    def horizon(self) -> dict[int, int]:
        return {self.who(): self.number() - 1 for _ in range(self.rng.randrange(3))}

    def entry(self) -> MemberEntry:
        rng = self.rng
        address = rng.choice(("", "127.0.0.1:7", "nowhere", "255.255.255.255:0"))
        return MemberEntry(self.who(), rng.randrange(5), self.freshness(), rng.random() < 0.3, address)

    def happens(self, stack: Stack) -> Input | None:
        """What happens next; None if it was drawn but cannot travel."""
        rng = self.rng
        chance = rng.random()
        if chance < 0.12:
            return Woke()
        if chance < 0.17:
            return Published(*(b"x" for _ in range(rng.randrange(1, 4))))
        if chance < 0.18:
            letter = LetterWritten(self.who(), 1, bytes(self.rng.randrange(3000)))
            aside = (Disconnecting(), Reconnected(), Paused(), Resumed(), RewindAsked(0, self.horizon()), letter)
            return rng.choice((*aside, LeaveAsked() if rng.random() < 0.1 else Resumed()))
        try:
            header, message = decode(encode(Header(1, self.who()), self.message(stack)))
        except WireError:
            return None
        if header.source == stack.me and rng.random() < 0.5:
            return NamesakeHeard(message)
        return arrival(header.source, message)


def readable(effect: Effect) -> bool:
    """Whether what is sent can be read by others, and what is written down is a number that can be."""
    if isinstance(effect, MulticastRun):
        return all(readable(Multicast(Data(packet))) for packet in effect.run)
    if isinstance(effect, Multicast | Unicast):
        message = effect.message
        if isinstance(effect, Unicast):
            assert 0 <= effect.to < 1 << 63
        return decode(encode(Header(1, ME), message))[1] == message
    if isinstance(effect, Replay | Collect):
        return 0 <= effect.first <= effect.last < 1 << 63
    if isinstance(effect, Persist):
        return all(packet.seqno < 1 << 63 for packet in effect.run)
    if isinstance(effect, TellHoldings):
        return bool(encode(Header(1, ME), Holdings(effect.never_sent)))
    return True


def kinds() -> list[tuple[str, bool]]:
    return [(name, logs) for name in sorted(PRESETS) for logs in (False, True) if name != "unreliable" or not logs]


def settings_of(name: str, live: bool, extra: dict[str, Any]) -> Any:
    usual = {**LIVE, **LIVE_PRESETS[name]} if live and name in LIVE_PRESETS else {}
    with suppress(ValueError):
        return preset(name, {**usual, **extra})
    return preset(name, usual)


def lie_to(name: str, logs: bool, steps: int) -> None:
    """Many short lives of one kind of member, each with other settings, among liars."""
    for life in range(max(1, steps // LIFE_STEPS)):
        rng = Random(f"{name}/{logs}/{life}")
        settings = settings_of(name, life % 4 != 0, EXTRAS[life % len(EXTRAS)])
        me = LOGGER_ID if logs else ME
        loggers = ((OTHER_LOGGER, LOGGER_ID) if life % 3 else (LOGGER_ID,)) if logs or life % 2 else ()
        stack = Stack(me, MEMBERS if life % 5 else (), settings, Random(life), loggers=loggers)
        liar = Liar(rng)
        assert all(map(readable, stack.step(liar.now, Started({}, recovers=life % 7 == 0))))
        for _ in range(LIFE_STEPS):
            liar.now += rng.choice((0.0, 0.001, 0.02, 0.3 if rng.random() < 0.1 else 0.0))
            happened = liar.happens(stack)
            if happened is None:
                continue
            for effect in stack.step(liar.now, happened):
                assert readable(effect), effect
                if isinstance(effect, Multicast | Unicast) and rng.random() < 0.1:
                    liar.overheard = [*liar.overheard[-20:], effect.message]
        for stream in stack.streams.values():
            stream.check()


@pytest.mark.parametrize(("name", "logs"), kinds())
def test_nothing_that_can_be_said_makes_a_member_fall_over(name, logs):
    lie_to(name, logs, QUICK_STEPS // len(kinds()))


@pytest.mark.soak
@pytest.mark.parametrize(("name", "logs"), kinds())
def test_nothing_that_can_be_said_for_long_makes_a_member_fall_over(name, logs):
    lie_to(name, logs, SOAK_STEPS // len(kinds()))
