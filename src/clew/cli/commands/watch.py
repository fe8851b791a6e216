"""`clew watch`, and the options for webhooks of servers."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import reduce, wraps
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from clew.cli.options import lake_option, metrics_options
from clew.cli.output import print_json_line, stderr_console, stdout_console
from clew.data_dir import DataDir
from clew.watch.options import WatchOptions, open_webhooks, parse_kinds, parse_since

if TYPE_CHECKING:
    from clew.query.notifications import Notification
    from clew.watch.watcher import Watcher

# Name of the watcher of a server.
_SERVER_NAME = "server"


def webhook_options(prefix: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options for webhooks; the command receives `watch`, without a name.

    `prefix` is for the names of options that could have another meaning in the command.
    """
    options = (
        click.option(
            f"--{prefix}on",
            "kinds",
            metavar="KINDS",
            help="Changes to report, separated by commas: failed-runs, failed-assertions, schema-changes, "
            "breaking-changes. Default: all.",
        ),
        click.option(
            f"--{prefix}namespace",
            "namespaces",
            multiple=True,
            metavar="PREFIX",
            help="Report only changes in namespaces with this prefix, or that affect them; may be repeated.",
        ),
        click.option(
            "--webhook",
            "urls",
            multiple=True,
            metavar="URL",
            help="Post notifications to this URL; may be repeated. Default: CLEW_WEBHOOK.",
        ),
        click.option(
            "--webhook-format",
            "body_format",
            type=click.Choice(("json", "slack")),
            default="json",
            show_default=True,
            help="Body of webhooks: the complete notification, or only its text for Slack.",
        ),
        click.option(
            "--webhook-secret-file",
            "secret_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File with the secret that signs webhooks. Default: CLEW_WEBHOOK_SECRET.",
        ),
    )

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_watch(
            *args: Any,
            kinds: str | None,
            namespaces: tuple[str, ...],
            urls: tuple[str, ...],
            body_format: Any,
            secret_file: Path | None,
            **kwargs: Any,
        ) -> Any:
            webhooks = open_webhooks(urls, secret_file, body_format)
            watch = WatchOptions(kinds=parse_kinds(kinds), namespaces=namespaces, webhooks=webhooks)
            return command(*args, watch=watch, **kwargs)

        return reduce(lambda wrapped, option: option(wrapped), reversed(options), with_watch)

    return with_options


@click.command("watch")
@webhook_options()
@click.option(
    "--since",
    metavar="AGE|TIME",
    help="Where a new watcher starts: an age such as 36h, a time, or `beginning`. Default: now.",
)
@click.option("--once", is_flag=True, help="Report the changes so far, then stop; exits with 1 if some are pending.")
@click.option(
    "--name", default="default", show_default=True, help="Name of the watcher. Each name has its own position."
)
@metrics_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line instead of text.")
@lake_option
def watch_command(
    *,
    since: str | None,
    once: bool,
    name: str,
    metrics_port: int | None,
    metrics_host: str,
    as_json: bool,
    home: DataDir,
    watch: WatchOptions,
) -> None:
    """Report failed runs, failed tests, schema changes and breaking changes, until interrupted.

    Reads new changes from the index, prints one line for each, and posts it to webhooks. The position is stored: after
    a restart, nothing is reported twice and nothing is left out.
    """
    from clew.watch.watcher import Watcher

    options = WatchOptions(name, watch.kinds, watch.namespaces, parse_since(since), watch.webhooks)
    console, stop = stderr_console(), Event()

    def print_notification(notification: Notification) -> None:
        if as_json:
            print_json_line(notification)
        else:
            stdout_console().print(_format_line(notification), soft_wrap=True, markup=False, highlight=False)
            sys.stdout.flush()

    with ExitStack() as stack:
        watcher = stack.enter_context(
            Watcher(home.create(), options, print_notification, lambda text: console.print(text, markup=False))
        )
        if metrics_port is not None:
            port = stack.enter_context(_serve_metrics(watcher, metrics_host, metrics_port))
            console.print(f"Metrics at http://{metrics_host}:{port}/metrics", markup=False)
        if once:
            is_complete = watcher.run_once(stop)
            sys.exit(0 if is_complete else 1)
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, lambda *_: stop.set())
        console.print("Watching for changes (Ctrl-C stops)", markup=False)
        watcher.run(stop)


def _format_line(notification: Notification) -> str:
    at = "" if notification.at is None else f"{notification.at:%Y-%m-%d %H:%M:%S} "
    # One line each: names may contain line breaks.
    return " ".join(f"{at}{notification.text}".split())


def _serve_metrics(watcher: Watcher, host: str, port: int) -> AbstractContextManager[int]:
    # Imported here: needs the extra `metrics`.
    from prometheus_client import CollectorRegistry

    from clew.server.monitoring import serve_monitoring
    from clew.watch.metrics import WatchMetrics

    registry, metrics = CollectorRegistry(), WatchMetrics(watcher)
    registry.register(metrics)
    return serve_monitoring(registry, host, port, metrics.check_ready)


@contextmanager
def background_watcher(home: DataDir, watch: WatchOptions, warn: Callable[[str], None]) -> Iterator[Watcher | None]:
    """Run a watcher beside a server; yield None without webhooks."""
    if not watch.webhooks:
        yield None
        return
    from clew.watch.watcher import BackgroundWatcher, Watcher

    options = WatchOptions(_SERVER_NAME, watch.kinds, watch.namespaces, None, watch.webhooks)
    with BackgroundWatcher(Watcher(home.create(), options, None, warn)) as background:
        yield background.watcher
