"""The options shared by all commands that join a group, and how a command runs until it is interrupted."""

import asyncio
import functools
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypeVar, cast

import typer

from gossamer.cli.progress import waiting
from gossamer.live.errors import Unsent
from gossamer.live.group import Group, MakeTransport
from gossamer.live.impair import ImpairedTransport, Impairments
from gossamer.live.probe import probe
from gossamer.live.transport import Endpoint, Transport, UdpTransport
from gossamer.settings import Settings

T = TypeVar("T")


def _named(name: str | None) -> str | None:
    if name == "":
        raise typer.BadParameter("the name of a group must not be empty")
    return name


GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.", callback=_named)]
GroupOption = Annotated[
    str | None,
    typer.Option(
        help="Look at this running group, too: what limits its senders, and who falls behind.", callback=_named
    ),
]
Address = Annotated[str | None, typer.Option(help="Multicast address and port, e.g. 239.192.77.7:7700.")]
Interface = Annotated[str | None, typer.Option(help="Network interface, by address or name.")]
Key = Annotated[str | None, typer.Option(help="The group's key, or @FILE to read it from a file.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow a network without a key.")]
Impair = Annotated[str, typer.Option(help="Impair received traffic: loss=0.05,duplicate=0.1,reorder=0.1,corrupt=0.01.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Trace = Annotated[
    Path | None, typer.Option(help="Write a trace to this Parquet file, in the format of `simulate --trace`.")
]


def settings_from(address: str | None, interface: str | None, key: str | None, insecure: bool) -> Settings:
    """Settings from the command line; the environment and gossamer.toml supply the rest."""
    given: dict[str, Any] = {"address": address, "interface": interface, "key": key}
    given |= {"insecure": True if insecure else None}
    return Settings(**{name: value for name, value in given.items() if value is not None})


def transport_from(impair: str) -> MakeTransport:
    """Plain sockets, or sockets behind a simulated bad line if `impair` asks for one."""
    if not impair:
        return UdpTransport
    impairments = Impairments.parse(impair)
    return functools.partial(_impaired, impairments)


def _impaired(impairments: Impairments, endpoint: Endpoint) -> Transport:
    return ImpairedTransport(endpoint).impair(impairments, Random(secrets.randbits(64)))


@asynccontextmanager
async def member_of(group: Group, patience: Callable[[], float | None] = lambda: None) -> AsyncIterator[Group]:
    """Join the group and leave it at the end, as `async with group` does; says so if either takes long.

    `patience` says, at the end, how long to wait for what is not safe yet; None for as long as the settings say.
    """
    with waiting(f"joining group {group.name}"):
        await group.__aenter__()
    try:
        yield group
    except BaseException as error:
        with waiting(f"leaving group {group.name}"):
            if patience() is None:
                await group.__aexit__(type(error), error, error.__traceback__)
            else:
                try:
                    await group.close(patience())
                except Unsent as unsent:
                    typer.echo(f"gossamer: {unsent}", err=True)
        raise
    with waiting(f"leaving group {group.name}"):
        await group.close(patience())


def ask(group: str, settings: Settings, wait: float) -> list[dict[str, Any]]:
    """The profiles of all members that answer within `wait` seconds."""
    with waiting(f"asking the members of group {group}"):
        return run(probe(group, settings, wait=wait))


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run until it ends, or until SIGINT or SIGTERM stops it cleanly; uses uvloop if it is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return cast(T, runner.run(_until_told(story, is_service=False)))


def run_for_ever(story: Coroutine[Any, Any, T]) -> T | None:
    """Like `run`, for a service: SIGTERM is how it is meant to end, and returns None."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_told(story, is_service=True))


async def _until_told(story: Coroutine[Any, Any, T], is_service: bool) -> T | None:
    task, told = asyncio.ensure_future(story), asyncio.Event()

    def stop() -> None:
        told.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if is_service and told.is_set():
            return None
        raise KeyboardInterrupt from None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
