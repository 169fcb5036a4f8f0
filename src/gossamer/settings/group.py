"""What an application says of its group: the protocol, where to meet, whom to trust, and how much may wait.

Everything has a default that works on one machine. What is not given as an argument is taken from the environment, then
from `gossamer.toml` (`outside.py`), then from the defaults. `tuning` overrides single settings of the protocol, and
`Settings.planned` works them out from what is wanted, as `gossamer plan` does.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self, get_type_hints

from gossamer.core.say import WorthRepairing
from gossamer.core.schema import SettingError, as_type, check_value, setting
from gossamer.core.settings import ProtocolSettings
from gossamer.presets import LIVE, LIVE_PRESETS, PRESETS, preset
from gossamer.rungs import resumes
from gossamer.settings.addresses import PORT_MAX, literal, multicast_address, split_address
from gossamer.settings.outside import given_outside
from gossamer.settings.planned import plan
from gossamer.wire.keys import KEYS_MAX, KeyRing, parse_key

NAME_CHARACTERS_MAX = 100


class _NotGiven:
    """Stands for an argument that was left out, so that None can be one."""

    def __repr__(self) -> str:
        return "<environment, gossamer.toml or default>"


_NOT_GIVEN = _NotGiven()


def _process_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _setting(default: Any, help_text: str, *, secret: bool = False, hashed: bool = True, **bounds: Any) -> Any:
    """A field of Settings; the default is in its metadata, because outside comes before it."""
    metadata = {**setting(default, help_text, **bounds).metadata, "default": default, "secret": secret}
    return field(default=_NOT_GIVEN, metadata=metadata, repr=not secret, hash=hashed)


@dataclass(frozen=True, slots=True)
class Settings:
    """A group's settings; SettingError, at once, for what cannot be."""

    protocol: str = _setting("rpbcast", "A preset of the protocol.", choices=tuple(PRESETS))
    address: str = _setting(
        "239.192.77.7:7700", "Multicast address and port at which the group meets; of IPv6 `[ff15::7777]:7700`."
    )
    interface: str = _setting(
        "127.0.0.1", "The network interface, by its address or name; the default never leaves the machine."
    )
    key: str | None = _setting(
        None,
        "The group's secret, 32 bytes in base64 or hexadecimal, or `@` and the file that holds it; without one, only "
        "loopback is allowed.",
        secret=True,
    )
    insecure: bool = _setting(False, "Allow a network without a key.")
    tuning: Mapping[str, Any] = _setting(
        {}, "Settings of the protocol that differ from its preset, by name.", hashed=False
    )
    keys: tuple[str, ...] = _setting(
        (), "Further keys, written as `key` is, that open but do not seal: for the time of a rotation.", secret=True
    )
    name: str = _setting(_process_name, "What people call this process; its host and process id unless given.")
    order: str = _setting(
        "fifo",
        "In which order a sender's events are delivered: as sent, or as they come.",
        choices=("fifo", "none"),
    )
    first_pass: str = _setting(
        "auto",
        "How packets travel first: by IP multicast, or by trees of unicast where there is none (clouds, containers); "
        "`auto` tries.",
        choices=("auto", "multicast", "trees"),
    )
    contacts: tuple[str, ...] = _setting(
        (), "Members to meet where there is no multicast, each `host:port` (their `port`)."
    )
    port: int = _setting(0, "Port of the unicast socket; 0 is any.", low=0, high=PORT_MAX)
    event_bytes_max: int = _setting(
        16 << 20, "The longest event that is sent or put together.", unit="bytes", low=1, high=10**9
    )
    queue_events: int = _setting(
        200_000,
        "Events that may wait for the application; then the member stops reading, and catches up by repair.",
        unit="events",
        low=1,
        high=10**9,
    )
    send_bytes: int = _setting(
        64 << 20, "Published and not yet sent; then `publish` raises `Full`.", unit="bytes", low=1, high=10**12
    )

    worth_repairing: WorthRepairing | None = _setting(  # noqa: RUF009 - a field, as all others are
        None,
        "A function that is asked before each request for missing packets: with their sender, first and last number, "
        "their age, and how often they were asked for. False gives them up, and reports them as lost.",
    )

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        missing = [name for name, value in every.items() if value is _NOT_GIVEN]
        texts = {name: hint for name, hint in hints.items() if name != "worth_repairing"}
        outside = given_outside(texts) if missing else {}
        for one in fields(self):
            source, value = one.name, every[one.name]
            if value is _NOT_GIVEN:
                default = one.metadata["default"]
                source, value = outside.get(one.name, (source, default() if callable(default) else default))
            value = _checked(source, value, hints[one.name], one.metadata)
            object.__setattr__(self, one.name, value)
        _check_addresses(self)
        self.key_ring()
        self.protocol_settings()

    def protocol_settings(self, **numbers: Any) -> ProtocolSettings:
        """The preset as live groups have it, with the tuning; `numbers` are what follows from the machine."""
        if "name" in self.tuning:
            raise SettingError("tuning: a preset is named by Settings.protocol, not by tuning['name']")
        live = {**LIVE, "ordering": self.order, **numbers, **LIVE_PRESETS[self.protocol]}
        protocol = preset(self.protocol, {**live, **self.tuning})
        if resumes(protocol) and self.name == _process_name():
            raise SettingError(
                "tuning: recovery = 'at-least-once' goes on under the member's name; give it one that stays the same, "
                "as name='billing-1'"
            )
        return protocol

    def key_ring(self) -> KeyRing | None:
        """The keys, read from their files now; `key` seals, all of them open. None without a key."""
        if self.key is None:
            if self.keys:
                raise SettingError("keys: are for a rotation, and key, which seals, is missing")
            return None
        if len(self.keys) >= KEYS_MAX:
            raise SettingError(f"keys: {len(self.keys)} of them: must be at most {KEYS_MAX - 1}")
        try:
            return KeyRing([read_key("key", self.key), *(read_key("keys", text) for text in self.keys)])
        except ValueError as error:
            raise SettingError(str(error)) from None

    @classmethod
    def planned(
        cls,
        *,
        members: int,
        loss: float,
        failure: float = 1e-8,
        rate: float = 100.0,
        size: int = 1024,
        rtt: float = 0.05,
        senders: int | None = None,
    ) -> Self:
        """Settings for a group of `members` with `loss`, ready for `join`; the numbers of `gossamer plan`.

        ValueError with the name, the value and what is allowed if there is no such plan. For an address or a key,
        `dataclasses.replace` the result.
        """
        wanted = plan(members=members, loss=loss, failure=failure, rate=rate, size=size, rtt=rtt, senders=senders)
        return cls(protocol="rpbcast", tuning=wanted.settings)


