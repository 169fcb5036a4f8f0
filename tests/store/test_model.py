"""Any sequence of operations, against the simplest model that could be right."""

import shutil
import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gossamer.core.ranges import RangeSet
from gossamer.store import LogEntry, MemoryStore, open_store
from tests.store.samples import entry

SENDERS = st.integers(0, 2)
NUMBERS = st.integers(0, 200)
RANGES = st.tuples(NUMBERS, st.integers(0, 90)).map(lambda pair: (pair[0], pair[0] + pair[1]))
SIZES = st.sampled_from([0, 40, 1_400, 9_000])


class StoreMachine(RuleBasedStateMachine):
    """A store in memory, one on disk and a dictionary are told the same, and must say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.disk = open_store(self.directory, map_bytes=1 << 20)  # so small that it must grow
        self.memory = MemoryStore()
        self.model: dict[tuple[int, int], LogEntry] = {}
        self.gone: set[tuple[int, int]] = set()
        self.committed: dict[str, dict[int, int]] = {}

    def teardown(self) -> None:
        self.disk.close()
        shutil.rmtree(self.directory)

    @rule(sender=SENDERS, numbers=RANGES, size=SIZES)
    def append(self, sender: int, numbers: tuple[int, int], size: int) -> None:
        batch = [entry(sender, number, size) for number in range(numbers[0], numbers[1] + 1)]
        for found in batch:
            if (found.sender, found.seqno) not in self.gone:
                self.model.setdefault((found.sender, found.seqno), found)
        self.disk.append(batch)
        self.memory.append(batch)

    @rule(wanted=st.dictionaries(SENDERS, st.lists(RANGES, max_size=3), max_size=3))
    def collect(self, wanted: dict[int, list[tuple[int, int]]]) -> None:
        numbers = {sender: RangeSet(ranges) for sender, ranges in wanted.items()}
        told = {(sender, number) for sender, done in numbers.items() for number in done}
        count = len(told & self.model.keys())
        self.gone |= told
        for key in told & self.model.keys():
            del self.model[key]
        assert self.disk.collect(numbers) == self.memory.collect(numbers) == count

    @rule(sender=SENDERS, number=NUMBERS)
    def drop(self, sender: int, number: int) -> None:
        self.model.pop((sender, number), None)
        self.gone.discard((sender, number))
        self.disk.drop(sender, number)
        self.memory.drop(sender, number)

    @rule(name=st.sampled_from("ab"), sender=SENDERS, number=NUMBERS)
    def commit(self, name: str, sender: int, number: int) -> None:
        known = self.committed.setdefault(name, {})
        known[sender] = max(number, known.get(sender, 0))
        self.disk.commit(name, {sender: number})
        self.memory.commit(name, {sender: number})

    @rule()
    def reopen(self) -> None:
        self.disk.close()
        self.disk = open_store(self.directory)

    @rule(sender=SENDERS, numbers=RANGES)
    def read(self, sender: int, numbers: tuple[int, int]) -> None:
        expected = [self.model[key] for key in sorted(self.model) if key[0] == sender and _within(key[1], numbers)]
        assert list(self.disk.read(sender, *numbers)) == expected
        assert list(self.memory.read(sender, *numbers)) == expected

    @invariant()
    def says_what_it_holds(self) -> None:
        with open_store(self.directory, readonly=True) as reader:
            for store in (self.disk, self.memory, reader):
                assert _keys(store.held()) == self.model.keys()
                assert _keys(store.collected()) == self.gone
                assert {consumer.name: consumer.committed for consumer in store.consumers()} == self.committed


def _within(number: int, numbers: tuple[int, int]) -> bool:
    return numbers[0] <= number <= numbers[1]


def _keys(table: dict[int, RangeSet]) -> set[tuple[int, int]]:
    return {(sender, number) for sender, numbers in table.items() for number in numbers}


TestStores = StoreMachine.TestCase
TestStores.settings = settings(max_examples=25, stateful_step_count=20)
