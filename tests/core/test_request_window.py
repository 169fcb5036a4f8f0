"""The window of requests, on a modelled path: it fills the path, overruns no queue, and is not put off by losses."""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

import pytest

from gossamer.core.asking import Asking
from gossamer.core.packets import Packet
from gossamer.core.request_window import RequestWindow

SERVER, SENDER = 5, 7
QUEUE = 170
"""Packets: 256 KB."""
AWAKE_S = 0.02
"""How long a server that stands still now and then works in between, on average."""


@dataclass
class Path:
    """A member asks a server for everything; the answers cross a link of `rate` packets a second with a queue."""

    rate: float
    delay: float
    """There and back."""
    loss: float = 0.0
    busy: float = 0.0
    """How long the server is busy with other things, on average, before it looks at a request; rarely not at all."""
    still: float = 0.0
    """How long the server stands still, now and then, also in the middle of an answer."""
    limit: int = 2048
    queue: int = QUEUE
    known: float = 0.0
    """What the member thinks that the link carries, as a share of what it does."""
    rungs: int = 1
    """How many of them ask, each for packets of another sender."""
    asking: Asking = field(init=False)
    came: list[float] = field(default_factory=list)
    dropped: list[float] = field(default_factory=list)
    sent: int = 0
    longest: int = 0
    stops: float = 0.0
    """When the server stands still the next time."""

    def run(self, seconds: float, seed: int = 1) -> "Path":
        window, rng = RequestWindow(self.limit, lambda: self.known * self.rate), Random(seed)
        askings = {SENDER + n: Asking(self.limit, window=window) for n in range(self.rungs)}
        self.asking = askings[SENDER]
        for sender, asking in askings.items():
            asking.add(sender, 0, 10_000_000)
        events: list[tuple[float, int, int]] = []  # when which packet of which sender comes
        now, free, heard = 0.0, 0.0, 0.0
        while now < seconds:
            for asking in askings.values():
                if asking.wants_more():
                    wanted = asking.choose()
                    asking.asked(now, SERVER, wanted)
                    heard = max(heard, now + self.delay / 2 + rng.uniform(0.6, 1.4) * self.busy * (rng.random() > 0.01))
                    for sender, numbers in wanted.items():
                        for seqno in numbers:
                            sent = self._awake(max(heard, free), rng) if self.still else heard
                            free = self._cross(sent, free, (sender, seqno), events, rng)
            due = min(asking.overdue(now) for asking in askings.values())
            if events and events[0][0] <= due:
                now, sender, seqno = heappop(events)
                self.came.append(now)
                askings[sender].came(now, SERVER, [Packet(sender, seqno, b"")])
                askings[sender].remove(sender, seqno, seqno)
            else:
                now = due
        return self

    def _cross(
        self, at: float, free: float, packet: tuple[int, int], events: list[tuple[float, int, int]], rng: Random
    ) -> float:
        waiting = max(0.0, free - at) * self.rate
        self.sent += 1
        self.longest = max(self.longest, int(waiting))
        if waiting > self.queue:
            self.dropped.append(at)
            return free
        free = max(free, at) + 1 / self.rate
        if rng.random() >= self.loss:
            heappush(events, (free + self.delay / 2, *packet))
        return free

    def _awake(self, at: float, rng: Random) -> float:
        """When the server sends what it would send `at`."""
        while self.stops + self.still < at:
            self.stops += self.still + rng.expovariate(1 / AWAKE_S)
        return self.stops + self.still if at >= self.stops else at

    def use(self, since: float, until: float) -> float:
        """The share of the link that was used."""
        return sum(since <= at < until for at in self.came) / (self.rate * (until - since))


PATHS = [(10, 0.0005), (10, 0.02), (10, 0.1), (100, 0.0005), (100, 0.002), (100, 0.02), (1000, 0.0005), (1000, 0.002)]


@pytest.mark.parametrize(("mbit", "delay"), PATHS)
def test_requests_fill_a_path_and_overrun_no_queue(mbit: int, delay: float) -> None:
    end = min(3.0, 300 / mbit)
    path = Path(rate=mbit * 1e6 / 12_000, delay=delay).run(end)
    assert path.use(end / 2, end) > 0.97
    assert len([at for at in path.dropped if at > end / 2]) < 0.01 * path.sent
    assert len(path.dropped) < 0.03 * path.sent


@pytest.mark.parametrize("delay", [0.002, 0.02])
def test_random_losses_do_not_shrink_the_window(delay: float) -> None:
    path = Path(rate=8333, delay=delay, loss=0.05).run(3.0)
    assert path.use(1.0, 3.0) > 0.9
    assert path.sent < 1.01 * len(path.came) / 0.95 + 2 * path.asking.limit  # and nothing is asked for twice


@pytest.mark.parametrize("queue", [40, 80])
def test_requests_find_the_size_of_a_queue_that_is_too_short_to_show_in_the_delay(queue: int) -> None:
    path = Path(rate=8333, delay=0.02, queue=queue).run(4.0)
    assert path.use(1.0, 4.0) > 0.95
    assert len([at for at in path.dropped if at > 1.0]) < 0.01 * path.sent


