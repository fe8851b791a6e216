"""A run's page as one file that needs nothing else: to send to a colleague, to keep beside a report."""

from __future__ import annotations

from html import escape

import msgspec

from clew.api.assets import script, style
from clew.query.run_page_model import RunPage

# The browser itself then refuses every request: a page that was sent to someone calls nobody.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def page_html(page: RunPage) -> str:
    """The page of a run with script, style and data inside, to be opened from disk."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.header.notebook)} · clew</title>
<style>{_inside_style(style())}</style>
</head>
<body>
<div id="root"></div>
<script type="application/json" id="clew-data">{inside_script(msgspec.json.encode(page).decode())}</script>
<script type="module">{_inside_code(script())}</script>
</body>
</html>
"""


def inside_script(json: str) -> str:
    """JSON that cannot end the element it stands in, nor upset a parser that takes it for JavaScript."""
    for character in "<>&\u2028\u2029":
        json = json.replace(character, f"\\u{ord(character):04x}")
    return json


def _inside_code(code: str) -> str:
    # In strings and patterns, the only places where a bundle holds these, the backslash changes nothing.
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _inside_style(css: str) -> str:
    return css.replace("</style", "<\\/style")
