"""The built web page: one script, one style sheet and the HTML that names them."""

from __future__ import annotations

import re
from pathlib import Path

from clew.errors import ClewError

STATIC = Path(__file__).parent / "static"


def index_html() -> str:
    """The page as the build left it."""
    return _text(STATIC / "index.html")


def script() -> str:
    """All of the page's JavaScript."""
    return _text(STATIC / _named(r'src="\./(assets/[^"]+\.js)"'))


def style() -> str:
    """All of the page's CSS."""
    return _text(STATIC / _named(r'href="\./(assets/[^"]+\.css)"'))


def _named(pattern: str) -> str:
    found = re.search(pattern, index_html())
    if found is None:
        raise _not_built(f"{STATIC / 'index.html'} names no file of its own.")
    return found.group(1)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _not_built(f"The web page is not built: {path} is missing.") from None


def _not_built(message: str) -> ClewError:
    return ClewError(message, hint="Build it with `make web`; an installed wheel has it already.")
