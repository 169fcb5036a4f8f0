"""The picture of a map: channels x members, how much of what a member hears there it wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gossamer.pipeline.channels.mapping import Outcome
from gossamer.pipeline.session import PipelineError

SIZE = (10.0, 5.2)


def draw(outcome: Outcome, facts: dict[str, Any], path: Path) -> None:
    """Write a heat map of channels x members to `path` (.svg, .png or .pdf)."""
    try:
        import matplotlib
    except ImportError:
        raise PipelineError("matplotlib is not installed; install it with: pip install 'gossamer[plots]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (heat, bars) = pyplot.subplots(1, 2, figsize=SIZE, sharey=True, width_ratios=(5, 1.4), layout="constrained")
    _heat(figure, heat, outcome)
    _bars(bars, outcome)
    waste = facts["waste"]
    part = waste["map"] / waste["hashed"] if waste["hashed"] else 0.0
    title = f"{facts['subjects']:,} subjects in {facts['channels']} channels"
    heat.set_title(f"{title}: {part:.0%} of the waste that hashed subjects would cause")
    try:
        figure.savefig(path, dpi=110, metadata=_metadata(path))
    except (ValueError, OSError) as error:
        raise PipelineError(f"--plot {path}: {error}; write to a file that ends in .svg, .png or .pdf") from None
    finally:
        pyplot.close(figure)


def _heat(figure: Any, axes: Any, outcome: Outcome) -> None:
    """Colour: the part of a channel that the member wants; white where it does not listen."""
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(outcome.listens, outcome.wanted / outcome.weight[:, None], np.nan)
    main = np.argmax(outcome.wanted, axis=0)  # members side by side that want most of the same channel
    order = np.lexsort((-outcome.wanted.sum(axis=0), main))
    image = axes.imshow(
        np.ma.masked_invalid(part[:, order]), aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="none"
    )
    axes.set_xlabel("members, by the channel that they want most of")
    axes.set_ylabel("channel")
    axes.set_yticks(range(len(outcome.weight)) if len(outcome.weight) <= 32 else range(0, len(outcome.weight), 8))
    figure.colorbar(image, ax=axes, label="part of the channel that the member wants", location="left", shrink=0.8)


def _bars(axes: Any, outcome: Outcome) -> None:
    places = np.arange(len(outcome.weight))
    total = max(float((outcome.weight * outcome.listens.sum(axis=1)).sum()), 1e-300)
    wanted, wasted = outcome.wanted.sum(axis=1) / total, outcome.wasted.sum(axis=1) / total
    axes.barh(places, wanted, color="#2ca25f", label="wanted")
    axes.barh(places, wasted, left=wanted, color="#e0662b", label="wasted")
    axes.set_xlabel("part of all that is heard")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(frameon=False, fontsize=8)


def _metadata(path: Path) -> dict[str, Any]:
    return {"Date": None, "Creator": "gossamer"} if path.suffix == ".svg" else {}
