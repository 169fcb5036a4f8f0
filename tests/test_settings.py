"""A group's settings, checked when they are made."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

import gossamer
from gossamer import Settings
from gossamer.core.settings import SettingError


def test_defaults_stay_on_this_machine():
    settings = Settings()
    assert (settings.protocol, settings.interface, settings.key, settings.insecure) == (
        "rpbcast",
        "127.0.0.1",
        None,
        False,
    )
    assert settings.address == "239.192.77.7:7700"
    assert settings.protocol_settings().repair == "negative"


def test_tuning_changes_the_preset():
    assert Settings("pbcast", tuning={"fanout": 3}).protocol_settings().fanout == 3


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"protocol": "tcp"}, "protocol.name = 'tcp': must be one of"),
        ({"tuning": {"fanuot": 1}}, "did you mean fanout"),
        ({"tuning": {"gc_rounds": 0}}, "protocol.gc_rounds = 0: must be at least 1"),
        ({"tuning": {"name": "pbcast"}}, "Settings.protocol"),
    ],
)
def test_what_cannot_be_is_refused_at_once(wrong, says):
    with pytest.raises(SettingError, match=r"protocol|tuning") as caught:
        Settings(**wrong)
    assert says in str(caught.value)


def test_settings_are_values():
    tuning = {"fanout": 2}
    settings = Settings(tuning=tuning)
    tuning["fanout"] = 3
    assert settings.tuning == {"fanout": 2}
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert replace(settings, address="239.1.2.3:9").tuning == settings.tuning
    with pytest.raises(FrozenInstanceError):
        settings.protocol = "basic"  # type: ignore[misc]


def test_a_key_is_not_shown():
    assert "secret" not in repr(Settings(key="secret"))


def test_planned_settings_are_the_plan_s():
    settings = Settings.planned(members=128, loss=0.05, rate=200.0, failure=1e-8)
    assert settings.tuning["gc_rounds"] == 9
    assert settings.protocol_settings().gossip_period == 0.25


def test_an_impossible_plan_is_a_value_error():
    with pytest.raises(ValueError, match=r"loss is 1\.5; allowed"):
        Settings.planned(members=8, loss=1.5)


def test_unknown_names_are_attribute_errors():
    assert "Settings" in dir(gossamer)
    with pytest.raises(AttributeError, match="Setings"):
        _ = gossamer.Setings
