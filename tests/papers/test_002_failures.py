"""The paper's example of a site that fails and comes back, Figs 6 to 9: non-atomic delivery, by hand.

Sites a to e, groups alpha = {a b c d e}, beta = {c d e} and gamma = {a b}; c orders alpha and beta, and a manages when
c has failed. There is one difference from the paper, which has a and b deliver alpha-3 before c fails. Here only places
travel down the graph, and these are known in order, so that whoever has the place of alpha-3 has that of beta-2, too:
then there would be less to undo. So nobody hears of the places of beta-2, alpha-3 and beta-3. Reference: 002 §5.2.1
"""

from __future__ import annotations

from random import Random

from gossamer.core.effects import Deliver, UndoDeliveries
from gossamer.core.ids import channel_of
from gossamer.core.inputs import Published, Started
from gossamer.core.messages import Data
from gossamer.core.places import Places
from gossamer.stack import Stack
from tests.papers.hand import Letter, Table

C, A, B, D, E = range(5)  # c has the lowest number, so that it is the primary of the first graph
ALPHA, BETA, GAMMA = 1, 2, 3
HEARD = {
    C: 1 << ALPHA | 1 << BETA,
    A: 1 << ALPHA | 1 << GAMMA,
    B: 1 << ALPHA | 1 << GAMMA,
    D: 1 << ALPHA | 1 << BETA,
    E: 1 << ALPHA | 1 << BETA,
}


class Network(Table):
    """Five sites that hear their groups; what each application has is what it got, without what it had to undo."""

    def __init__(self) -> None:
        common = {"ordering": "total", "order_failures": "non-atomic", "membership": "static", "channels": 4}
        self.histories: dict[int, list[str]] = {site: [] for site in HEARD}
        self.undone: dict[int, list[str]] = {site: [] for site in HEARD}
        super().__init__("rpbcast", 5, order_patience=1.0, **common)
        self.run()

    def seat(self, member: int, view: tuple[int, ...], started: Started | None = None) -> Stack:
        rng = Random(f"{self._seed}/{member}")
        self.stacks[member] = Stack(member, view, self.settings, rng, listening=HEARD)
        self.step(member, Started({}))
        return self.stacks[member]

    def _carry_out(self, member, effect) -> None:
        super()._carry_out(member, effect)
        if isinstance(effect, Deliver):
            self.histories[member] += [name(packet.sender, packet.seqno) for packet in effect.run]
        elif isinstance(effect, UndoDeliveries):
            for packet in effect.packets:
                assert self.histories[member].pop() == name(*packet), "the last first"
                self.undone[member].append(name(*packet))

    def run(self, lost=lambda letter: False) -> None:
        """Everything arrives but what is lost, and what is for others' groups."""
        for _ in range(50):
            self.pass_on(lambda letter: not lost(letter) and wants(letter))

    def send(self, source: int, group: int, lost=lambda letter: False) -> None:
        self.step(source, Published(b"x", channel=group))
        self.run(lost)

    def live(self, seconds: float) -> None:
        """Time goes by."""
        for _ in range(int(seconds * 50)):
            self.wait(0.02, pass_on=False)
            self.run()


def wants(letter: Letter) -> bool:
    message = letter.message
    channel = channel_of(message.packet.sender) if isinstance(message, Data) else 0
    return not channel or bool(HEARD[letter.to] >> channel & 1)


def name(stream: int, number: int) -> str:
    return " αβγ"[channel_of(stream)] + str(number + 1)


def before_the_failure() -> Network:
    """Fig. 6: c has delivered beta-2, alpha-3 and beta-3, and no other site knows their places; e misses beta-1."""
    network = Network()
    network.send(B, GAMMA)
    network.send(B, ALPHA)
    network.send(B, ALPHA)
    network.send(E, BETA, lost=lambda letter: isinstance(letter.message, Places) and letter.to == E)
    for source, group in ((E, BETA), (B, ALPHA), (E, BETA)):
        network.send(source, group, lost=lambda letter: isinstance(letter.message, Places))
    return network


def test_figure_6_the_last_that_a_site_delivers_nobody_else_may_know():
    network = before_the_failure()
    assert network.histories == {
        A: ["γ1", "α1", "α2"],
        B: ["γ1", "α1", "α2"],
        C: ["α1", "α2", "β1", "β2", "α3", "β3"],
        D: ["α1", "α2", "β1"],
        E: ["α1", "α2"],
    }


def test_figures_7_and_8_the_others_catch_up_and_find_a_new_spot_for_what_the_failed_site_had():
    network = before_the_failure()
    network.stacks.pop(C)
    network.live(3.0)
    order = network.stacks[A].order.standing(network.now)
    assert (order["graph"], order["primary"]) == (2, A), "the manager opened PG'"
    assert network.histories[A] == network.histories[B] == ["γ1", "α1", "α2", "α3"]
    assert network.histories[D] == network.histories[E] == ["α1", "α2", "β1", "α3", "β2", "β3"]
    assert not any(network.undone.values()), "only a failed site has to undo anything"


def test_figure_9_the_failed_site_undoes_its_tail_and_delivers_it_again_in_the_order_of_the_others():
    network = before_the_failure()
    failed = network.stacks.pop(C)
    network.live(3.0)
    network.send(B, ALPHA)
    network.stacks[C] = failed
    network.live(3.0)
    assert network.undone[C] == ["β3", "α3", "β2"]
    assert network.histories[C] == network.histories[D] == ["α1", "α2", "β1", "α3", "β2", "β3", "α4"]
    assert not any(network.undone[site] for site in (A, B, D, E))
    assert network.stacks[C].order.standing(network.now)["undone"] == 3
