"""`gossamer key`: a key that works at once, in a file that only its owner reads, and is never overwritten."""

import io
import os
import sys

import pytest

from gossamer.cli import main
from gossamer.settings import Settings
from gossamer.wire.keys import key_id, parse_key


@pytest.fixture
def key(monkeypatch, capsys, tmp_path):
    """Run `gossamer key`: status, standard output, standard error."""
    monkeypatch.delenv("GOSSAMER_KEY", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gossamer", "key", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


def test_a_new_key_is_printed_and_is_new_every_time(key):
    (_, first, _), (_, second, _) = key("new"), key("new")
    assert len(parse_key(first)) == 32
    assert first != second


def test_a_key_in_a_file_is_for_its_owner_and_ready_for_settings(key, tmp_path):
    file = tmp_path / "group.key"
    before = os.umask(0)
    try:
        status, out, _ = key("new", "--out", str(file))
    finally:
        os.umask(before)
    assert status == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().strip() not in out
    ring = Settings(key=f"@{file}").key_ring()
    assert ring is not None
    assert f"{ring.using:08x}" in out


def test_a_key_is_never_overwritten(key, tmp_path):
    file = tmp_path / "group.key"
    key("new", "--out", str(file))
    content = file.read_text()
    status, out, err = key("new", "--out", str(file))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "never overwritten" in err
    assert file.read_text() == content


def test_the_id_is_the_same_from_file_input_and_settings(key, monkeypatch, tmp_path):
    file = tmp_path / "group.key"
    key("new", "--out", str(file))
    expected = f"{key_id(parse_key(file.read_text())):08x}\n"
    assert key("id", str(file)) == (0, expected, "")
    assert key("id", f"@{file}") == (0, expected, "")
    monkeypatch.setattr(sys, "stdin", io.StringIO(file.read_text()))
    assert key("id", "-") == (0, expected, "")
    monkeypatch.setenv("GOSSAMER_KEY", f"@{file}")
    assert key("id") == (0, expected, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("id",), "no key"),
        (("id", "no-such-file"), "No such file"),
        (("new", "--out", "no/such/folder/key"), "No such file or directory"),
    ],
)
def test_a_missing_or_unwritable_key_is_reported_in_one_line(key, arguments, says):
    status, out, err = key(*arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_a_bad_key_is_not_shown(key, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("hunter2"))
    status, _, err = key("id", "-")
    assert status == 2
    assert "hunter2" not in err
