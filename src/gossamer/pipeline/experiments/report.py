"""The report: one self-contained HTML file, made from a run directory.

It reads `claims.json`, the figures and the experiment's own texts, and does not need Spark. Figures are inlined as SVG,
in the colour of the page's text, so that they follow light and dark mode.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from gossamer.pipeline.experiments.campaign import scenario_toml
from gossamer.pipeline.experiments.claims import FAILS, HOLDS, UNDECIDED
from gossamer.pipeline.experiments.directory import Directory
from gossamer.pipeline.experiments.figures import INK
from gossamer.pipeline.experiments.files import Collection, Experiment, Plot
from gossamer.pipeline.experiments.style import STYLE
from gossamer.pipeline.session import PipelineError

CASES_SHOWN = 40
MARKS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?"}
CLASSES = {HOLDS: "holds", FAILS: "fails", UNDECIDED: "open"}

Facts = dict[str, Any]


def write_report(path: Path) -> Path:
    """Write the `report.html` of a run directory; returns its path."""
    directory, collection = Directory.open(path)
    directory.report.write_text(render(directory, collection), "utf-8")
    return directory.report


def render(directory: Directory, collection: Collection) -> str:
    """The whole page."""
    found = read_outcome(directory)
    facts = directory.facts()
    sections = [_section(directory, experiment, found, facts) for experiment in collection.experiments]
    body = [
        _head(collection, found, facts),
        _overview(collection, found),
        *sections,
        _troubles(found),
        _foot(facts),
    ]
    return _page(collection.title, "\n".join(body))


def read_outcome(directory: Directory) -> Facts:
    """Read the outcome of a study from its directory."""
    try:
        found: Facts = json.loads((directory.path / "claims.json").read_text("utf-8"))
    except (OSError, ValueError):
        done = sum(pq.read_metadata(part).num_rows for part in directory.parts())
        says = f"not finished, {done} runs are done; continue with the same gossamer experiment run --out"
        raise PipelineError(f"{directory.path}: {says} {directory.path}") from None
    return found


def _page(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{escape(title)}</title><style>{STYLE}</style></head>
<body><main>
{body}
</main></body></html>
"""


def _head(collection: Collection, found: Facts, facts: Facts) -> str:
    counts = {verdict: sum(v["verdict"] == verdict for v in found["verdicts"]) for verdict in MARKS}
    tiles = [f'<div class="tile {CLASSES[v]}"><b>{n}</b><span>{v}</span></div>' for v, n in counts.items()]
    tiles.append(f'<div class="tile"><b>{found["runs"]:,}</b><span>runs</span></div>')
    if found["failed"]:
        tiles.append(f'<div class="tile fails"><b>{len(found["failed"])}</b><span>runs failed</span></div>')
    if found["violations"] or not found["verdicts"]:
        kind = "fails" if found["violations"] else "holds"
        tiles.append(f'<div class="tile {kind}"><b>{len(found["violations"])}</b><span>violations</span></div>')
    shown = tiles if found["verdicts"] else tiles[3:]
    return f"""<header><p class="kicker">gossamer {escape(str(facts["gossamer"]))}</p>
<h1>{escape(collection.title)}</h1><p class="lead">{escape(collection.text)}</p>
<div class="tiles">{"".join(shown)}</div></header>"""


def _overview(collection: Collection, found: Facts) -> str:
    """Every claim in one table."""
    if not found["verdicts"]:
        return ""
    rows = []
    for experiment in collection.experiments:
        for verdict in _verdicts(found, experiment):
            link = f'<a href="#{_anchor(verdict)}">{escape(verdict["says"])}</a>'
            rows.append(
                f"<tr><td class=place>{escape(verdict['place'])}</td><td>{link}</td><td>{_badge(verdict)}</td></tr>"
            )
    return f"""<section><h2>Verdicts</h2>
<p>A claim is a sentence of a paper and a query over the runs that yields, for every case and seed, the margin by which
the sentence is true. It <b>holds</b> if the 95% confidence interval of the mean margin is at least 0 in every case,
<b>fails</b> if it lies below 0 in one, and is <b>not decided</b> otherwise.</p>
<table class="overview"><thead><tr><th>place</th><th>claim</th><th>verdict</th></tr></thead>
<tbody>{"".join(rows)}</tbody></table></section>"""


def _section(directory: Directory, experiment: Experiment, found: Facts, facts: Facts) -> str:
    figures = "".join(_figure(directory, plot) for plot in experiment.plot)
    claims = "".join(_claim(verdict) for verdict in _verdicts(found, experiment))
    answer = f"<p>{escape(experiment.answer)}</p>" if experiment.answer else ""
    return f"""<section id="{experiment.name}"><p class="kicker">{escape(experiment.place)}</p>
<h2>{escape(experiment.title)}</h2><p class="question">{escape(experiment.question)}</p>{answer}
<div class="figures">{figures}</div>{claims}{_settings(experiment, facts)}</section>"""


def _figure(directory: Directory, plot: Plot) -> str:
    path = directory.figures / f"{plot.name}.svg"
    if not path.exists():
        return ""
    note = f" {escape(plot.note)}" if plot.note else ""
    caption = f"<figcaption><b>{escape(plot.title or plot.name)}.</b>{note}</figcaption>"
    return f'<figure id="figure-{plot.name}">{inline_svg(path.read_text("utf-8"), plot.title)}{caption}</figure>'