def test_a_server_that_is_busy_is_no_full_path() -> None:
    path = Path(rate=8333, delay=0.002, busy=0.01).run(2.0)
    assert path.use(1.0, 2.0) > 0.88  # with a window for the delay of the path alone, it would be a third
    assert not path.dropped


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_server_that_stands_still_in_the_middle_of_an_answer_is_no_queue_that_overflows(seed: int) -> None:
    path = Path(rate=100_000, delay=0.001, loss=0.05, still=0.016).run(3.0, seed)
    assert path.use(0.5, 3.0) > 0.8 * AWAKE_S / (AWAKE_S + path.still)


def grown(seconds: float = 0.02) -> RequestWindow:
    """A window on a path on which nothing waits."""
    window = RequestWindow(2048)
    for turn in range(100):
        window.needed()
        window.came(window.size)
        window.measured(turn * seconds, SERVER, seconds)
    assert window.size == 2048
    return window


def test_a_window_gives_way_to_a_queue_that_grows() -> None:
    window = grown()
    for turn in range(20):
        window.needed()
        window.came(window.size)
        window.measured(3 + turn * 0.2, SERVER, 0.2)
    assert window.size < 64


def beside_others(*, missed: int = 0, carried: float = 8333.0) -> RequestWindow:
    """A window whose answers wait for 20 ms in a queue that others keep full, however little it asks for."""
    window = RequestWindow(2048, lambda: carried)
    window.measured(0.0, SERVER, 0.04)
    for turn in range(1, 100):
        window.needed()
        window.came(window.size)
        window.missed(missed * window.size)
        window.measured(turn * 0.06, SERVER, 0.06)
    return window


def test_a_window_beside_others_insists_on_half_of_what_the_path_carries() -> None:
    assert beside_others(carried=0.0).size < 100
    assert 0.45 * 8333 <= beside_others().size / 0.06 <= 0.55 * 8333


def test_beside_what_comes_by_itself_a_quarter_of_it_may_be_asked_for_however_long_answers_take() -> None:
    window = RequestWindow(2048)
    for turn in range(200):
        window.needed()
        window.arrived += 400
        window.came(20)
        window.measured(turn * 0.02, SERVER, 0.02 if turn else 0.0005)  # the peer is busy, all but the first time
    assert 0.2 * 400 <= window.size <= 0.3 * 400


@pytest.mark.parametrize("peers_that_lack_it", [0, 1])
def test_losses_do_not_cut_what_is_asked_for_beside_far_more_that_comes_by_itself(peers_that_lack_it: int) -> None:
    """The line loses one in twenty, or now and then a peer has lost much of the same: neither is a queue of ours."""
    window, rng, now = RequestWindow(2048), Random(1), 0.0
    window.measured(now, SERVER, 0.002)
    for turn in range(400):
        now += 0.012  # everything takes long, because the host is busy
        lost = sum(rng.random() < 0.05 for _ in range(40)) + 15 * peers_that_lack_it * (turn % 8 < 4)
        window.needed()
        window.arrived += 700
        window.came(40 - lost)
        window.missed(lost)
        window.answered(now, now - 0.012, 40, lost)
        window.measured(now, SERVER, 0.012)
        assert turn < 40 or window.size >= 0.2 * 700


def test_what_came_by_itself_counts_for_a_while_after_it_has_stopped() -> None:
    """Its sender may wait for this very member, whose repairs have the path to themselves."""
    window, now = RequestWindow(2048), 0.0
    sizes = {}
    for turn in range(600):
        now += 0.01
        window.needed()
        window.arrived += 600 * (turn < 100)
        window.came(20)
        window.measured(now, SERVER, 0.01 if turn else 0.0005)
        sizes[turn] = window.size
    assert min(sizes[turn] for turn in range(90, 130)) >= 0.15 * 600
    assert sizes[599] < 0.1 * 600


def test_a_window_does_not_insist_if_much_does_not_come() -> None:
    assert beside_others(missed=1).size <= 0.1 * 8333 * 0.06


@pytest.mark.parametrize("known", [0.5, 1.0, 1.5])
def test_on_its_own_a_window_that_knows_what_the_path_carries_makes_no_queue(known: float) -> None:
    path = Path(rate=8333, delay=0.02, known=known).run(3.0)
    assert path.use(1.5, 3.0) > 0.97
    assert not [at for at in path.dropped if at > 1.5]


@pytest.mark.parametrize("mbit", [10, 100])
def test_rungs_that_ask_at_the_same_time_share_a_path_and_make_no_queue(mbit: int) -> None:
    path = Path(rate=mbit * 1e6 / 12_000, delay=0.02, known=1.0, rungs=2).run(600 / mbit)
    since = 300 / mbit
    assert path.use(since, 2 * since) > 0.97
    assert not [at for at in path.dropped if at > since]


def test_a_rung_that_wants_little_leaves_the_rest_of_the_window_to_others() -> None:
    window = RequestWindow(64)
    peers, logger = Asking(64, window=window), Asking(64, window=window)
    assert peers.limit == window.size == 32
    logger.add(7, 0, 4)
    assert (peers.limit, logger.limit) == (27, 32)
    peers.add(7, 5, 99)
    assert (peers.limit, logger.limit) == (27, 16)
    logger.add(7, 100, 199)
    assert (peers.limit, logger.limit) == (16, 16)


