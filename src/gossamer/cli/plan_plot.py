"""The curves behind a plan, in one figure: how gossip converges, what it leaves, and when packets arrive.

Four panels are figures of the papers for these parameters (000 Figure 4-2; 004 Figures 4, 5 and 6), two are the
plan's own: how its rounds were chosen, and the resulting latency.
"""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.analysis import bimodal, convergence
from gossamer.analysis.planner import BIMODAL_MEMBERS_MAX, CRASH, Plan, lacking, lateness, left_after, push_rounds
from gossamer.analysis.timeline import found_survival
from gossamer.core.schema import SettingError

PULL, PUSH, OURS, GREY = "#1f6fb4", "#d1682a", "#2f8f4e", "#777777"
USUAL_FANOUT = 7
"""The fanout with which 004 §6 draws its distributions."""


def draw(plan: Plan, path: Path) -> None:
    """Draw all panels to `path`, whose suffix gives the file format. SettingError without matplotlib."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise SettingError("--plot: needs matplotlib; install it with: pip install 'gossamer[plots]'") from None
    style: Any = {
        "font.size": 9.0,
        "axes.titlesize": 10.0,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "legend.fontsize": 8.0,
        "figure.facecolor": "white",
        "axes.facecolor": "white",
        "svg.hashsalt": "gossamer",
    }
    with rc_context(style):
        figure = Figure(figsize=(13.0, 7.8), layout="constrained")
        paints = (_convergence, _rounds, _latency, _delivery, _susceptible, _arrival)
        for panel, paint in zip(figure.subplots(2, 3).ravel(), paints, strict=True):
            paint(panel, plan)
        d = plan.demand
        figure.suptitle(
            f"{d.members} members, loss {d.loss:g}, {d.rate:g}/s, rtt {d.rtt * 1e3:g} ms, failure {d.failure:g}",
            fontsize=12,
            fontweight="bold",
        )
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(path, dpi=120, metadata=metadata)


def _label(panel: Any, title: str, x: str, y: str) -> None:
    panel.set_title(title, loc="left", fontweight="bold")
    panel.set_xlabel(x)
    panel.set_ylabel(y)


def _convergence(panel: Any, plan: Plan) -> None:
    """Rounds until all have the packet, by how many the first pass reached."""
    n, loss, failure = plan.demand.members, plan.demand.loss, plan.demand.failure
    few, many = np.geomspace(1, n, 6)[:-1], np.linspace(1, n - 1, 11)
    reached = np.unique(np.append(few, many).astype(int))
    pull = [convergence.rounds_needed(n, int(r), failure, loss=loss) for r in reached]
    push = [push_rounds(n, int(r), failure, loss) for r in reached]
    panel.plot(reached, [np.nan if p is None else p for p in push], "o-", ms=3, color=PUSH, label="push (recurrence)")
    panel.plot(reached, pull, "o-", ms=3, color=PULL, label="pull (exact chain)")
    panel.axvline(n * (1 - loss), color=GREY, ls="--", lw=1, label="first pass, on average")
    panel.set_ylim(bottom=0)
    panel.legend()
    _label(panel, "Convergence (000 Fig. 4-2)", "members reached by the first pass", "rounds until failure is met")


def _rounds(panel: Any, plan: Plan) -> None:
    """How the number of rounds kept was chosen."""
    demand, settings = plan.demand, plan.settings
    kept, period = settings["gc_rounds"], settings["gossip_period"]
    late = lateness(found_survival(demand.rate, demand.senders, demand.loss, period), demand.rtt / period)
    left = list(islice(left_after(demand, late, settings["fanout"]), kept + 3))
    if max(left) > 0.0:
        panel.semilogy(range(1, len(left) + 1), left, "o-", ms=3, color=OURS, label="at most this chance")
    panel.axhline(demand.failure, color=GREY, ls="--", lw=1, label=f"wanted: {demand.failure:g}")
    panel.axvline(kept, color=OURS, ls=":", lw=1, label=f"gc_rounds = {kept}")
    panel.legend()
    _label(panel, "Rounds kept, and what gossip leaves", "gc_rounds", "P(some member lacks a packet)")


def _latency(panel: Any, plan: Plan) -> None:
    """The share of deliveries that take longer than a given time."""
    latency = plan.forecast.latency
    end = latency.quantile(1 - 1e-6) * 1.1
    times = np.linspace(0.0, end, 2000)
    panel.semilogy(times * 1e3, [max(1 - latency.within(t), 1e-12) for t in times], color=OURS)
    for name, q in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        at = latency.quantile(q)
        panel.plot([at * 1e3], [1 - q], "o", ms=4, color=OURS)
        panel.annotate(f"{name} {at * 1e3:.0f} ms", (at * 1e3, 1 - q), xytext=(6, 3), textcoords="offset points")
    panel.set_ylim(1e-6, 1.5)
    panel.set_xlim(0, end * 1e3)
    _label(panel, "Latency of this plan", "from publishing to delivery, ms", "P(a delivery takes longer)")


def _delivery(panel: Any, plan: Plan) -> None:
    """Almost all or almost none: deliveries when the first pass reaches nobody."""
    n = min(plan.demand.members, BIMODAL_MEMBERS_MAX)
    fanout = plan["pbcast_fanout"] if plan.demand.members == n else None
    fanout = min(n, USUAL_FANOUT if fanout is None else fanout)
    lost = 1 - (1 - plan.demand.loss) ** 3
    chances = bimodal.delivery_distribution(n, fanout, rounds=10, loss=lost, crash=CRASH)
    panel.semilogy(np.arange(n + 1), np.where(chances > 0, chances, np.nan), ".-", ms=4, lw=0.8, color=PUSH)
    panel.axvspan(0.1 * n, 0.9 * n, color=GREY, alpha=0.1, lw=0)
    says = f"{n} processes, fanout {fanout:g}\ngrey: neither almost all nor almost none"
    panel.text(0.5 * n, 0.3, says, ha="center", va="top", color=GREY, fontsize=8)
    panel.set_ylim(max(1e-40, float(chances[chances > 0].min()) * 1e-2), 3)
    _label(panel, "pbcast, first pass failed (004 Fig. 4)", "processes that deliver", "probability")


def _susceptible(panel: Any, plan: Plan) -> None:
    """How many still lack the packet, round by round."""
    n, loss = plan.demand.members, plan.demand.loss
    lost, rounds = 1 - (1 - loss) ** 3, 40
    for label, reached, dashes in (("failed", 1, "-"), ("reached 90%", max(1, round(0.9 * n)), "--")):
        without = bimodal.susceptible(n, rounds, loss=lost, crash=0.0, reached=reached)
        panel.semilogy(range(rounds + 1), without, dashes, color=PUSH, label=f"push, first pass {label}")
    if loss:
        ours = list(islice(lacking(n, loss, plan.settings["fanout"]), rounds + 1))
        panel.semilogy(range(rounds + 1), ours, color=PULL, label="rpbcast's pull, after its first pass")
    panel.set_ylim(1e-8, 2 * n)
    panel.set_xlim(0, rounds)
    panel.legend()
    _label(panel, "Still without the packet (004 Fig. 5)", "rounds", "members, on average")


def _arrival(panel: Any, plan: Plan) -> None:
    """In which round a process gets the packet, for groups of several sizes."""
    n, loss = plan.demand.members, plan.demand.loss
    lost = 1 - (1 - loss) ** 3
    rounds = 200
    for size, colour in zip(sorted({max(2, n // 8), n, 8 * n}), (PULL, PUSH, OURS), strict=False):
        chances = bimodal.latency_distribution(size, rounds, loss=lost, crash=CRASH)
        panel.plot(range(1, rounds + 1), chances[1:], ".-", ms=4, color=colour, label=f"{size:,} processes")
    panel.set_xlim(0, max(10, int(np.argmax(chances.cumsum() > 0.9999)) or rounds))
    panel.set_ylim(bottom=0)
    panel.legend()
    _label(panel, "pbcast, first pass failed (004 Fig. 6)", "round", "P(a process receives it in this round)")
