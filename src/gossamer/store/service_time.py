"""How old the packets of a log are, whatever clocks say: only the time in which the log was in service counts.

Clocks jump: a machine may start in 1970, or be set back an hour. A packet is stamped with the clock of its time, which
tells people when it was stored, but two stamps may be of two clocks. So a store records its *runs*: for each, what the
clock said at its beginning, how long the log had been in service by then, and how long the run lasted. A stamp belongs
to a run that it fits; of several it belongs to the last, so that a packet may be taken for younger than it is, but
never for older. The time between runs does not count.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

_RUN: Final = Struct(">QQQ")
RUNS_MAX: Final = 256
"""The oldest runs are forgotten: what was stored in them counts as stored when those begin that are remembered."""


class Run(NamedTuple):
    """A time in which the log was in service, and the clock did not jump; in nanoseconds."""

    clock_ns: int
    """What the clock said when it began."""
    before_ns: int
    """How long the log had been in service before."""
    lasted_ns: int


class ServiceTime:
    """The runs of a store, oldest first."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self.runs = list(runs)

    @property
    def total_ns(self) -> int:
        """How long the log has been in service."""
        return self.runs[-1].before_ns + self.runs[-1].lasted_ns if self.runs else 0

    def begin(self, clock_ns: int) -> None:
        """A run begins, and the clock says this."""
        self.runs = [*self.runs[1 - RUNS_MAX :], Run(clock_ns, self.total_ns, 0)]

    def lasts(self, lasted_ns: int) -> None:
        """The run that began last lasts this long by now."""
        self.runs[-1] = self.runs[-1]._replace(lasted_ns=lasted_ns)

    def age_ns(self, stamp_ns: int) -> int:
        """How long a packet with this stamp has been in service, at least."""
        fits = (
            run.before_ns + min(stamp_ns - run.clock_ns, run.lasted_ns) for run in self.runs if run.clock_ns <= stamp_ns
        )
        oldest = self.runs[0].before_ns if self.runs else 0
        return self.total_ns - max(fits, default=oldest)

    def pack(self) -> bytes:
        """As a value of the store."""
        return b"".join(_RUN.pack(*run) for run in self.runs)

    @classmethod
    def unpack(cls, value: bytes) -> "ServiceTime":
        """From a value of the store."""
        return cls(map(Run._make, _RUN.iter_unpack(value)))
