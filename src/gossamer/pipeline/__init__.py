"""PySpark behind the log and behind every experiment. The only package that imports pyspark, and only when used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.pipeline.source import LogSource as LogSource

_WHERE = {"LogSource": "gossamer.pipeline.source"}
"""Names that are loaded when they are first used: pyspark takes a second."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gossamer.pipeline' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
