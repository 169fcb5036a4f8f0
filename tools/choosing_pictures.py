"""Draw the pictures of `docs/choosing.md` from the results of experiments.

gossamer experiment run comparators --out runs/comparators
gossamer experiment run buffering --out runs/buffering
python tools/choosing_pictures.py docs/choosing runs/comparators runs/buffering

A picture is a plot of an experiment: its points are in the run directory, its labels in the experiment's file.
"""

import sys
from pathlib import Path

import pyarrow.parquet as pq

from gossamer.pipeline.experiments.figures import draw
from gossamer.pipeline.experiments.files import Plot, load

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
PICTURES = {
    "throughput": ("comparators", "004-fig-1"),
    "overhead": ("comparators", "004-fig-12"),
    "buffers": ("buffering", "003-growth"),
}
"""By the name of the picture: a collection of experiments, and one of its plots."""


def plot_of(collection: str, name: str) -> Plot:
    """The plot, as its experiment describes it."""
    experiments = load(EXPERIMENTS / f"{collection}.toml").experiments
    return next(plot for experiment in experiments for plot in experiment.plot if plot.name == name)


def main(folder: Path, runs: list[Path]) -> int:
    """Draw every picture whose points are in one of the run directories; returns 1 if some are not."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = 0
    for picture, (collection, name) in PICTURES.items():
        found = [path for run in runs if (path := run / "metrics" / f"plot-{name}.parquet").exists()]
        if not found:
            sys.stderr.write(f"{picture}: no run directory has the points of {name}\n")
            missing = 1
            continue
        draw(plot_of(collection, name), pq.read_table(found[0]).to_pylist(), folder / picture)
        (folder / picture).with_suffix(".png").unlink()
    return missing


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [Path(argument) for argument in sys.argv[2:]]))
