"""One Spark session per command, configured for a small machine.

`spark_session` returns it, or raises `PipelineError` with one line that says what to do: no pyspark, no Java, a master
that does not answer. pyspark is imported only when a session is asked for.

Remote executors get this package as a zip file, so a cluster needs Python, pyarrow, numpy and scipy, but not gossamer
itself. A local master runs in our own environment and imports the package from where it is.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import socket
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from gossamer.core.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_WAIT_S = 5.0
"""How long a standalone master may take to accept a connection."""

EXECUTOR_WAIT_S = 30.0
"""How long a cluster may take to provide the first executor."""

SMALL_MACHINE: dict[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What suits a laptop; `spark_session(..., **conf)` and a cluster's spark-defaults.conf change it."""

_PACKAGE = Path(__file__).resolve().parent.parent


class PipelineError(Error, ValueError):
    """A Spark job that cannot be done; the message is one line that says what is wrong and what to do."""


def spark_session(name: str, master: str = "local[*]", **conf: str) -> SparkSession:
    """The session of this process, started if there is none; `conf` holds further settings (`spark.x.y`)."""
    _check_java()
    _check_master(master)
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise PipelineError("pyspark is not installed; install it with: pip install 'gossamer[spark]'") from None
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**SMALL_MACHINE, **_places(master), **conf}.items():
        builder = builder.config(key, value)
    log = Path(mkdtemp(prefix="gossamer-spark-")) / "spark.log"
    atexit.register(shutil.rmtree, log.parent, ignore_errors=True)
    try:
        with _stderr_to(log):
            session = builder.getOrCreate()
        if not is_local(master):
            _ship_package(session, log.parent)
            _await_executor(session, master)
    except PipelineError:
        raise
    except Exception as error:
        # py4j wraps Java's errors; whatever happened, there is no session to continue with
        raise PipelineError(f"Spark does not start on master {master}: {_reason(error, log)}") from None
    return session


@contextmanager
def running(name: str, master: str = "local[*]", **conf: str) -> Iterator[SparkSession]:
    """A session for one command; it is stopped at the end, even after an error."""
    root = logging.getLogger()
    root.addFilter(_not_interrupted)
    session = spark_session(name, master, **conf)
    try:
        yield session
    finally:
        session.stop()
        root.removeFilter(_not_interrupted)


def _not_interrupted(record: logging.LogRecord) -> bool:
    """Py4J logs the traceback of an interrupt, which is no error, before it passes it on."""
    return not (record.exc_info and record.exc_info[0] is KeyboardInterrupt)


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Send the standard error of what is started inside to `log`: a JVM is too talkative for a command line."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _ship_package(session: SparkSession, folder: Path) -> None:
    """Send this package to the executors as a zip file; Spark serves it from `folder` while the session lives."""
    archive = folder / "gossamer.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(_PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, path.relative_to(_PACKAGE.parent))
    session.sparkContext.addPyFile(str(archive))


def _await_executor(session: SparkSession, master: str) -> None:
    """Wait for an executor: on a master without workers, the first job would wait for ever."""
    until = time.monotonic() + EXECUTOR_WAIT_S
    while session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the driver counts as one
        if time.monotonic() > until:
            session.stop()
            raise PipelineError(f"--master {master}: no executor within {EXECUTOR_WAIT_S:.0f} s; start a worker there")
        time.sleep(0.1)


def is_local(master: str) -> bool:
    """Whether the executors are threads of a single JVM on this machine."""
    return master == "local" or master.startswith("local[")


def _places(master: str) -> dict[str, str]:
    """Settings that depend on where the executors are."""
    host = re.match(r"spark://([^:,]+)", master)
    if host is not None and not host[1].startswith(("127.", "localhost")):
        return {}  # remote executors must be able to reach the driver: Spark knows its address best
    places = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    if is_local(master):  # local workers import this very package, wherever Python was started
        places["spark.executorEnv.PYTHONPATH"] = str(_PACKAGE.parent)
    return places


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None
    if not found:
        where = f"JAVA_HOME = {home} has no bin/java" if home else "no java on the path"
        raise PipelineError(f"{where}; Spark needs Java 17: install it, for example openjdk-17-jre-headless")


def _check_master(master: str) -> None:
    """Check that a standalone master answers: Spark itself would try a dead one for a minute."""
    if not re.match(r"local$|local\[|local-cluster\[|spark://|yarn$|k8s://", master):
        raise PipelineError(
            f"--master {master}: must be local[*], local-cluster[..], spark://HOST:PORT, yarn or k8s://"
        )
    if not master.startswith("spark://"):
        return
    addresses = master.removeprefix("spark://").split(",")  # several masters: one that answers will do
    refusals = [refusal for refusal in map(_refusal, addresses) if refusal]
    if len(refusals) == len(addresses):
        raise PipelineError(f"--master {master}: {refusals[0]}; start one, or leave out --master to work locally")


def _refusal(address: str) -> str:
    """Why nothing answers at HOST:PORT; empty if something does."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return f"{address!r} is not HOST:PORT"
    try:
        socket.create_connection((host, int(port)), MASTER_WAIT_S).close()
    except (OSError, OverflowError) as error:
        return f"{address} does not answer ({getattr(error, 'strerror', None) or error})"
    return ""


def _reason(error: Exception, log: Path) -> str:
    """The reason in one line: Java's exception if there is one, else the last line that the JVM printed."""
    cause = getattr(error, "java_exception", None)
    if cause is not None:
        return str(cause.toString()).splitlines()[0]
    said = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return f"{str(error).splitlines()[0]}; Java says: {said[-1] if said else 'nothing'}"
