"""The tables of `gossamer stats` can be read on a terminal of 80 columns, most of all when something is wrong."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from gossamer.cli.tables import ledger, rounded, senders, shortened

PACE = {
    "rate": 12_500_000.0,
    "receiver": 2,
    "held_by": "the window",
    "paths": {"2": {"queueing": 0.0051, "loss": 0.02}},
}


def profile(member: int, name: str, **changes: Any) -> dict[str, Any]:
    one = {
        "published": 0,
        "received": 123_456_789,
        "first_pass": 120_000_000,
        "peer": 3_456_000,
        "logger": 789,
        "again": 0,
        "lost": {},
        "duplicates": 1_234_567,
        "dropped": {"forged": 12_345_678},
        "listening": {"on": True, "why": ""},
        "log": {},
        "pace": PACE,
        "lagging": [],
    }
    return {"member": member, "name": name, "logger": False, "stats": one | changes}


def shown(thing: Any, width: int = 80) -> list[str]:
    console = Console(width=width, file=StringIO())
    console.print(thing)
    return console.file.getvalue().splitlines()


def test_large_numbers_and_long_names_fit_80_columns():
    profiles = [profile(n, f"a-host-with-a-rather-long-name.example.net-{10_000 + n}") for n in (1, 2)]

    lines = shown(ledger("group quotes", profiles))

    assert all(len(line.rstrip()) <= 80 for line in lines)
    rows = [line.split() for line in lines if "…" in line]
    assert [row[0][-6:] for row in rows] == ["-10001", "-10002"], "names stay apart"
    assert rows[0][1:] == ["0", "123M", "120M", "3.46M", "789", "0", "1.23M", "12.3M"], "no number is cut off"


def test_small_numbers_are_shown_in_full():
    small = profile(1, "billing", received=20_000, first_pass=18_957, peer=1_043, logger=0, dropped={}, duplicates=20)

    assert "20,000   18,957   1,043" in "\n".join(shown(ledger("group quotes", [small])))


def test_what_is_wrong_with_a_member_does_not_squeeze_the_numbers():
    wrong = profile(
        1,
        "billing",
        lost={"log full: no space left on device": 1_234},
        listening={"on": False, "why": "let go by 7700123412341234; 900 packets behind"},
        log={"refusing": "the disk that holds /var/lib/gossamer/quotes is full: No space left on device"},
    )

    text = "\n".join(shown(ledger("group quotes", [wrong])))

    assert "…" not in text
    assert re.search(r"billing +0 +123M +120M", text)
    assert "billing lost 1,234 packets: log full: no space left on device" in text
    assert "billing has left the multicast: let go by 7700123412341234" in text
    assert "billing refuses: the disk that holds" in text


def test_events_of_the_past_have_a_column_of_their_own_if_there_are_any():
    assert "past" not in "\n".join(shown(ledger("", [profile(1, "a")])))
    assert re.search(r"\+ logger +past +lost", "\n".join(shown(ledger("", [profile(1, "a", again=5)]))))


def test_the_senders_fit_80_columns():
    name = "a-host-with-a-rather-long-name.example.net-1000"
    some = [profile(n, f"{name}{n}", published=10, lagging=[1, 2, 3]) for n in (1, 2, 3)]

    lines = shown(senders(some))

    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert "100.0 Mbit/s" in "\n".join(lines)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (9_999, "9,999"), (12_345, "12.3k"), (999_499, "999k"), (999_999, "1000k"), (4_560_000, "4.56M")],
)
def test_a_rounded_number_has_at_most_five_characters(number, text):
    assert rounded(number) == text
    assert len(text) <= 5


def test_a_shortened_name_keeps_its_beginning_and_its_end():
    assert shortened("short", 12) == "short"
    assert shortened("a-very-long-host-name-12345", 15) == "a-very-…e-12345"
    assert len(shortened("x" * 50, 15)) == 15


def test_members_of_a_group_with_a_channel_map_show_what_they_listen_to():
    uses = {"map": 3, "step": "uses", "listening": [1, 4]}
    behind = {"map": None, "step": None, "listening": []}
    profiles = [profile(1, "ann", channels=uses), profile(2, "bob", channels=uses | {"step": "knows"})]
    profiles += [profile(3, "cis", channels=behind), profile(4, "log", channels=uses) | {"logger": True}]

    lines = [" ".join(line.split()) for line in shown(ledger("group quotes", profiles))]

    at = lines.index("channels")
    assert lines[at + 4 : at + 8] == [
        "ann version 3 1, 4",
        "bob version 3 (knows it) 1, 4",
        "cis none none but 0",
        "log * version 3 all",
    ]
    assert "channels" not in shown(ledger("group quotes", [profile(3, "cis", channels=behind)]))
