"""`clew serve`: the web page and the API, on this machine unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket

import click
from starlette.applications import Starlette

from clew.api.app import create_app
from clew.api.both import Both
from clew.api.guarded import Guarded, guarded_read
from clew.api.marquez.app import MarquezApi, MarquezFirst
from clew.api.marquez.writing import Store, store_in
from clew.api.pages import Views, page_routes
from clew.api.questions import question_routes
from clew.capture.streams.completion import complete_below
from clew.cli.listening import Listening, listening_options
from clew.cli.options import lake_option
from clew.cli.screen import talk
from clew.collector.http import Limits, create_collector
from clew.collector.log import LogWriter
from clew.home import Home
from clew.pipeline.status import status
from clew.query.answers import Answers
from clew.query.catalog.catalog import Catalogs
from clew.query.holdings import Holdings
from clew.serving.guard import Guard
from clew.serving.quick import Quick, Read
from clew.serving.server import DEFAULT_PORT, Tls, serve


@click.command("serve")
@click.option("--collect", is_flag=True, help="Take OpenLineage events, too, as `clew collect` does.")
@listening_options(DEFAULT_PORT)
@lake_option
def command(*, collect: bool, listening: Listening, home: Home) -> None:
    """Serve the web page of the last notebook run, and the API behind it, until interrupted."""
    guard = listening.guard(home)
    with listening.opened() as listener:
        if collect:
            with LogWriter(home.create().log) as log:
                serve_all(home, log, listener, listening.tls, guard)
        else:
            app, read = answering(home)
            serve(Guarded(app, guard), listener, _say, listening.tls, Quick(read=guarded_read(read, guard)))


def serve_all(home: Home, log: LogWriter, listener: socket, tls: Tls | None, guard: Guard) -> None:
    """Serve page, API and collector on one port until interrupted."""
    collector = create_collector(log, Limits(), home.streams, guard, complete_below)
    api, read = answering(home, lambda event: collector.appender.append([event]))
    whole = Both(Guarded(api, guard), collector)
    serve(whole, listener, _say, tls, Quick(collector.takes, guarded_read(read, guard)))


def answering_app(home: Home) -> Starlette:
    """The application over the index and the lake of a home."""
    return answering(home)[0]


def answering(home: Home, store: Store | None = None) -> tuple[Starlette, Read]:
    """The application over the index and the lake of a home, and what answers for it without ASGI.

    `store` appends to its log, if someone holds that.
    """
    holdings = Holdings(home.index, home.lake)
    holdings.warm()
    views = Views(holdings, holdings.reader, home.lake, lambda: status(home))
    catalogs = Catalogs(home.index, home.log)
    marquez = MarquezApi(catalogs, holdings, store or store_in(home.log))
    routes = [*question_routes(holdings), *page_routes(views)]
    app = create_app(lambda: _answers(holdings), routes, [catalogs.close, holdings.close])
    app.add_middleware(MarquezFirst, marquez=marquez)
    return app, marquez.read


@contextmanager
def _answers(holdings: Holdings) -> Iterator[Answers]:
    with holdings.reader() as index:
        yield Answers(index)


def _say(text: str) -> None:
    talk().print(text, markup=False, soft_wrap=True)
