"""How far a Spark job is, asked from a thread while the job runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S = 0.5

Tell = Callable[[int, int], None]
"""Called with the tasks done and the tasks known so far."""


@contextmanager
def watching(spark: SparkSession, tell: Tell) -> Iterator[None]:
    """Tell how many tasks of the stages under way are done, while what is inside runs."""
    ended = threading.Event()

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not ended.wait(EVERY_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in stages if stage)
            tell(done, sum(stage.numTasks for stage in stages if stage))

    thread = threading.Thread(target=watch, name="watching", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
