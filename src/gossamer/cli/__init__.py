"""The command line: one module per command, each imported only when it runs.

Exit codes: 0 success; 1 the command ran and the answer is bad (a violation, a claim not met); 2 wrong usage or
unreadable input, with one line on standard error and no traceback.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys

TYPE_CHECKING = False  # nothing is imported here that takes long: an interrupt meanwhile would be a traceback
if TYPE_CHECKING:
    from typing import Any, NoReturn


def main() -> None:
    """The entry point of `gossamer`."""
    _open_standard_streams()
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, and stays so
    if interruptible:
        signal.signal(signal.SIGINT, _end_at_once)
    try:
        _main(interruptible)
    except KeyboardInterrupt:  # before there was anything to interrupt
        _fail("gossamer: interrupted", 130)
    finally:
        if interruptible:  # a second interrupt, while Python ends, would be a traceback
            atexit.register(signal.signal, signal.SIGINT, _end_at_once)


def _open_standard_streams() -> None:
    """Give a process that was started with a closed standard stream (`<&-`, `>&-`) an empty one: else the first socket
    takes its number, and what is printed is sent."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def _end_at_once(*_: object) -> None:
    """At the beginning, while modules are imported, and at the end there is nothing to clean up; an exception in the
    midst of that may be swallowed, with a traceback, by whatever Python is doing just then."""
    os.write(2, b"gossamer: interrupted\n")
    os._exit(130)


def _main(interruptible: bool) -> None:
    import typer

    from gossamer.cli.app import app
    from gossamer.cli.extras import missing
    from gossamer.core.errors import Error
    from gossamer.live.errors import (
        MemberFailed,
        NameInUse,
        NobodyListens,
        NoLogger,
        NotDurable,
        Overrun,
        Timeout,
        Unsent,
    )

    # click's UsageError, wherever this version of typer keeps it
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    try:
        if interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        status = app(standalone_mode=False)
    except usage_error as error:
        shown: Any = error
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "gossamer"
        says = str(shown.format_message()).rstrip(".")
        if not says:
            sys.exit(2)  # no command was given: the help has been shown
        _fail(f"{command}: {says}; see {command} --help")
    except (MemberFailed, NameInUse, NobodyListens, NoLogger, NotDurable, Overrun, Timeout, Unsent) as error:
        _fail(f"gossamer: {error}", 1)
    except Error as error:
        _fail(f"gossamer: {error}")
    except ModuleNotFoundError as error:
        says = missing(error)
        if not says:
            raise
        _fail(f"gossamer: {says}")
    except (KeyboardInterrupt, typer.Abort):
        _fail("gossamer: interrupted", 130)
    except (BrokenPipeError, SystemExit) as error:  # click makes the first to the second, with exit code 1
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        sys.stderr.close()  # the reader of our output is gone (a pager, `head`)
        sys.exit(141)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"gossamer: {where}{error.strerror or error}")
    sys.exit(status if isinstance(status, int) else 0)


def _fail(line: str, status: int = 2) -> NoReturn:
    sys.stderr.write(" ".join(line.split()) + "\n")
    sys.exit(status)
