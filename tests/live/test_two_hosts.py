"""Two hosts and a key, as README says: without a word about interfaces, something crosses; if not, it is said why."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import gossamer
from tests.netns import ROOT, Network, Unavailable, hear, say

KEY = Random(7).randbytes(32).hex()
README = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = {m[1]: m[0] for m in re.finditer(r"# (\w+\.py)\n.*?(?=```)", README, re.DOTALL)}


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        with Network(2) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO REAL NETWORK TESTED: {reason}")


def world(folder: Path) -> dict[str, str]:
    """An environment with a key in a file, and no word about interfaces."""
    (folder / "group.key").write_text(KEY)
    (folder / "group.key").chmod(0o600)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    return plain | {"GOSSAMER_KEY": "@group.key", "PYTHONUNBUFFERED": "1"}


def test_the_two_programs_of_readme_meet_on_two_hosts_with_a_key(network, tmp_path):
    env = world(tmp_path)
    subscriber = subprocess.Popen(
        network.nodes[0].command(sys.executable, "-c", EXAMPLES["subscriber.py"]),
        cwd=tmp_path,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
    )
    try:
        look = network.nodes[1].command(sys.executable, "-m", "gossamer", "members", "quotes")
        while subprocess.run(look, cwd=tmp_path, env=env, capture_output=True, timeout=30).returncode:
            assert subscriber.poll() is None
        publish = network.nodes[1].command(sys.executable, "-c", EXAMPLES["publisher.py"])
        subprocess.run(publish, cwd=tmp_path, env=env, check=True, timeout=30)
        line = subscriber.stdout.readline()
        assert line == "quotes.nyse.ibm 101.5 {'price': 101.5}\n"
    finally:
        subscriber.kill()
        subscriber.wait()


def be_alone(key: str) -> None:
    """Join with a key and nothing else; say what is logged."""
    os.environ.pop("GOSSAMER_INTERFACE", None)
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("gossamer").addHandler(handler)
    logging.getLogger("gossamer").setLevel(logging.INFO)

    async def story() -> None:
        settings = gossamer.Settings(key=key)
        async with gossamer.join("lonely", settings) as group:
            notice = await group.notices().get(60)
            assert notice is not None
            async with gossamer.join("another", settings):
                say([settings.interface, notice.kind, *logged])

    asyncio.run(story())


def test_the_interface_is_chosen_by_the_route_and_logged_once_and_being_alone_is_told(network):
    interface, kind, chosen, alone = hear(network.start(0, be_alone, KEY))

    assert interface == "auto"
    assert chosen.startswith("the interface is eth0, 10.77.0.1, by the route to 239.192.77.7")
    assert kind == "alone"
    assert "no other member was heard on 10.77.0.1 within 10 s" in alone


def test_without_a_route_the_error_says_what_to_set(tmp_path):
    if shutil.which("unshare") is None or os.geteuid():
        pytest.skip("needs root, and a kernel with namespaces")
    script = f'ip link set lo up; exec "{sys.executable}" -m gossamer pub quotes a 1'

    done = subprocess.run(
        ["unshare", "-n", "sh", "-ec", script], cwd=tmp_path, env=world(tmp_path), capture_output=True, text=True
    )

    assert done.returncode == 2
    assert "no route leads to 239.192.77.7" in done.stderr
    assert "set interface to one of lo (127.0.0.1)" in done.stderr


def test_without_a_key_a_group_stays_on_this_machine(monkeypatch):
    monkeypatch.delenv("GOSSAMER_INTERFACE", raising=False)
    assert gossamer.Settings().interface == "127.0.0.1"
    assert gossamer.Settings(key=KEY).interface == "auto"
    assert gossamer.Settings(key=KEY, interface="127.0.0.1").interface == "127.0.0.1"
    monkeypatch.setenv("GOSSAMER_INTERFACE", "eth7")
    assert gossamer.Settings(key=KEY).interface == "eth7"
