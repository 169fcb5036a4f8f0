"""`gossamer key`: make the secret key of a group, and tell keys apart without showing them."""

import os
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from gossamer.core.schema import SettingError
from gossamer.settings import Settings
from gossamer.settings.group import read_key
from gossamer.wire.keys import KEY_BYTES, key_id, new_key, parse_key

app = typer.Typer(
    name="key",
    help="Make a group's secret key, or print the id of one.",
    epilog="Example: gossamer key new --out group.key",
    no_args_is_help=True,
)


@app.command()
def new(
    out: Annotated[Path | None, typer.Option(help="Write the key to this new file, readable only by you.")] = None,
) -> int:
    """Make a key: 32 random bytes in base64. Every member of a group needs the same key.

    Examples:

        gossamer key new --out group.key

        GOSSAMER_KEY=@group.key gossamer sub quotes '>'
    """
    text = new_key(secrets.token_bytes(KEY_BYTES))
    if out is None:
        typer.echo(text)
        return 0
    try:
        with open(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask
            file.write(text + "\n")
    except FileExistsError:
        raise SettingError(
            f"{out}: exists already, and a key file is never overwritten; remove it, or choose another name"
        ) from None
    typer.echo(f'key {key_id(parse_key(text)):08x} written to {out}; use it with key="@{out.absolute()}"')
    return 0


@app.command(name="id")
def show_id(
    key: Annotated[
        str | None, typer.Argument(help="A key file, or - for standard input; the key in the settings if not given.")
    ] = None,
) -> int:
    """Print the id of a key, which names it in packets: the same on every host that has the same key.

    Example:

        gossamer key id group.key
    """
    if key == "-":
        try:
            text = sys.stdin.read()
        except UnicodeDecodeError:
            raise SettingError("standard input: holds no key") from None
        number = key_id(read_key("standard input", text))
    elif key is not None:
        number = key_id(read_key("key", f"@{key.removeprefix('@')}"))
    else:
        ring = Settings().key_ring()
        if ring is None:
            raise SettingError("no key: give its file, or set GOSSAMER_KEY, or make one with `gossamer key new`")
        number = ring.using
    typer.echo(f"{number:08x}")
    return 0
