"""Where members can be reached: as the view says, and as those said who are not in it.

Where a datagram came from proves nothing, for anybody can write that, or send again what is authentic. An address is a
number and a port, of one host, within reach of the group: a name would have to be looked up, and an answer to many
hosts, or to a host that has nothing to do with the group, is what an attacker wants. A group on loopback stays there.
"""

from collections import Counter, OrderedDict
from dataclasses import replace
from ipaddress import IPv4Address, ip_address

from gossamer.core.budget import Budget
from gossamer.core.messages import Join, Leave, Message, ViewUpdate
from gossamer.core.roster import Roster
from gossamer.core.views import MemberEntry
from gossamer.live.names import learn
from gossamer.live.transport import Address, Endpoint
from gossamer.membership.view import LEFT
from gossamer.settings.addresses import PORT_MAX

_STRANGERS_MAX = 1000
"""How many members outside the view have their addresses remembered."""
_PARSED_MAX = 10_000
_MESSAGES_PER_S = 20
"""What one address outside the view may say in a second, besides packets; a process that joins says as much."""
_JOINS_PER_S = 100
"""How many wishes to join, from whatever address, are heard in a second: each is answered with the whole view."""


class Directory:
    """The addresses of a group's members; `ignored` counts those that cannot be."""

    def __init__(self, endpoint: Endpoint, ignored: Counter[str]) -> None:
        self._version = endpoint.version
        self._loopback = endpoint.is_loopback
        self._ignored = ignored
        self._parsed: dict[str, Address | None] = {}
        self._outside: dict[int, Address] = {}
        self._joins = Budget(_JOINS_PER_S, burst=_JOINS_PER_S)
        self._budgets: OrderedDict[Address, Budget] = OrderedDict()  # of addresses outside the view

    def of(self, member: int, roster: Roster) -> Address | None:
        """Where `member` can be reached: as the view says, else as it said when it asked to join, or before it left."""
        text = roster.addresses.get(member)
        return self._outside.get(member) if text is None else self.parse(text)

    def hears(self, now: float, source: int, message: Message, address: Address, roster: Roster) -> bool:
        """Whether we can afford to hear this from `address`; it may be forged if its source is not in the view."""
        is_join = isinstance(message, Join)
        if not is_join and roster.knows(source):
            return True
        budget = self._budgets.pop(address, None) or Budget(_MESSAGES_PER_S, burst=2 * _MESSAGES_PER_S)
        self._budgets[address] = budget
        if len(self._budgets) > _STRANGERS_MAX:
            self._budgets.popitem(last=False)
        affordable = budget.take(now) == 1 and (not is_join or self._joins.take(now) == 1)
        self._ignored["too much from strangers"] += not affordable
        return affordable

    def checked(self, source: int, message: Message, roster: Roster) -> Message | None:
        """The message without members that have impossible addresses; None if there is nothing left of it.

        The address of one that is not in the view, or is about to leave it, is remembered, so that it can be answered.
        """
        for entry in (message.entry,) if isinstance(message, Join) else getattr(message, "entries", ()):
            learn(entry.member, entry.name)
        if isinstance(message, Leave):
            self._remember(source, roster.addresses.get(source, ""))
            return replace(message, entries=[entry for entry in message.entries if self._possible(entry)])
        if isinstance(message, Join):
            if not self._possible(message.entry):
                return None
            self._remember(source, message.entry.address)
        elif isinstance(message, ViewUpdate):
            possible = [entry for entry in message.entries if self._possible(entry)]
            for entry in possible:
                if entry.member == source and source not in roster.addresses:
                    self._remember(source, entry.address)
            if len(possible) < len(message.entries):
                return ViewUpdate(possible, message.answer, message.seen, message.sponsors)
        return message

    def parse(self, text: str) -> Address | None:
        """Host and port, if that is an address at which a member of this group can be."""
        if text not in self._parsed:
            if len(self._parsed) >= _PARSED_MAX:
                self._parsed.clear()
            self._parsed[text] = self._parse(text)
        return self._parsed[text]

    def _parse(self, text: str) -> Address | None:
        host, _, port = text.rpartition(":")
        try:
            address = ip_address(host)
        except ValueError:
            return None
        if not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX) or address.version != self._version:
            return None
        broadcast = isinstance(address, IPv4Address) and address == IPv4Address("255.255.255.255")
        if address.is_multicast or address.is_unspecified or broadcast or address.is_loopback != self._loopback:
            return None
        return str(address), int(port)

    def _possible(self, entry: MemberEntry) -> bool:
        possible = self.parse(entry.address) is not None or (entry.status == LEFT and not entry.address)
        self._ignored["impossible addresses"] += not possible
        return possible

    def _remember(self, member: int, text: str) -> None:
        address = self.parse(text)
        if address is not None:
            self._outside.pop(member, None)
            self._outside[member] = address
            if len(self._outside) > _STRANGERS_MAX:
                del self._outside[next(iter(self._outside))]
