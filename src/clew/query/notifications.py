"""Notifications: failed runs, failed tests, schema changes and breaking changes after a position of the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from itertools import chain, pairwise
from typing import Any, Final, Literal, NamedTuple, get_args

from msgspec import Struct, structs

from clew.index.backends.base import Row
from clew.index.encoding import split_key
from clew.index.queries import recent_changes
from clew.index.queries.entities import Name
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import RunRecord
from clew.query.context import QueryResources
from clew.query.entities.datasets import load_schemas
from clew.query.entities.model import AssertionResult, VersionCache, VersionRecord, key_uuid
from clew.query.graph.nodes import Node
from clew.query.lineage import ImpactedDataset, ImpactResult, TraversalLimits
from clew.query.model import from_epoch_micros, shorten
from clew.query.names import ResolvedName
from clew.query.quality import SchemaDiff, diff_columns, load_run_assertions
from clew.query.service import LineageService

NotificationKind = Literal["failed-run", "failed-assertion", "schema-change", "breaking-change"]
NOTIFICATION_KINDS: Final[tuple[NotificationKind, ...]] = get_args(NotificationKind)
ColumnChangeKind = Literal["removed", "retyped", "dropped"]
# Reads and writes of a dataset that are compared.
_MAX_READS = 200
# The impact of more changed columns is that of the dataset as a whole.
_MAX_COLUMNS = 50
_IMPACT_LIMITS: Final = TraversalLimits(depth=20, limit=1000)
_MAX_LISTED = 5
_MAX_ERROR_CHARS = 200


class ColumnImpact(Struct, frozen=True, rename="camel"):
    """What depended on a column before it was removed or retyped; `column` is None for a dataset as a whole."""

    column: str | None
    change: ColumnChangeKind
    type_before: str | None
    type_after: str | None
    affected: tuple[ImpactedDataset, ...]


class Notification(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A change that somebody should know of. The `id` depends on the change only: it is the same when found again.

    `readers` are the ids of jobs that read the dataset without column lineage, so they may use the column.
    """

    id: str
    kind: NotificationKind
    at: datetime | None
    text: str
    job: Node | None = None
    dataset: Node | None = None
    run_uuid: str | None = None
    state: str | None = None
    error: str | None = None
    test: AssertionResult | None = None
    schema: SchemaDiff | None = None
    impact: tuple[ColumnImpact, ...] = ()
    readers: tuple[str, ...] = ()

    def namespaces(self) -> set[str]:
        """Return the namespaces of the job, the dataset and all affected datasets and jobs."""
        nodes = {node.namespace for node in (self.job, self.dataset) if node is not None}
        affected = {item.dataset.namespace for column in self.impact for item in column.affected}
        jobs = chain(self.readers, *(item.jobs for column in self.impact for item in column.affected))
        # Namespaces contain colons as well, so the id is compared by its prefix.
        return nodes | affected | {job.removeprefix("job:") for job in jobs}


class Positions(NamedTuple):
    """Positions of the log up to which changes are known; facets of raw-only events arrive later than the events."""

    events: int
    facets: int


def find_notifications(
    resources: QueryResources,
    index: IndexReader,
    kinds: Collection[NotificationKind],
    after: Positions,
    is_known: Callable[[str], bool] = lambda _: False,
) -> list[Notification]:
    """Find changes after a position, in order of time. Ids that are known are left out."""
    found: list[Notification] = []
    if "failed-run" in kinds:
        found += map(_failed_run, recent_changes.find_failed_runs(index, after.events))
    if "failed-assertion" in kinds:
        found += _find_failed_tests(index, recent_changes.find_tested_entities(index, after.facets))
    if {"schema-change", "breaking-change"} & set(kinds):
        finder = _SchemaChangeFinder(resources, index, kinds, is_known)
        found += finder.find(after.facets)
    new = {item.id: item for item in found if not is_known(item.id)}
    return sorted(new.values(), key=lambda item: (item.at is None, item.at, item.kind))


def list_declared_schema_changes(index: IndexReader) -> list[str]:
    """Return the ids of all schema changes by DatasetEvents.

    A repeated DatasetEvent moves its position, so its changes are only known by their ids.
    """
    ids: list[str] = []
    for name in recent_changes.find_redeclared_datasets(index):
        for change in _find_written_changes(index, index.aliases_of(name)):
            if change.run_uuid is None:
                ids += (change.id("schema-change"), change.id("breaking-change"))
    return ids


