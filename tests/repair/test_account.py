"""What an operator sees of heals."""

from __future__ import annotations

from gossamer.repair.account import Account


def test_a_member_that_was_away_for_a_moment_does_not_hide_what_a_heal_has_brought():
    account = Account()
    account.looked(1.0, whole=False)
    account.healed(10.0, 4, ongoing=False)
    account.filled, account.addressed, account.received = 500, 2000, 30
    account.looked(20.0, whole=True)
    account.looked(21.0, whole=False)
    account.healed(22.0, 1, ongoing=False)
    found = account.of_divisions(25.0)
    big = {"ago_s": 15.0, "members": 4, "filled": 500, "addressed": 2000, "received": 30}
    assert found["heals"] == [big, {"ago_s": 3.0, "members": 1, "filled": 0, "addressed": 0, "received": 0}]
    assert found["healed"] == big


def test_a_side_that_comes_back_member_by_member_is_one_heal():
    account = Account()
    account.looked(1.0, whole=False)
    account.healed(10.0, 1, ongoing=False)
    account.healed(10.2, 4, ongoing=True)
    assert [(heal["members"], heal["ago_s"]) for heal in account.of_divisions(11.0)["heals"]] == [(4, 1.0)]


def test_only_some_heals_are_remembered():
    account = Account()
    for number in range(100):
        account.looked(number, whole=False)
        account.healed(number, 1, ongoing=False)
        account.looked(number, whole=True)
    assert [heal["ago_s"] for heal in account.of_divisions(100.0)["heals"]] == [8, 7, 6, 5, 4, 3, 2, 1]


def test_nobody_that_was_missing_has_come_back():
    account = Account()
    account.looked(1.0, whole=True)
    account.healed(2.0, 1, ongoing=False)
    assert account.of_divisions(3.0) == {}
