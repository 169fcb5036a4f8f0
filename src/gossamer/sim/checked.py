"""The checker run: simulate, keep the trace, and check it against the specifications.

The trace goes through a file, so that a run of any length is checked in constant memory, and by the very code
that checks the traces of live runs.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gossamer.sim.run import Progress, build_topology, metadata, simulate
from gossamer.sim.scenario import Scenario
from gossamer.sim.world import MakeStack
from gossamer.spec import check as check_trace
from gossamer.trace.writer import TraceWriter


def traced(
    scenario: Scenario,
    path: Path | None = None,
    *,
    check: bool = True,
    progress: Progress | None = None,
    make_stack: MakeStack | None = None,
) -> dict[str, Any]:
    """Simulate with a trace, at `path` or in a temporary file; the result's `violations` are the checkers'."""
    with TemporaryDirectory(prefix="gossamer-") as folder:
        trace = path or Path(folder) / "trace.parquet"
        topology = build_topology(scenario)
        with TraceWriter(trace, f"{scenario.name}/{scenario.seed}", metadata(scenario, len(topology.members))) as sink:
            result = simulate(scenario, sink=sink, progress=progress, make_stack=make_stack, topology=topology)
        if check:
            result["violations"] = [violation.as_dict() for violation in check_trace(trace).violations]
    return result
