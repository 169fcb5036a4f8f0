"""One Spark session per command, configured for a small machine.

`spark_session` gives it, or raises `PipelineError` with one line that says what to do: no pyspark, no Java, a master
that does not answer. pyspark is imported when a session is asked for, not before.

Executors elsewhere get this package as a zip file, so that a cluster needs Python, pyarrow, numpy and scipy, but no
gossamer of its own. A local master runs in our own environment and reads the package where it lies.
"""

from __future__ import annotations

import atexit
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_WAIT_S = 5.0
"""How long a standalone master may take to accept a connection."""

EXECUTOR_WAIT_S = 30.0
"""How long a cluster may take to give us a first executor."""

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
"""What a laptop wants; `spark_session(..., **conf)` and spark-defaults.conf of a cluster change it."""

_PACKAGE = Path(__file__).resolve().parent.parent


class PipelineError(ValueError):
    """Work for Spark that cannot be done; the message is one line that says what is wrong and what to do."""


def spark_session(name: str, master: str = "local[*]", **conf: str) -> SparkSession:
    """The session of this process, started if there is none; `conf` are further settings (`spark.x.y`)."""
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
        # py4j's errors carry Java's; whatever it was, there is no session to go on with
        raise PipelineError(f"Spark does not start on master {master}: {_reason(error, log)}") from None
    return session


@contextmanager
def running(name: str, master: str = "local[*]", **conf: str) -> Iterator[SparkSession]:
    """A session for one command; it is stopped at the end, whatever the end is."""
    session = spark_session(name, master, **conf)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """What is started meanwhile writes its standard error to `log`: a JVM talks too much for a command line."""
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
    """Give the executors this package as a zip file; Spark serves it from `folder` as long as the session lives."""
    archive = folder / "gossamer.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(_PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, path.relative_to(_PACKAGE.parent))
    session.sparkContext.addPyFile(str(archive))


def _await_executor(session: SparkSession, master: str) -> None:
    """A master without workers would let the first job wait for ever."""
    until = time.monotonic() + EXECUTOR_WAIT_S
    while session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 2:  # the driver counts as one
        if time.monotonic() > until:
            session.stop()
            raise PipelineError(f"--master {master}: no executor within {EXECUTOR_WAIT_S:.0f} s; start a worker there")
        time.sleep(0.1)


def is_local(master: str) -> bool:
    """Whether executors are threads of this machine's one JVM."""
    return master == "local" or master.startswith("local[")


def _places(master: str) -> dict[str, str]:
    """Settings that depend on where the executors are."""
    host = re.match(r"spark://([^:,]+)", master)
    if host is not None and not host[1].startswith(("127.", "localhost")):
        return {}  # executors elsewhere must find the way back to the driver: Spark knows its address best
    places = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    if is_local(master):  # local workers import the very package that asks, wherever Python was started
        places["spark.executorEnv.PYTHONPATH"] = str(_PACKAGE.parent)
    return places


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = (Path(home) / "bin" / "java").exists() if home else shutil.which("java") is not None
    if not found:
        where = f"JAVA_HOME = {home} holds no bin/java" if home else "no java on the path"
        raise PipelineError(f"{where}; Spark needs Java 17, for example openjdk-17-jre-headless")


def _check_master(master: str) -> None:
    """Spark itself would try a dead standalone master for a minute, so knock first."""
    if not re.match(r"local$|local\[|local-cluster\[|spark://|yarn$|k8s://", master):
        raise PipelineError(
            f"--master {master}: must be local[*], local-cluster[..], spark://HOST:PORT, yarn or k8s://"
        )
    if not master.startswith("spark://"):
        return
    addresses = master.removeprefix("spark://").split(",")  # several masters: one that answers will do
    refusals = [refusal for refusal in map(_refusal, addresses) if refusal]
    if len(refusals) == len(addresses):
        raise PipelineError(f"--master {master}: {refusals[0]}; start one, or leave --master out to work locally")


def _refusal(address: str) -> str:
    """Why nobody can be reached at HOST:PORT; empty if somebody can."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return f"{address!r} is not HOST:PORT"
    try:
        socket.create_connection((host, int(port)), MASTER_WAIT_S).close()
    except (OSError, OverflowError) as error:
        return f"{address} does not answer ({getattr(error, 'strerror', None) or error})"
    return ""


def _reason(error: Exception, log: Path) -> str:
    """One line: Java's own words if there are any, else what the JVM said last."""
    cause = getattr(error, "java_exception", None)
    if cause is not None:
        return str(cause.toString()).splitlines()[0]
    said = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return f"{str(error).splitlines()[0]}; Java says: {said[-1] if said else 'nothing'}"
