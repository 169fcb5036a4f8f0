"""What goes wrong, and when: each fault of a scenario becomes actions on the world at its time.

A fault with `for` undoes itself: a partition heals, a crashed member recovers, a cut link is mended.
"""

from collections.abc import Callable

from gossamer.core.inputs import Disconnecting
from gossamer.core.schema import SettingError
from gossamer.sim.leaving import Leaving
from gossamer.sim.scenario import Fault, fault_members
from gossamer.sim.world import ABSENT, ASLEEP, DOWN, OFFLINE, UP, World

PERTURB_INTERVAL_S = 0.1
"""004 §7: a perturbed process sleeps, with a given probability, through each interval of 100 ms."""

_UNDONE_BY = {"partition": "heal", "crash": "recover", "disconnect": "reconnect", "cut": "mend"}


class Faults:
    """The faults of one run."""

    def __init__(self, world: World, faults: tuple[Fault, ...]) -> None:
        self._world = world
        self._begun = 0
        self._leaving = Leaving(world)
        self._perturbed: dict[int, tuple[float, float]] = {}  # member: probability, until
        self._lost_memory: dict[int, bool] = {}
        self._sides = ["0"] * world.count  # as the trace has them
        self._rng = world.rng("faults")
        self._begin: dict[str, Callable[[Fault], None]] = {
            "partition": self._partition,
            "heal": lambda fault: world.network.partition(None),
            "crash": self._crash,
            "recover": self._recover,
            "disconnect": self._disconnect,
            "reconnect": self._reconnect,
            "perturb": self._perturb,
            "lose": self._lose,
            "join": self._join,
            "leave": self._leave,
            "cut": lambda fault: self._set_link(fault, down=True),
            "mend": lambda fault: self._set_link(fault, down=False),
            "listen": self._listen,
        }
        for index, fault in enumerate(faults):
            self._check_link(index, fault)
            self._schedule(fault.at, fault.kind, fault)
            if fault.for_ and fault.kind in _UNDONE_BY:
                self._schedule(fault.at + fault.for_, _UNDONE_BY[fault.kind], fault)

    @property
    def left(self) -> int:
        """How many have not begun or not ended yet."""
        return self._begun + len(self._leaving)

    def absent_at_first(self, faults: tuple[Fault, ...]) -> set[int]:
        """Members whose first fault is to join: they are not there before that."""
        first: dict[int, Fault] = {}
        for fault in sorted(faults, key=lambda fault: fault.at):
            for member in fault_members(fault) if fault.kind in ("join", "leave", "crash") else ():
                first.setdefault(member, fault)
        return {member for member, fault in first.items() if fault.kind == "join"}

    def _schedule(self, at: float, kind: str, fault: Fault) -> None:
        def happen(_: object) -> None:
            self._begun -= 1
            self._begin[kind](fault)
            self._note_sides()
            if self._begun == 0:
                self._excuse_the_dead()

        self._begun += 1
        self._world.at(at, happen)

    def _note_sides(self) -> None:
        """Record which members reach each other, as far as that has changed."""
        world = self._world
        if not world.recorder.tracing:
            return
        for member, side in enumerate(world.network.sides()):
            name = "" if world.states[member] in (ASLEEP, OFFLINE) else str(side)
            if name != self._sides[member]:
                self._sides[member] = name
                world.recorder.noted(world.now, member, "side", name)

    def _excuse_the_dead(self) -> None:
        """Nothing will bring back the members that are down now, so nobody needs to wait for them."""
        for member, state in enumerate(self._world.states):
            if state == DOWN:
                self._world.ledger.excuse_member(self._world.now, member)

    def _partition(self, fault: Fault) -> None:
        sides = [-1] * self._world.count  # members on no side reach only each other
        for side, members in enumerate(fault.members):
            for member in members if isinstance(members, tuple) else (members,):
                sides[member] = side
        self._world.network.partition(sides)

    def _crash(self, fault: Fault) -> None:
        world = self._world
        for member in fault_members(fault):
            if world.states[member] in (DOWN, ABSENT):
                continue
            if world.states[member] == OFFLINE and fault.memory == "kept":
                continue  # it stands still and is offline, and will be when it goes on: only `reconnect` tells it more
            world.states[member] = DOWN
            self._lost_memory[member] = fault.memory == "lost"
            world.recorder.noted(world.now, member, "crash", fault.memory)
            if fault.memory == "lost":
                if world.self_organized:
                    world.view = tuple(m for m in world.view if m != member)
                world.ledger.excuse_member(world.now, member)
                world.ledger.excuse_sender(world.now, member)

    def _recover(self, fault: Fault) -> None:
        world = self._world
        for member in fault_members(fault):
            if world.states[member] != DOWN:
                continue
            lost = self._lost_memory[member]
            world.recorder.noted(world.now, member, "recover", "lost" if lost else "kept")
            if lost:
                world.bring_up(member, world.ledger.horizon(), recovers=True)
            else:
                world.wake_up(member)

    def _disconnect(self, fault: Fault) -> None:
        for member in fault_members(fault):
            if self._world.states[member] == UP:
                self._world.step(member, Disconnecting())
                self._world.states[member] = OFFLINE

    def _reconnect(self, fault: Fault) -> None:
        for member in fault_members(fault):
            if self._world.states[member] == OFFLINE:
                self._world.wake_up(member)

    def _perturb(self, fault: Fault) -> None:
        until = fault.at + fault.for_ if fault.for_ else self._world.scenario.duration
        for member in fault_members(fault):
            self._perturbed[member] = (fault.probability, until)
        self._begun += 1
        self._perturb_interval(None)

    def _perturb_interval(self, _: object) -> None:
        """Each perturbed member sleeps through the next interval, or not."""
        world = self._world
        for member, (probability, until) in sorted(self._perturbed.items()):
            sleeps = world.now < until and self._rng.random() < probability
            if sleeps and world.states[member] == UP:
                world.states[member] = ASLEEP
            elif not sleeps and world.states[member] == ASLEEP:
                world.wake_up(member)
        self._note_sides()
        if any(world.now < until for _, until in self._perturbed.values()):
            world.at(world.now + PERTURB_INTERVAL_S, self._perturb_interval)
        else:
            self._begun -= 1

    def _lose(self, fault: Fault) -> None:
        for member in fault_members(fault):
            self._world.network.lose_next(member, fault.packets)

    def _join(self, fault: Fault) -> None:
        for member in fault_members(fault):
            self._leaving.then(member, self._bring_in)

    def _bring_in(self, member: int) -> None:
        world = self._world
        if world.states[member] != ABSENT:
            return
        if not world.self_organized:
            world.view = tuple(sorted({*world.view, member}))
        world.bring_up(member, world.ledger.horizon())
        world.change_view(world.view)

    def _leave(self, fault: Fault) -> None:
        for member in fault_members(fault):
            if self._world.states[member] == ABSENT:
                continue
            if self._world.self_organized and self._world.states[member] == UP:
                self._leaving.begin(member)
            else:
                self._world.leave(member)
                self._world.change_view(self._world.view)

    def _listen(self, fault: Fault) -> None:
        for member in fault_members(fault):
            self._world.listen(member, self._world.channels.mask(fault.channels))

    def _check_link(self, index: int, fault: Fault) -> None:
        if fault.kind in ("cut", "mend") and self._world.network.router.find_link(*fault.link) is None:
            raise SettingError(f"fault[{index}].link = {list(fault.link)}: there is no link between these nodes")

    def _set_link(self, fault: Fault, down: bool) -> None:
        router = self._world.network.router
        link = router.find_link(*fault.link)
        assert link is not None
        router.set_down(router.down | {link} if down else router.down - {link})