def inline_svg(text: str, title: str) -> str:
    """Convert the file of a figure for inlining: no prologue, no fixed size, the text colour of the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', rf'\1 role="img" aria-label="{escape(title)}"', text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"font-family: [^;\"]*; ?", "", text)  # the page's own
    return text.replace(INK, "currentColor")


def _claim(verdict: Mapping[str, Any]) -> str:
    paper = f'<p class="paper">The paper: {escape(verdict["paper"])}</p>' if verdict["paper"] else ""
    finding = ""
    if verdict["finding"] and verdict["verdict"] != HOLDS:
        finding = f'<p class="finding">{escape(verdict["finding"])}</p>'
    return f"""<article class="claim {CLASSES[verdict["verdict"]]}" id="{_anchor(verdict)}">
<p class="says">{_badge(verdict)} {escape(verdict["says"])} <span class="place">{escape(verdict["place"])}</span></p>
{paper}{finding}{_cases(verdict["cases"])}</article>"""


def _cases(cases: Sequence[Mapping[str, Any]]) -> str:
    """The numbers behind a verdict, with the cases that do not hold first."""
    if not cases:
        return "<p>No run gave a result for this claim.</p>"
    ordered = sorted(cases, key=lambda case: (FAILS, UNDECIDED, HOLDS).index(case["verdict"]))[:CASES_SHOWN]
    names = list(dict.fromkeys(name for case in ordered for name in case["numbers"]))
    heads = [*(name.replace("_", " ") for name in names), "margin", "95% interval", "seeds"]
    head = "".join(f"<th class=n>{escape(name)}</th>" for name in heads)
    rows = "".join(_case(case, names) for case in ordered)
    more = f"<p>... and {len(cases) - CASES_SHOWN} more.</p>" if len(cases) > CASES_SHOWN else ""
    return f"""<details{" open" if len(ordered) <= 4 else ""}><summary>the numbers</summary><div class="scroll"><table>
<thead><tr><th>case</th>{head}<th></th></tr></thead>
<tbody>{rows}</tbody></table></div>{more}</details>"""


def _case(case: Mapping[str, Any], names: Iterable[str]) -> str:
    numbers = "".join(f"<td class=n>{number(case['numbers'].get(name))}</td>" for name in names)
    interval = f"{number(case['low'])} … {number(case['high'])}"
    mark = f'<span class="{CLASSES[case["verdict"]]}">{MARKS[case["verdict"]]}</span>'
    return (
        f"<tr><td>{escape(case['item'])}</td>{numbers}<td class=n>{number(case['margin'])}</td>"
        f"<td class=n>{interval}</td><td class=n>{case['samples']}</td><td>{mark}</td></tr>"
    )


def number(value: float | None) -> str:
    """Format a number for people: four significant digits."""
    if value is None or value != value:
        return "–"
    if abs(value) == float("inf"):
        return "∞" if value > 0 else "−∞"
    if value == int(value) or abs(value) >= 10_000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.4g}" if abs(value) >= 1e-4 else f"{value:.1e}"
    return text.replace("-", "−")


def _settings(experiment: Experiment, facts: Facts) -> str:
    grid = "\n".join(f"{key} = {json.dumps(values)}" for key, values in experiment.grid.items())
    variants = "\n".join(f"{v.name}: {json.dumps(v.set)}" for v in experiment.variant)
    parts = [scenario_toml(experiment.scenario) if experiment.scenario else "drawn from the seed"]
    parts += [f"# grid\n{grid}" if grid else "", f"# variants\n{variants}" if variants else ""]
    seeds = facts.get("seeds") or experiment.seeds
    command = f"gossamer experiment run {experiment.name} --seeds {seeds} --out runs/{experiment.name}"
    text = "\n".join(part for part in parts if part)
    return f"""<details class="settings"><summary>settings and command</summary>
<pre>{escape(command)}</pre><pre>{escape(text)}</pre></details>"""


def _troubles(found: Facts) -> str:
    """The runs that failed and the specifications that were violated."""
    parts = []
    if found["violations"]:
        rows = "".join(
            f"<tr><td class=n>{v['seed']}</td><td>{escape(v['spec'])}</td><td>{escape(v['message'])}</td>"
            f"<td><code>{escape(v['replay'])}</code></td></tr>"
            for v in found["violations"]
        )
        head = "<tr><th>seed</th><th>specification</th><th>what</th><th>replay</th></tr>"
        parts.append(f"<section><h2>Violations</h2><div class=scroll><table>{head}{rows}</table></div></section>")
    if found["failed"]:
        rows = "".join(
            f"<tr><td>{escape(v['run'])}</td><td>{escape(v['status'])}</td><td>{escape(v['reason'])}</td></tr>"
            for v in found["failed"]
        )
        head = "<tr><th>run</th><th>what</th><th>reason</th></tr>"
        parts.append(f"<section><h2>Runs that failed</h2><div class=scroll><table>{head}{rows}</table></div></section>")
    return "".join(parts)


def _foot(facts: Facts) -> str:
    names = ("python", "pyspark", "pyarrow", "numpy", "scipy", "matplotlib", "platform")
    made = ", ".join(f"{name} {facts[name]}" for name in names if name in facts)
    return f"<footer>Made with gossamer {escape(str(facts['gossamer']))}; {escape(made)}.</footer>"


def _verdicts(found: Facts, experiment: Experiment) -> list[Facts]:
    return [verdict for verdict in found["verdicts"] if verdict["experiment"] == experiment.name]


def _badge(verdict: Mapping[str, Any]) -> str:
    name = verdict["verdict"]
    return f'<span class="badge {CLASSES[name]}">{MARKS[name]} {name}</span>'


def _anchor(verdict: Mapping[str, Any]) -> str:
    return f"{verdict['experiment']}-{verdict['name']}"
