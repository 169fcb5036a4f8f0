"""The command line: one module per command, each imported only when it runs.

Exit codes: 0 fine; 1 what was asked for failed (a violation, a claim not met); 2 wrong usage or input that
cannot be read, with one line on standard error and no traceback.
"""

import sys


def main() -> None:
    """The entry point of `gossamer`."""
    import click

    from gossamer.cli.app import app
    from gossamer.cli.errors import UserError

    try:
        status = app(standalone_mode=False)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "gossamer"
        _fail(f"{command}: {error.format_message()}; see {command} --help")
    except click.ClickException as error:
        _fail(f"gossamer: {error.format_message()}")
    except (UserError, ValueError) as error:
        _fail(f"gossamer: {error}")
    except (KeyboardInterrupt, click.Abort):
        _fail("gossamer: interrupted", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away (a pager, `head`): nothing more to say
        sys.exit(141)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(line: str, status: int = 2) -> None:
    sys.stderr.write(" ".join(line.split()) + "\n")
    sys.exit(status)
