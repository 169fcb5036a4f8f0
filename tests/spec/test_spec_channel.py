"""The channel invents nothing. Reference: 000 §2.3, property 2.1"""

from __future__ import annotations

import pytest

from .spec_rows import found, row, run


def test_a_multicast_may_be_received_by_anyone_any_number_of_times() -> None:
    rows = [row("send", 0, 0, 1)] + [row("receive", m, 0, 1, 0) for m in (0, 1, 2, 1)]
    assert found("channel", rows) == []


def test_a_packet_needs_a_sender_that_sent_it_before() -> None:
    rows = [
        row("receive", 1, 0, 1, 0),
        row("send", 0, 0, 1),
        row("receive", 1, 0, 1, 2),
        row("receive", 1, 0, 2, 0),
        row("receive", 1, 0, 1, -1),
    ]
    assert found("channel", rows) == [(0,), (2,), (3,), (4,)]


def test_a_unicast_reaches_its_target_only() -> None:
    rows = [row("repair", 2, 0, 1, 1), row("receive", 1, 0, 1, 2), row("receive", 3, 0, 1, 2)]
    assert found("channel", rows) == [(2,)]


@pytest.mark.parametrize("kind", ["request", "gossip", "ack", "heartbeat"])
def test_a_control_message_needs_one_of_its_kind(kind: str) -> None:
    other = "ack" if kind != "ack" else "gossip"
    rows = [row(kind, 0, peer=1)]
    rows += [row("receive", 1, peer=0, phase=kind), row("receive", 1, peer=0, phase=other)]
    rows += [row("receive", 2, peer=0, phase=kind), row("receive", 1, peer=2, phase=kind)]
    assert found("channel", rows) == [(2,), (3,), (4,)]


def test_membership_messages_need_no_row_that_sent_them() -> None:
    rows = [row("receive", 1, peer=0, phase=kind) for kind in ("join", "leave", "view", "suspect")]
    assert found("channel", rows) == []


def test_a_message_of_no_known_kind_is_a_violation() -> None:
    assert "'telegram'" in run("channel", [row("receive", 1, peer=0, phase="telegram")])[0].message