def _failed_run(run: RunRecord) -> Notification:
    job = None if run.job_name is None else Node("job", run.job_namespace or "", run.job_name)
    verb = "was aborted" if run.state == "ABORTED" else "failed"
    first_line = next(iter((run.error_message or "").strip().splitlines()), "")
    error = f": {shorten(first_line, _MAX_ERROR_CHARS)}" if first_line else ""
    return Notification(
        key_uuid("failed-run", run.run_uuid),
        "failed-run",
        from_epoch_micros(run.end_time),
        f"Run {verb}: {_label(job) or run.run_uuid}{error}",
        job=job,
        run_uuid=run.run_uuid,
        state=run.state,
        error=run.error_message,
    )


def _find_failed_tests(index: IndexReader, asserted_by: list[str]) -> Iterator[Notification]:
    results_by_entity = load_run_assertions(index, asserted_by)
    runs = index.runs_of(list(results_by_entity)) if results_by_entity else {}
    for entity, results in results_by_entity.items():
        run = runs.get(entity)
        names = (run.job_namespace, run.job_name) if run is not None else split_key(entity)
        job = Node("job", names[0] or "", names[1]) if len(names) == 2 and names[1] is not None else None
        occurrences: Counter[tuple[object, ...]] = Counter()
        for result in results:
            key = entity, *_dataset_key(result), result.assertion, result.column, result.name
            occurrences[key] += 1
            if result.success is False:
                yield _failed_test(result, job, (*key, str(occurrences[key])))


def _dataset_key(result: AssertionResult) -> Name:
    return result.dataset.namespace, result.dataset.name


def _failed_test(result: AssertionResult, job: Node | None, key: tuple[str | None, ...]) -> Notification:
    # Without a run, each event has new results.
    at = "" if result.run_uuid is not None or result.at is None else result.at.isoformat()
    dataset = Node("dataset", *_dataset_key(result))
    test = result.name or result.assertion
    column = "" if result.column is None else f"({result.column})"
    values = [f"{label} {value}" for label in ("expected", "actual") if (value := getattr(result, label)) is not None]
    severity = "" if result.severity is None else f" ({result.severity})"
    details = f": {', '.join(values)}" if values else ""
    by_job = "" if job is None else f", by {_label(job)}"
    return Notification(
        key_uuid("failed-assertion", *key, at),
        "failed-assertion",
        result.at,
        f"Test failed{severity}: {test}{column} on {_label(dataset)}{by_job}{details}",
        job=job,
        dataset=dataset,
        run_uuid=result.run_uuid,
        test=result,
    )


class _SchemaChange(NamedTuple):
    """A schema that differs from the previous one, in a write, a read or a DatasetEvent; or a drop without a schema.

    `as_of` are the times, in epoch microseconds, of the lineage before the change.
    """

    dataset: Name
    key: str
    at: int
    as_of: tuple[int, ...]
    run_uuid: str | None
    schema_id: str | None
    diff: SchemaDiff | None

    def id(self, kind: NotificationKind) -> str:
        return key_uuid(kind, *self.dataset, self.key)


def _find_written_changes(index: IndexReader, aliases: tuple[Name, ...]) -> list[_SchemaChange]:
    """Compare the schemas of consecutive versions of a dataset."""
    versions = _versions_with_schema(index, aliases)
    schemas = load_schemas(index, {version.schema_id for version in versions})
    changes = []
    for before, after in pairwise(versions):
        if before.schema_id == after.schema_id:
            continue
        diff = diff_columns(schemas.get(before.schema_id, ()), schemas.get(after.schema_id, ()))
        if diff is not None:
            times = after.at - 1, after.at
            change = _SchemaChange(aliases[0], after.id, after.at, times, after.run_uuid, after.schema_id, diff)
            changes.append(change)
    return changes


def _versions_with_schema(index: IndexReader, aliases: tuple[Name, ...]) -> list[VersionRecord]:
    versions = VersionCache(index, {aliases[0]: aliases}).get(aliases[0])
    return [version for version in versions if version.schema_id is not None]


