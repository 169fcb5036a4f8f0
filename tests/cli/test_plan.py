"""`gossamer plan` as a user meets it."""

import json
import sys

import pytest

from gossamer.cli import main, plan_check

SMALL = ("plan", "--members", "8", "--loss", "0.05", "--rate", "200", "--rtt", "0.02")


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


def test_a_plan_is_a_table_with_formulas(gossamer):
    status, out, err = gossamer("plan", "--members", "128", "--loss", "0.05", "--rate", "200", "--failure", "1e-8")
    assert (status, err) == (0, "")
    for text in ("gc_rounds", "latency_p99.9", "000 §4.3", "003 §3", "004 App. A", "gossip_period = 0.25"):
        assert text in out


def test_a_plan_as_json_says_everything(gossamer):
    status, out, _ = gossamer("plan", "--members", "128", "--loss", "0.05", "--rate", "200", "--json")
    made = json.loads(out)
    assert status == 0
    assert made["settings"]["gc_rounds"] == made["entries"]["gc_rounds"]["value"] == 9
    assert made["inputs"]["failure"] == 1e-8
    for entry in made["entries"].values():
        assert set(entry) == {"value", "unit", "formula", "reference"}
    assert set(made["entries"]) >= {
        *("gossip_period", "fanout", "gc_rounds", "copies", "buffer_packets", "buffer_bytes", "repair_bandwidth"),
        *("overhead_bandwidth", "latency_p50", "latency_p99", "latency_p99.9", "logger_repairs", "pbcast_fanout"),
    }


def test_the_check_agrees(gossamer):
    status, out, _ = gossamer(*SMALL, "--check", "--seeds", "1", "--json")
    checked = json.loads(out)["check"]
    assert status == 0
    assert checked["agrees"]
    assert {row["name"] for row in checked["rows"]} >= {"latency p99, s", "packets buffered", "packets lost"}
    assert all(row["low"] <= row["observed"] <= row["high"] for row in checked["rows"])


def test_a_disagreement_is_exit_code_one(gossamer, monkeypatch):
    monkeypatch.setattr(plan_check, "OVERHEAD_ERROR", -1.0)
    status, out, _ = gossamer(*SMALL, "--check", "--seeds", "1")
    assert status == 1
    assert "NO" in out
    assert "they disagree" in out


@pytest.mark.parametrize(("suffix", "begins"), [(".png", b"\x89PNG\r\n"), (".svg", b"<?xml")])
def test_a_plot_is_a_real_image(gossamer, tmp_path, suffix, begins):
    path = tmp_path / f"odds{suffix}"
    status, out, _ = gossamer(*SMALL, "--plot", str(path))
    assert status == 0
    assert path.name in out.replace("\n", "")
    assert path.read_bytes().startswith(begins)
    if suffix == ".png":
        from matplotlib.image import imread

        image = imread(path)
        assert image.shape[0] > 600
        assert image.shape[1] > 1000
        assert 0.8 < image[..., :3].mean() < 1.0  # a light background, and something on it


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["--loss", "1.5"], "loss is 1.5; allowed: [0, 1)"),
        (["--loss", "0.99"], "allowed: less"),
        (["--members", "1"], "members is 1"),
        (["--members", "many"], "--members"),
        (["--failure", "0"], "failure is 0.0"),
        (["--rate", "0"], "rate is 0.0"),
        (["--rtt", "-1"], "rtt is -1.0"),
        (["--size", "0"], "size is 0"),
        (["--senders", "9"], "senders is 9; allowed: a whole number, [1, 8]"),
        (["--seeds", "0", "--check"], "seeds"),
        (["--plot", "odds.txt"], "odds.txt: must end in one of"),
        (["--plot", "/no/such/folder/odds.png"], "/no/such/folder/odds.png"),
    ],
)
def test_an_impossible_plan_is_refused_in_one_line(gossamer, changes, says):
    status, out, err = gossamer(*SMALL, *changes)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert says in err
    assert "Traceback" not in err


def test_a_missing_option_is_named(gossamer):
    status, _, err = gossamer("plan", "--members", "8")
    assert status == 2
    assert "--loss" in err


def test_help_has_an_example(gossamer):
    status, out, _ = gossamer("plan", "--help")
    assert status == 0
    assert "Example" in out
