"""The commands as a user meets them: results, exit codes, one clear line for what is wrong."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gossamer.cli import main

ROOT = Path(__file__).parents[2]
LAN = str(ROOT / "scenarios" / "lan.toml")


@pytest.fixture
def gossamer(monkeypatch, capsys):
    """Run the command in this process: status, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gossamer", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def expect_one_line(result: tuple[int, str, str], *says: str) -> None:
    status, out, err = result
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for text in says:
        assert text in err


def test_simulate_shows_a_table(gossamer):
    status, out, err = gossamer("simulate", LAN)
    assert status == 0
    assert "reached every member" in out
    assert err == ""


def test_simulate_json_has_every_key_that_scripts_use(gossamer):
    status, out, _ = gossamer("simulate", LAN, "--json", "--seed", "7")
    result = json.loads(out)
    assert status == 0
    assert result["seed"] == 7
    assert set(result) >= {
        *("name", "seed", "protocol", "members", "virtual_seconds", "packets", "deliveries", "latency"),
        *("everywhere_latency", "overhead", "repairs", "links", "buffers", "violations", "trace_hash"),
        *("events", "wall_seconds"),
    }
    assert set(result["packets"]) >= {"sent", "everywhere", "lost"}
    assert set(result["deliveries"]) >= {
        *("expected", "actual", "duplicate", "bogus", "first_pass", "peer", "logger"),
    }
    assert set(result["latency"]) == {"mean", "p50", "p99", "max"}
    assert set(result["everywhere_latency"]) == {"mean", "std", "p50", "p99", "max"}
    assert set(result["buffers"]) >= {"peak_packets", "mean_packets"}


def test_keys_can_be_set(gossamer):
    _, out, _ = gossamer("simulate", LAN, "--json", "--set", "protocol.name=unreliable", "--set", "topology.members=5")
    result = json.loads(out)
    assert (result["protocol"], result["members"]) == ("unreliable", 5)


def test_a_trace_is_written_and_checks(gossamer, tmp_path):
    path = tmp_path / "lan.parquet"
    status, out, _ = gossamer("simulate", LAN, "--trace", str(path))
    assert status == 0
    assert str(path) in out.replace("\n", "")
    status, out, _ = gossamer("check", str(path), "--json")
    report = json.loads(out)
    assert (status, report["ok"]) == (0, True)
    assert report["rows"] == pq.read_metadata(path).num_rows > 1000
    assert gossamer("check", str(path))[0] == 0


def test_a_violation_is_exit_code_one(gossamer, tmp_path):
    """An unreliable run does not keep the promises of a reliable one."""
    from gossamer.sim.run import metadata, simulate
    from gossamer.sim.scenario import load
    from gossamer.trace.writer import TraceWriter

    made = load(Path(LAN), ["protocol.name=unreliable"])
    path = tmp_path / "broken.parquet"
    with TraceWriter(path, "broken", {**metadata(made, 8), "promises": ["eventual"]}) as sink:
        simulate(made, sink=sink)
    status, out, _ = gossamer("check", str(path))
    assert status == 1
    assert "never delivered" in out


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["loss.member=1.5"], "loss.member = 1.5: must be at least 0 and below 1"),
        (["topology.members=0"], "topology.members = 0"),
        (["topology.colour=red"], "unknown key topology.colour"),
        (["topology.kind=ring"], "must be one of"),
        (["duration=long"], "duration = 'long': must be a number"),
        (["traffic.senders=99"], "there are only 8 members"),
        (["protocol.name=x"], "protocol.name = 'x': must be one of"),
        (["nonsense"], "--set nonsense"),
        (["topology.kind=file", "topology.path=/no/such"], "/no/such"),
    ],
)
def test_an_invalid_scenario_is_refused_in_one_line(gossamer, changes, says):
    arguments = [part for change in changes for part in ("--set", change)]
    expect_one_line(gossamer("simulate", LAN, *arguments), says)


def test_a_partition_with_an_unknown_member_is_refused_in_one_line(gossamer, tmp_path):
    path = tmp_path / "bad.toml"
    text = Path(LAN).read_text() + '\n[[fault]]\nkind = "partition"\nmembers = [[0], [99]]\n'
    path.write_text(text)
    expect_one_line(gossamer("simulate", str(path)), "fault[0].members names member 99", "0 to 7")


def test_an_edge_list_that_is_not_connected_is_refused_in_one_line(gossamer, tmp_path):
    (tmp_path / "edges.csv").write_text("a,b,0.001\nc,d,0.001\n")
    text = Path(LAN).read_text().replace('kind = "lan"', 'kind = "file"\npath = "edges.csv"')
    (tmp_path / "bad.toml").write_text(text)
    expect_one_line(gossamer("simulate", str(tmp_path / "bad.toml")), "edges.csv", "connected")


@pytest.mark.parametrize("content", [None, "not = [toml", "\xff\xfe"])
def test_a_scenario_that_cannot_be_read_is_refused_in_one_line(gossamer, tmp_path, content):
    path = tmp_path / "bad.toml"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    expect_one_line(gossamer("simulate", str(path)), str(path))


def test_a_truncated_trace_is_refused_in_one_line(gossamer, tmp_path):
    path = tmp_path / "lan.parquet"
    gossamer("simulate", LAN, "--trace", str(path))
    path.write_bytes(path.read_bytes()[:-100])
    expect_one_line(gossamer("check", str(path)), str(path))


def test_a_trace_that_cannot_be_written_is_reported_in_one_line_and_leaves_nothing_behind(gossamer, tmp_path):
    expect_one_line(gossamer("simulate", LAN, "--trace", str(tmp_path / "no" / "such.parquet")), "such.parquet")
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage_is_reported_in_one_line(gossamer):
    expect_one_line(gossamer("simulate"), "gossamer simulate --help")
    expect_one_line(gossamer("simulate", LAN, "--sed", "1"), "--sed")
    expect_one_line(gossamer("fly"), "fly")


def test_every_command_has_help_with_an_example(gossamer):
    status, out, _ = gossamer("--help")
    assert status == 0
    commands = [line.split()[1] for line in out.splitlines() if line.startswith("│ ") and not line.startswith("│ -")]
    assert {"simulate", "check"} <= set(commands)
    for command in ("simulate", "check"):
        assert "Example" in gossamer(command, "--help")[1]
