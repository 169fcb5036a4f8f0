"""The settings of a group: the protocol, where to meet, whom to trust, and how much may be queued.

Everything has a default that works on one machine. What is not given as an argument is taken from the environment, then
from `gossamer.toml` (`outside.py`), then from the defaults. `tuning` overrides individual settings of the protocol, and
`Settings.planned` computes them from the requirements, as `gossamer plan` does.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Self, get_type_hints

from gossamer.core.ids import CHANNELS_MAX
from gossamer.core.say import WorthRepairing
from gossamer.core.schema import SettingError, as_type, check_value, knows_its_keys, setting
from gossamer.core.settings import ProtocolSettings
from gossamer.core.views import NAME_CHARACTERS_MAX
from gossamer.presets import LIVE, LIVE_BUFFERS, LIVE_PRESETS, PRESETS, SIMULATED_ONLY, preset
from gossamer.rungs import resumes
from gossamer.settings.addresses import PORT_MAX, literal, multicast_address, split_address
from gossamer.settings.outside import given_outside
from gossamer.settings.planned import plan
from gossamer.wire.keys import KEYS_MAX, KeyRing, parse_key

AUTO = "auto"
"""The interface by which this machine routes to the group's address."""


class _NotGiven:
    """Stands for an argument that was left out, so that None can be a value."""

    def __repr__(self) -> str:
        return "<environment, gossamer.toml or default>"


_NOT_GIVEN = _NotGiven()


class _Default(str):
    """A value that nobody gave: it is found anew when settings are made from these (`dataclasses.replace`)."""

    __slots__ = ()


def _process_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _setting(default: Any, help_text: str, *, secret: bool = False, hashed: bool = True, **bounds: Any) -> Any:
    """A field of Settings; its default is in the metadata, because the environment and the file override it."""
    metadata = {**setting(default, help_text, **bounds).metadata, "default": default, "secret": secret}
    return field(default=_NOT_GIVEN, metadata=metadata, repr=not secret, hash=hashed)


