"""Standalone HTML page of a notebook run."""

from __future__ import annotations

from html import escape

import msgspec

from clew.api.assets import script, style
from clew.query.run_page_model import RunPage

# Blocks all network requests of the exported page.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def render_run_page(page: RunPage) -> str:
    """Render a run as one HTML file with script, style and data inline."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.header.notebook)} · clew</title>
<style>{_escape_style(style())}</style>
</head>
<body>
<div id="root"></div>
<script type="application/json" id="clew-data">{escape_json(msgspec.json.encode(page).decode())}</script>
<script type="module">{_escape_script(script())}</script>
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
