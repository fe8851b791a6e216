"""`clew validate`: validate event files against the schemas and lint them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import Struct
from rich.table import Table
from rich.text import Text

from clew.cli.figures import format_count
from clew.cli.options import json_option
from clew.cli.screen import print_json, stderr_console, stdout_console
from clew.collector.event_files import find_event_files, read_event_lines
from clew.errors import ClewError
from clew.events.findings import EventValidator, Issue
from clew.events.spec import OpenLineageSpec
from clew.settings import resolve_setting

_STYLES = {"error": "red", "warning": "yellow"}
_SPEC_HINT = """\
Standard facets were checked for _producer and _schemaURL only, because clew does not include the full spec. To check
all fields, git clone --depth 1 https://github.com/OpenLineage/OpenLineage and pass its directory spec with --spec or
CLEW_SPEC."""


class ValidationReport(Struct):
    """Counts of all issues, and the issues up to the limit."""

    events: dict[str, int]
    valid: int
    rules: dict[str, int]
    issues: list[Issue]
    spec: str
    errors: int = 0
    warnings: int = 0


@click.command("validate")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--spec",
    type=click.Path(path_type=Path),
    default=lambda: resolve_setting("spec").value,
    help="Directory of the OpenLineage schemas, to validate standard facets in full.",
)
@click.option(
    "--limit", type=click.IntRange(0), default=50, show_default=True, help="Maximum number of issues to list."
)
@json_option
def validate_command(paths: tuple[Path, ...], spec: Path | None, limit: int, as_json: bool) -> None:  # noqa: FBT001
    """Validate event files against the schemas and lint them.

    FILE is NDJSON, plain, .gz or .zst, or a directory of such files. Exits with 1 if an event violates a schema or
    could not be ingested; warnings alone are not a failure.
    """
    report = validate_files(list(paths), spec, limit)
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    sys.exit(1 if report.errors else 0)


def validate_files(paths: list[Path], spec: Path | None, limit: int) -> ValidationReport:
    """Validate all events of files and directories."""
    rules = OpenLineageSpec.core() if spec is None else OpenLineageSpec.from_folder(spec)
    validator, counter = EventValidator(rules), _IssueCounter(limit)
    for file in find_event_files(paths):
        for line, body in enumerate(_read_lines(file), start=1):
            counter.add(*validator.validate(str(file), line, body))
    counter.add(*validator.check_runs())
    return ValidationReport(
        events=dict(validator.events),
        valid=validator.valid,
        rules=dict(sorted(counter.rules.items())),
        issues=counter.issues,
        spec="core" if spec is None else str(spec),
        errors=counter.levels["error"],
        warnings=counter.levels["warning"],
    )


def _read_lines(file: Path) -> Iterator[bytes]:
    try:
        yield from read_event_lines(file)
    except ClewError as error:
        raise ClewError(error.message, hint="Fix the file and validate it again.") from error


class _IssueCounter:
    """Count issues, and collect them up to a limit."""

    def __init__(self, limit: int) -> None:
        self.levels: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.issues: list[Issue] = []
        self._limit = limit

    def add(self, *issues: Issue) -> None:
        for issue in issues:
            self.levels[issue.level] += 1
            self.rules[issue.rule] += 1
            if len(self.issues) < self._limit:
                self.issues.append(issue)


def _print_report(report: ValidationReport) -> None:
    console = stdout_console()
    if report.issues:
        console.print(_issue_table(report.issues))
    omitted = report.errors + report.warnings - len(report.issues)
    if omitted:
        console.print(f"… and {omitted:,} more; raise --limit to list them.")
    events = ", ".join(f"{count:,} {stream}" for stream, count in report.events.items())
    total = sum(report.events.values())
    summary = f"{format_count(total, 'event')}{f' ({events})' if events else ''}: {report.valid:,} valid"
    console.print(f"{summary}; {format_count(report.errors, 'error')}, {format_count(report.warnings, 'warning')}.")
    if report.spec == "core" and report.events.get("openlineage"):
        stderr_console().print(_SPEC_HINT)


def _issue_table(issues: list[Issue]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for issue in issues:
        location = "" if issue.line is None else f"{Path(issue.file or '').name}:{issue.line}"
        rule = Text(issue.rule, style=_STYLES[issue.level])
        table.add_row(location, rule, issue.path, issue.message)
    return table
