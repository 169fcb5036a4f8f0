"""The verdicts as Markdown tables, for a document in a repository."""

from collections.abc import Mapping, Sequence
from typing import Any

from gossamer.pipeline.experiments.claims import FAILS, HOLDS, UNDECIDED
from gossamer.pipeline.experiments.files import Collection
from gossamer.pipeline.experiments.report import number

NUMBERS_SHOWN = 4


def verdict_table(collection: Collection, found: Mapping[str, Any]) -> str:
    """A section per experiment: the paper's claims, the verdicts, our numbers; then our findings where they differ."""
    parts = []
    for experiment in collection.experiments:
        verdicts = [v for v in found["verdicts"] if v["experiment"] == experiment.name]
        if verdicts:
            parts.append(f"### {experiment.title} ({experiment.place})\n\n{_table(verdicts)}{_findings(verdicts)}")
    return "\n".join(parts)


def _table(verdicts: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| the paper says | verdict | our numbers |", "|---|---|---|"]
    for verdict in verdicts:
        paper = f" (paper: {verdict['paper']})" if verdict["paper"] else ""
        says = f"{verdict['says']}{paper} {verdict['place']}"
        lines.append(f"| {_cell(says)} | **{verdict['verdict']}** | {_cell(_numbers(verdict['cases']))} |")
    return "\n".join(lines) + "\n"


def _numbers(cases: Sequence[Mapping[str, Any]]) -> str:
    """The case that decided: the worst, or of several equal ones the one with the smallest margin."""
    if not cases:
        return "no run"
    order = (FAILS, UNDECIDED, HOLDS)
    case = min(cases, key=lambda case: (order.index(case["verdict"]), case["margin"]))
    shown = list(case["numbers"].items())[:NUMBERS_SHOWN]
    numbers = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in shown)
    where = f"{case['item']}: " if case["item"] else ""
    others = f"; {len(cases)} cases" if len(cases) > 1 else ""
    return f"{where}{numbers or 'margin ' + number(case['margin'])}{others}"


def _findings(verdicts: Sequence[Mapping[str, Any]]) -> str:
    found = [v for v in verdicts if v["finding"] and v["verdict"] != HOLDS]
    return "".join(f"\n- *{v['says']}* {v['finding']}\n" for v in found)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
