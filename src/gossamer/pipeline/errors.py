"""Spark's errors in one line: our own as we raised them, all others by their first line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gossamer.pipeline.session import PipelineError

_OURS = re.compile(r"PipelineError: ([^\n]+)")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn an error that Spark raises inside into a `PipelineError` of one line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError(said(str(error))) from None


def said(text: str) -> str:
    """Find the line of a stack trace that says what happened."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"Spark failed: {lines[0] if lines else 'without a message'}"