def _find_read_changes(index: IndexReader, dataset: Name) -> Iterator[_SchemaChange]:
    """Compare the schemas that each job read, for datasets that no job writes.

    Jobs may read different columns, so each is compared with itself. A change that several jobs see is one.
    """
    rows = [row for row in index.io_of_dataset(dataset, _MAX_READS) if row["schema_id"] is not None]
    rows.reverse()
    schemas = load_schemas(index, {row["schema_id"] for row in rows})
    last_by_job: dict[tuple[str | None, str | None], Row] = {}
    announced = None
    for row in rows:
        job = row["job_namespace"], row["job_name"]
        before, last_by_job[job] = last_by_job.get(job), row
        if before is None or before["schema_id"] == row["schema_id"] or row["schema_id"] == announced:
            continue
        diff = diff_columns(schemas.get(before["schema_id"], ()), schemas.get(row["schema_id"], ()))
        if diff is not None:
            announced, at = row["schema_id"], row["first_event_at"]
            yield _SchemaChange(dataset, f"read {row['run_uuid']}", at, (at - 1,), row["run_uuid"], announced, diff)


class _SchemaChangeFinder:
    """Finds schema changes, and what depended on the changed columns."""

    def __init__(
        self,
        resources: QueryResources,
        index: IndexReader,
        kinds: Collection[NotificationKind],
        is_known: Callable[[str], bool],
    ) -> None:
        self._index, self._kinds, self._is_known = index, kinds, is_known
        self._service = LineageService(resources, index)

    def find(self, after: int) -> Iterator[Notification]:
        """Yield notifications of schema changes after a position."""
        for change in chain(self._schema_changes(after), self._drops(after)):
            run = None if change.run_uuid is None else self._index.run(change.run_uuid)
            if self._is_wanted(change, "schema-change"):
                yield _notify("schema-change", change, run, _describe_schema(change.diff))
            if self._is_wanted(change, "breaking-change"):
                yield from self._breaking_change(change, run)

    def _is_wanted(self, change: _SchemaChange, kind: NotificationKind) -> bool:
        return kind in self._kinds and not self._is_known(change.id(kind))

    def _schema_changes(self, after: int) -> Iterator[_SchemaChange]:
        index = self._index
        aliases = {
            names[0]: names for names in map(index.aliases_of, recent_changes.find_touched_datasets(index, after))
        }
        every_name = [name for names in aliases.values() for name in names]
        candidates = set(recent_changes.find_datasets_with_several_schemas(index, every_name))
        for dataset, names in sorted(aliases.items()):
            # A dataset with aliases may have one schema under each name.
            if len(names) == 1 and dataset not in candidates:
                continue
            has_writes = bool(_versions_with_schema(index, names))
            changes = _find_written_changes(index, names) if has_writes else [*_find_read_changes(index, dataset)]
            yield from self._after(changes, names, after)

    def _after(self, changes: list[_SchemaChange], names: tuple[Name, ...], after: int) -> Iterator[_SchemaChange]:
        """Yield the changes by runs and DatasetEvents with events after a position."""
        runs = {change.run_uuid for change in changes if change.run_uuid is not None}
        changed = recent_changes.find_changed_runs(self._index, runs, after) if runs else {}
        for change in changes:
            if change.run_uuid is None:
                schema = change.schema_id or ""
                if any(recent_changes.is_declared_after(self._index, name, schema, after) for name in names):
                    yield change
            elif change.run_uuid in changed:
                # The run itself may assert new lineage from its first event on.
                yield change._replace(as_of=(changed[change.run_uuid] - 1, change.as_of[-1]))

    def _drops(self, after: int) -> Iterator[_SchemaChange]:
        for namespace, name, at, seq in recent_changes.find_dropped_datasets(self._index, after):
            yield _SchemaChange((namespace, name), f"drop {seq}", at, (at - 1, at), None, None, None)

    def _breaking_change(self, change: _SchemaChange, run: RunRecord | None) -> Iterator[Notification]:
        columns = list(_changed_columns(change.diff))
        if not columns:
            return
        if len(columns) > _MAX_COLUMNS:
            columns = [ColumnImpact(None, columns[0].change, None, None, ())]
        impact = tuple(
            structs.replace(column, affected=affected)
            for column in columns
            if (affected := self._affected(change, column.column))
        )
        readers = self._readers_without_columns(change, run)
        if impact or readers:
            text = _describe_impact(change.diff, impact, readers)
            yield _notify("breaking-change", change, run, text, impact, readers)

    def _affected(self, change: _SchemaChange, column: str | None) -> tuple[ImpactedDataset, ...]:
        """Return the datasets that depended on a column before the change, or when it was made."""
        affected: dict[Any, ImpactedDataset] = {}
        for result in self._impact(change, column):
            for item in result.affected or result.in_memory:
                if (item.dataset.namespace, item.dataset.name) != change.dataset:
                    affected.setdefault(item.dataset, item)
        return tuple(affected.values())

    def _impact(self, change: _SchemaChange, column: str | None) -> Iterator[ImpactResult]:
        start = ResolvedName("dataset" if column is None else "column", *change.dataset, column)
        for as_of in change.as_of:
            yield self._service.analyze_impact(start, _IMPACT_LIMITS, as_of=as_of)

    def _readers_without_columns(self, change: _SchemaChange, run: RunRecord | None) -> tuple[str, ...]:
        """Return the jobs that read a dataset, and of which no column lineage from it is known."""
        rows = chain.from_iterable(
            self._index.jobs_using(name, "INPUT") for name in self._index.aliases_of(change.dataset)
        )
        readers = {Node("job", row["job_namespace"], row["job_name"]).id for row in rows}
        if run is not None and run.job_name is not None:
            readers.discard(Node("job", run.job_namespace or "", run.job_name).id)
        if readers:
            for result in self._impact(change, None):
                readers.difference_update(*(item.jobs for item in (*result.affected, *result.in_memory)))
        return tuple(sorted(readers))


