"""The networks of `bench_network.py`: what the links carry, who is on them, and what is sent."""

from dataclasses import dataclass, replace

from switch import Port

SIZE = 1024
WIRE_BYTES = SIZE + 66
"""An event alone in a packet, on the cable: UDP 8, IP 20, Ethernet 38. TCP needs almost the same: it fills its packets,
but its header is longer."""
TCP_GOODPUT = 1448 / 1538


@dataclass(frozen=True, slots=True)
class Row:
    """One network. Hosts: the publisher, the subscribers, a logger, the source of a TCP connection."""

    key: str
    title: str
    port: Port
    """Of every host."""
    subscribers: int = 2
    up_mbit: float = 0.0
    """Of the publisher alone."""
    slow_mbit: float = 0.0
    """Of the last subscriber alone."""
    logger: bool = False
    tcp: bool = False
    """Whether a TCP connection to the first subscriber runs beside."""
    rate: float = 0.0
    """Events/s, for latency; 0 is as fast as possible."""

    @property
    def mbit(self) -> float:
        """Of the bottleneck of the healthy ones; 0 if there is none."""
        return self.up_mbit or self.port.down_mbit

    @property
    def healthy(self) -> int:
        """Subscribers that keep up; they come first."""
        return self.subscribers - (self.slow_mbit > 0)

    def link(self, copies: bool) -> float:
        """Events/s that the bottleneck carries, if each subscriber gets a copy of its own, or all share one."""
        return self.mbit * 1e6 / 8 / WIRE_BYTES / (self.subscribers if copies and self.up_mbit else 1)

    def ports(self) -> list[Port]:
        """The cables of all hosts."""
        made = [self.port] * (1 + self.subscribers + self.logger + self.tcp)
        if self.up_mbit:
            made[0] = replace(self.port, up_mbit=self.up_mbit)
        if self.slow_mbit:
            made[self.subscribers] = replace(self.port, down_mbit=self.slow_mbit)
        return made

    def events(self, seconds: float, copies: bool) -> int:
        """How many to publish in a round of about this length; 0 if only a trial can tell."""
        if self.slow_mbit:
            return int(6_000 * seconds)  # the slow one needs five times as long as the others
        return int(self.link(copies) * seconds * (0.5 if self.tcp else 1.0))


_FAST, _GIGABIT = Port(down_mbit=100, delay_ms=1), Port(down_mbit=1000, delay_ms=1)
ROWS = {
    row.key: row
    for row in (
        Row("100m", "2 subscribers, 100 Mbit/s, 1 ms", _FAST),
        Row("100m-10ms", "2 subscribers, 100 Mbit/s, 10 ms", replace(_FAST, delay_ms=10)),
        Row("1g", "2 subscribers, 1 Gbit/s, 1 ms", _GIGABIT),
        Row("slow", "3 subscribers, 100 Mbit/s, one at 10 Mbit/s", _FAST, 3, slow_mbit=10),
        Row("slow-logger", "the same, with a logger", _FAST, 3, slow_mbit=10, logger=True),
        Row("uplink", "6 subscribers behind an uplink of 100 Mbit/s", Port(delay_ms=1), 6, up_mbit=100),
        Row("fair-1ms", "beside TCP, 100 Mbit/s, 1 ms", _FAST, tcp=True),
        Row("fair-20ms", "beside TCP, 100 Mbit/s, 20 ms", replace(_FAST, delay_ms=20), tcp=True),
        Row("alone-1ms", "the only subscriber, beside TCP, 1 ms", _FAST, 1, tcp=True),
        Row("alone-20ms", "the only subscriber, beside TCP, 20 ms", replace(_FAST, delay_ms=20), 1, tcp=True),
        Row("loss-0", "no bottleneck, 1 ms", Port(delay_ms=1)),
        Row("loss-1", "no bottleneck, 1 ms, 1% lost", Port(delay_ms=1, loss=0.01)),
        Row("loss-5", "no bottleneck, 1 ms, 5% lost", Port(delay_ms=1, loss=0.05)),
        Row("jitter-10", "1,000 events/s, 10 to 15 ms", Port(delay_ms=10, jitter_ms=5), rate=1_000),
        Row("jitter-50", "1,000 events/s, 50 to 75 ms", Port(delay_ms=50, jitter_ms=25), rate=1_000),
        Row("jitter-200", "1,000 events/s, 200 to 300 ms", Port(delay_ms=200, jitter_ms=100), rate=1_000),
        Row("jitter-loss", "50 to 75 ms, 5% lost", Port(delay_ms=50, jitter_ms=25, loss=0.05), rate=1_000),
        Row("latency", "1,000 events/s, 10 ms, 5% lost", Port(delay_ms=10, loss=0.05), rate=1_000),
    )
}
