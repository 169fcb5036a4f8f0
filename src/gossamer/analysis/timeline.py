"""One gap through time: when it is found, when it is asked for, when it is filled.

A member that missed a packet finds out when anything later from the same sender reaches it. It asks one peer at
once, and then in each of its rounds as many as the fanout says, until the packet arrives; a peer that has
collected the packet meanwhile says so, and the gap moves on to the logger (000 §4.1, §4.3). Times are counted from
the moment at which the first pass should have brought the packet.

This is a mean-field model: whether the others have the packet is replaced by the probability that they do.
docs/analysis.md shows how far it is from simulation.
"""

from dataclasses import dataclass

import numpy as np

from gossamer.analysis import checks
from gossamer.analysis.binomial import FloatArray

STEPS = 256
"""The number of steps in a gossip period: all times are right to one step."""
_PERIODS_MAX = 64
_PHASES = 64
_ATTEMPTS_MAX = 512
_NOTHING = 1e-18


@dataclass(frozen=True, slots=True)
class Timeline:
    """The course of a gap."""

    step_s: float
    filled: FloatArray
    """filled[i]: the chance that the packet arrives in step i, that is, by (i + 1) step_s."""
    repairs: float
    """Average number of repairs sent for it; more than one if one is lost or two cross."""
    rounds: float
    """Average number of rounds in which it was asked for, not counting the first request."""
    collected: float
    """The chance that peers have collected the packet before they could send it, so that the logger must."""


def timeline(
    n: int,
    loss: float,
    survives: FloatArray,
    *,
    period: float,
    rtt: float,
    kept: int,
    fanout: int = 1,
    retry: float | None = None,
) -> Timeline:
    """The course of a gap, found as in `found_survival`, in a group of n that keep a packet for `kept` rounds.

    The request of attempt j leaves at a_0 = 0, a_j = (u + j - 1) period after the gap was found, with u uniform,
    since rounds are out of step. It is answered with probability s_j = (1 - loss)^2 h(a_j + rtt / 2), where h is
    the share of the n - 1 others that have the packet then: h(t) = 1 - loss (n - 2) / (n - 1) Q(t), and Q is the
    chance that a gap like this one is still open. A round makes `fanout` such attempts. So the packet arrives at
    a_j + rtt with probability s_j prod_{i<j} (1 - s_i), and a repair is sent, needed or not, for every attempt
    that is made before an earlier one is answered: if a round falls within rtt of the first request, two cross.
    A period is at least one rtt.
    """
    checks.at_least("period", period, rtt)
    step = period / STEPS
    found = np.append(survives[:-1] - survives[1:], survives[-1])
    attempts = min(kept + 3, _ATTEMPTS_MAX)
    at, fails, holders = _attempts(n, loss, period, rtt, attempts, fanout)
    reach_first = np.cumprod(np.column_stack([np.ones(_PHASES), fails[:, :-1]]), axis=1)
    answered = reach_first * (1.0 - fails)
    answered[:, -1] = reach_first[:, -1]  # what is still open continues; the last attempt stands for the rest
    made = reach_first.copy()
    crossing = np.clip(rtt / period * _PHASES - np.arange(_PHASES), 0.0, 1.0)  # share of each phase before the answer
    made[:, 1] += crossing * (1.0 - reach_first[:, 1])
    asked = made.copy()
    asked[:, 1:] *= fanout

    arrives = _spread(at + rtt / 2, answered / _PHASES, step)
    asked_when = _sum(found, arrives)
    when = (np.arange(len(asked_when)) + 1.0) * step
    collected = np.clip(when / period - kept, 0.0, 1.0)
    notes = asked_when * collected
    filled = _by_logger(notes, loss, rtt, period if retry is None else retry, step)
    back = round(rtt / 2 / step)
    filled[back : back + len(when)] += asked_when - notes
    # A logger whose own buffer still has the packet answers like a peer.
    in_log = np.clip((when + rtt) / period - kept, 0.0, 1.0)
    return Timeline(
        step_s=step,
        filled=filled,
        repairs=float((asked * (1.0 - loss) * holders).sum(axis=1).mean()),
        rounds=float(made[:, 1:].sum(axis=1).mean()),
        collected=float(notes @ in_log),
    )


def found_survival(rate: float, senders: int, loss: float, period: float) -> FloatArray:
    """P(gap not found within i steps), i = 0, 1, ...; the last entry remains for ever.

    With Poisson packets of rate r = rate / senders, those that arrive reveal the gap: exp(-r (1 - loss) t). Among
    those that are lost, a Poisson process of rate m = r loss, a pause of a period makes the sender multicast a
    heartbeat (000 §5.1), which is lost with probability `loss`. After that, signatures reveal the gap: those in the
    gossip of others, once a period, which take three messages, and those in the member's own, which take two but
    are only sent if it knows of another idle sender, with probability o: at a rate of about
    e = ((1 - loss)^3 + o (1 - loss)^2) / period. With w(u) = 1 for u < period and loss exp(-e (u - period)) from
    there on, the chance that no heartbeat finds the gap by t renews itself at every lost packet:

        H(t) = exp(-m t) w(t) + int_0^t m exp(-m u) w(u) H(t - u) du.

    Reference: 000 §3.3, §5.1
    """
    sender_rate = rate / senders
    reached, missed = sender_rate * (1.0 - loss), sender_rate * loss
    other_idle = 1.0 - (1.0 - np.exp(-sender_rate * period)) ** (senders - 1)
    end = min(_PERIODS_MAX * period, -np.log(_NOTHING) / reached)
    step = period / STEPS
    t = np.arange(int(np.ceil(end / step)) + 1) * step
    by_gossip = ((1.0 - loss) ** 3 + other_idle * (1.0 - loss) ** 2) / period
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
    """By phase u and attempt j: when the request leaves, the chance that it fails, and the share of holders.

    Within a round, the phases before u - rtt / (2 period) already have their answer.
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
    """Sum the chances by step, with times rounded up."""
    index = np.ceil(times.ravel() / step - 1e-9).astype(np.int64)
    spread: FloatArray = np.bincount(index, weights=chances.ravel()).astype(np.float64)
    return spread


def _sum(a: FloatArray, b: FloatArray) -> FloatArray:
    """The distribution of the sum of two independent times, to about 1e-16."""
    length = len(a) + len(b) - 1
    size = 1 << (length - 1).bit_length()
    result: FloatArray = np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)[:length].clip(0.0)
    return result


def _by_logger(notes: FloatArray, loss: float, rtt: float, retry: float, step: float) -> FloatArray:
    """When the logger's repair arrives after asking a peer that has collected the packet: the note comes first,
    then request and repair, repeated every `retry` until both arrive; the last try stands for the rest."""
    tries = 16
    chances = (1.0 - loss) ** 2 * (1.0 - (1.0 - loss) ** 2) ** np.arange(tries)
    chances[-1] += 1.0 - chances.sum()
    total = np.zeros(len(notes) + round((1.5 * rtt + tries * retry) / step) + 1)
    for k, chance in enumerate(chances):
        begin = round((1.5 * rtt + k * retry) / step)
        total[begin : begin + len(notes)] += notes * chance
    return total