def _changed_columns(diff: SchemaDiff | None) -> Iterator[ColumnImpact]:
    if diff is None:
        yield ColumnImpact(None, "dropped", None, None, ())
        return
    for name in diff.removed:
        yield ColumnImpact(name, "removed", None, None, ())
    for column in diff.retyped:
        yield ColumnImpact(column.name, "retyped", column.left, column.right, ())


def _notify(
    kind: NotificationKind,
    change: _SchemaChange,
    run: RunRecord | None,
    text: str,
    impact: tuple[ColumnImpact, ...] = (),
    readers: tuple[str, ...] = (),
) -> Notification:
    job = None if run is None or run.job_name is None else Node("job", run.job_namespace or "", run.job_name)
    dataset = Node("dataset", *change.dataset)
    verb = "read" if change.key.startswith("read ") else "written"
    by_job = "" if job is None else f" ({verb} by {_label(job)})"
    title = "Breaking change" if kind == "breaking-change" else "Schema change"
    return Notification(
        change.id(kind),
        kind,
        from_epoch_micros(change.at),
        f"{title}: {_label(dataset)}{by_job}: {text}",
        job=job,
        dataset=dataset,
        run_uuid=change.run_uuid,
        schema=change.diff,
        impact=impact,
        readers=readers,
    )


def _describe_schema(diff: SchemaDiff | None) -> str:
    if diff is None:
        return "dropped"
    parts = [f"{verb} {_join(names)}" for verb, names in (("added", diff.added), ("removed", diff.removed)) if names]
    if diff.retyped:
        parts.append(f"retyped {_join(map(str, diff.retyped))}")
    return "; ".join(parts)


def _describe_impact(diff: SchemaDiff | None, impact: Iterable[ColumnImpact], readers: Collection[str]) -> str:
    columns: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for item in chain.from_iterable(column.affected for column in impact):
        dataset = f"{item.dataset.namespace}:{item.dataset.name}"
        columns[dataset].update(dict.fromkeys(node.column for node in item.columns if node.column is not None))
    names = [f"{dataset} ({_join(own)})" if own else dataset for dataset, own in columns.items()]
    parts = [_describe_schema(None if diff is None else SchemaDiff((), diff.removed, diff.retyped))]
    if names:
        parts.append(f"affects {_join(names)}")
    if readers:
        parts.append(f"may affect {_join(reader.removeprefix('job:') for reader in readers)}")
    return "; ".join(parts)


def _join(names: Iterable[str]) -> str:
    """Join names, the first few of them."""
    listed = list(names)
    more = f" and {len(listed) - _MAX_LISTED} more" if len(listed) > _MAX_LISTED else ""
    return ", ".join(listed[:_MAX_LISTED]) + more


def _label(node: Node | None) -> str:
    return "" if node is None else f"{node.namespace}:{node.name}"