def read_key(name: str, text: str) -> bytes:
    """A key from its text, or from the file behind `@`; SettingError says what is wrong, and never shows the key."""
    try:
        if text.startswith("@"):
            path = Path(text[1:]).expanduser()
            name = f"{name} = '{text}'"
            text = path.read_text("ascii")
        return parse_key(text)
    except OSError as error:
        raise SettingError(f"{name}: {error.strerror}; `gossamer key new --out FILE` makes such a file") from None
    except UnicodeDecodeError:
        raise SettingError(
            f"{name}: the file holds no key; `gossamer key new --out FILE` makes one that does"
        ) from None
    except ValueError as error:
        raise SettingError(f"{name}: {error}") from None


def _checked(name: str, value: Any, hint: Any, metadata: Mapping[str, Any]) -> Any:
    """The value as its field wants it, or SettingError; a mapping is copied, so that nobody changes it later."""
    try:
        value = as_type(name, value, hint)
    except SettingError:
        if metadata["secret"]:  # not to be shown
            raise SettingError(f"{name}: must be text, not {type(value).__name__}") from None
        raise
    check_value(name, value, metadata)
    return dict(value) if isinstance(value, Mapping) else value


def _check_addresses(settings: Settings) -> None:
    try:
        group, _ = multicast_address(settings.address)
    except ValueError as error:
        raise SettingError(f"address = {settings.address!r}: {error}") from None
    own = literal(settings.interface)
    if not settings.interface.strip():
        raise SettingError(f"interface = {settings.interface!r}: must be an address or a name, as 127.0.0.1 or eth0")
    if own is not None and own.version != group.version:
        raise SettingError(
            f"interface = {settings.interface!r}: must be of IPv{group.version}, as the address {settings.address} is, "
            f"or a name: {'::1' if group.version == 6 else '127.0.0.1'} or lo stays on this machine"
        )
    for contact in settings.contacts:
        try:
            split_address(contact)
        except ValueError as error:
            raise SettingError(f"contacts = {contact!r}: {error}") from None
    if not 0 < len(settings.name) <= NAME_CHARACTERS_MAX or not settings.name.isprintable():
        raise SettingError(f"name = {settings.name!r}: must be 1 to {NAME_CHARACTERS_MAX} printable characters")
