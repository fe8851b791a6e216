"""Redirect of paths that people type, such as `/lineage`, to the web UI, whose routes are in the URL's hash."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

# Unknown paths below these are errors for programs, not pages.
_EXCLUDED: Final = ("/api/", "/assets/")


class PageRedirect(Route):
    """The last route: match any other path that a browser asks for as a page."""

    def __init__(self) -> None:
        super().__init__("/{path:path}", redirect_to_hash, include_in_schema=False)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match GET requests that accept HTML."""
        match, child_scope = super().matches(scope)
        if match is not Match.FULL or f"{scope['path']}/".startswith(_EXCLUDED):
            return Match.NONE, {}
        accepts_html = "text/html" in Request(scope).headers.get("accept", "")
        return (match, child_scope) if accepts_html else (Match.NONE, {})


def redirect_to_hash(request: Request) -> Response:
    """Redirect `/datasets/wh/orders?x=1` to `/#/datasets/wh/orders?x=1`.

    The location is relative, so that it also works behind a path prefix.
    """
    # The raw path is still percent-encoded: a slash inside a name stays apart from one between names.
    raw_path = request.scope.get("raw_path") or request.url.path.encode()
    path = raw_path.decode("ascii", "replace").partition("?")[0]
    root = "../" * (path.count("/") - 1) or "./"
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{root}#{path.rstrip('/')}{query}", status_code=302)
