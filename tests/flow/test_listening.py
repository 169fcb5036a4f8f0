"""A receiver that was let go leaves the multicast when it falls further behind, and is back when it has caught up."""

from random import Random

from gossamer.core.effects import Effect, Listen, Unicast
from gossamer.core.inputs import Heard, Published, Received, Reconnected, Started, Woke
from gossamer.core.messages import HowFar, LetGo, Progress, Request, SeenReport
from gossamer.core.packets import Packet
from gossamer.presets import preset
from gossamer.stack import Stack

SENDER, ME, OTHER = 0, 1, 2
CHANGES = {"window": 64, "request_packets": 16, "gossip_period": 0.1, "unlisten_after": 1.0, "loggers": 0}


class Receiver:
    """A stack of which we say what it hears, a tenth of a second at a time."""

    def __init__(self, **changes: object) -> None:
        self.stack = Stack(ME, (SENDER, ME, OTHER), preset("rpbcast", {**CHANGES, **changes}), Random(1))
        self.now = 0.0
        self.head = 0
        self.said: list[Effect] = list(self.stack.step(0.0, Started({})))

    def tell(self, source: int, message: object) -> None:
        self.said += self.stack.step(self.now, Heard(source, message))  # type: ignore[arg-type]

    def hear(self, first: int, last: int, phase: str = "first_pass") -> None:
        run = [Packet(SENDER, seqno, b"") for seqno in range(first, last + 1)]
        self.said += self.stack.step(self.now, Received(SENDER, run, phase))  # type: ignore[arg-type]

    def wait(
        self, seconds: float, *, sent: int = 0, heard: int = 0, let_go: bool = False, answers: bool = False
    ) -> None:
        """In each tenth of a second the sender sends so many packets, of which we hear the last."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.1
            self.head += sent
            if heard:
                self.hear(self.head - heard, self.head - 1)
            if let_go:
                self.tell(SENDER, LetGo())
            if answers and not self.listens:
                self.tell(OTHER, Progress({SENDER: self.head - 1}))
            while self.stack.next_deadline() <= self.now:
                self.said += self.stack.step(self.now, Woke())

    def catch_up(self) -> None:
        for first, last in self.stack.streams[SENDER].missing.ranges():
            self.hear(first, last, "peer")

    def messages(self, kind: type) -> list[Unicast]:
        return [e for e in self.said if isinstance(e, Unicast) and isinstance(e.message, kind)]

    @property
    def listens(self) -> bool:
        return ([True] + [e.on for e in self.said if isinstance(e, Listen)])[-1]

    def drown(self) -> None:
        self.wait(2.5, sent=100, heard=20, let_go=True)
        assert not self.listens


def test_a_receiver_that_was_let_go_and_falls_behind_leaves_the_multicast_and_says_why() -> None:
    receiver = Receiver()
    receiver.wait(1.0, sent=100, heard=80, let_go=True)
    assert receiver.listens
    receiver.wait(1.0, sent=100, heard=80, let_go=True)
    assert not receiver.listens
    hearing = receiver.stack.hearing
    assert (hearing.on, hearing.times) == (False, 1)
    assert hearing.why.startswith("let go by 0; ")


def test_a_receiver_that_misses_most_leaves_in_half_the_time_and_knows_what_its_path_carries() -> None:
    receiver = Receiver()
    receiver.wait(0.5, sent=100, heard=20, let_go=True)
    assert receiver.listens
    receiver.wait(0.5, sent=100, heard=20, let_go=True)
    assert not receiver.listens
    assert 150 <= receiver.stack.hearing.carried <= 250  # packets per second
    receiver.catch_up()
    receiver.wait(2.0, answers=True)
    assert receiver.listens
    assert receiver.stack.hearing.carried == 0.0


def test_a_receiver_that_was_let_go_and_keeps_up_stays() -> None:
    receiver = Receiver()
    receiver.wait(5.0, sent=100, heard=100, let_go=True)
    assert receiver.listens


def test_a_receiver_that_falls_behind_while_the_sender_waits_for_it_stays() -> None:
    receiver = Receiver()
    receiver.wait(1.0, sent=100, heard=20, let_go=True)
    receiver.tell(SENDER, LetGo(over=True))
    receiver.wait(4.0, sent=100, heard=20)
    assert receiver.listens


def test_a_receiver_that_was_cut_off_and_keeps_up_now_stays() -> None:
    """It learns of all that it has missed with the first packet that it hears."""
    receiver = Receiver()
    receiver.wait(1.0, sent=100, heard=100, let_go=True)
    receiver.wait(2.0, sent=100)
    receiver.wait(3.0, sent=100, heard=100, let_go=True)
    assert len(receiver.stack.streams[SENDER].missing) > 1_000
    assert receiver.listens


def test_a_receiver_that_gives_up_what_it_misses_falls_behind_too() -> None:
    receiver = Receiver(peer_rounds=1)
    receiver.wait(2.0, sent=100, heard=20, let_go=True)
    assert receiver.stack.streams[SENDER].abandoned
    assert receiver.stack.hearing.times == 1


def test_a_member_that_does_not_listen_asks_how_far_senders_are_and_for_what_it_has_not_heard() -> None:
    receiver = Receiver()
    receiver.drown()
    receiver.said.clear()
    receiver.wait(0.5, sent=100)
    assert len(receiver.messages(HowFar)) == 5
    assert receiver.messages(HowFar)[0].message.seen == {SENDER: receiver.head - 501, ME: -1, OTHER: -1}
    receiver.catch_up()
    receiver.said.clear()
    receiver.tell(OTHER, Progress({SENDER: receiver.head - 1}))
    receiver.wait(0.1)
    assert receiver.messages(Request)
    assert receiver.stack.streams[SENDER].missing.last == receiver.head - 1
    assert not receiver.messages(SeenReport)  # nobody has to wait for it


def test_a_member_that_does_not_listen_rather_asks_others_than_the_sender_which_has_all_the_rest_to_serve() -> None:
    receiver = Receiver(ask_again=0.01, round_trips=True)
    receiver.drown()
    asked = []
    for _ in range(10):
        receiver.catch_up()
        receiver.said.clear()
        receiver.head += 10
        receiver.tell(OTHER, Progress({SENDER: receiver.head - 1}))
        receiver.said += receiver.stack.step(receiver.now, Woke())
        asked += [request.to for request in receiver.messages(Request)]
    assert asked == 10 * [OTHER]


def test_a_member_tells_how_far_senders_are_as_far_as_it_is_news() -> None:
    receiver = Receiver()
    receiver.hear(0, 9)
    receiver.tell(OTHER, HowFar({SENDER: 4, ME: -1}))
    receiver.tell(OTHER, HowFar({SENDER: 9, ME: -1}))
    assert [answer.message.lasts for answer in receiver.messages(Progress)] == [{SENDER: 9}, {}]


def test_it_listens_again_when_it_has_caught_up() -> None:
    receiver = Receiver()
    receiver.drown()
    receiver.wait(3.0, sent=10, answers=True)
    assert not receiver.listens
    receiver.catch_up()
    receiver.wait(0.2, answers=True)
    assert receiver.listens
    assert receiver.stack.hearing.why == ""


def test_one_that_soon_leaves_again_stays_away_for_longer_each_time() -> None:
    receiver, pauses = Receiver(), []
    for _ in range(3):
        receiver.drown()
        left = receiver.now
        while not receiver.listens:
            receiver.catch_up()
            receiver.wait(0.1, answers=True)
        pauses.append(receiver.now - left)
    assert pauses[1] > 1.5 * pauses[0]
    assert pauses[2] > 1.5 * pauses[1]


def test_one_that_nobody_answers_listens_as_it_may_be_cut_off() -> None:
    receiver = Receiver()
    receiver.drown()
    receiver.wait(5.0)
    assert receiver.listens


def test_one_that_was_disconnected_listens() -> None:
    receiver = Receiver()
    receiver.drown()
    receiver.said += receiver.stack.step(receiver.now, Reconnected())
    assert receiver.listens


def test_a_sender_tells_a_receiver_that_it_does_not_wait_and_that_it_does_again() -> None:
    stack = Stack(SENDER, (SENDER, ME, OTHER), preset("rpbcast", CHANGES), Random(1))
    stack.step(0.0, Started({}))
    window = stack.pace._paces[0].window  # type: ignore[attr-defined]

    def told(until: float) -> list[tuple[int, bool]]:
        found = []
        while stack.next_deadline() <= until:
            effects = stack.step(stack.next_deadline(), Woke())
            found += [(e.to, e.message.over) for e in effects if isinstance(e, Unicast) and type(e.message) is LetGo]
        return found

    assert told(0.5) == []
    window.let_go(ME, 0, 0.0)
    assert set(told(1.5)) == {(ME, False)}
    window.follow(ME, 0)
    assert set(told(2.5)) == {(ME, True)}
    told(10.0)
    assert told(11.0) == []


def test_a_sender_tells_a_receiver_at_once_that_it_lets_it_go_for_its_path() -> None:
    """Soon its queue is full, and most of what it is told is lost."""
    stack = Stack(SENDER, (SENDER, ME, OTHER, 4), preset("rpbcast", CHANGES | {"congestion": "delay"}), Random(1))
    stack.step(0.0, Started({}))
    controller = stack.pace._paces[0].controller  # type: ignore[attr-defined]
    controller.judge = lambda now, lagging, let_go, follow: let_go(ME)
    stack.step(0.1, Published(b"0", b"1", b"2"))
    stack.step(0.11, Heard(ME, SeenReport(1, 0, 1, 1)))
    effects = stack.step(0.12, Heard(ME, SeenReport(2, 1, 2, 10_001)))
    assert Unicast(ME, LetGo()) in effects


def test_a_receiver_that_was_let_go_and_has_everything_says_so_though_nothing_comes_any_more() -> None:
    receiver = Receiver()
    receiver.hear(0, 9)
    receiver.said.clear()
    receiver.tell(SENDER, LetGo())
    assert [report.message.seen for report in receiver.messages(SeenReport)] == [10]
    receiver.hear(12, 19)
    receiver.said.clear()
    receiver.tell(SENDER, LetGo())
    assert not receiver.messages(SeenReport)


def test_a_receiver_that_was_let_go_reports_no_further_than_its_first_gap() -> None:
    receiver = Receiver()
    receiver.tell(SENDER, LetGo())
    receiver.hear(0, 9)
    receiver.hear(60, 99)
    assert [report.message.seen for report in receiver.messages(SeenReport)] == [10]
    receiver.catch_up()
    assert receiver.messages(SeenReport)[-1].message.seen == 100