@pytest.mark.parametrize("wanted", [(99, 99, 2), (99, 9, 2, 2), (3, 4, 5), (99, 99, 99, 99)])
def test_what_some_rungs_leave_of_the_window_is_given_to_others_once(wanted: tuple[int, ...]) -> None:
    window = RequestWindow(64)
    askings = [Asking(64, window=window) for _ in wanted]
    for asking, packets in zip(askings, wanted, strict=True):
        asking.add(7, 1, packets)
    parts = [min(asking.limit, asking.wanted_count) for asking in askings]
    assert sum(parts) == min(window.size, sum(wanted))


def test_packets_that_come_in_a_clump_are_no_queue() -> None:
    window = grown()
    for turn in range(20):
        window.needed()
        window.came(window.size)
        for late in range(10):
            window.measured(3 + (turn + late / 10) * 0.02, SERVER, 0.02 + late * 0.01)
    assert window.size == 2048


def test_what_waits_on_a_slow_path_does_not_pass_for_its_length() -> None:
    path = Path(rate=83, delay=0.002).run(100.0)
    assert path.use(1.0, 100.0) > 0.97
    assert path.asking.limit < 64


def test_a_window_that_is_not_used_does_not_grow() -> None:
    window = RequestWindow(2048)
    before = window.size
    for turn in range(100):
        window.came(window.size)
        window.measured(turn * 0.02, SERVER, 0.02)
    assert window.size == before


def test_a_window_is_halved_if_most_of_what_was_asked_for_does_not_come() -> None:
    window = grown()
    window.measured(2.5, SERVER, 0.02)
    window.came(10)
    window.missed(30)
    window.measured(3.0, SERVER, 0.02)
    assert window.size == 1024
    window.missed(1024)  # nothing at all has come since
    assert window.size == 512


def test_a_near_peer_says_nothing_of_a_far_one() -> None:
    window = RequestWindow(2048)
    for turn in range(100):
        window.needed()
        window.came(window.size)
        window.measured(turn * 0.2, SERVER, 0.001)
        window.measured(turn * 0.2 + 0.1, SERVER + 1, 0.1)
    assert window.size == 2048


def test_a_window_is_never_more_than_its_limit() -> None:
    for limit in (1, 4, 16, 100):
        path = Path(rate=8333, delay=0.02, limit=limit).run(1.0)
        assert path.asking.limit <= limit
        assert len(path.came) > 0.5 * limit / (0.02 + limit / 8333)


def test_a_packet_that_is_asked_for_again_is_not_timed() -> None:
    """The answer to the first request may come right after the second: that would seem to be a very short path."""
    asking = Asking(64, window=RequestWindow(64))
    asking.add(7, 0, 9)
    asking.asked(0.0, SERVER, asking.choose())
    late = asking.overdue(0.0)
    asking.overdue(late)
    assert asking.on_their_way == 0
    asking.asked(late, SERVER, asking.choose())
    asking.came(late + 1e-6, SERVER, [Packet(7, 9, b"")])
    assert asking.overdue(late) - late == pytest.approx(late)  # as patient as before


def test_what_nobody_can_send_of_one_sender_does_not_keep_others_waiting() -> None:
    asking, now, asked = Asking(16, window=RequestWindow(16)), 0.0, set()
    asking.add(7, 0, 100_000)
    asking.add(8, 5, 5)
    for _ in range(10):
        wanted = asking.choose()
        asking.asked(now, SERVER, wanted)
        asked |= wanted.keys()
        now = asking.overdue(now)
        asking.overdue(now)
    assert asked == {7, 8}
    assert now < 10.0  # however long nothing has come


def test_a_note_that_a_packet_is_gone_is_an_answer() -> None:
    asking, now = Asking(2048, window=RequestWindow(2048)), 0.0
    asking.add(7, 0, 5_000)
    while now < 1.0:
        wanted = asking.choose()
        asking.asked(now, SERVER, wanted)
        now += 0.01
        asking.declined(now, SERVER, wanted)
        assert asking.on_their_way == 0
        for part in wanted[7].ranges():  # and this time nobody else could have it
            asking.remove(7, *part)
        if not asking.wanted:
            break
    assert now < 0.5


def test_a_member_that_wants_thousands_of_ranges_asks_for_the_first_of_them() -> None:
    asking = Asking(64, window=RequestWindow(64))
    for seqno in range(0, 20_000, 2):
        asking.add(7, seqno, seqno)
    chosen = []
    for turn in range(150):
        wanted = asking.choose()
        asking.asked(turn * 0.001, SERVER, wanted)
        for seqno in list(wanted[7]):
            chosen.append(seqno)
            asking.came(turn * 0.001 + 0.0005, SERVER, [Packet(7, seqno, b"")])
            asking.remove(7, seqno, seqno)
    assert chosen == list(range(0, 2 * len(chosen), 2))
