"""What has not come in time is lost only if the same member has sent something later that is here."""

from gossamer.core.answers import Answers
from gossamer.core.asking import Asking
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.request_window import RequestWindow

SERVER, OTHER, SENDER = 5, 6, 7
ASKED, MISSING = 8, {SENDER: RangeSet.span(4, 7)}


def run_of(first: int, last: int) -> list[Packet]:
    return [Packet(SENDER, seqno, b"") for seqno in range(first, last + 1)]


def counts(judged: list) -> list[tuple[int, int]]:
    return [(answer.asked, answer.missing_count) for answer in judged]


def test_a_complete_answer_is_judged_at_once():
    assert counts(Answers().over(SERVER, 1.0, ASKED, {})) == [(ASKED, 0)]


def test_what_is_missing_when_the_end_of_the_answer_is_here_is_lost():
    answers = Answers()
    answers.reached(SERVER, 1.0, is_last=True)
    assert counts(answers.over(SERVER, 1.0, ASKED, MISSING)) == [(ASKED, 4)]


def test_what_is_missing_when_a_later_answer_has_begun_is_lost():
    answers = Answers()
    assert not answers.over(SERVER, 1.0, ASKED, MISSING)
    assert not answers.reached(SERVER, 1.0, is_last=False)  # of the rest of it that says nothing
    assert counts(answers.reached(SERVER, 2.0, is_last=False)) == [(ASKED, 4)]
    assert not answers.reached(SERVER, 3.0, is_last=True)


def test_what_another_member_sends_says_nothing():
    answers = Answers()
    answers.over(SERVER, 1.0, ASKED, MISSING)
    assert not answers.reached(OTHER, 2.0, is_last=True)
    answers.came(OTHER, run_of(4, 7))
    assert counts(answers.reached(SERVER, 2.0, is_last=True)) == [(ASKED, 4)]


def test_what_comes_before_anything_later_was_only_late():
    answers = Answers()
    answers.over(SERVER, 1.0, ASKED, MISSING)
    answers.came(SERVER, run_of(4, 6))
    assert counts(answers.reached(SERVER, 2.0, is_last=False)) == [(ASKED, 1)]


def test_where_several_were_asked_at_once_nobody_is_waited_for():
    assert counts(Answers().over(-1, 1.0, ASKED, MISSING)) == [(ASKED, 4)]


def test_answers_of_members_that_are_gone_do_not_pile_up():
    answers = Answers()
    for member in range(5_000):
        for turn in range(100 if member < 10 else 1):
            answers.over(member, turn, ASKED, MISSING)
        answers.reached(member, -1.0, is_last=False)
    assert sum(map(len, answers._waiting.values())) <= 1_000 + 10 * 16
    assert len(answers._reached) <= 1_000


def asked_in_parts(parts: int) -> tuple[Asking, RequestWindow]:
    """A member that has asked for 8 packets so often, and got one half of each part; others are to say what is over."""
    window = RequestWindow(2048)
    asking = Asking(2048, times_out=False, window=window)
    window.size = 8 * parts
    asking.add(SENDER, 0, 8 * parts - 1)
    for part in range(parts):
        asking.asked(1.0 + part / 1000, SERVER, {SENDER: RangeSet.span(8 * part, 8 * part + 7)})
    for part in range(parts):
        take_in(asking, 1.1, SERVER, 8 * part, 8 * part + 3)
    return asking, window


def take_in(asking: Asking, now: float, source: int, first: int, last: int) -> None:
    asking.came(now, source, run_of(first, last))
    asking.remove(SENDER, first, last)


def give_up(asking: Asking, part: int) -> None:
    wanted = {SENDER: RangeSet.span(8 * part, 8 * part + 7)}
    left = asking.still(wanted)
    asking.answered(1.2, SERVER, 1.0 + part / 1000, wanted, left)
    asking.did_not_come(left)


def test_half_an_answer_is_an_overflow_if_more_has_come_of_the_same_member():
    asking, window = asked_in_parts(17)
    for part in range(17):
        give_up(asking, part)
    assert window.size < 0.5 * 8 * 17


def test_half_an_answer_is_none_if_the_other_half_comes_late_though_another_was_faster():
    asking, window = asked_in_parts(1)
    for part in range(1, 20):
        give_up(asking, part - 1)
        take_in(asking, 1.25, OTHER, 8 * part - 4, 8 * part - 1)
        asking.came_again(SERVER, run_of(8 * part - 4, 8 * part - 1))
        asking.add(SENDER, 8 * part, 8 * part + 7)
        asking.asked(1.0 + part / 1000, SERVER, {SENDER: RangeSet.span(8 * part, 8 * part + 7)})
        take_in(asking, 1.1, SERVER, 8 * part, 8 * part + 3)
    assert window._overflow.within(2048) == 2048
