"""The `clew` command."""

from __future__ import annotations

import sys
from collections.abc import Callable

from clew.errors import ClewError, MissingExtraError


def main() -> None:
    """Run the command line; print a ClewError as a message, without a traceback."""
    try:
        _load_cli()()
    except ClewError as error:
        sys.stderr.write(f"clew: {error}\n")
        sys.exit(error.exit_code)


def _load_cli() -> Callable[[], None]:
    try:
        from clew.cli.main import cli
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_module("cli", error.name or "click") from error
    return cli


if __name__ == "__main__":
    main()
