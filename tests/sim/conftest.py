"""Short ways to a scenario."""

from typing import Any

import pytest

from gossamer.sim.scenario import Scenario, parse


def make(protocol: str = "unreliable", /, **sections: Any) -> Scenario:
    """A scenario from sections; what is not given is a small lossless LAN."""
    table: dict[str, Any] = {
        "name": "test",
        "duration": 2.0,
        "linger": 30.0,
        "topology": {"kind": "lan", "members": 4, "latency": 0.001},
        "traffic": {"senders": 1, "rate": 100.0, "arrivals": "steady"},
    }
    for name, section in sections.items():
        table[name] = {**table.get(name, {}), **section} if isinstance(section, dict) else section
    table["protocol"] = {"name": protocol, **sections.get("protocol", {})}
    return parse(table)


@pytest.fixture
def scenario():
    return make
