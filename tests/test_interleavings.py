"""Property-based: whatever the network does to messages, and in whatever order, the specifications hold.

A few stacks sit at a table; hypothesis decides which message is handed over next, which is lost or handed over twice,
who publishes, and when time goes by. Then the network is healed, and everything must arrive. The rows of the
whole history go through the checkers.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gossamer.core.effects import Announce, Deliver, Effect, ReportLost
from gossamer.rungs import promises
from gossamer.spec import check_rows
from gossamer.trace.rows import rows_from

from .papers.hand import Table

ACTIONS = st.lists(
    st.tuples(st.sampled_from(["publish", "hand", "lose", "repeat", "wait"]), st.integers(0, 10**6)), max_size=60
)
PROTOCOLS = [
    ("basic", 3, (), {}),
    ("basic", 3, (), {"ordering": "fifo"}),
    ("lbrm", 4, (3,), {}),
    ("rpbcast", 4, (3,), {}),
    ("rpbcast", 4, (3,), {"ordering": "fifo", "gc_rounds": 1}),
    ("rpbcast", 5, (3, 4), {"buffering": "size", "buffer_packets": 2}),
    ("pbcast", 4, (), {}),
    ("pbcast", 4, (), {"gc_rounds": 2, "round_bytes": 150, "multicast_after": 0}),
    ("rpbcast", 3, (2,), {"adaptive": True, "multicast_after": 2, "gossip_period_max": 1.0}),
    ("rpbcast", 4, (3,), {"ordering": "fifo", "ask_again": 0.01, "round_trips": True, "request_packets": 4}),
    ("rpbcast", 4, (3,), {"ordering": "fifo", "ask_again": 0.01, "round_trips": True, "parity": 2}),
]


class Witness(Table):
    """A table that writes the history down as trace rows."""

    def __init__(self, *args, **kwargs):
        self.rows = []
        super().__init__(*args, **kwargs)
        self.rows = [(0, member, "join", -1, -1, -1, 0, "") for member in self.stacks] + self.rows

    def _carry_out(self, member: int, effect: Effect) -> None:
        t_ns = int(self.now * 1e9)
        if isinstance(effect, Announce):
            for packet in effect.run:
                self.rows.append((t_ns, member, "publish", packet.sender, packet.seqno, -1, 0, ""))
        elif isinstance(effect, Deliver):
            for packet in effect.run:
                self.rows.append((t_ns, member, "deliver", packet.sender, packet.seqno, -1, 0, effect.phase))
        elif isinstance(effect, ReportLost):
            for seqno in range(effect.first, effect.last + 1):
                self.rows.append((t_ns, member, "lost", effect.sender, seqno, -1, 0, effect.reason))
        super()._carry_out(member, effect)


def play(table: Witness, actions: list[tuple[str, int]]) -> None:
    for action, number in actions:
        if action == "publish":
            table.publish(number % len(table.stacks))
        elif action == "wait":
            table.wait((number % 100) / 100, pass_on=False)
        elif table.letters:
            letter = table.letters.pop(number % len(table.letters))
            for _ in range({"hand": 1, "lose": 0, "repeat": 2}[action]):
                table.hand(letter)


@pytest.mark.parametrize(("protocol", "members", "loggers", "changes"), PROTOCOLS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(actions=ACTIONS, seed=st.integers(0, 1000))
def test_protocols_are_safe_under_any_interleaving_and_live_when_healed(
    protocol, members, loggers, changes, actions, seed
):
    table = Witness(protocol, members, loggers=loggers, seed=seed, **changes)
    play(table, actions)
    table.settle()
    table.wait(30.0)  # healed: every message is handed over
    names = ["reliable-multicast", *(["fifo"] if table.settings.ordering == "fifo" else [])]
    report = check_rows([rows_from(table.rows)], {"promises": list(promises(table.settings))}, names)
    assert report.ok, report.violations
