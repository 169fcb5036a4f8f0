"""One gap through time: when it is found, when it is asked for, when it is filled.

A member that missed a packet finds out when anything later of the same sender reaches it. It asks one peer at
once, and then in each of its rounds as many as the fanout says, until the packet comes; a peer that has collected
the packet meanwhile says so, and the gap moves on to the logger (000 §4.1, §4.3). Times are counted from the
moment at which the first pass should have brought the packet.

This is a mean-field model: whether the others have the packet is replaced by the probability that they do.
docs/analysis.md shows how far it is from simulation.
"""

from dataclasses import dataclass

import numpy as np

from gossamer.analysis.binomial import FloatArray

STEPS = 256
"""Into which a gossip period is divided: all times are right to one step."""
_PERIODS_MAX = 64
_PHASES = 64
_ATTEMPTS_MAX = 128
_NOTHING = 1e-18


@dataclass(frozen=True, slots=True)
class Timeline:
    """What becomes of a gap."""

    step_s: float
    found: FloatArray
    """found[i]: the chance that the gap is found in step i, that is by (i + 1) step_s."""
    filled: FloatArray
    """filled[i]: the chance that the packet comes in step i."""
    repairs: float
    """Repairs sent on its behalf, on average; more than one where one is lost or two cross."""
    rounds: float
    """Rounds in which it was asked for, on average, the first request not counted."""
    collected: float
    """The chance that peers have collected the packet before they could send it, so that the logger must."""


def timeline(
    n: int,
    loss: float,
    sender_rate: float,
    *,
    period: float,
    rtt: float,
    kept: int,
    fanout: int = 1,
    retry: float | None = None,
) -> Timeline:
    """The course of a gap in a group of n, kept for `kept` rounds by those who have it.

    The request of attempt j leaves at a_0 = 0, a_j = (u + j - 1) period after the gap was found, with u uniform,
    since rounds are out of step. It is answered with probability s_j = (1 - loss)^2 h(a_j + rtt / 2), h being the
    share of the n - 1 others that have the packet then: h(t) = 1 - loss (n - 2) / (n - 1) Q(t), where Q is the
    chance that a gap like this one is still open. A round makes `fanout` such attempts. So the packet comes at
    a_j + rtt with probability s_j prod_{i<j} (1 - s_i), and a repair is sent, needed or not, for every attempt
    that is made before an earlier one is answered: with a round within rtt of the first request, two cross.
    """
    step = period / STEPS
    survives = found_survival(sender_rate, loss, period)
    found = np.append(survives[:-1] - survives[1:], survives[-1])
    attempts = min(kept + 3, _ATTEMPTS_MAX)
    at, fails, holders = _attempts(n, loss, period, rtt, attempts, fanout)
    reach_first = np.cumprod(np.column_stack([np.ones(_PHASES), fails[:, :-1]]), axis=1)
    answered = reach_first * (1.0 - fails)
    answered[:, -1] = reach_first[:, -1]  # what is still open goes on; the last attempt stands for the rest
    made = reach_first.copy()
    made[:, 1] = np.where(at[:, 1] < rtt, 1.0, reach_first[:, 1])
    asked = made.copy()
    asked[:, 1:] *= fanout

    arrives = _spread(at + rtt / 2, answered / _PHASES, step)
    asked_when = np.convolve(found, arrives)
    when = (np.arange(len(asked_when)) + 1.0) * step
    collected = np.clip(when / period - kept, 0.0, 1.0)
    notes = asked_when * collected
    filled = _by_logger(notes, loss, rtt, period if retry is None else retry, step)
    back = round(rtt / 2 / step)
    filled[back : back + len(when)] += asked_when - notes
    # A logger whose own buffer still has the packet answers as a peer.
    in_log = np.clip((when + rtt) / period - kept, 0.0, 1.0)
    return Timeline(
        step_s=step,
        found=found,
        filled=filled,
        repairs=float((asked * (1.0 - loss) * holders).sum(axis=1).mean()),
        rounds=float(made[:, 1:].sum(axis=1).mean()),
        collected=float(notes @ in_log),
    )


