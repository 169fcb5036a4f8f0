"""A few stacks on a table: messages are passed from hand to hand, or not, and time is what the test says it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from gossamer.core.arrival import arrival
from gossamer.core.effects import (
    Collect,
    Deliver,
    Effect,
    Multicast,
    MulticastRun,
    Persist,
    Replay,
    ReportLost,
    TellHoldings,
    Unicast,
)
from gossamer.core.ids import LOGGER
from gossamer.core.inputs import Input, Published, Started, Woke
from gossamer.core.messages import Data, Gossip, Holdings, Message, Repair
from gossamer.core.packet_sets import PacketSets
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.presets import preset
from gossamer.stack import Stack


@dataclass
class Letter:
    """A message on its way."""

    source: int
    to: int
    message: Message


class Table:
    """Stacks by number; `now` moves only when told."""

    def __init__(self, protocol: str, members: int, *, loggers: tuple[int, ...] = (), seed: int = 1, **settings: Any):
        worth = settings.pop("worth", None)
        self.settings = preset(protocol, {"loggers": len(loggers), **settings})
        self.loggers = loggers
        self.now = 0.0
        self.letters: list[Letter] = []
        self.delivered: dict[int, list[Packet]] = {}
        self.lost: dict[int, list[ReportLost]] = {}
        self.effects: dict[int, list[Effect]] = {}
        self.logs: dict[int, dict[tuple[int, int], Packet]] = {}
        self.stacks: dict[int, Stack] = {}
        self._seed = seed
        self._worth = worth
        for member in range(members):
            self.seat(member, tuple(range(members)))

    def seat(self, member: int, view: tuple[int, ...], started: Started | None = None) -> Stack:
        """A new stack at the table."""
        rng = Random(f"{self._seed}/{member}")
        self.stacks[member] = Stack(member, view, self.settings, rng, loggers=self.loggers, worth=self._worth)
        self.step(member, started or Started({}))
        return self.stacks[member]

    def step(self, member: int, happened: Input) -> list[Effect]:
        """One input; messages go on the table, the rest is written down."""
        stack = self.stacks[member]
        effects = stack.step(self.now, happened)
        if stack.next_deadline() <= self.now and not isinstance(happened, Woke):  # the same instant goes on
            effects = [*effects, *stack.step(self.now, Woke())]
        self.effects.setdefault(member, []).extend(effects)
        for effect in effects:
            self._carry_out(member, effect)
        return effects

    def publish(self, member: int, count: int = 1) -> None:
        for _ in range(count):
            self.step(member, Published(b"x" * 100))

    def pass_on(self, which: Callable[[Letter], bool] = lambda letter: True) -> list[Letter]:
        """Hand over the letters that `which` wants, and throw the others away; what was handed over."""
        letters, self.letters = self.letters, []
        chosen = [letter for letter in letters if which(letter)]
        for letter in chosen:
            self.hand(letter)
        return chosen

    def hand(self, letter: Letter) -> None:
        if letter.to in self.stacks:
            self.step(letter.to, arrival(letter.source, letter.message))

    def settle(self, rounds: int = 50) -> None:
        """Pass everything on until nobody has anything to say."""
        for _ in range(rounds):
            if not self.letters:
                return
            self.pass_on()

    def wait(self, seconds: float, pass_on: bool = True) -> None:
        """Let time go by, waking whoever wants to be woken."""
        end = self.now + seconds
        while True:
            at, member = min((stack.next_deadline(), m) for m, stack in self.stacks.items())
            if at > end:
                break
            self.now = max(self.now, at)
            self.step(member, Woke())
            if pass_on:
                self.settle()
        self.now = end

    def gossip(self, source: int, to: int) -> Gossip:
        """What `source` would tell `to` in a round that ends now."""
        gossip = Gossip()
        for hook in self.stacks[source]._hooks.gossiping:
            hook(self.now, to, gossip)
        return gossip

    def take(self, *kinds: type) -> list[Letter]:
        """Take letters of these kinds off the table."""
        taken = [letter for letter in self.letters if isinstance(letter.message, kinds)]
        self.letters = [letter for letter in self.letters if not isinstance(letter.message, kinds)]
        return taken

    def numbers(self, member: int, sender: int) -> list[int]:
        """What `member` delivered of `sender`, in order."""
        return [p.seqno for p in self.delivered.get(member, []) if p.sender == sender]

    def holdings(self, member: int) -> PacketSets:
        """What the log of `member` holds."""
        held: PacketSets = {}
        for sender, seqno in sorted(self.logs.get(member, {})):
            held.setdefault(sender, RangeSet()).add(seqno)
        return held

    def _carry_out(self, member: int, effect: Effect) -> None:
        if isinstance(effect, Unicast):
            self.letters.append(Letter(member, effect.to, effect.message))
        elif isinstance(effect, MulticastRun):
            for packet in effect.run:
                self._carry_out(member, Multicast(Data(packet)))
        elif isinstance(effect, Multicast):
            self.letters += [Letter(member, to, effect.message) for to in effect.to or self.stacks if to != member]
        elif isinstance(effect, Deliver):
            self.delivered.setdefault(member, []).extend(effect.run)
        elif isinstance(effect, ReportLost):
            self.lost.setdefault(member, []).append(effect)
        elif isinstance(effect, Persist):
            log = self.logs.setdefault(member, {})
            new = {(p.sender, p.seqno): p for p in effect.run}
            self.logs[member] = log | new if effect.instead else new | log
        elif isinstance(effect, Collect):
            for seqno in range(effect.first, effect.last + 1):
                self.logs.get(member, {}).pop((effect.sender, seqno), None)
        elif isinstance(effect, TellHoldings):
            holdings = Holdings(self.holdings(member), effect.since_ns, never_sent=effect.never_sent)
            self.letters.append(Letter(member, effect.to, holdings))
        elif isinstance(effect, Replay):
            for seqno in range(effect.first, effect.last + 1):
                packet = self.logs.get(member, {}).get((effect.sender, seqno))
                if packet is not None:
                    self.letters += [Letter(member, to, Repair(packet, LOGGER)) for to in (effect.to, *effect.also)]
