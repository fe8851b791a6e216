"""`clew validate`: events held against the schemas, and what a producer could do better."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import Struct
from rich.table import Table
from rich.text import Text

from clew.cli.figures import counted
from clew.cli.options import json_option
from clew.cli.screen import data, print_json, talk
from clew.collector.event_files import event_files, event_lines
from clew.errors import ClewError
from clew.events.findings import Finding, Inspection
from clew.events.spec import Spec
from clew.settings import chosen

_STYLES = {"error": "red", "advice": "yellow"}
_UNCHECKED = """\
Standard facets were checked for _producer and _schemaURL only: the rest of the spec is not part of clew. To have it,
git clone --depth 1 https://github.com/OpenLineage/OpenLineage, and name its folder spec with --spec or CLEW_SPEC."""


class Report(Struct):
    """What was found in all files: counts of everything, and as many findings as were asked for."""

    events: dict[str, int]
    valid: int
    rules: dict[str, int]
    findings: list[Finding]
    spec: str
    errors: int = 0
    advice: int = 0


@click.command("validate")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--spec",
    type=click.Path(path_type=Path),
    default=lambda: chosen("spec").value,
    help="Folder of OpenLineage's own schemas: standard facets are then held against them, too.",
)
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="How many findings to list.")
@json_option
def command(paths: tuple[Path, ...], spec: Path | None, limit: int, as_json: bool) -> None:  # noqa: FBT001
    """Hold files of events against the schemas, and say what a producer could do better.

    FILE is NDJSON, plain, .gz or .zst, or a folder of such files. Ends with 1 if an event breaks a schema or could not
    be taken in; advice alone is no failure.
    """
    report = inspected(list(paths), spec, limit)
    if as_json:
        print_json(report)
    else:
        _show(report)
    sys.exit(1 if report.errors else 0)


def inspected(paths: list[Path], spec: Path | None, limit: int) -> Report:
    """The report on all events of some files and folders."""
    rules = Spec.core() if spec is None else Spec.read(spec)
    inspection, tally = Inspection(rules), _Tally(limit)
    for file in event_files(paths):
        for line, body in enumerate(_lines(file), start=1):
            tally.add(*inspection.findings(str(file), line, body))
    tally.add(*inspection.run_findings())
    return Report(
        events=dict(inspection.events),
        valid=inspection.valid,
        rules=dict(sorted(tally.rules.items())),
        findings=tally.listed,
        spec="core" if spec is None else str(spec),
        errors=tally.levels["error"],
        advice=tally.levels["advice"],
    )


def _lines(file: Path) -> Iterator[bytes]:
    try:
        yield from event_lines(file)
    except ClewError as fault:
        raise ClewError(fault.message, hint="Mend the file and validate it again.") from fault


class _Tally:
    """Counts of all findings; only some of them are kept."""

    def __init__(self, limit: int) -> None:
        self.levels: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.listed: list[Finding] = []
        self._limit = limit

    def add(self, *findings: Finding) -> None:
        for finding in findings:
            self.levels[finding.level] += 1
            self.rules[finding.rule] += 1
            if len(self.listed) < self._limit:
                self.listed.append(finding)


def _show(report: Report) -> None:
    console = data()
    if report.findings:
        console.print(_table(report.findings))
    left = report.errors + report.advice - len(report.findings)
    if left:
        console.print(f"… and {left:,} more: raise --limit to see them.")
    events = ", ".join(f"{count:,} {stream}" for stream, count in report.events.items())
    total = sum(report.events.values())
    told = f"{counted(total, 'event')}{f' ({events})' if events else ''}: {report.valid:,} valid"
    console.print(f"{told}; {counted(report.errors, 'error')}, {counted(report.advice, 'piece')} of advice.")
    if report.spec == "core" and report.events.get("openlineage"):
        talk().print(_UNCHECKED)


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        place = "" if finding.line is None else f"{Path(finding.file or '').name}:{finding.line}"
        what = Text(finding.rule, style=_STYLES[finding.level])
        table.add_row(place, what, finding.path, finding.message)
    return table