@knows_its_keys
@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a group, checked when it is made: SettingError for an invalid value."""

    protocol: str = _setting("rpbcast", "The protocol, by the name of its preset.", choices=tuple(PRESETS))
    address: str = _setting(
        "239.192.77.7:7700", "Multicast address and port where the group meets; for IPv6, like `[ff15::7777]:7700`."
    )
    interface: str = _setting(
        "127.0.0.1",
        "The network interface, by address or name. With the default, nothing leaves this machine; but with a key the "
        "default is `auto`: the interface by which this machine routes to the group, mostly that of the default route.",
    )
    key: str | None = _setting(
        None,
        "The group's secret: 32 bytes in base64 or hexadecimal, or `@` and the file that holds it. Without a key, only "
        "loopback is allowed.",
        secret=True,
    )
    insecure: bool = _setting(False, "Allow a network without a key.")
    tuning: Mapping[str, Any] = _setting(
        {}, "Settings of the protocol that override its preset, by name.", hashed=False
    )
    keys: tuple[str, ...] = _setting(
        (), "Further keys, written like `key`, that open but do not seal; for use during a key rotation.", secret=True
    )
    name: str = _setting(_process_name, "What people call this process; by default its host and process id.")
    order: str = _setting(
        "fifo",
        "The order in which events are delivered: each sender's as sent, as they arrive, or all events in one order at "
        "all members (`total`), which takes longer and needs most members to be in reach of each other.",
        choices=("fifo", "none", "total"),
    )
    order_failures: str = _setting(
        "atomic",
        "With `order=total`: whether only what most members keep is delivered, so that it stays, or everything at once "
        "(`non-atomic`), which takes half as long; what a member that failed had delivered last may then have to be "
        "undone when it is back, and its subscriptions get an `Undo`.",
        choices=("atomic", "non-atomic"),
    )
    first_pass: str = _setting(
        "auto",
        "How packets are first sent: by IP multicast, or along trees of unicasts where there is no multicast (clouds, "
        "containers); `auto` takes trees if no contact is heard over multicast. With `order=total` also to the primary "
        "that orders them, which passes them on (`graph`): then sources send little, and the primary much.",
        choices=("auto", "multicast", "trees", "graph"),
    )
    contacts: tuple[str, ...] = _setting(
        (), "Members to contact where there is no multicast, each as `host:port` (with their `port`)."
    )
    channel_addresses: tuple[str, ...] = _setting(
        (),
        "Multicast addresses of channels 1, 2, ..., without a port: they have the group's. Further channels have the "
        "group's address plus their number. All members of a group should have the same.",
    )
    port: int = _setting(0, "Port of the unicast socket; 0 means any free port.", low=0, high=PORT_MAX)
    event_bytes_max: int = _setting(
        16 << 20, "Size of the largest event that is sent or reassembled.", unit="bytes", low=1, high=10**9
    )
    queue_events: int = _setting(
        200_000,
        "Events that may wait for the application in each subscription, about; `when_full` says what happens then.",
        unit="events",
        low=1,
        high=10**9,
    )
    queue_bytes: int = _setting(
        64 << 20,
        "Bytes that may wait for the application in each subscription, about; `when_full` says what happens then.",
        unit="bytes",
        low=1,
        high=10**12,
    )
    when_full: str = _setting(
        "pause",
        "What happens when a subscription is full, unless `subscribe` says otherwise. `pause`: while all subscriptions "
        "with this policy are full, the member stops reading, and catches up by repair; one that is full while another "
        "is not loses what does not fit. `drop`: it loses what does not fit. `raise`: it ends with `Overrun`. What is "
        "lost is reported in its place, as `Lost(..., 'not read')`.",
        choices=("pause", "drop", "raise"),
    )
    send_bytes: int = _setting(
        64 << 20,
        "Bytes that may be published and not yet sent; beyond that, `publish` raises `Full`.",
        unit="bytes",
        low=1,
        high=10**12,
    )
    coalesce_us: int = _setting(
        100,
        "While the application publishes event after event, how long one may wait for others to share its packet; an "
        "event after a pause leaves at once. With 0, events wait only for the end of the event loop's turn.",
        unit="us",
        low=0,
        high=100_000,
    )
    codec: str = _setting(
        "bytes",
        "What `publish` takes and `event.value` returns: `bytes`, `str`, `json`, or `msgpack` if it is installed. All "
        "members of a group should have the same; `event.payload` is the bytes in any case.",
        choices=("bytes", "str", "json", "msgpack"),
    )
    retain: int = _setting(
        0,
        "Subjects of which this member keeps the last event, for subscriptions with `start='latest-per-subject'` in "
        "groups without a logger; 0 keeps none.",
        unit="subjects",
        low=0,
        high=10**7,
    )
    durable: bool = _setting(
        False,
        "Keep what is published until a logger has it, and let `flush` wait for that, even while no logger is known. "
        "In a group that has or had a logger, a member does so anyway; one that starts alone cannot know.",
    )
    copies: int = _setting(1, "Loggers that must have a packet before it counts as durable.", low=1, high=100)
    unlogged_bytes: int = _setting(
        256 << 20, "Memory for what is published and not yet logged.", unit="bytes", low=1, high=10**12
    )
    when_unlogged: str = _setting(
        "refuse",
        "When that memory is full because no logger answers: refuse to publish (`Full`), or go on with live delivery "
        "and let the oldest packets go; then `flush` raises `NotDurable`.",
        choices=("refuse", "go-on"),
    )
    loss_patience: float = _setting(
        120.0,
        "How long a subscriber waits for packets that nobody sends, with the logger away or peers cut off, before it "
        "gets `Lost` in their place and goes on.",
        unit="s",
        above=0,
        high=10**9,
    )

    leave_timeout: float = _setting(
        5.0,
        "How long a member that leaves waits until what it published is durable or, without a logger, until all "
        "members that are there have it; then it leaves with `Unsent`. With 0 it neither waits nor raises.",
        unit="s",
        low=0.0,
        high=1e9,
    )
    worth_repairing: WorthRepairing | None = _setting(  # noqa: RUF009 - a field like all the others
        None,
        "A function called before each request for missing packets, with their sender, first and last number, age, "
        "and how often they were asked for. If it returns False, they are given up and reported as lost.",
    )

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        every = {name: _NOT_GIVEN if isinstance(value, _Default) else value for name, value in every.items()}
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
        if "interface" in missing and "interface" not in outside:  # a group with a key is not for one machine
            object.__setattr__(self, "interface", _Default(self.interface if self.key is None else AUTO))
        _check_addresses(self)
        self.key_ring()
        self.protocol_settings(window=1)  # how large it is depends on the machine

    def protocol_settings(self, **numbers: Any) -> ProtocolSettings:
        """The preset as live groups use it, with the tuning; `numbers` are the settings derived from the machine."""
        if "name" in self.tuning:
            raise SettingError("tuning: name the preset with Settings.protocol, not with tuning['name']")
        if self.protocol not in LIVE_PRESETS:
            raise SettingError(f"protocol = {self.protocol!r}: {SIMULATED_ONLY[self.protocol]}")
        if self.tuning.get("membership") == "synchronous":
            raise SettingError(f"tuning: membership = 'synchronous': {SIMULATED_ONLY['virtual-synchrony']}")
        mine = {"ordering": self.order, "when_unlogged": self.when_unlogged, "loss_patience": self.loss_patience}
        mine["order_failures"] = self.order_failures
        durability = {"durable": self.durable, "log_copies": self.copies}
        buffers = LIVE_BUFFERS.get(self.tuning.get("buffering", ""), {})
        live = {**LIVE, **mine, **durability, **numbers, **buffers, **LIVE_PRESETS[self.protocol]}
        if self.first_pass == "graph":
            if self.order != "total":
                raise SettingError(f"first_pass = 'graph': is the graph of order='total', not of order={self.order!r}")
            live["dissemination"] = "graph"
        protocol = preset(self.protocol, {**live, **self.tuning})
        if protocol.lists or protocol.priority != "measured":
            raise SettingError("tuning: lists, and a priority other than 'measured', are for simulations only")
        if resumes(protocol) and self.name == _process_name():
            raise SettingError(
                "tuning: recovery = 'at-least-once' resumes under the member's name; give it one that stays the same, "
                "like name='billing-1'"
            )
        return protocol

    def key_ring(self) -> KeyRing | None:
        """Read the keys from their files; `key` seals, all of them open. None without a key."""
        if self.key is None:
            if self.keys:
                raise SettingError("keys: are for a rotation; also set key, the one that seals")
            return None
        if len(self.keys) >= KEYS_MAX:
            raise SettingError(f"keys: {len(self.keys)} given, must be at most {KEYS_MAX - 1}")
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
        """Settings for a group of `members` with `loss`, ready for `join`, with the numbers of `gossamer plan`.

        SettingError names the argument, its value and what is allowed if there is no such plan. To add an address or a
        key, use `dataclasses.replace` on the result.
        """
        wanted = plan(members=members, loss=loss, failure=failure, rate=rate, size=size, rtt=rtt, senders=senders)
        return cls(protocol="rpbcast", tuning=wanted.settings)


def read_key(name: str, text: str) -> bytes:
    """Read a key from a string, or from the file named after `@`; SettingError never shows the key."""
    try:
        if text.startswith("@"):
            path = Path(text[1:]).expanduser()
            name = f"{name} = '{text}'"
            text = path.read_text("ascii")
        return parse_key(text)
    except OSError as error:
        raise SettingError(f"{name}: {error.strerror}; `gossamer key new --out FILE` makes a key file") from None
    except UnicodeDecodeError:
        raise SettingError(f"{name}: the file holds no key; `gossamer key new --out FILE` makes a key file") from None
    except ValueError as error:
        raise SettingError(f"{name}: {error}") from None


def _checked(name: str, value: Any, hint: Any, metadata: Mapping[str, Any]) -> Any:
    """Convert the value to the type of its field, or SettingError; a mapping is copied, so it cannot change later."""
    try:
        value = as_type(name, value, hint)
    except SettingError:
        if metadata["secret"]:  # must not be shown
            raise SettingError(f"{name}: must be a string, not {type(value).__name__}") from None
        raise
    check_value(name, value, metadata)
    return dict(value) if isinstance(value, Mapping) else value


def _check_addresses(settings: Settings) -> None:
    try:
        group, _ = multicast_address(settings.address)
    except ValueError as error:
        raise SettingError(f"address = {settings.address!r}: {error}") from None
    _check_channels(settings.channel_addresses, group)
    own = literal(settings.interface)
    if not settings.interface.strip():
        raise SettingError(f"interface = {settings.interface!r}: must be an address or a name, like 127.0.0.1 or eth0")
    if own is not None and own.version != group.version:
        raise SettingError(
            f"interface = {settings.interface!r}: must be an IPv{group.version} address, like the group's "
            f"{settings.address}, or a name; {'::1' if group.version == 6 else '127.0.0.1'} or lo stays on this machine"
        )
    for contact in settings.contacts:
        try:
            split_address(contact)
        except ValueError as error:
            raise SettingError(f"contacts = {contact!r}: {error}") from None
    if not 0 < len(settings.name) <= NAME_CHARACTERS_MAX or not settings.name.isprintable():
        raise SettingError(f"name = {settings.name!r}: must be 1 to {NAME_CHARACTERS_MAX} printable characters")


def _check_channels(addresses: tuple[str, ...], group: IPv4Address | IPv6Address) -> None:
    """Each channel needs an address of its own, of the group's kind."""
    if len(addresses) >= CHANNELS_MAX:
        raise SettingError(f"channel_addresses: {len(addresses)} given, there are only {CHANNELS_MAX - 1} channels")
    taken = {int(group): "the group's own"}
    for channel in range(len(addresses) + 1, CHANNELS_MAX):
        taken[int(group) + channel] = f"that of channel {channel}, which is not given"
    for channel, text in enumerate(addresses, 1):
        address = literal(text)
        if address is None or not address.is_multicast or address.version != group.version:
            like = "239.192.78.1" if group.version == 4 else "ff15::7801"
            must = f"must be an IPv{group.version} multicast address without a port, like {like}"
            raise SettingError(f"channel_addresses = {text!r}: {must}")
        if int(address) in taken:
            raise SettingError(f"channel_addresses = {text!r}: is {taken[int(address)]}; each channel needs its own")
        taken[int(address)] = f"that of channel {channel}, too"
