"""PySpark jobs on the log, and experiments on Spark. The only package that imports pyspark, and only when used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.pipeline.source import LogSource as LogSource

_WHERE = {"LogSource": "gossamer.pipeline.source"}
"""Names that are imported on first use, because pyspark takes a second to import."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gossamer.pipeline' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
