"""Who reads a durable name: one at a time, and another soon after it died."""

from __future__ import annotations

from gossamer.logging.registrar import LEASE_S, Registrar

A, B, C = 1, 2, 3


def deciding(now: float = 0.0) -> Registrar:
    registrar = Registrar()
    registrar.decides(now, True)
    return registrar


def test_a_name_that_nobody_reads_is_granted():
    assert deciding().asked(0.0, "n", A, renews=False, known=False) == ("granted", A)


def test_a_second_reader_waits_for_the_next_renewal_and_is_then_refused():
    registrar = deciding()
    registrar.asked(0.0, "n", A, renews=False, known=False)
    assert registrar.asked(0.5, "n", B, renews=False, known=True) == ("wait", A)
    registrar.asked(1.0, "n", A, renews=True, known=True)
    assert registrar.asked(1.1, "n", B, renews=False, known=True) == ("refused", A)


def test_a_reader_that_died_is_replaced_when_its_lease_is_over():
    registrar = deciding()
    registrar.asked(0.0, "n", A, renews=False, known=False)
    assert registrar.asked(LEASE_S - 0.1, "n", B, renews=False, known=True) == ("wait", A)
    assert registrar.asked(LEASE_S + 0.1, "n", B, renews=False, known=True) == ("granted", B)
    assert registrar.asked(LEASE_S + 0.2, "n", A, renews=True, known=True) == ("refused", B), "it had not died"


def test_a_reader_that_released_or_left_is_replaced_at_once():
    registrar = deciding()
    registrar.asked(0.0, "n", A, renews=False, known=False)
    registrar.released("n", C)
    assert registrar.asked(0.1, "n", B, renews=False, known=True)[0] == "wait"
    registrar.released("n", A)
    assert registrar.asked(0.2, "n", B, renews=False, known=True) == ("granted", B)
    registrar.asked(10.0, "m", A, renews=False, known=True)
    registrar.left(A)
    assert registrar.asked(10.1, "m", B, renews=False, known=True) == ("granted", B)


def test_a_logger_that_begins_to_decide_waits_for_renewals_of_names_that_its_log_knows():
    registrar = deciding(100.0)
    assert registrar.asked(100.1, "old", B, renews=False, known=True)[0] == "wait"
    assert registrar.asked(100.2, "new", B, renews=False, known=False)[0] == "granted"
    assert registrar.asked(100.3, "old", A, renews=True, known=True)[0] == "granted"
    assert registrar.asked(100.4, "old", B, renews=False, known=True) == ("refused", A)
    later = deciding(100.0)
    assert later.asked(100.1 + LEASE_S, "old", B, renews=False, known=True)[0] == "granted"


def test_a_logger_that_no_longer_decides_forgets_its_leases():
    registrar = deciding()
    registrar.asked(0.0, "n", A, renews=False, known=False)
    registrar.decides(1.0, False)
    registrar.decides(50.0, True)
    assert registrar.asked(50.0 + LEASE_S + 0.1, "n", B, renews=False, known=True)[0] == "granted"
