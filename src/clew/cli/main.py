"""The `clew` command group. The module of a command is imported when the command is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from clew import __version__
from clew.errors import ClewError, MissingExtraError, UsageError, is_damaged_file_error


class _Command(NamedTuple):
    # Below `clew.cli`.
    module: str
    attribute: str
    help: str


_COMMANDS = {
    "demo": _Command("commands.capture", "demo_command", "Run an example notebook and trace one of its columns."),
    "up": _Command("commands.servers", "up_command", "Run the collector, pipeline, API and web UI together."),
    "run": _Command("commands.capture", "run_command", "Run a notebook or script and capture its lineage."),
    "pipeline": _Command("commands.pipeline", "pipeline_group", "Process recorded events into tables and an index."),
    "import": _Command("commands.imports", "import_group", "Import the history of a Marquez server, or event files."),
    "collect": _Command("commands.servers", "collect_command", "Receive OpenLineage events over HTTP."),
    "keys": _Command("commands.servers", "keys_group", "Manage API keys."),
    "index": _Command("commands.data_dir", "index_group", "Manage the query index."),
    "backup": _Command("commands.data_dir", "backup_command", "Copy the data directory, also while it is in use."),
    "restore": _Command("commands.data_dir", "restore_command", "Restore a backup to a new data directory."),
    "forget": _Command("commands.data_dir", "forget_command", "Remove a dataset, session or namespace permanently."),
    "facets": _Command("commands.inspect", "facets_group", "Show the facets of a run, a job or a dataset."),
    "validate": _Command("commands.inspect", "validate_command", "Validate events against the schemas and lint them."),
    "runs": _Command("commands.runs", "runs_command", "List runs: the newest, the failed or the slowest."),
    "show": _Command("commands.runs", "show_command", "Show what happened in a notebook run."),
    "upstream": _Command("commands.lineage", "upstream_command", "Show where a column or dataset came from."),
    "downstream": _Command("commands.lineage", "downstream_command", "Show what depends on a column or dataset."),
    "path": _Command("commands.lineage", "path_command", "Show the path between two columns, datasets or jobs."),
    "impact": _Command("commands.lineage", "impact_command", "Show what is affected by changing a column."),
    "diff": _Command("commands.lineage", "diff_command", "Compare two runs, or two versions of a dataset."),
    "search": _Command("commands.lineage", "search_command", "Search jobs, datasets and columns."),
    "export": _Command(
        "commands.lineage",
        "export_command",
        "Export lineage as HTML, SVG, Mermaid, Graphviz, NDJSON or Parquet.",
    ),
    "watch": _Command("commands.watch", "watch_command", "Report failed runs, failed tests and schema changes."),
    "report": _Command("commands.runs", "report_group", "Report on performance, quality, sessions or the whole lake."),
    "serve": _Command("serving", "serve_command", "Serve the web UI and the API."),
    "mcp": _Command("commands.servers", "mcp_command", "Run the MCP server."),
    "config": _Command("commands.inspect", "config_command", "Show effective settings and their source."),
    "doctor": _Command("commands.inspect", "doctor_command", "Check the installation."),
    "completion": _Command("completion", "completion_command", "Print a shell completion script."),
}
# The extra that installs a module.
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
    "psycopg": "postgres",
    "prometheus_client": "metrics",
    "pyarrow": "spark",
    "pyspark": "spark",
    "rich": "cli",
    "starlette": "server",
    "uvicorn": "server",
    "zstandard": "spark",
}
_EXIT_INTERRUPTED = 130
# They write to the data directory only; the files of others follow the settings of the user.
_PRIVATE_COMMANDS = frozenset(
    {
        "up",
        "collect",
        "import",
        "pipeline",
        "index",
        "serve",
        "mcp",
        "keys",
        "doctor",
        "demo",
        "watch",
        "backup",
        "restore",
        "forget",
    }
)
_PRIVATE_UMASK = 0o077


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            matches = get_close_matches(cmd_name, _COMMANDS)
            if matches and not ctx.resilient_parsing:
                raise click.UsageError(f"No such command {cmd_name!r}. Did you mean {' or '.join(matches)}?", ctx)
            return None
        with _name_missing_extra():
            entry = _COMMANDS[cmd_name]
            command: click.Command = getattr(import_module(f"clew.cli.{entry.module}"), entry.attribute)
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        _escape_unencodable_output()
        with _handle_broken_pipe_and_interrupt():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with (
            _handle_broken_pipe_and_interrupt(),
            _name_missing_extra(),
            _report_damaged_files(),
            _check_argument_encoding(),
        ):
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(name, help=entry.help) for name, entry in _COMMANDS.items() if name.startswith(incomplete)
        ]
        # click's own implementation would import the module of every command.
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in _COMMANDS.items()])


def _escape_unencodable_output() -> None:
    """Escape characters that the encoding of the terminal cannot represent, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _check_argument_encoding() -> Iterator[None]:
    """Report an argument that is not valid text in the encoding of the terminal."""
    try:
        yield
    except UnicodeEncodeError as error:
        hint = "Use UTF-8, and set a UTF-8 locale or PYTHONUTF8=1."
        raise UsageError(f"{error.object!a} is not valid text in the encoding of this terminal.", hint=hint) from error


@contextmanager
def _name_missing_extra() -> Iterator[None]:
    """Translate a missing module to the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        raise MissingExtraError.for_module(_EXTRAS[missing], missing) from error


@contextmanager
def _report_damaged_files() -> Iterator[None]:
    """Report an error of SQLite, or of a file of the lake, in one sentence."""
    try:
        yield
    except Exception as error:
        # Not by its class: most commands do not import the module.
        if type(error).__module__ == "sqlite3":
            from clew.index.backends.sqlite import DamagedIndexError

            raise DamagedIndexError.of(error) from error  # type: ignore[arg-type]
        if is_damaged_file_error(error):
            message = f"The lake cannot be read: {str(error).strip().partition(chr(10))[0].rstrip('.')}."
            hint = "Run `clew doctor` to find damaged files, and `clew doctor --repair` to write them again."
            raise ClewError(message, hint=hint) from error
        if isinstance(error, OSError) and error.filename is not None and not isinstance(error, BrokenPipeError):
            raise _access_error(error) from error
        raise


def _access_error(error: OSError) -> ClewError:
    """Translate an error of the operating system that no other code has translated."""
    hint = "Fix its permissions or free disk space. `clew doctor --repair` writes damaged files of clew again."
    return ClewError(f"{os.fsdecode(error.filename)} cannot be accessed: {error.strerror}.", hint=hint)


@contextmanager
def _handle_broken_pipe_and_interrupt() -> Iterator[None]:
    """Exit without a traceback on a closed pipe (`clew show | head`) and on Ctrl-C."""
    try:
        yield
        # Flush here: an error in the interpreter's final flush cannot be caught.
        sys.stdout.flush()
    except BrokenPipeError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)
        raise click.exceptions.Exit(0) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(_EXIT_INTERRUPTED) from None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="clew")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Trace data lineage in notebooks and pipelines.

    Start with `clew demo`.
    """
    if ctx.invoked_subcommand in _PRIVATE_COMMANDS:
        # Also for files of Spark, Delta Lake and SQLite, which have no setting of their own.
        os.umask(_PRIVATE_UMASK)
