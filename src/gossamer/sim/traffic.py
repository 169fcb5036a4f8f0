"""When senders publish: Poisson (000 §7.1), evenly spaced, or in bursts. One endless series per sender."""

from collections.abc import Iterator
from random import Random

from gossamer.sim.scenario import TrafficSettings


def arrivals(traffic: TrafficSettings, rng: Random) -> Iterator[float]:
    """The times at which one sender publishes, ascending and without end."""
    rate = traffic.rate / traffic.senders
    if traffic.arrivals == "poisson":
        yield from _poisson(rate, rng)
    elif traffic.arrivals == "steady":
        yield from _steady(rate, rng)
    else:
        yield from _bursts(rate, traffic.burst_size, rng)


def _poisson(rate: float, rng: Random) -> Iterator[float]:
    at = 0.0
    while True:
        at += rng.expovariate(rate)
        yield at


def _steady(rate: float, rng: Random) -> Iterator[float]:
    at = rng.random() / rate  # senders do not march in step
    while True:
        yield at
        at += 1.0 / rate


def _bursts(rate: float, size: int, rng: Random) -> Iterator[float]:
    for at in _poisson(rate / size, rng):
        yield from [at] * size
