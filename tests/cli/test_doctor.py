"""`gossamer doctor` tries what it tells: on this machine, and in a namespace where something is wrong."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import pytest

import gossamer
from gossamer.cli import main
from gossamer.live.diagnosis import free_port
from gossamer.live.group_diagnosis import of_group
from gossamer.live.transport import UdpTransport

KEY = bytes(range(32)).hex()


@pytest.fixture(autouse=True)
def nothing_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith("GOSSAMER_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def doctor(monkeypatch, capsys):
    """Run it in this process: status, findings by check."""

    def run(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
        monkeypatch.setattr(sys, "argv", ["gossamer", "doctor", "--json", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        told = json.loads(capsys.readouterr().out)
        status = int(stopped.value.code or 0)
        assert told["ok"] == (status == 0)
        return status, {finding["check"]: finding for finding in told["findings"]}

    return run


def test_loopback_is_healthy(doctor):
    status, found = doctor("--interface", "127.0.0.1")
    assert status == 0
    assert {name: found[name]["verdict"] for name in ("settings", "key", "multicast on lo", "bursts on lo")} == {
        "settings": "ok",
        "key": "ok",
        "multicast on lo": "ok",
        "bursts on lo": "ok",
    }
    assert set(found) >= {"mtu of lo", "receive buffer", "send buffer", "monotonic clock", "wall clock"}
    assert set(found) >= {"java for Spark", "uvloop", "isal"}
    assert all(finding["change"] for finding in found.values() if finding["verdict"] != "ok")


def test_people_get_a_table(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gossamer", "doctor", "--interface", "lo"])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    assert "multicast on lo" in shown
    assert "sent and heard" in shown


def test_an_unknown_interface_fails_and_the_known_ones_are_listed(doctor):
    status, found = doctor("--interface", "no-such0")
    assert status == 1
    assert found["multicast on no-such0"]["verdict"] == "fail"
    assert "lo (127.0.0.1)" in found["multicast on no-such0"]["change"]
    assert found["key"]["verdict"] == "fail"


def test_wrong_options_are_wrong_usage(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gossamer", "doctor", "--address", "10.0.0.1:7700"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "must be a multicast address" in capsys.readouterr().err


def test_wrong_settings_fail_and_the_rest_is_tried(doctor, monkeypatch):
    monkeypatch.setenv("GOSSAMER_PORT", "many")
    monkeypatch.setenv("GOSSAMER_PROT", "7")
    status, found = doctor("--interface", "lo")
    assert status == 1
    assert "GOSSAMER_PORT = 'many'" in found["settings"]["says"]
    assert found["environment"]["says"] == "GOSSAMER_PROT is not a setting"
    assert found["multicast on lo"]["verdict"] == "ok"


def test_a_key_that_others_can_read_fails(doctor, monkeypatch, tmp_path):
    file = tmp_path / "group.key"
    file.write_text(KEY)
    monkeypatch.setenv("GOSSAMER_KEY", f"@{file}")
    for mode, verdict, status in ((0o600, "ok", 0), (0o640, "fail", 1)):
        file.chmod(mode)
        told, found = doctor("--interface", "lo")
        (finding,) = (one for name, one in found.items() if name.startswith("key "))
        assert (finding["verdict"], told) == (verdict, status)
    assert finding["change"] == f"chmod 600 {file}"
    assert KEY not in json.dumps(found)


def test_no_key_beyond_loopback_fails_and_insecure_warns(doctor, monkeypatch):
    assert doctor("--interface", "no-such0")[1]["key"]["verdict"] == "fail"
    monkeypatch.setenv("GOSSAMER_INSECURE", "1")
    assert doctor("--interface", "no-such0")[1]["key"]["verdict"] == "warn"


def test_old_java_and_no_java_are_reported(doctor, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "not found in JAVA_HOME" in doctor("--interface", "lo")[1]["java for Spark"]["says"]
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    found = doctor("--interface", "lo")[1]["java for Spark"]
    assert (found["verdict"], found["says"]) == ("warn", f"{java} is version 8")
    assert "17" in found["change"]


def test_without_options_nothing_is_sent_beyond_the_interface_of_the_settings(doctor, monkeypatch):
    sent = []
    send = UdpTransport.send_to_group
    monkeypatch.setattr(
        UdpTransport, "send_to_group", lambda self, *what: (sent.append(self.endpoint.interface), send(self, *what))[1]
    )
    status, found = doctor()
    assert status == 0
    assert [name for name in found if name.startswith("multicast on")] == ["multicast on lo"]
    assert set(sent) == {"127.0.0.1"}


# In a network namespace of its own.

NETWORK = (
    "ip link set lo up; ip link add br0 type bridge; ip link set br0 mtu 1200 up; ip addr add 192.0.2.9/24 dev br0"
)


def in_namespace(*commands: str) -> tuple[int, dict[str, dict[str, str]]]:
    script = "; ".join((NETWORK, *commands, f'exec "{sys.executable}" -m gossamer doctor --json --all'))
    result = subprocess.run(
        ["unshare", "-n", "sh", "-ec", script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.stdout, result.stderr
    return result.returncode, {one["check"]: one for one in json.loads(result.stdout)["findings"]}


def _can(*commands: str) -> bool:
    if not all(map(shutil.which, ("unshare", "ip", "nft"))):
        return False
    script = "; ".join((NETWORK, *commands))
    return subprocess.run(["unshare", "-n", "sh", "-ec", script], capture_output=True, check=False).returncode == 0


DEAF = (
    "nft add table ip t",
    "nft 'add chain ip t c { type filter hook input priority 0; }'",
    "nft add rule ip t c iif lo udp dport != 53 ip daddr 224.0.0.0/4 drop",
)


@pytest.mark.skipif(not _can(*DEAF), reason="needs root, and a kernel with namespaces, bridges and nftables")
def test_every_interface_is_tried_and_a_deaf_one_is_found():
    status, found = in_namespace(*DEAF)
    assert status == 1
    assert found["multicast on lo"]["verdict"] == "fail"
    assert "firewall" in found["multicast on lo"]["change"]
    assert found["multicast on br0"]["verdict"] == "ok"
    assert (found["mtu of br0"]["verdict"], found["mtu of br0"]["change"]) == (
        "warn",
        "raise it with `ip link set br0 mtu 1500`",
    )


def a_place() -> str:
    """An address where no other group is."""
    return f"239.192.77.7:{free_port('127.0.0.1')}"


def test_a_running_group_says_what_limits_its_senders_and_who_receives(doctor):
    here = ("--interface", "127.0.0.1", "--address", f"239.192.77.7:{free_port('127.0.0.1')}")
    settings = gossamer.Settings(interface=here[1], address=here[3])
    with (
        gossamer.join_sync("clinic", dataclasses.replace(settings, name="talks")) as talks,
        gossamer.join_sync("clinic", dataclasses.replace(settings, name="listens")) as listens,
    ):
        heard = listens.subscribe("a")
        talks.publish("a", b"well")
        next(iter(heard))
        _, found = doctor(*here, "--group", "clinic")
    assert found["group clinic"]["says"] == "2 members answer"
    assert "may send no limit, held back by the application" in found["talks sends"]["says"]
    assert found["listens receives"]["says"].startswith("1 events, 0.0% by repair")


def test_a_group_that_does_not_answer_fails(doctor):
    status, found = doctor(
        "--interface", "127.0.0.1", "--address", f"239.192.77.7:{free_port('127.0.0.1')}", "--group", "nobody"
    )
    assert status == 1
    assert found["group nobody"]["verdict"] == "fail"


def test_a_member_that_left_the_multicast_and_one_that_is_not_waited_for_are_named():
    path = {"rate": 1e6, "delivered": 1e6, "queueing": 0.2, "round_trip": 0.01, "loss": 0.0, "contested": False}
    usual = {"received": 10, "peer": 0, "logger": 0, "lost": {}, "lagging": [], "published": 0}
    usual |= {"listening": {"on": True, "why": "", "times": 0}}
    pace = {"rate": 12.5e6, "held_by": "path", "receiver": 2, "paths": {"2": path}}
    fast = {"member": 1, "name": "fast", "stats": {**usual, "published": 5, "pace": pace, "lagging": [2]}}
    left = {"on": False, "why": "let go by 1; 900 packets behind", "times": 1}
    slow = {"member": 2, "name": "slow", "stats": {**usual, "listening": left}}
    lossy = {"member": 3, "name": "lossy", "stats": {**usual, "peer": 6}}
    found = {(finding.check, finding.says): finding for finding in of_group([fast, slow, lossy])}
    assert found["fast sends", "does not wait for slow"].verdict == "warn"
    assert found["slow receives", "has left the multicast: let go by 1; 900 packets behind"].verdict == "warn"
    assert "lossy link" in found["lossy receives", "10 events, 60.0% by repair, 0 lost"].change
    sends = found["fast sends", "may send 100.0 Mbit/s, held back by the path to slow, 200.0 ms in queues"]
    assert "keeps a queue" in sends.change
