"""The Python that Spark's workers run: it must have gossamer, or every query fails with a ModuleNotFoundError.

A session that nobody configured starts `python3`, which is not the Python of a virtual environment that was not
activated. While nothing was registered yet that can be changed, so registration is where we look.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

from pyspark import SparkContext

from gossamer.pipeline.session import PipelineError, is_local

_VARIABLE = "PYSPARK_PYTHON"


def check_workers() -> None:
    """Have workers started with this Python if theirs lacks gossamer; PipelineError if that cannot be changed here."""
    context = SparkContext._active_spark_context
    if context is None or context.pythonExec == sys.executable or _has_gossamer(context.pythonExec):
        return  # a worker has no context
    if is_local(str(context.master)) and _VARIABLE not in os.environ:
        context.pythonExec = sys.executable
        return
    raise PipelineError(
        f"Spark's workers run {context.pythonExec!r}, which cannot import gossamer: set {_VARIABLE}={sys.executable}, "
        "or another Python that has gossamer on every host, before the session starts"
    )


@cache
def _has_gossamer(python: str) -> bool:
    try:
        tried = subprocess.run([python, "-c", "import gossamer"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0
