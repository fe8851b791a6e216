"""`clew facets`, `validate`, `config` and `doctor`."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec
from msgspec import Raw, Struct
from rich.table import Table
from rich.text import Text

from clew import __version__
from clew.cli.options import json_option, lake_option
from clew.cli.output import format_bytes, format_count, new_table, show_progress, stderr_console, stdout_console
from clew.collector.file_import import FileEvent, find_event_files, read_event_file
from clew.config import SETTINGS, ResolvedSetting, resolve_setting
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.events.validation import EventValidator, Issue, OpenLineageSpec

if TYPE_CHECKING:
    from clew.lake.facets import RunDatasetFacets, RunFacets, RunJobFacets


@click.group("facets")
def facets_group() -> None:
    """Show the facets of a run, a job or a dataset."""


def _print_run_facets(run: RunFacets) -> None:
    _print_facets(f"run {run.run_uuid}", run.facets)
    for job in run.jobs:
        _print_job_facets(job)
    for verb, datasets in (("read", run.inputs), ("wrote", run.outputs)):
        for dataset in datasets:
            facets = {**dataset.facets, **dataset.input_facets, **dataset.output_facets}
            _print_facets(_title(verb, dataset, dataset.version), facets)


def _print_job_facets(job: RunJobFacets | JobFacetSet) -> None:
    _print_facets(_title("job", job), job.facets)


@facets_group.command("run")
@click.argument("run_id")
@json_option(_print_run_facets)
@lake_option
def facets_run(run_id: str, home: DataDir) -> RunFacets:
    """Show the facets of a run, its job, its inputs and its outputs.

    Facets are read from the facet tables of the lake, and from the raw events where facets are not backfilled yet.
    """
    # Imported here: the other commands do not need Arrow.
    from clew.lake.facets import load_run_facets
    from clew.lake.lake import Lake
    from clew.lake.manifest import require_lake

    require_lake(home.lake)
    lake = Lake(home.lake)
    result = load_run_facets(lake, run_id, lake.facet_order)
    if not result.facets and not result.jobs and not result.inputs and not result.outputs:
        hint = "Pass the runId of the events, as listed by `clew runs`."
        raise ClewError(f"There are no facets of run {run_id!r}.", hint=hint)
    return result


class JobFacetSet(Struct, frozen=True):
    """Facets of a job."""

    namespace: str
    name: str
    facets: Mapping[str, Raw]


class DatasetFacetSet(Struct, frozen=True):
    """Facets of one version of a dataset; input and output facets are those of its last reads and writes."""

    namespace: str
    name: str
    version: str | None
    facets: Mapping[str, Raw]
    input_facets: Mapping[str, Raw] = {}
    output_facets: Mapping[str, Raw] = {}


@facets_group.command("job")
@click.argument("namespace")
@click.argument("name")
@json_option(_print_job_facets)
@lake_option
def facets_job(namespace: str, name: str, home: DataDir) -> JobFacetSet:
    """Show the current facets of a job."""
    _, facets, *_ = _find_facets(home, "job", namespace, name)
    return JobFacetSet(namespace, name, facets)


def _print_dataset_facets(dataset: DatasetFacetSet) -> None:
    _print_facets(_title("dataset", dataset, dataset.version), dataset.facets)
    if dataset.input_facets:
        _print_facets("as input of the last runs that read it", dataset.input_facets)
    if dataset.output_facets:
        _print_facets("as output of the last runs that wrote it", dataset.output_facets)


@facets_group.command("dataset")
@click.argument("namespace")
@click.argument("name")
@click.option("--dataset-version", "version", help="Dataset version (default: the latest).")
@json_option(_print_dataset_facets)
@lake_option
def facets_dataset(namespace: str, name: str, version: str | None, home: DataDir) -> DatasetFacetSet:
    """Show the current facets of a dataset, and without a version those of its last reads and writes."""
    return DatasetFacetSet(namespace, name, *_find_facets(home, "dataset", namespace, name, version))


def _find_facets(
    home: DataDir, kind: Literal["job", "dataset"], namespace: str, name: str, version: str | None = None
) -> tuple[str | None, Mapping[str, Raw], Mapping[str, Raw], Mapping[str, Raw]]:
    """Return the version, its facets, and the input and output facets of an entity; raise if it has none."""
    from clew.query.context import QueryResources
    from clew.query.entities.datasets import describe_dataset
    from clew.query.entities.facets import find_facets
    from clew.query.graph.nodes import Node
    from clew.query.names import resolve_node_id

    with QueryResources(home.index, home.lake, is_one_shot=True) as resources, resources.reader() as index:
        node = Node(kind, namespace, name)
        # Raises if the entity is unknown. The id alone may be that of another one: names can contain colons.
        resolve_node_id(index, node.id)
        selected, facets = find_facets(index, node, version)
        dataset = describe_dataset(index, (namespace, name)) if kind == "dataset" and version is None else None
        io_facets = ({}, {}) if dataset is None else (dataset.input_facets, dataset.output_facets)
        is_truncated = index.has_truncated_facets
    if is_truncated:
        warning = "Facets of older events are not backfilled yet and may be missing: run `clew pipeline backfill`."
        stderr_console().print(warning)
    if not facets and not any(io_facets):
        message = f"{kind.capitalize()} {name!r} in namespace {namespace!r} has no facets."
        raise ClewError(message, hint="Its events contain none.")
    return selected, facets, *io_facets


def _title(
    prefix: str, entity: RunJobFacets | JobFacetSet | RunDatasetFacets | DatasetFacetSet, version: str | None = None
) -> str:
    parts = [prefix, entity.namespace, entity.name, f"(version {version})" if version else ""]
    return " ".join(part for part in parts if part)


def _print_facets(title: str, facets: Mapping[str, Raw]) -> None:
    """Print one facet per line, wrapped on a terminal and not in a file or pipe."""
    console, width = stdout_console(), max(map(len, facets), default=0)
    console.print(title, style="italic", soft_wrap=True)
    table = new_table()
    table.add_column(no_wrap=True, min_width=width)
    table.add_column(overflow="fold")
    for name, facet in facets.items():
        if console.is_terminal:
            table.add_row(name, _format_facet(bytes(facet)))
        else:
            click.echo(f"{name:{width}}  {_format_facet(bytes(facet))}")
    console.print(table)


def _format_facet(facet: bytes) -> str:
    """Format a facet as one line of JSON, with the keys that describe the facet itself last."""
    try:
        members = msgspec.json.decode(facet, type=dict[str, Raw])
        facet = msgspec.json.encode(dict(sorted(members.items(), key=lambda member: member[0].startswith("_"))))
    except msgspec.DecodeError:
        # Not an object.
        pass
    return msgspec.json.format(facet.decode(), indent=0)


_STYLES = {"error": "red", "warning": "yellow"}


class ValidationReport(Struct):
    """Counts of all issues, and the issues up to the limit."""

    events: dict[str, int]
    valid: int
    rules: dict[str, int]
    issues: list[Issue]
    spec: str
    errors: int = 0
    warnings: int = 0


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


@click.command("validate")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--spec",
    type=click.Path(path_type=Path),
    default=lambda: resolve_setting("spec").value,
    help="Directory of the OpenLineage schemas to use instead of those of clew.",
)
@click.option(
    "--limit", type=click.IntRange(0), default=50, show_default=True, help="Maximum number of issues to list."
)
@json_option(_print_report, exit_code=lambda report: 1 if report.errors else 0)
def validate_command(paths: tuple[Path, ...], spec: Path | None, limit: int) -> ValidationReport:
    """Validate event files against the schemas and lint them.

    FILE is NDJSON, or JSON with one object, a list, or several objects; plain, .gz or .zst. A directory is searched for
    NDJSON files. Exits with 1 if an event violates a schema or could not be ingested; warnings alone are not a failure.
    """
    rules = OpenLineageSpec.core() if spec is None else OpenLineageSpec.from_folder(spec)
    validator, levels, counts = EventValidator(rules), Counter[str](), Counter[str]()
    issues: list[Issue] = []
    for issue in _find_issues(validator, list(paths)):
        levels[issue.level] += 1
        counts[issue.rule] += 1
        if len(issues) < limit:
            issues.append(issue)
    return ValidationReport(
        events=dict(validator.events),
        valid=validator.valid,
        rules=dict(sorted(counts.items())),
        issues=issues,
        spec="core" if spec is None else str(spec),
        errors=levels["error"],
        warnings=levels["warning"],
    )


def _find_issues(validator: EventValidator, paths: list[Path]) -> Iterator[Issue]:
    for file in find_event_files(paths):
        for line, body in _read_events(file):
            yield from validator.validate(str(file), line, body)
    yield from validator.check_runs()


def _read_events(file: Path) -> Iterator[FileEvent]:
    try:
        yield from read_event_file(file)
    except ClewError as error:
        raise ClewError(error.message, hint="Fix the file and validate it again.") from error


def _issue_table(issues: list[Issue]) -> Table:
    table = new_table()
    for issue in issues:
        location = "" if issue.line is None else f"{Path(issue.file or '').name}:{issue.line}"
        rule = Text(issue.rule, style=_STYLES[issue.level])
        table.add_row(location, rule, issue.path, issue.message)
    return table


class SettingRow(Struct, frozen=True):
    """A setting with its value and source."""

    name: str
    value: str | None
    source: str
    variable: str


def _print_settings(rows: list[SettingRow]) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("setting", "value", "source", "variable"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(row.name, row.value or "", row.source, row.variable)
    stdout_console().print(table)


@click.command("config")
@click.option("--home", default=None, help="Same as for other commands.")
@click.option("--lake", default=None, metavar="PATH|URL", help="Same as for other commands.")
@click.option("--index", default=None, metavar="URL", help="Same as for other commands.")
@click.option("--master", default=None, help="Same as for other commands.")
@json_option(_print_settings)
def config_command(**flags: str | None) -> list[SettingRow]:
    """Show effective settings and their source.

    Precedence: flag, environment variable, clew.toml, default.
    """
    resolved = {name: resolve_setting(name, flags.get(name)) for name in SETTINGS}
    home = DataDir.find(flags["home"], flags["lake"], flags["index"])
    for name, location in (("home", home.root), ("lake", home.lake), ("index", home.index)):
        resolved[name] = ResolvedSetting(str(location), resolved[name].source)
    return [
        SettingRow(name, setting.value, setting.source, SETTINGS[name].env_var) for name, setting in resolved.items()
    ]


CheckState = Literal["ok", "warning", "error"]

_CHECK_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
# Modules of each extra, and the packages that provide them.
_EXTRA_MODULES = {
    "spark": {"pyspark": "pyspark", "deltalake": "deltalake", "pyarrow": "pyarrow"},
    "s3": {"obstore": "obstore"},
    "server": {"starlette": "starlette", "uvicorn": "uvicorn"},
    "mcp": {"mcp": "mcp"},
    "notebook": {"marimo": "marimo", "pandas": "pandas"},
    "validate": {"jsonschema_rs": "jsonschema-rs"},
    "metrics": {"prometheus_client": "prometheus-client"},
}
_MIN_FREE_BYTES = 1 << 30
# A lake up to this size is read completely: it takes about a second.
_MAX_READ_BYTES = 64 << 20
_REPAIR_HINT = "Run `clew doctor --repair`."


class CheckResult(Struct, frozen=True):
    """Result of one check. A warning affects only optional features."""

    name: str
    state: CheckState
    detail: str
    hint: str | None = None


@click.command("doctor")
@json_option(
    lambda checks: stdout_console().print(_check_table(checks)),
    exit_code=lambda checks: 1 if any(check.state == "error" for check in checks) else 0,
)
@click.option(
    "--repair",
    "must_repair",
    is_flag=True,
    help="Write damaged tables, index and checkpoint again, as far as the log and the lake have their content.",
)
@click.option(
    "--deep", "is_deep", is_flag=True, help="Read all data files completely, and check the checksums of their pages."
)
@lake_option
def doctor_command(must_repair: bool, is_deep: bool, home: DataDir) -> list[CheckResult]:  # noqa: FBT001
    """Check the installation: extras, Java, the data directory, its lake and its index.

    Starts neither Spark nor a server, and changes nothing. Exits with 1 if a check fails. Of the data files of the
    lake, it reads the footers; files of small lakes, or of all with --deep, are read completely.

    With --repair, all data files are read. Rows of events are written again from the log, facets from the events, and
    the pipeline, which must not be running, runs once for the other tables and the index. Exits with 1 if something is
    lost.
    """
    repairs = list(_repair(home)) if must_repair else []
    return [*repairs, *run_checks(home, is_deep=is_deep)]


def _repair(home: DataDir) -> Iterator[CheckResult]:
    """Repair the lake; run the pipeline if anything was repaired or if index or checkpoint are damaged."""
    from clew.pipeline.pipeline import open_pipeline
    from clew.pipeline.preflight import check_log_offsets, request_index_check
    from clew.pipeline.repair import repair_lake, repair_manifest

    messages: list[str] = []

    def collect(message: str) -> None:
        messages.append(message)
        progress(message)

    with show_progress() as progress:
        manifest_damage = repair_manifest(home)
        if manifest_damage is not None:
            yield CheckResult("repair", "ok", f"{manifest_damage} The manifest was written again.")
            messages.append(manifest_damage)
        for repair in repair_lake(home, progress):
            rows = "The table is" if repair.is_derived else f"{format_count(repair.rows, 'row')} of the table were"
            detail = f"{repair.damage} {rows} written again."
            lost = None if repair.lost is None else f"Lost: {repair.lost}."
            yield CheckResult("repair", "ok" if lost is None else "error", detail, lost)
            messages.append(detail)
        checks = (_run_check("", lambda: _check_index(home)), _check_checkpoint(home))
        if not messages and all(check.state == "ok" for check in checks):
            return
        request_index_check(home)
        check_log_offsets(home, collect)
        with open_pipeline(home, on_progress=collect) as pipeline:
            pipeline.run()
    for message in messages:
        if message.startswith(("The index", "The checkpoint", "The log")):
            yield CheckResult("repair", "error" if "are lost" in message else "ok", f"{message}.")


def run_checks(home: DataDir, *, is_deep: bool = False) -> Iterator[CheckResult]:
    """Run all checks, in order of dependency; `is_deep` reads all data files of the lake."""
    yield CheckResult("clew", "ok", f"{__version__} at {Path(__file__).parents[2]}")
    yield CheckResult("python", "ok", f"{platform.python_version()} at {sys.executable}")
    for extra, modules in _EXTRA_MODULES.items():
        yield _check_extra(extra, modules)
    yield _check_java()
    yield _check_web_ui()
    yield _check_home(home)
    yield _run_check("lake", lambda: _check_lake(home, is_deep=is_deep))
    yield _run_check("index", lambda: _check_index(home))
    yield _check_checkpoint(home)


def _check_extra(extra: str, modules: dict[str, str]) -> CheckResult:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        return CheckResult(extra, "warning", f"{', '.join(missing)} not installed", f"pip install 'clew[{extra}]'")
    return CheckResult(extra, "ok", ", ".join(f"{package} {_package_version(package)}" for package in modules.values()))


def _package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(unknown version)"


def _check_java() -> CheckResult:
    from clew.pipeline.spark.java import find_java

    try:
        java = find_java()
    except ClewError as error:
        return CheckResult(
            "java", "error" if importlib.util.find_spec("pyspark") else "warning", error.message, error.hint
        )
    return CheckResult("java", "ok", f"{java.version} at {java.home}")


def _check_web_ui() -> CheckResult:
    from clew.api.static_files import STATIC

    if (STATIC / "index.html").is_file():
        return CheckResult("web UI", "ok", f"built, at {STATIC}")
    return CheckResult("web UI", "warning", "not built", "In a checkout, run `make web`; wheels include it.")


def _check_home(home: DataDir) -> CheckResult:
    if not home.root.exists():
        return CheckResult("home", "warning", f"{home.root} does not exist yet", "Created on the first run.")
    try:
        home.create()
    except ClewError as error:
        return CheckResult("home", "error", error.message, error.hint)
    free = shutil.disk_usage(home.root).free
    if free < _MIN_FREE_BYTES:
        return CheckResult("home", "error", f"{home.root}: only {format_bytes(free)} free", "Free disk space.")
    return CheckResult("home", "ok", f"{home.root}, {format_bytes(free)} free")


def _run_check(name: str, check: Callable[[], CheckResult]) -> CheckResult:
    try:
        return check()
    except ClewError as error:
        return CheckResult(name, "error", error.message, error.hint)


def _check_lake(home: DataDir, *, is_deep: bool) -> CheckResult:
    from clew.lake.file_check import CheckLevel
    from clew.lake.manifest import read_manifest
    from clew.lake.storage import open_storage, table_names
    from clew.pipeline.repair import find_lake_damage, find_table_damage

    manifest_damage = find_lake_damage(home)
    if manifest_damage is not None:
        return CheckResult("lake", "error", manifest_damage, _REPAIR_HINT)
    manifest = read_manifest(home.lake)
    if manifest is None:
        return CheckResult("lake", "warning", f"none at {home.lake} yet", "Run `clew pipeline run`.")
    names = dict.fromkeys((*manifest.tables, *table_names(home.lake)))
    is_small = (
        isinstance(home.lake, Path)
        and sum(file.size for name in names for file in open_storage(home.lake / name).list_files()) <= _MAX_READ_BYTES
    )
    level = CheckLevel.CONTENT if is_deep or is_small else CheckLevel.FOOTERS
    damages = [damage.message for name in names if (damage := find_table_damage(home, name, level)) is not None]
    if damages:
        more = f" {format_count(len(damages), 'table')} in total are damaged." if len(damages) > 1 else ""
        return CheckResult("lake", "error", f"{damages[0]}{more}", _REPAIR_HINT)
    return CheckResult(
        "lake", "ok", f"format {manifest.format_version} at {home.lake}, written by clew {manifest.written_by}"
    )


def _check_index(home: DataDir) -> CheckResult:
    from clew.index.backends.sqlite import MissingIndexError, SqliteBackend
    from clew.index.queries.reader import IndexReader

    location = home.index
    damage = SqliteBackend(location).find_damage() if isinstance(location, Path) and location.exists() else None
    if damage is not None:
        return CheckResult("index", "error", damage, _REPAIR_HINT)
    try:
        with IndexReader(location) as index:
            indexed_at = index.meta("indexed_at") or "never"
    except MissingIndexError:
        return CheckResult("index", "warning", f"none at {location} yet", "Run `clew pipeline run`.")
    description = format_bytes(location.stat().st_size) if isinstance(location, Path) else str(location)
    return CheckResult("index", "ok", f"{description}, last written {indexed_at}")


def _check_checkpoint(home: DataDir) -> CheckResult:
    from clew.pipeline.checkpoint import Checkpoint

    checkpoint = Checkpoint(home.checkpoint)
    damage = checkpoint.find_damage()
    if damage is not None:
        return CheckResult("checkpoint", "error", f"{damage}.", "The next `clew pipeline run` repairs it.")
    return CheckResult("checkpoint", "ok", f"at position {checkpoint.committed_offset:,} of the log")


def _check_table(checks: list[CheckResult]) -> Table:
    table = new_table()
    table.add_column()
    table.add_column(overflow="fold")
    for check in checks:
        detail = check.detail if check.hint is None else f"{check.detail}\n{check.hint}"
        table.add_row(Text(check.state, style=_CHECK_STYLES[check.state]), check.name, detail)
    return table
