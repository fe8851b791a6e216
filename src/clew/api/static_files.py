"""Files of the web UI, and the standalone run page."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import msgspec

from clew.errors import ClewError
from clew.query.exports import content_policy
from clew.query.pages.run_page_model import RunPage

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


def render_run_page(page: RunPage) -> str:
    """Render a run as one HTML file with script, style and data inline."""
    code, css = _escape_script(script()), _escape_style(style())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{content_policy([code], [css])}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.header.notebook)} · clew</title>
<style>{css}</style>
</head>
<body>
<div id="root"></div>
<script type="application/json" id="clew-data">{escape_json(msgspec.json.encode(page).decode())}</script>
<script type="module">{code}</script>
</body>
</html>
"""


def escape_json(json: str) -> str:
    """Escape JSON for a script element: it cannot close the element and is valid JavaScript."""
    for character in "<>&\u2028\u2029":
        json = json.replace(character, f"\\u{ord(character):04x}")
    return json


def _escape_script(code: str) -> str:
    # A bundle contains these only in strings and patterns, where the backslash has no effect.
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _escape_style(css: str) -> str:
    return css.replace("</style", "<\\/style")
