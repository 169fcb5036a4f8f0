"""One Spark session for all tests of the pipeline: it takes seconds to start."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gossamer.pipeline.session import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    with running("gossamer tests", "local[2]") as session:
        yield session
