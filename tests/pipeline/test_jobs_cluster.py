"""A standalone cluster on loopback, whose workers have no gossamer of their own, reads the log and maps channels."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from gossamer.store import open_store
from tests.pipeline.log_makers import simple

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
PATIENCE_S = 120.0

READ = """
import sys
from gossamer.pipeline import LogSource
from gossamer.pipeline.channels.job import map_channels
from gossamer.pipeline.session import running

def where(batches):
    import gossamer, pyarrow
    for batch in batches:
        yield pyarrow.record_batch({"file": [gossamer.__file__] * batch.num_rows})

with running("cluster test", sys.argv[1]) as spark:
    spark.dataSource.register(LogSource)
    log = spark.read.format("gossamer").option("store", sys.argv[2]).load()
    files = log.limit(1).mapInArrow(where, "file string").collect()
    waste = map_channels(spark, log, {"quotes.a": ("ann",), "quotes.b": ("bob",)}, 2).facts["waste"]
    sys.stdout.write(f"{log.count()} {files[0].file} {waste['map']} {waste['one_channel']}")
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def daemon(tmp_path: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A part of the cluster, with nothing of ours in its environment."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(SPARK_CLASS), f"org.apache.spark.deploy.{name.lower()}.{name}", *arguments],
            stdout=log,
            stderr=log,
            env=environment,
            cwd=tmp_path,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def wait_for(text: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while text not in log.read_text("utf-8", "replace"):
        assert time.monotonic() < deadline, log.read_text("utf-8", "replace")[-2000:]
        time.sleep(0.1)


@pytest.mark.soak
def test_a_standalone_cluster_reads_the_log_and_maps_channels_with_the_package_that_it_is_sent(tmp_path: Path):
    with open_store(tmp_path / "store") as log:
        log.append(simple(5, range(50)))
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"

    with ExitStack() as cluster:
        cluster.enter_context(
            daemon(tmp_path, "Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
        )
        wait_for("I have been elected leader", tmp_path / "Master.log")
        cluster.enter_context(daemon(tmp_path, "Worker", "--cores", "2", "--memory", "1g", "--webui-port", "0", master))
        wait_for("Successfully registered", tmp_path / "Worker.log")
        read = subprocess.run(
            [sys.executable, "-c", READ, master, str(tmp_path / "store")],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    assert read.returncode == 0, read.stderr[-2000:]
    count, file, waste, before = read.stdout.split()
    assert count == "150"
    assert ".zip" in file
    assert (float(waste), float(before)) == (50, 150)  # everybody hears channel 0, and `b`, the smaller part, is in it
