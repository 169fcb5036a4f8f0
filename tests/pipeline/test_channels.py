"""From a log and interests to a channel map: what is read, what is found, what it is worth, and what goes wrong."""

import csv
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.cli import main
from gossamer.core.schema import SettingError
from gossamer.pipeline.channels.change import cost_of
from gossamer.pipeline.channels.interests import Interests, read_interests
from gossamer.pipeline.channels.job import map_channels
from gossamer.pipeline.channels.mapping import Case, find_map, hashed_map, numbered_like, one_channel
from gossamer.pipeline.channels.pattern_trie import PatternTrie
from gossamer.pipeline.channels.picture import draw
from gossamer.pipeline.experiments.files import load
from gossamer.pipeline.experiments.grid import runs
from gossamer.pipeline.experiments.result_rows import batch
from gossamer.pipeline.experiments.work import Apart, do
from gossamer.pipeline.session import PipelineError
from gossamer.pipeline.traces import read_events
from gossamer.pubsub.channel_map import ChannelMap, Rule
from gossamer.pubsub.subjects import compile_pattern
from gossamer.store import open_store
from tests.pipeline.log_makers import entry, packet_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = [("ann", "quotes.a"), ("ann", "quotes.b"), ("bob", "news.>"), ("cis", "quotes.b")]
READ = {"news.>": ("bob",), "quotes.a": ("ann",), "quotes.b": ("ann", "cis")}

subjects = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(".".join)
patterns = st.builds(
    lambda front, last: ".".join([*front, last]),
    st.lists(st.sampled_from("abc*"), max_size=2),
    st.sampled_from("abc*>"),
)
interests_of_some = st.dictionaries(
    patterns,
    st.lists(st.sampled_from(["m1", "m2", "m3", "m4"]), min_size=1, unique=True).map(tuple),
    min_size=1,
    max_size=8,
)
traffics = st.dictionaries(subjects, st.integers(1, 100).map(float), min_size=1, max_size=20)


def write_csv(path: Path, rows: Iterable[tuple[str, str]], header: tuple[str, str] = ("member", "pattern")) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def fill(path: Path, events: dict[str, int], payload: bytes = b"12345") -> Path:
    """A log with this many events by subject, all from one sender."""
    published = [(subject, payload, {}) for subject, count in events.items() for _ in range(count)]
    bodies = [packet_of(published[at : at + 50], at) for at in range(0, len(published), 50)]
    with open_store(path) as store:
        store.append(entry(5, seqno, body) for seqno, body in enumerate(bodies))
    return path


# What is read


@pytest.mark.parametrize("kind", ["csv", "json", "lines", "parquet"])
def test_a_table_of_interests_may_be_of_any_usual_kind(tmp_path: Path, kind: str) -> None:
    rows = [{"member": member, "pattern": pattern} for member, pattern in TABLE]
    path = tmp_path / f"interests.{'json' if kind == 'lines' else kind}"
    if kind == "csv":
        write_csv(path, TABLE)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text(json.dumps(rows) if kind == "json" else "\n".join(map(json.dumps, rows)))

    assert read_interests(path) == READ


def profile(
    name: str, member: int, patterns: list[str], *, logger: bool = False, left_out: int = 0
) -> dict[str, object]:
    subscriptions = {"patterns": patterns, "left_out": left_out}
    return {"name": name, "member": member, "logger": logger, "stats": {"subscriptions": subscriptions}}


