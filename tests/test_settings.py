"""A group's settings: where they come from, and that they are checked when they are made."""

import dataclasses
import inspect
import os
import pickle
from base64 import b64encode
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from runpy import run_path

import pytest

import gossamer
from gossamer import Settings
from gossamer.core.schema import SettingError
from gossamer.presets import LIVE
from gossamer.wire.keys import key_id

PAGE = run_path(str(Path(__file__).parents[1] / "tools" / "settings_page.py"))
PAGE_MARKS, tables = PAGE["PAGE_MARKS"], PAGE["tables"]
KEY = b64encode(bytes(range(32))).decode()
OTHER = bytes(range(1, 33)).hex()
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def nothing_outside(monkeypatch, tmp_path):
    """No variable and no file but those of the test."""
    for name in list(os.environ):
        if name.startswith("GOSSAMER_"):
            monkeypatch.delenv(name)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def write(tmp_path):
    """Write gossamer.toml into the working directory, or one above it."""

    def write_text(text: str, above: bool = False) -> Path:
        path = tmp_path / ("." if above else "here") / "gossamer.toml"
        path.write_text(text)
        return path

    return write_text


def test_defaults_stay_on_this_machine():
    settings = Settings()
    assert (settings.protocol, settings.interface, settings.key, settings.insecure) == (
        "rpbcast",
        "127.0.0.1",
        None,
        False,
    )
    assert settings.address == "239.192.77.7:7700"
    assert settings.protocol_settings().repair == ("negative", "logger")
    assert settings.name.endswith(f"-{os.getpid()}")
    assert (settings.order, settings.first_pass, settings.contacts, settings.port) == ("fifo", "auto", (), 0)
    assert (settings.event_bytes_max, settings.queue_events, settings.send_bytes) == (16 << 20, 200_000, 64 << 20)
    assert settings.key_ring() is None


def test_tuning_changes_the_preset():
    assert Settings("pbcast", tuning={"fanout": 3}).protocol_settings().fanout == 3


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"protocol": "tcp"}, "protocol = 'tcp': must be one of"),
        ({"tuning": {"fanuot": 1}}, "did you mean fanout"),
        ({"tuning": {"gc_rounds": 0}}, "protocol.gc_rounds = 0: must be at least 1"),
        ({"tuning": {"name": "pbcast"}}, "Settings.protocol"),
        ({"tuning": 3}, "tuning = 3: must be a table"),
        ({"address": "10.0.0.1:7700"}, "address = '10.0.0.1:7700': must be a multicast address"),
        ({"address": "239.1.1.1"}, "address = '239.1.1.1': must look like"),
        ({"address": "ff15::1:7700"}, "must look like"),
        ({"address": "[ff15::1]:7700"}, "interface = '127.0.0.1': must be an IPv6 address"),
        ({"interface": "::1"}, "interface = '::1': must be an IPv4 address"),
        ({"interface": " "}, "must be an address or a name"),
        ({"interface": {"a": 1}}, "interface = {'a': 1}: must be a string"),
        ({"order": "causal"}, "order = 'causal': must be one of fifo, none, total"),
        ({"first_pass": "broker"}, "first_pass = 'broker': must be one of auto, multicast, trees"),
        ({"contacts": ["host"]}, "contacts = 'host': must be a host and a port"),
        ({"contacts": ["fe80::1:7700"]}, "in brackets"),
        ({"contacts": "host:7700"}, "contacts = 'host:7700': must be a list"),
        ({"channel_addresses": ["10.0.0.1"]}, "must be an IPv4 multicast address without a port, like 239.192.78.1"),
        ({"channel_addresses": ["239.1.1.1:7700"]}, "must be an IPv4 multicast address without a port"),
        ({"channel_addresses": ["ff15::1"]}, "channel_addresses = 'ff15::1': must be an IPv4 multicast address"),
        ({"channel_addresses": ["239.192.77.7"]}, "channel_addresses = '239.192.77.7': is the group's own"),
        ({"channel_addresses": ["239.1.1.1"] * 2}, "is that of channel 1, too; each channel needs its own"),
        ({"channel_addresses": ["239.192.77.9"]}, "is that of channel 2, which is not given"),
        ({"channel_addresses": ["239.1.1.1"] * 128}, "128 given, there are only 127 channels"),
        ({"port": 65_536}, "port = 65536: must be at least 0 and at most 65535"),
        ({"port": "7700"}, "port = '7700': must be a whole number"),
        ({"port": True}, "port = True: must be a whole number"),
        ({"event_bytes_max": 0}, "event_bytes_max = 0: must be at least 1"),
        ({"queue_events": 0}, "queue_events = 0: must be at least 1"),
        ({"send_bytes": -1}, "send_bytes = -1: must be at least 1"),
        ({"insecure": "yes"}, "insecure = 'yes': must be true or false"),
        ({"name": ""}, "name = '': must be 1 to 100 printable"),
        ({"name": "a\nb"}, "printable"),
        ({"keys": (KEY,)}, "keys: are for a rotation"),
        ({"key": KEY, "keys": (KEY,) * 16}, "keys: 16 given, must be at most 15"),
        ({"key": "@/no/such/file"}, "key = '@/no/such/file': No such file or directory; `gossamer key new"),
    ],
)
def test_invalid_settings_are_refused_at_once(wrong, says):
    with pytest.raises(SettingError) as caught:
        Settings(**wrong)
    assert says in str(caught.value)


