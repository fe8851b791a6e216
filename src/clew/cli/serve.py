"""`clew serve`: the web page and the API, on this machine."""

from __future__ import annotations

import click
from starlette.applications import Starlette

from clew.api.app import create_app
from clew.api.both import Both
from clew.api.marquez.app import MarquezApi
from clew.api.marquez.writing import Store, store_in
from clew.api.pages import Views, page_routes
from clew.api.questions import question_routes
from clew.capture.streams.completion import complete_below
from clew.cli.listening import guard_for
from clew.cli.options import home_option
from clew.cli.screen import talk
from clew.collector.http import Limits, create_collector
from clew.collector.log import LogWriter
from clew.home import Home
from clew.index.browsing import Browser
from clew.pipeline.status import status
from clew.query.answers import Answers
from clew.query.catalog.catalog import Catalogs
from clew.query.holdings import Holdings
from clew.serving.keys import KeyFile
from clew.serving.server import DEFAULT_PORT, serve


@click.command("serve")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; the default is this machine only."
)
@click.option(
    "--port", type=int, default=DEFAULT_PORT, show_default=True, help="Port to listen on; 0 picks a free one."
)
@click.option("--collect", is_flag=True, help="Take OpenLineage events, too, as `clew collect` does.")
@home_option
def command(host: str, port: int, home: Home, *, collect: bool) -> None:
    """Serve the web page of the last notebook run, and the API behind it, until interrupted."""
    console = talk()

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    if not collect:
        serve(answering_app(home), host, port, say)
        return
    guard = guard_for(host, KeyFile(home.keys), None, is_asked_for=False)
    with LogWriter(home.create().log) as log:
        collector = create_collector(log, Limits(), home.streams, guard, complete_below)
        api = answering_app(home, lambda event: collector.appender.append([event]))
        serve(Both(api, collector), host, port, say, quick=collector.quick)


def answering_app(home: Home, store: Store | None = None) -> Starlette:
    """The application over the index and the lake of a home; `store` appends to its log, if someone holds that."""
    holdings = Holdings(home.index, home.lake)
    holdings.warm()
    views = Views(holdings, lambda: Browser(home.index), home.lake, lambda: status(home))
    marquez = MarquezApi(Catalogs(home.index, home.log), holdings, store or store_in(home.log))
    routes = [*question_routes(holdings), *page_routes(views), *marquez.routes]
    return create_app(lambda: Answers(home.index), routes)
