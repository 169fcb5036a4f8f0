"""Groupings of subjects by Spark ML: k-means and bisecting k-means on who wants what, weighted by traffic.

Both minimise squared distances between subjects and the centre of their channel, not waste; they are where `improved`
begins, beside the greedy merge. A point is one kind of subject: its vector has a 1 for each member that wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.analysis.channels import Demand, Grouping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ITERATIONS = 10
SEED = 1
_WEIGHT_MIN = 1e-6
"""Of the mean weight: a kind of subject without traffic still belongs somewhere."""


def clustered(spark: SparkSession, demand: Demand, channels: int) -> dict[str, Grouping]:
    """A grouping by each of the two algorithms; none where all kinds share a channel, or each can have its own."""
    from pyspark.ml.clustering import BisectingKMeans, KMeans

    if channels < 2 or len(demand.weights) <= channels:
        return {}
    points = _points(spark, demand).cache()
    chosen: dict[str, Any] = {"weightCol": "weight", "k": channels, "maxIter": ITERATIONS, "seed": SEED}
    found = {}
    for name, algorithm in (("kmeans", KMeans(**chosen)), ("bisecting", BisectingKMeans(**chosen))):
        found[name] = _predicted(algorithm.fit(points), points)
    points.unpersist()
    return found


def _points(spark: SparkSession, demand: Demand) -> DataFrame:
    from pyspark.ml.linalg import Vectors

    members = demand.wants.shape[1]
    least = _WEIGHT_MIN * max(float(demand.weights.mean()), 1.0)
    rows = []
    for kind, weight in enumerate(demand.weights):
        wanted = np.sort(demand.row(kind))
        vector = Vectors.sparse(members, wanted.tolist(), [1.0] * len(wanted))
        rows.append((kind, max(float(weight), least), vector))
    return spark.createDataFrame(rows, ["kind", "weight", "features"])


def _predicted(model: Any, points: DataFrame) -> Grouping:
    rows = model.transform(points).select("kind", "prediction").collect()
    grouping = np.zeros(len(rows), np.int64)
    for row in rows:
        grouping[row.kind] = row.prediction
    return grouping
