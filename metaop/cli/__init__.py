"""The command line: ``metaop backends``, ``ops``, ``run``, ``localize``, ``env``.

Exit codes: 0 all is well (frameworks consistent), 1 suspects found, 2 bad usage or bad input, 3 a framework failed.
Bad input gives one line on standard error, never a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the console script exits with it."""
    import click

    from metaop.cli.commands import cli
    from metaop.errors import FrameworkError, UserError

    try:
        result = cli.main(
            args=None if arguments is None else list(arguments), prog_name="metaop", standalone_mode=False
        )
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        click.echo(f"metaop: {error.format_message()}", err=True)
        return 2
    except click.Abort as error:
        click.echo("metaop: interrupted" + (f": {error}" if str(error) else ""), err=True)
        return 130
    except UserError as error:
        click.echo(f"metaop: {_one_line(error)}", err=True)
        return 2
    except FrameworkError as error:
        click.echo(f"metaop: {_one_line(error)}", err=True)
        return 3
    except BrokenPipeError:
        # The reader (head, less) has seen enough; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def run() -> None:
    """The console script."""
    sys.exit(main())
