"""The channels of one run: who listens to them, who publishes, and which addresses they have.

Channel 0 is everybody's, and silent if there are others, unless the scenario says what is `common`; those are numbered
from 1 on, in the order of the scenario.
"""

from dataclasses import replace
from random import Random

from gossamer.core.ids import channel_of, channels_in
from gossamer.core.packet_sets import Horizon
from gossamer.sim.ledger import Ledger
from gossamer.sim.scenario import ChannelSettings, Scenario, TrafficSettings
from gossamer.trace.recorder import Recorder


def with_channels(scenario: Scenario, members: int) -> Scenario:
    """A scenario whose random interests are drawn."""
    if not scenario.channels:
        return scenario
    rng = Random(f"{scenario.seed}/channels")
    loggers = range(members - scenario.protocol.loggers, members)
    wanted = {m: rng.sample(range(scenario.channels), scenario.listening) for m in range(members) if m not in loggers}
    senders = tuple(range(scenario.traffic.senders))
    drawn = tuple(
        ChannelSettings(name=str(c + 1), members=tuple(m for m in wanted if c in wanted[m]), senders=senders)
        for c in range(scenario.channels)
    )
    return replace(scenario, channel=drawn, channels=0)


class Channels:
    """Who listens to what, as the world sees it."""

    def __init__(self, scenario: Scenario, members: int, ledger: Ledger, recorder: Recorder) -> None:
        self._ledger, self._recorder = ledger, recorder
        self.count = len(scenario.channel)
        self._numbers = {channel.name: number for number, channel in enumerate(scenario.channel, 1)}
        self._addresses = scenario.addresses or self.count
        self.loggers = range(members - scenario.protocol.loggers, members)
        self.wanted = wanted_by(scenario, members)
        """What the application of each member wants to listen to, a bit for each channel."""
        self._all = (1 << self.count + 1) - 2
        self.heard = {m: self._all if m in self.loggers else self.wanted[m] for m in range(members)}
        """The channels whose packets each member is owed."""
        self._joined = dict(self.heard)  # whose multicast reaches each member
        self._hearers: dict[int, tuple[int, ...]] = {}
        self.wasted = [0] * (self.count + 1)

    def mask(self, names: tuple[str, ...]) -> int:
        """A set of channels by their names."""
        return sum(1 << self._numbers[name] for name in names)

    def listening(self) -> dict[int, int]:
        """What an oracle says of everybody."""
        return {m: wanted for m, wanted in self.wanted.items() if wanted and m not in self.loggers}

    def tune(self, member: int, channels: int) -> None:
        """`member` hears the multicast of these channels, and no others."""
        self._joined[member] = channels & self._all
        self._hearers.clear()

    def hears(self, member: int, channel: int) -> bool:
        """Whether `member` is owed the packets of `channel`."""
        return not channel or bool(self.heard[member] >> channel & 1)

    def hearers(self, channel: int) -> tuple[int, ...]:
        """The members that a multicast to `channel` reaches: all that have joined its address, for any channel."""
        address = (channel - 1) % self._addresses
        if address not in self._hearers:
            sharing = sum(1 << c for c in range(1, self.count + 1) if (c - 1) % self._addresses == address)
            self._hearers[address] = tuple(m for m, joined in self._joined.items() if joined & sharing)
        return self._hearers[address]

    def reached(self, members: list[int], channel: int) -> None:
        """A packet of `channel` came to these members."""
        self.wasted[channel] += sum([not self.hears(member, channel) for member in members])

    def begin(self, now: float, member: int, channels: int, horizon: Horizon) -> None:
        """`member` listens to these now; in those that are new, it is owed what comes after `horizon`."""
        before, heard = self.heard[member], channels & self._all
        self.heard[member] = heard
        for channel in channels_in(before & ~heard):
            self._recorder.stopped_listening(now, member, channel)
            self._ledger.stopped_listening(now, member, channel)
        self.record(now, member, heard & ~before, horizon)
        for channel in channels_in(heard & ~before):
            self._ledger.joined(now, member, horizon, channel)

    def record(self, now: float, member: int, channels: int, horizon: Horizon) -> None:
        """Note in the trace that `member` begins to listen to these."""
        for channel in channels_in(channels):
            of_channel = {s: last for s, last in horizon.items() if channel_of(s) == channel}
            self._recorder.listened(now, member, channel, of_channel)


def wanted_by(scenario: Scenario, members: int) -> dict[int, int]:
    """What each member listens to at first, a bit for each channel."""
    wanted = dict.fromkeys(range(members), 0)
    for number, channel in enumerate(scenario.channel, 1):
        for member in channel.members:
            wanted[member] |= 1 << number
    return wanted


def sources(scenario: Scenario) -> list[tuple[int, int, TrafficSettings]]:
    """Every sender with its channel, and the traffic of which it is the only sender."""
    traffic = scenario.traffic
    if not scenario.channel:
        alone = replace(traffic, rate=traffic.rate / traffic.senders, senders=1)
        return [(sender, 0, alone) for sender in range(traffic.senders)]
    total = scenario.common + sum(channel.share for channel in scenario.channel)
    found = []
    if scenario.common:
        alone = replace(traffic, rate=traffic.rate * scenario.common / total / traffic.senders, senders=1)
        found += [(sender, 0, alone) for sender in range(traffic.senders)]
    for number, channel in enumerate(scenario.channel, 1):
        senders = channel.senders or channel.members
        rate = traffic.rate * channel.share / total / len(senders) if total else 0.0
        found += [(sender, number, replace(traffic, rate=rate, senders=1)) for sender in senders if rate > 0]
    return found
