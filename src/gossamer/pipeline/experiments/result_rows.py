"""The row of a run in `results.parquet`: every number of `simulate --json`, and whether the run succeeded.

Nested tables stay nested (`everywhere_latency.mean`), tables by member or link are maps (`repairs.by_member['3']`).
A run that failed has `status` and `reason`, and nulls for its numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from gossamer.pipeline.experiments.grid import Run, dumps

FINE, FAILED, LATE, MEMORY, KILLED = "fine", "failed", "time", "memory", "killed"
"""How a run ended: done, with an error, over its time limit, over its memory limit, or because its process died."""


def _struct(names: str, kind: pa.DataType) -> pa.DataType:
    return pa.struct([(name, kind) for name in names.split()])


_COUNTS = _struct("packets bytes", pa.int64())

SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("experiment", pa.string()),
        ("seed", pa.int64()),
        ("point", pa.map_(pa.string(), pa.string())),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("attempts", pa.int64()),
        ("run_seconds", pa.float64()),
        ("cpu_seconds", pa.float64()),
        ("name", pa.string()),
        ("protocol", pa.string()),
        ("members", pa.int64()),
        ("virtual_seconds", pa.float64()),
        ("packets", _struct("sent everywhere lost refused", pa.int64())),
        ("deliveries", _struct("expected actual duplicate bogus first_pass peer logger", pa.int64())),
        ("latency", _struct("mean p50 p99 max", pa.float64())),
        ("everywhere_latency", _struct("mean std p50 p99 max", pa.float64())),
        ("overhead", _COUNTS),
        ("overhead_by_kind", pa.map_(pa.string(), _COUNTS)),
        ("repairs", pa.struct([("sent", pa.int64()), ("by_member", pa.map_(pa.string(), pa.int64()))])),
        ("links", pa.map_(pa.string(), _COUNTS)),
        (
            "buffers",
            pa.struct(
                [
                    ("peak_packets", pa.map_(pa.string(), pa.int64())),
                    ("mean_packets", pa.map_(pa.string(), pa.float64())),
                    ("log_packets", pa.map_(pa.string(), pa.int64())),
                ]
            ),
        ),
        ("queue_drops", pa.int64()),
        (
            "coordinators",
            pa.struct(
                [
                    *((name, pa.int64()) for name in ("changes", "filled", "addressed")),
                    *((name, pa.float64()) for name in ("tree_cost", "root_distance")),
                ]
            ),
        ),
        ("waste", _struct("wanted one hashed merged mapped rules map_bytes", pa.float64())),
        ("change", _struct("kept renewed both moved joined", pa.float64())),
        ("violations", pa.list_(_struct("spec message", pa.string()))),
        ("trace_hash", pa.string()),
        ("repeated", pa.int64()),
        ("outstanding", pa.int64()),
        ("events", pa.int64()),
        ("wall_seconds", pa.float64()),
    ]
)


def row(run: Run, outcome: Mapping[str, Any], attempts: int) -> dict[str, Any]:
    """The row of a run, from what its process returned."""
    result = outcome.get("result", {})
    return {
        **result,
        "run": run.run,
        "experiment": run.experiment,
        "seed": run.seed,
        "point": dumps(run.point),
        "status": outcome["status"],
        "reason": outcome.get("reason", ""),
        "attempts": attempts,
        "run_seconds": outcome["seconds"],
        "cpu_seconds": outcome.get("cpu_seconds"),
    }


def batch(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Convert rows to Arrow: plain tables become maps, and what is not in the schema is left out."""
    columns = [pa.array([_value(r.get(field.name), field.type) for r in rows], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _value(value: Any, kind: pa.DataType) -> Any:
    """Convert a value to what Arrow expects: maps as lists of pairs, structs without unknown fields."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _value(part, kind.item_type)) for key, part in value.items()]
    if pa.types.is_struct(kind):
        return {field.name: _value(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_value(part, kind.value_type) for part in value]
    return value
