"""One Spark session for all tests of a process: it takes seconds to start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from gossamer.pipeline.session import running


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two cores."""
    with running("tests", "local[2]") as session:
        yield session