def test_settings_are_values():
    tuning = {"fanout": 2}
    settings = Settings(tuning=tuning, contacts=["a:1", "[fe80::1]:2"])
    tuning["fanout"] = 3
    assert settings.tuning == {"fanout": 2}
    assert settings.contacts == ("a:1", "[fe80::1]:2")
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert replace(settings, address="239.1.2.3:9").tuning == settings.tuning
    assert {settings: 1}[replace(settings)] == 1
    with pytest.raises(FrozenInstanceError):
        settings.protocol = "basic"  # type: ignore[misc]


# Keys.


def test_a_key_is_never_shown():
    assert KEY not in repr(Settings(key=KEY, keys=(OTHER,)))
    assert OTHER not in repr(Settings(key=KEY, keys=(OTHER,)))
    for wrong in ({"key": "secret"}, {"key": b"secret"}, {"key": KEY, "keys": ("secret",)}, {"keys": "secret"}):
        with pytest.raises(SettingError, match=r"^keys?: ") as caught:
            Settings(**wrong)
        assert "secret" not in str(caught.value)


def test_the_first_key_seals_and_all_of_them_open(tmp_path):
    file = tmp_path / "group.key"
    file.write_text(KEY + "\n")
    ring = Settings(key=f"@{file}", keys=(OTHER,)).key_ring()
    assert ring is not None
    assert ring.using == key_id(bytes(range(32)))
    assert ring.ids == [ring.using, key_id(bytes.fromhex(OTHER))]


def test_a_file_without_a_key_is_named_but_not_shown(tmp_path):
    file = tmp_path / "group.key"
    for content in (b"secret", b"\xff\xfe"):
        file.write_bytes(content)
        with pytest.raises(SettingError, match=str(file)) as caught:
            Settings(key=f"@{file}")
        assert "secret" not in str(caught.value)


# From outside.


def test_an_argument_overrides_the_environment_which_overrides_the_file_which_overrides_the_default(monkeypatch, write):
    write('order = "none"\nport = 1\nsend_bytes = 11\n[tuning]\nfanout = 2\ngc_rounds = 5\n')
    monkeypatch.setenv("GOSSAMER_PORT", "2")
    monkeypatch.setenv("GOSSAMER_SEND_BYTES", "22")
    monkeypatch.setenv("GOSSAMER_TUNING_FANOUT", "3")
    settings = Settings(send_bytes=33)
    assert (settings.queue_events, settings.order, settings.port, settings.send_bytes) == (200_000, "none", 2, 33)
    assert settings.tuning == {"fanout": 3, "gc_rounds": 5}
    assert Settings(tuning={}).tuning == {}


def test_every_kind_of_value_comes_from_the_environment(monkeypatch):
    given = {
        "PROTOCOL": "pbcast",
        "INSECURE": "Yes",
        "CONTACTS": "a:1, [fe80::1]:2",
        "EVENT_BYTES_MAX": "1_000",
        "KEY": KEY,
        "KEYS": f"{OTHER},{OTHER}",
        "NAME": "",
        "TUNING_GOSSIP_PERIOD": "0.5",
        "TUNING_SELECTION": "uniform",
        "TUNING_UNSYNCHRONIZED": "False",
    }
    for name, text in given.items():
        monkeypatch.setenv(f"GOSSAMER_{name}", text)
    settings = Settings()
    assert (settings.protocol, settings.insecure, settings.event_bytes_max) == ("pbcast", True, 1000)
    assert settings.contacts == ("a:1", "[fe80::1]:2")
    assert (settings.key, settings.keys) == (KEY, (OTHER, OTHER))
    assert settings.name  # an empty variable is not given
    assert settings.tuning == {"gossip_period": 0.5, "selection": "uniform", "unsynchronized": False}


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("PORT", "many", "GOSSAMER_PORT = 'many': must be a whole number"),
        ("PORT", "70000", "GOSSAMER_PORT = 70000: must be at least 0"),
        ("INSECURE", "perhaps", "GOSSAMER_INSECURE = 'perhaps': must be true or false"),
        ("ORDER", "causal", "GOSSAMER_ORDER = 'causal': must be one of"),
        ("TUNING_FANUOT", "1", "did you mean fanout"),
    ],
)
def test_an_error_names_the_variable(monkeypatch, variable, text, says):
    monkeypatch.setenv(f"GOSSAMER_{variable}", text)
    with pytest.raises(SettingError) as caught:
        Settings()
    assert says in str(caught.value)


