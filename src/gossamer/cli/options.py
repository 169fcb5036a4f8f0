"""Options that every command has which joins a group, and how a command runs until it is interrupted."""

import asyncio
import functools
import secrets
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypeVar

import typer

from gossamer.live.group import MakeTransport
from gossamer.live.impair import ImpairedTransport, Impairments
from gossamer.live.transport import Endpoint, Transport, UdpTransport
from gossamer.settings import Settings

T = TypeVar("T")

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The name of the group.")]
Address = Annotated[str | None, typer.Option(help="Multicast address and port: 239.192.77.7:7700.")]
Interface = Annotated[str | None, typer.Option(help="Network interface, by its address or name.")]
Key = Annotated[str | None, typer.Option(help="The group's key, or @ and the file that holds it.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow a network without a key.")]
Impair = Annotated[str, typer.Option(help="Spoil what is heard: loss=0.05,duplicate=0.1,reorder=0.1,corrupt=0.01.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Trace = Annotated[Path | None, typer.Option(help="Write what happens to this Parquet file, as `simulate --trace`.")]


def settings_from(address: str | None, interface: str | None, key: str | None, insecure: bool) -> Settings:
    """What the command line says; the environment and gossamer.toml say the rest."""
    given: dict[str, Any] = {"address": address, "interface": interface, "key": key}
    given |= {"insecure": True if insecure else None}
    return Settings(**{name: value for name, value in given.items() if value is not None})


def transport_from(impair: str) -> MakeTransport:
    """The plain sockets, or a bad line before them."""
    if not impair:
        return UdpTransport
    impairments = Impairments.parse(impair)
    return functools.partial(_impaired, impairments)


def _impaired(impairments: Impairments, endpoint: Endpoint) -> Transport:
    return ImpairedTransport(endpoint).impair(impairments, Random(secrets.randbits(64)))


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run to the end; an interrupt or a request to terminate ends it cleanly. uvloop is used where it is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_told(story))


async def _until_told(story: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(story)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
