"""The built web UI: index.html with one script and one style sheet."""

from __future__ import annotations

import re
from pathlib import Path

from clew.errors import ClewError

STATIC = Path(__file__).parent / "static"


def index_html() -> str:
    """Return index.html of the build."""
    return _read(STATIC / "index.html")


def script() -> str:
    """Return the JavaScript of the web UI."""
    return _read(STATIC / _asset_name(r'src="\./(assets/[^"]+\.js)"'))


def style() -> str:
    """Return the CSS of the web UI."""
    return _read(STATIC / _asset_name(r'href="\./(assets/[^"]+\.css)"'))


def _asset_name(pattern: str) -> str:
    match = re.search(pattern, index_html())
    if match is None:
        raise _not_built(f"{STATIC / 'index.html'} has no reference that matches {pattern}.")
    return match.group(1)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _not_built(f"The web UI is not built: {path} is missing.") from None


def _not_built(message: str) -> ClewError:
    return ClewError(message, hint="Build it with `make web`; an installed wheel has it already.")
