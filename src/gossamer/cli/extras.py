"""Which extra has a package that is not installed, so that a command can say what to install."""

from traceback import walk_tb

EXTRAS = {
    "matplotlib": "plots",
    "numpy": "sim",
    "pandas": "spark",
    "pyarrow": "sim",
    "pyspark": "spark",
    "scipy": "sim",
    "starlette": "web",
    "uvicorn": "web",
}

SPARK_COMMANDS = {f"gossamer.cli.{name}" for name in ("demo_spark", "experiment", "pipeline", "report")}
"""Commands that need Spark, whatever they miss first."""


def to_install(package: str) -> str:
    """The command that installs a package of an extra."""
    return f"pip install 'gossamer[{EXTRAS[package]}]'"


def missing(error: ModuleNotFoundError) -> str:
    """What to say about a module that is not there; empty if it is of no extra."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return ""
    callers = {frame.f_globals["__name__"] for frame, _ in walk_tb(error.__traceback__)}
    return f"this needs the package {package}: {to_install('pyspark' if callers & SPARK_COMMANDS else package)}"
