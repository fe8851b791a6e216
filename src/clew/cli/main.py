"""The command line, its commands loaded only when they are called."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click
from click.shell_completion import CompletionItem

from clew import __version__
from clew.errors import MissingExtraError, UsageError

_COMMANDS = {
    "demo": "Run an example notebook and follow one of its columns back to its source.",
    "up": "Collect, process and serve, all at once.",
    "run": "Run a notebook or script and record what it does to its data.",
    "pipeline": "Turn recorded events into tables and an index.",
    "collect": "Take events over HTTP, from whatever speaks OpenLineage.",
    "keys": "Say who may send events, and who may ask.",
    "index": "Rebuild what answers are read from.",
    "facets": "Show the facets of a run, a job or a dataset.",
    "validate": "Hold events against the schemas, and say what a producer could do better.",
    "runs": "List runs: the newest, those that failed, those that took longest.",
    "show": "Show what happened in a notebook run.",
    "upstream": "Show where a column came from, or what a dataset, a job or a run was made from.",
    "downstream": "Show what a column, a dataset, a job or a run went into.",
    "path": "Show how one column, dataset or job leads to another.",
    "impact": "Show what a change of a column would reach.",
    "diff": "Show what differs between two runs, or two versions of a dataset.",
    "search": "Find jobs and datasets by what is written of them.",
    "export": "Write lineage for other tools: HTML, SVG, Mermaid, Graphviz, OpenLineage, Parquet.",
    "report": "Report on performance, a trail, quality, a pipeline, or a whole lake.",
    "serve": "Serve the web page and the API.",
    "mcp": "Serve the answers to agents, as an MCP server.",
    "config": "Show the settings that count here, and where each was said.",
    "doctor": "Look whether all is there that clew needs.",
    "completion": "Print what makes a shell complete commands and names.",
}
# Which extra brings a module that a command needs.
_EXTRAS = {
    "click": "cli",
    "deltalake": "spark",
    "httptools": "server",
    "jsonschema_rs": "validate",
    "jwt": "jwt",
    "marimo": "notebook",
    "mcp": "mcp",
    "obstore": "s3",
    "pandas": "notebook",
    "prometheus_client": "metrics",
    "pyarrow": "spark",
    "pyspark": "spark",
    "rich": "cli",
    "starlette": "server",
    "uvicorn": "server",
    "zstandard": "spark",
}
_INTERRUPTED = 130


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            close = get_close_matches(cmd_name, _COMMANDS)
            if close and not ctx.resilient_parsing:
                raise click.UsageError(f"No such command {cmd_name!r}. Did you mean {' or '.join(close)}?", ctx)
            return None
        with _named_extras():
            command: click.Command = import_module(f"clew.cli.{cmd_name}").command
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        _write_any_text()
        with _quiet_ends():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _quiet_ends(), _named_extras(), _only_text():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        named = [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]
        # The group's own way would load the module of every command.
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _write_any_text() -> None:
    """Let nothing that is printed be a fault, whatever the terminal can show."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _only_text() -> Iterator[None]:
    """Say that an argument is no text: bytes that the terminal's encoding does not know cannot be looked up."""
    try:
        yield
    except UnicodeEncodeError as fault:
        hint = "Write it in UTF-8, and set a locale of UTF-8, or PYTHONUTF8=1."
        raise UsageError(f"{fault.object!a} is not text in the encoding of this terminal.", hint=hint) from fault


@contextmanager
def _named_extras() -> Iterator[None]:
    """Say which extra brings a module that is not there."""
    try:
        yield
    except ModuleNotFoundError as fault:
        missing = (fault.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        raise MissingExtraError.named(_EXTRAS[missing], missing) from fault


@contextmanager
def _quiet_ends() -> Iterator[None]:
    """Neither a reader that has gone (`clew show | head`) nor Ctrl-C is a fault to speak of."""
    try:
        yield
        # Here, because a fault at the interpreter's own last flush can no longer be caught.
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise click.exceptions.Exit(0) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(_INTERRUPTED) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="clew")
def cli() -> None:
    """Where did this column come from? Lineage for notebooks and pipelines.

    Start with `clew demo`.
    """
