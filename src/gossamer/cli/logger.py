"""`gossamer logger`: keep everything that a group publishes on disk."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gossamer.cli.options import (
    Address,
    GroupName,
    Impair,
    Insecure,
    Interface,
    Key,
    Trace,
    member_of,
    run_for_ever,
    settings_from,
    transport_from,
)
from gossamer.cli.tracing import traced
from gossamer.live.logger_group import logger as make_logger

_LOOK_S = 0.5


def logger(
    group: GroupName,
    store: Annotated[Path, typer.Option(help="Directory of the log; created if it does not exist.")],
    retain: Annotated[
        str,
        typer.Option(help="How long to keep packets that every member has: stable (drop them), 7d, 10GB or forever."),
    ] = "7d",
    retire: Annotated[
        bool,
        typer.Option("--retire", help="Leave the group for good: senders stop keeping packets for this logger."),
    ] = False,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    impair: Impair = "",
    trace: Trace = None,
) -> int:
    """Log a GROUP: store every packet, acknowledge it once it is on disk, serve repairs, delete what all members have.

    Resumes from its store after any stop or crash: meanwhile senders keep what it lacks, and `flush` waits. If the
    store fails, the logger accepts nothing more, says so, and still serves what it holds. SIGTERM stops it with exit
    code 0.

    Examples:

        gossamer logger quotes --store /var/lib/gossamer/quotes

        gossamer logger quotes --store quotes.log --retain forever

        gossamer logger quotes --store quotes.log --retire
    """
    settings = settings_from(address, interface, key, insecure)
    console = Console(stderr=True)

    async def story() -> int:
        with traced(trace, settings) as rows:
            opened = make_logger(
                group,
                store,
                settings,
                retain=retain,
                retires=retire,
                transport=transport_from(impair),
                trace=rows,
            )
            async with member_of(opened) as member:
                if retire:
                    console.print(f"logger {member.me} of group {group} leaves for good; {store} keeps what it holds")
                    return 0
                console.print(f"logging group {group} to {store} as member {member.me}", soft_wrap=True)
                failed = ""
                while True:
                    refusing = member.stats()["log"]["refusing"]
                    if refusing and refusing != failed:
                        failed = refusing
                        console.print(
                            f"[bold red]the log accepts nothing more:[/] {refusing}; it still serves what it "
                            "holds; make room and restart the logger",
                            soft_wrap=True,
                        )
                    await asyncio.sleep(_LOOK_S)

    return run_for_ever(story()) or 0
