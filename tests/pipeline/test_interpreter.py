"""A session that nobody configured reads the log, also if the program's virtual environment is not active."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.store import open_store
from tests.pipeline.log_makers import simple

PLAIN = """
import sys
from pyspark.sql import SparkSession
import gossamer.pipeline
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    spark.dataSource.register(gossamer.pipeline.LogSource)
    print("rows:", spark.read.format("gossamer").option("store", sys.argv[1]).load().count())
except gossamer.Error as error:
    print("refused:", error)
"""


@pytest.fixture
def inactive(tmp_path: Path) -> dict[str, str]:
    """An environment whose `python3` is one without gossamer."""
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys._base_executable} -S "$@"\n')
    bare.chmod(0o755)
    ours = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "VIRTUAL_ENV")}
    return ours | {"SPARK_LOCAL_IP": "127.0.0.1", "PATH": f"{bare.parent}:/usr/bin:/bin:{os.environ['PATH']}"}


def outcome(environment: dict[str, str], store: Path) -> str:
    line = [sys.executable, "-c", PLAIN, str(store)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=180, check=False)
    return done.stdout + done.stderr


def test_a_plain_session_of_an_inactive_environment_reads_the_log(inactive, tmp_path):
    with open_store(tmp_path / "log") as log:
        log.append(simple(1, range(10)))
    assert "rows: 30" in outcome(inactive, tmp_path / "log")


def test_a_python_without_gossamer_that_was_asked_for_is_refused_with_what_to_set(inactive, tmp_path):
    wrong = inactive | {"PYSPARK_PYTHON": str(tmp_path / "bin" / "python3")}
    said = outcome(wrong, tmp_path)
    assert "refused: Spark's workers run" in said
    assert f"set PYSPARK_PYTHON={sys.executable}" in said
