"""Claims and verdicts.

The query of a claim yields, for each case (`item`) and seed, the `margin` by which the claim is true: say, the
difference of two measurements with the same seed. Over the seeds of a case, the mean margin has a 95% confidence
interval (Student's t). A case **holds** if the whole interval is at least 0, **fails** if all of it is below 0, and is
**not decided** if 0 is inside. A claim is as good as its worst case.

Further numeric columns are averaged and shown as the numbers behind the verdict.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gossamer.pipeline.experiments.files import Claim, Experiment
from gossamer.pipeline.session import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOLDS, FAILS, UNDECIDED = "holds", "fails", "not decided"
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a claim: its margin, and the numbers behind it."""

    item: str
    samples: int
    margin: float
    low: float
    high: float
    verdict: str
    numbers: dict[str, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim and its verdict."""

    experiment: str
    name: str
    says: str
    place: str
    paper: str
    finding: str
    verdict: str
    cases: tuple[Case, ...]

    def as_dict(self) -> dict[str, Any]:
        """Convert to plain data."""
        return asdict(self)


def judge(spark: SparkSession, experiment: Experiment, claim: Claim) -> Verdict:
    """Decide a claim by its query."""
    from pyspark.errors import PySparkException

    try:
        cases = tuple(_case(row, claim.exact) for row in _summary(spark.sql(claim.sql)).collect())
    except PySparkException as error:
        says = " ".join(str(error).split())[:300]
        raise PipelineError(f"experiment {experiment.name}: claim {claim.name!r}: {says}") from None
    return _verdict(experiment, claim, cases)


def nothing(experiment: Experiment, claim: Claim) -> Verdict:
    """The verdict if no run was successful: not decided."""
    return _verdict(experiment, claim, ())


def _verdict(experiment: Experiment, claim: Claim, cases: tuple[Case, ...]) -> Verdict:
    return Verdict(
        experiment=experiment.name,
        name=claim.name,
        says=claim.says,
        place=claim.place or experiment.place,
        paper=claim.paper,
        finding=claim.finding,
        verdict=worst([case.verdict for case in cases]),
        cases=cases,
    )


def worst(verdicts: list[str]) -> str:
    """The worst of several verdicts: `FAILS` before `UNDECIDED` before `HOLDS`; `UNDECIDED` if there are none."""
    for verdict in (FAILS, UNDECIDED):
        if verdict in verdicts:
            return verdict
    return HOLDS if verdicts else UNDECIDED


def interval(mean: float, deviation: float, samples: int) -> tuple[float, float]:
    """The confidence interval of a mean: mean ± t(n - 1) s / sqrt(n); infinite for a single sample."""
    from scipy.stats import t

    if samples < 2:
        return -math.inf, math.inf
    half = float(t.ppf((1 + CONFIDENCE) / 2, samples - 1)) * deviation / math.sqrt(samples)
    return mean - half, mean + half


def decide(low: float, high: float) -> str:
    """The verdict of one case."""
    if low >= 0:
        return HOLDS
    return FAILS if high < 0 else UNDECIDED


def _summary(table: DataFrame) -> DataFrame:
    """For each case: the number of samples, the mean margin, its deviation, and the mean of every other number."""
    from pyspark.sql import functions as f

    numbers = [name for name, kind in table.dtypes if name not in ("item", "seed", "margin") and kind != "string"]
    if "item" not in table.columns:
        table = table.withColumn("item", f.lit(""))
    margin = f.col("margin").cast("double")
    return (
        table.withColumn("_at", f.monotonically_increasing_id())
        .groupBy("item")
        .agg(
            f.min("_at").alias("_at"),
            f.count(margin).alias("_samples"),
            f.avg(margin).alias("_margin"),
            f.coalesce(f.stddev_samp(margin), f.lit(0.0)).alias("_deviation"),
            *(f.avg(f.col(name).cast("double")).alias(name) for name in numbers),
        )
        .orderBy("_at")
    )


def _case(row: Any, exact: bool) -> Case:
    fields = row.asDict()
    samples, margin, deviation = fields.pop("_samples"), fields.pop("_margin"), fields.pop("_deviation")
    fields.pop("_at")
    item = str(fields.pop("item"))
    if margin is None:
        return Case(item, 0, math.nan, -math.inf, math.inf, UNDECIDED, {})
    low, high = (margin, margin) if exact else interval(margin, deviation, samples)
    numbers = {name: float(value) for name, value in fields.items() if value is not None}
    return Case(item, samples, margin, low, high, decide(low, high), numbers)
