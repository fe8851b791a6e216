"""`clew serve`: the web page and the API, on this machine."""

from __future__ import annotations

import click
from starlette.applications import Starlette

from clew.api.app import create_app
from clew.api.pages import Views, page_routes
from clew.api.questions import question_routes
from clew.cli.options import home_option
from clew.cli.screen import talk
from clew.home import Home
from clew.index.browsing import Browser
from clew.pipeline.status import status
from clew.query.answers import Answers
from clew.query.holdings import Holdings
from clew.serving.server import DEFAULT_PORT, serve


@click.command("serve")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; the default is this machine only."
)
@click.option(
    "--port", type=int, default=DEFAULT_PORT, show_default=True, help="Port to listen on; 0 picks a free one."
)
@home_option
def command(host: str, port: int, home: Home) -> None:
    """Serve the web page of the last notebook run, and the API behind it, until interrupted."""
    console = talk()
    serve(answering_app(home), host, port, say=lambda text: console.print(text, markup=False, soft_wrap=True))


def answering_app(home: Home) -> Starlette:
    """The application over the index and the lake of a home."""
    holdings = Holdings(home.index, home.lake)
    holdings.warm()
    views = Views(holdings, lambda: Browser(home.index), home.lake, lambda: status(home))
    return create_app(lambda: Answers(home.index), [*question_routes(holdings), *page_routes(views)])