def found_survival(sender_rate: float, loss: float, period: float) -> FloatArray:
    """P(gap not found within i steps), i = 0, 1, ...; the last entry stays for ever.

    With Poisson packets of rate r, those that arrive find the gap: exp(-r (1 - loss) t). Among those that are
    lost, a Poisson process of rate m = r loss, a pause of a period makes the sender multicast a heartbeat
    (000 §5.1), which is lost with probability `loss`; after that, signatures in the gossip of others show the gap
    at a rate of about e = (1 - loss)^3 / period, three messages being needed. With w(u) = 1 for u < period and
    loss exp(-e (u - period)) from there on, the chance that no heartbeat finds it by t renews itself at every
    lost packet: H(t) = exp(-m t) w(t) + int_0^t m exp(-m u) w(u) H(t - u) du.

    Reference: 000 §3.3, §5.1
    """
    reached, missed = sender_rate * (1.0 - loss), sender_rate * loss
    end = min(_PERIODS_MAX * period, -np.log(_NOTHING) / reached)
    step = period / STEPS
    t = np.arange(int(np.ceil(end / step)) + 1) * step
    by_gossip = (1.0 - loss) ** 3 / period
    w = np.where(t < period - step / 2, 1.0, loss * np.exp(-by_gossip * np.maximum(t - period, 0.0)))
    no_packet = np.exp(-missed * t)
    packet = (no_packet[:-1] - no_packet[1:]) * w[:-1]
    quiet = np.empty(len(t))
    quiet[0] = 1.0
    for i in range(1, len(t)):
        quiet[i] = no_packet[i] * w[i] + packet[:i] @ quiet[i - 1 :: -1]
    survives: FloatArray = np.exp(-reached * t) * quiet
    return survives


def _attempts(
    n: int, loss: float, period: float, rtt: float, attempts: int, fanout: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """By phase u and attempt j: when its request leaves, the chance that it fails, and the share of holders.

    Within a round, the phases before u - rtt / (2 period) have had their answer already.
    """
    u = (np.arange(_PHASES) + 0.5) / _PHASES
    at = np.column_stack([np.zeros(_PHASES), (u[:, None] + np.arange(attempts - 1)) * period])
    fails, holders = np.empty_like(at), np.empty_like(at)
    lacking = loss * (n - 2) / (n - 1)
    arrive = (1.0 - loss) ** 2
    holders[:, 0] = 1.0 - lacking
    fails[:, 0] = 1.0 - arrive * holders[:, 0]
    still = fails[:, 0].copy()
    ahead = np.maximum(u - rtt / (2.0 * period), 0.0)
    for j in range(1, attempts):
        mean = still.mean()
        usual = (1.0 - arrive * (1.0 - lacking * mean)) ** fanout
        others = mean * (1.0 - ahead * (1.0 - usual))
        if j == 1:  # the answers to the first requests may still be under way
            others = np.where(u * period < rtt / 2.0, 1.0, others)
        holders[:, j] = 1.0 - lacking * others
        fails[:, j] = (1.0 - arrive * holders[:, j]) ** fanout
        still *= fails[:, j]
    return at, fails, holders


def _spread(times: FloatArray, chances: FloatArray, step: float) -> FloatArray:
    """The chances summed by step, times rounded up."""
    index = np.ceil(times.ravel() / step - 1e-9).astype(np.int64)
    return np.bincount(index, weights=chances.ravel())


def _by_logger(notes: FloatArray, loss: float, rtt: float, retry: float, step: float) -> FloatArray:
    """From asking a peer that has collected the packet to the logger's repair: the note, then request and
    repair, repeated each `retry` until both arrive; the last try stands for the rest."""
    tries = 16
    chances = (1.0 - loss) ** 2 * (1.0 - (1.0 - loss) ** 2) ** np.arange(tries)
    chances[-1] += 1.0 - chances.sum()
    total = np.zeros(len(notes) + round((1.5 * rtt + tries * retry) / step) + 1)
    for k, chance in enumerate(chances):
        begin = round((1.5 * rtt + k * retry) / step)
        total[begin : begin + len(notes)] += notes * chance
    return total