def test_the_nearest_file_is_read_or_the_one_that_is_named(monkeypatch, write, tmp_path):
    write("[gossamer]\nport = 1\n", above=True)
    assert Settings().port == 1
    write('port = 2\ncontacts = ["a:1"]\n')
    assert (Settings().port, Settings().contacts) == (2, ("a:1",))
    monkeypatch.setenv("GOSSAMER_CONFIG", str(tmp_path / "gossamer.toml"))
    assert Settings().port == 1
    monkeypatch.setenv("GOSSAMER_CONFIG", "")
    assert Settings().port == 0
    monkeypatch.setenv("GOSSAMER_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(SettingError, match=r"none\.toml: No such file"):
        Settings()


def test_a_live_group_refuses_virtual_synchrony_and_says_why():
    with pytest.raises(SettingError, match=r"virtual-synchrony.*simulations only.*choose rpbcast") as caught:
        Settings(protocol="virtual-synchrony")
    assert "\n" not in str(caught.value)
    with pytest.raises(SettingError, match=r"^tuning: membership = 'synchronous'.*simulations only"):
        Settings(protocol="rpbcast", tuning={"membership": "synchronous"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prot = 1", "unknown key prot; did you mean port?"),
        ("[gossamer]\nprot = 1", "did you mean port?"),
        ("port = 1\n[gossamer]\norder = 'none'", "port is outside of [gossamer]"),
        ("gossamer = 1", "must be a table"),
        ("port = 'x'", "gossamer.toml: port = 'x': must be a whole number"),
        ("port =", "not valid TOML"),
        ("tuning = 1", "gossamer.toml: tuning = 1: must be a table"),
        ("key = 1", "gossamer.toml: key: must be a string, not int"),
    ],
)
def test_an_error_names_the_file(write, text, says):
    path = write(text)
    with pytest.raises(SettingError) as caught:
        Settings()
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


# The plan.


def test_planned_settings_are_those_of_the_plan(monkeypatch):
    monkeypatch.setenv("GOSSAMER_PROTOCOL", "pbcast")
    settings = Settings.planned(members=128, loss=0.05, rate=200.0, failure=1e-8)
    assert settings.protocol == "rpbcast"
    assert settings.tuning["gc_rounds"] == 9
    assert settings.protocol_settings().gossip_period == 0.25


def test_an_impossible_plan_is_a_value_error():
    with pytest.raises(ValueError, match=r"loss is 1\.5; allowed"):
        Settings.planned(members=8, loss=1.5)


def test_unknown_names_are_attribute_errors():
    assert "Settings" in dir(gossamer)
    with pytest.raises(AttributeError, match="Setings"):
        _ = gossamer.Setings


# The page.


def test_the_page_lists_every_setting_as_it_is():
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    begin, end = PAGE_MARKS
    shown = page.partition(begin)[2].partition(end)[0].strip()
    assert shown == tables().strip(), "run: python tools/settings_page.py docs/settings.md"
    for one in dataclasses.fields(Settings):
        assert f"| `{one.name}` |" in shown


def test_the_page_says_what_live_groups_set():
    page = " ".join((ROOT / "docs" / "settings.md").read_text("utf-8").split())
    for name, value in LIVE.items():
        assert f"`{name}` {value}" in page


def test_settings_made_from_others_find_their_own_interface():
    """With a key the default is the network, without one this machine; what was given stays."""
    assert replace(Settings(), key=KEY).interface == "auto"
    assert replace(Settings(key=KEY), key=None).interface == "127.0.0.1"
    assert replace(Settings(interface="127.0.0.1"), key=KEY).interface == "127.0.0.1"
    assert pickle.loads(pickle.dumps(Settings())) == Settings(interface="127.0.0.1")


def test_a_misspelt_argument_is_an_invalid_setting_with_a_hint():
    with pytest.raises(SettingError, match=r"unknown key adress; did you mean address\?"):
        Settings(adress="239.192.77.7:7700")
    with pytest.raises(SettingError, match="unknown key nmae; did you mean name"):
        replace(Settings(), nmae="x")
    with pytest.raises(TypeError, match="positional"):
        Settings(*range(100))


def test_settings_still_show_their_arguments():
    assert "address" in inspect.signature(Settings).parameters
