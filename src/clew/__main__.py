"""The `clew` command."""

from __future__ import annotations

import sys
from collections.abc import Callable

from clew.errors import ClewError, MissingExtraError


def main() -> None:
    """Run the command line; a user's mistake ends in a sentence, never in a traceback."""
    try:
        _command_line()()
    except ClewError as fault:
        sys.stderr.write(f"clew: {fault}\n")
        sys.exit(fault.exit_code)


def _command_line() -> Callable[[], None]:
    try:
        from clew.cli.main import cli
    except ModuleNotFoundError as fault:
        raise MissingExtraError.named("cli", fault.name or "click") from fault
    return cli


if __name__ == "__main__":
    main()