def test_what_members_said_over_time_is_taken_together(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(json.dumps([profile("ann", 1, ["quotes.a"]), profile("bob", 2, ["news.>"])]))
    (tmp_path / "2.json").write_text(
        json.dumps(
            [profile("ann", 9, ["quotes.b"]), profile("log", 3, [">"], logger=True), profile("cis", 4, ["quotes.b"])]
        )
    )

    assert read_interests(tmp_path) == READ


def test_what_members_said_may_be_appended_to_one_file(tmp_path: Path) -> None:
    """As by `gossamer stats quotes --json >> interests.json`, now and then."""
    first = [profile("ann", 1, ["quotes.a"]), profile("bob", 2, ["news.>"])]
    second = [profile("ann", 9, ["quotes.b"]), profile("log", 3, [">"], logger=True), profile("cis", 4, ["quotes.b"])]
    (tmp_path / "interests.json").write_text("".join(json.dumps(told) + "\n" for told in (first, second)))

    assert read_interests(tmp_path / "interests.json") == READ


def test_two_members_with_one_name_are_two(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(json.dumps([profile("ann", 1, ["a"]), profile("ann", 2, ["a"])]))

    assert read_interests(tmp_path) == {"a": ("ann#1", "ann#2")}


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.csv", "who,what\n1,a\n", "column member is missing"),
        ("x.csv", "member,pattern\n1,a..b\n", "member 1: pattern 'a..b'"),
        ("x.csv", "member,pattern\n", "nobody subscribes"),
        ("x.json", "[1]", "list of objects"),
        ("x.json", "{", "cannot be read"),
        ("x.json", json.dumps([{"name": "old", "member": 1, "stats": {}}]), "older version"),
        ("x.json", json.dumps([profile("ann", 1, ["a"], left_out=3)]), "too many subscriptions"),
        ("x.parquet", "no", "cannot be read"),
        ("x.txt", "a", "unknown kind of file"),
        ("missing.csv", None, "No such file"),
        (".", None, r"no \*.json"),
    ],
)
def test_interests_that_cannot_be_read_are_refused_in_one_line(
    tmp_path: Path, name: str, content: str | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(PipelineError, match=says) as refused:
        read_interests(tmp_path / name)
    assert "\n" not in str(refused.value)


@given(st.lists(patterns, max_size=8, unique=True), subjects)
def test_the_trie_finds_the_patterns_that_match(some: list[str], subject: str) -> None:
    found = PatternTrie(some).matching(subject)

    assert sorted(found) == [number for number, pattern in enumerate(some) if compile_pattern(pattern)(subject)]


# What is found, and what it is worth


def heard_in_vain(case: Case, found: ChannelMap) -> float:
    """By the definition, event by event: a member hears channel 0 and those that its subscriptions listen to."""
    by_member: dict[str, list[str]] = {}
    for pattern, members in case.interests.items():
        for member in members:
            by_member.setdefault(member, []).append(pattern)
    total = 0.0
    for mine in by_member.values():
        listens = {0} | {channel for pattern in mine for channel in found.channels_for(pattern)}
        for subject, weight in zip(case.subjects, case.weights, strict=True):
            wanted = any(compile_pattern(pattern)(subject) for pattern in mine)
            assert not wanted or found.channel_of(subject) in listens
            total += weight if found.channel_of(subject) in listens and not wanted else 0.0
    return total


@given(traffics, interests_of_some, st.integers(1, 6))
def test_the_waste_of_a_map_is_what_its_members_hear_in_vain(
    traffic: dict[str, float], interests: Interests, channels: int
) -> None:
    case = Case.of(traffic, interests)
    found, _ = find_map(case, channels, 1, lambda kinds, count: {})

    outcome = case.with_channels(found)

    assert outcome.waste == pytest.approx(heard_in_vain(case, found))
    assert outcome.waste == pytest.approx(sum(row["waste"] for row in outcome.channels()))
    assert outcome.waste == pytest.approx(sum(row["waste"] for row in outcome.by_member()))
    assert found.channels <= channels


@given(traffics, interests_of_some, st.integers(2, 6))
def test_patterns_instead_of_subjects_cost_nothing(
    traffic: dict[str, float], interests: Interests, channels: int
) -> None:
    case = Case.of(traffic, interests)
    found, told = find_map(case, channels, 1, lambda kinds, count: {})

    promised = told["waste"][told["chosen"]]["improved"]
    assert case.with_channels(found).waste <= promised + 1e-6
    assert len(found.rules) <= len(traffic) + 1


def test_a_family_of_subjects_that_stays_together_becomes_one_rule() -> None:
    traffic = {f"{market}.{share}": 10.0 for market in ("nyse", "eurex") for share in range(50)}
    interests = {"nyse.>": ("ann", "bob"), "eurex.*": ("cis",), "eurex.7": ("ann",)}
    case = Case.of(traffic, interests)

    found, _ = find_map(case, 4, 4, lambda kinds, count: {})

    assert found.version == 4
    assert case.with_channels(found).waste == 0
    assert len(found.rules) <= 3
    assert found.channel_of("nyse.new") == found.channel_of("nyse.1")


def test_the_next_map_has_its_channels_numbered_so_that_little_moves() -> None:
    before = ChannelMap(3, 4, (Rule("a", 1), Rule("b", 2), Rule("c", 3), Rule("d", 3)))
    found = ChannelMap(4, 4, (Rule("a", 3), Rule("b", 1), Rule("c", 2), Rule("e", 2)))
    traffic = {"a": 5.0, "b": 3.0, "c": 4.0, "d": 1.0, "e": 1.0}

    numbered = numbered_like(found, before, traffic)

    assert numbered == ChannelMap(4, 4, (Rule("a", 1), Rule("b", 2), Rule("c", 3), Rule("e", 3)))


def test_what_a_change_of_the_map_costs() -> None:
    case = Case.of({"a": 6.0, "b": 3.0, "c": 1.0}, {"a": ("ann",), "b": ("bob",), "c": ("bob",)})
    old = ChannelMap(1, 3, (Rule("a", 1), Rule("b", 1), Rule("c", 2)))
    new = ChannelMap(2, 3, (Rule("a", 1), Rule("b", 2), Rule("c", 2)))

    assert cost_of(case, old, old) == {"kept": 9.0, "renewed": 9.0, "both": 9.0, "moved": 0.0, "joined": 0.0}
    # by the old map ann hears b in vain, and bob hears a; by both bob still listens to 1 and 2, and ann to 1
    assert cost_of(case, old, new) == {"kept": 9.0, "renewed": 0.0, "both": 9.0, "moved": 0.3, "joined": 0.0}
    # back again, bob has to join channel 1, and hears a in vain meanwhile
    assert cost_of(case, new, old) == {"kept": 0.0, "renewed": 9.0, "both": 6.0, "moved": 0.3, "joined": 0.5}


def test_subjects_that_nobody_wants_burden_nobody() -> None:
    case = Case.of({"junk.1": 1000.0, "junk.2": 2000.0, "good": 1.0}, {"good": ("ann",)})

    found, _ = find_map(case, 3, 1, lambda kinds, count: {})

    assert case.with_channels(found).waste == 0
    assert one_channel(case).waste == 3000
    assert hashed_map(case, 1).waste == 3000


# The job


def test_the_job_finds_who_belongs_together(spark: "SparkSession", tmp_path: Path) -> None:
    """Three desks of ten members each want ten subjects of their own and one of everybody's; one wants one more."""
    events = {f"desk{desk}.{n}": 20 - n for desk in range(3) for n in range(10)} | {"all": 40, "odd": 1}
    store = fill(tmp_path / "store", events)
    interests: Interests = {
        **{f"desk{desk}.{n}": tuple(f"m{desk}{i}" for i in range(10)) for desk in range(3) for n in range(10)},
        "all": tuple(f"m{desk}{i}" for desk in range(3) for i in range(10)),
        "odd": ("m00",),
    }
    said: list[str] = []

    mapped = map_channels(spark, read_events(spark, store), interests, 4, say=said.append)

    facts = mapped.facts
    assert facts["waste"]["map"] == 9  # there is no channel left for `odd`
    assert facts["waste"]["hashed"] > 9
    assert facts["waste"]["one_channel"] == 30 * 2 * sum(20 - n for n in range(10)) + 29
    assert facts["events"] == sum(events.values())
    assert facts["bytes"] == 5 * facts["events"]
    assert set(facts["methods"]["waste"]) == {"merge", "kmeans", "bisecting"}
    assert len({mapped.channel_map.channel_of(f"desk{desk}.0") for desk in range(3)}) == 3
    assert said[0].startswith("counting the events")
    draw(mapped.outcome, facts, tmp_path / "map.svg")
    assert "channel" in (tmp_path / "map.svg").read_text()
    with pytest.raises(PipelineError, match=r"ends in \.svg"):
        draw(mapped.outcome, facts, tmp_path / "map.nothing")


def test_bytes_and_events_may_ask_for_different_maps(spark: "SparkSession", tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        bodies = [("large", bytes(5000), {})] * 3 + [("small", b"", {})] * 30
        store.append([entry(5, 0, packet_of(bodies))])

    counted = map_channels(spark, read_events(spark, tmp_path / "store"), {"small": ("ann",)}, 1, weight="bytes")

    assert counted.facts["waste"]["one_channel"] == 15_000
    assert np.isclose(counted.facts["wanted"], 0)


def test_a_log_without_events_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    with open_store(tmp_path / "store"):
        pass
    with pytest.raises(PipelineError, match="no events in the log"):
        map_channels(spark, read_events(spark, tmp_path / "store"), {"a": ("ann",)}, 2)


# The command


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gossamer", "pipeline", "channels", *map(str, arguments)])
        monkeypatch.setattr("pyspark.sql.SparkSession.stop", lambda session: None)  # the other tests need it
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


def test_the_command_writes_a_map_a_picture_and_a_report(
    spark: "SparkSession", tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    store = fill(tmp_path / "store", {"a.1": 10, "a.2": 5, "b.1": 7})
    table = write_csv(tmp_path / "interests.csv", [("ann", "a.*"), ("bob", "b.1")])
    out, picture = tmp_path / "channels.toml", tmp_path / "map.png"
    out.write_text(ChannelMap(6, 2, (Rule("old", 1),)).to_toml())
    asked = (store, "--interests", table, "--out", out, "--channels", 3, "--plot", picture)

    status, told, _ = command(*asked, "--json")

    assert status == 0
    facts = json.loads(told)
    found = ChannelMap.from_toml(out.read_text())
    assert found.version == facts["version"] == 7
    assert found.channel_of("a.1") == found.channel_of("a.2") != found.channel_of("b.1")
    assert facts["waste"] == {"one_channel": 22.0, "hashed": facts["waste"]["hashed"], "map": 0.0}
    assert picture.read_bytes()[1:4] == b"PNG"
    status, told, _ = command(*asked)
    assert status == 0
    assert "heard in vain" in told
    assert ChannelMap.from_toml(out.read_text()).version == 8


def test_the_command_says_what_is_wrong_before_spark_starts(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    store = fill(tmp_path / "store", {"a": 1})
    table = write_csv(tmp_path / "interests.csv", [("ann", "a")])
    other, fresh = tmp_path / "notes.toml", tmp_path / "x.toml"
    other.write_text("title = 'mine'\n")
    cases = [
        ((store, "--interests", table, "--out", other), "exists and is not a channel map"),
        ((store, "--interests", table, "--out", tmp_path / "no" / "x.toml"), "there is no folder"),
        ((tmp_path / "nowhere", "--interests", table, "--out", fresh), "no such log store"),
        ((store, "--interests", tmp_path / "x.csv", "--out", fresh), "No such file"),
        ((store, "--interests", table, "--out", fresh, "--weight", "euros"), "events or bytes"),
        ((store, "--interests", table, "--out", fresh, "--channels", "200"), "equal to 128"),
    ]
    for arguments, says in cases:
        status, told, complaint = command(*arguments)
        assert (status, told) == (2, "")
        assert says in " ".join(complaint.split())
        assert "Traceback" not in complaint
    assert other.read_text() == "title = 'mine'\n"
    assert not fresh.exists()


# The experiment


def test_a_run_of_an_experiment_may_map_demand_to_channels(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(
        'kind = "channels"\nseeds = 1\n[scenario]\nsubjects = 200\nmembers = 40\nwishes = 8\ncommunities = 4\n'
        "drift = 0.2\n[grid]\nchannels = [1, 4]\n"
    )
    (experiment,) = load(file).experiments
    apart = Apart()
    try:
        rows = [do(run, tmp_path, apart) for run in runs(experiment)]
    finally:
        apart.end()

    (one, nothing), (four, change) = ((row["waste"], row["change"]) for row in batch(rows).to_pylist())
    assert (nothing["moved"], nothing["joined"]) == (0.0, 0.0)
    assert change["renewed"] < change["kept"] < change["both"]
    assert 0 < change["moved"] < 1
    assert one["mapped"] == pytest.approx(one["hashed"]) == pytest.approx(one["one"])
    assert 0 < four["mapped"] < four["hashed"] < one["one"]


def test_a_key_that_a_workload_does_not_have_is_named(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('kind = "channels"\n[scenario]\nsubject = 200\n')
    (experiment,) = load(file).experiments

    with pytest.raises(SettingError, match="subjects"):
        runs(experiment)
