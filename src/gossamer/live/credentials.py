"""Where a group meets and how its datagrams are closed, from its settings; and the number of a member with a name."""

import logging
import secrets
from dataclasses import replace
from hashlib import sha256

from gossamer.core.ids import MEMBER_BITS
from gossamer.core.schema import SettingError
from gossamer.live.envelope import Envelope, OpenEnvelope, SealedEnvelope
from gossamer.live.interfaces import find, routed
from gossamer.live.sockets import known_interfaces
from gossamer.live.transport import Endpoint
from gossamer.settings import Settings
from gossamer.settings.group import AUTO
from gossamer.wire import Header

_log = logging.getLogger("gossamer")
_chosen: set[str] = set()
"""The addresses of interfaces that were chosen, each of which is logged once."""


def member_number(group: str, name: str) -> int:
    """The number of a member that keeps it across restarts."""
    return int.from_bytes(sha256(f"{group}/{name}".encode()).digest()[:8], "big") >> (64 - MEMBER_BITS)


def envelope_for(settings: Settings, header: Header) -> Envelope:
    """An envelope, sealed if there is a key; every start has a new salt."""
    keys = settings.key_ring()
    return OpenEnvelope(header) if keys is None else SealedEnvelope(header, keys, secrets.token_bytes(8))


def trusted(settings: Settings) -> Endpoint:
    """The group's endpoint; without a key there is no traffic beyond loopback, unless `insecure` is set."""
    endpoint = endpoint_of(settings)
    if settings.key is None and not endpoint.is_loopback and not settings.insecure:
        raise SettingError(
            f"interface = {settings.interface!r}: without a key only 127.0.0.1 is allowed; make one with "
            "`gossamer key new`, or set insecure=True if you mean it"
        )
    return endpoint


def endpoint_of(settings: Settings) -> Endpoint:
    """The group's address and the interface, chosen by the route to that address if it is `auto`."""
    endpoint = Endpoint.parse(settings.address, settings.interface, settings.port, settings.channel_addresses)
    if settings.interface != AUTO:
        return endpoint
    address = routed(endpoint.group, endpoint.port)
    if address is None:
        raise SettingError(
            f"interface: no route leads to {endpoint.group}, so none could be chosen; set interface to one of "
            f"{known_interfaces(endpoint.version)}, or to 127.0.0.1 to stay on this machine"
        )
    found = find(address)
    if address not in _chosen:
        _chosen.add(address)
        name = "" if found is None else f"{found.name}, "
        _log.info(
            "the interface is %s%s, by the route to %s; `interface` chooses another", name, address, endpoint.group
        )
    return replace(endpoint, interface=address)
