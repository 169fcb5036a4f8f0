"""Who reads a durable name: one member at a time, which renews its lease for as long as it reads.

One logger decides: the first of those in reach. A member that asks for a name that another holds waits until that one
has renewed its lease (then it is alive, and the other is refused) or has not (then the lease is over). A logger that
begins to decide does not know who reads what its log knows of, so it waits for a renewal first.
"""

from dataclasses import dataclass
from math import inf
from typing import Literal

LEASE_S = 3.0
"""A reader that has not renewed its lease for so long is taken to be gone."""
RENEW_S = 1.0

Outcome = Literal["granted", "refused", "wait"]
NOBODY = -1


@dataclass(slots=True)
class Lease:
    """Who reads a name, and when it last said so."""

    holder: int
    renewed: float


class Registrar:
    """The leases as one logger knows them."""

    def __init__(self) -> None:
        self._leases: dict[str, Lease] = {}
        self._claims: dict[tuple[str, int], float] = {}  # since when a member has been asking for a name
        self._since: float | None = None

    def decides(self, now: float, it_is_us: bool) -> None:
        """Whether we are the logger that decides."""
        if not it_is_us:
            self._since = None
            self._leases.clear()
            self._claims.clear()
        elif self._since is None:
            self._since = now

    def asked(self, now: float, name: str, reader: int, *, renews: bool, known: bool) -> tuple[Outcome, int]:
        """A member wants to read a name, or to go on with it; `known` if the log knows the name. The holder, too."""
        self._forget_old_claims(now)
        lease = self._leases.get(name)
        if lease is None and known and not renews and self._since is not None:
            lease = Lease(NOBODY, self._since)  # somebody may be reading it
        claimed = self._claims.setdefault((name, reader), now)
        if lease is None or lease.holder in (reader, NOBODY if renews else reader) or now > lease.renewed + LEASE_S:
            self._leases[name] = Lease(reader, now)
            del self._claims[name, reader]
            return "granted", reader
        if renews or lease.renewed > claimed:
            del self._claims[name, reader]
            return "refused", lease.holder
        return "wait", lease.holder

    def released(self, name: str, reader: int) -> None:
        """A member reads it no more."""
        if name in self._leases and self._leases[name].holder == reader:
            self._leases[name] = Lease(NOBODY, -inf)

    def left(self, reader: int) -> None:
        """A member has left the group."""
        for name in [name for name, lease in self._leases.items() if lease.holder == reader]:
            self._leases[name] = Lease(NOBODY, -inf)

    def _forget_old_claims(self, now: float) -> None:
        for key in [key for key, since in self._claims.items() if now > since + 10 * LEASE_S]:
            del self._claims[key]
