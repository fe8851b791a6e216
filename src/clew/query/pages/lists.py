"""Lists, activity, search and raw events of the web UI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from deltalake import QueryBuilder
from deltalake.exceptions import TableNotFoundError
from msgspec import Struct, structs

from clew.data_dir import LakeLocation
from clew.errors import UsageError
from clew.events.notebook import NOTEBOOK_NAMESPACE, split_cell_name
from clew.index.backends.base import Row
from clew.index.queries.lists import EntityFilter
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import RunRecord
from clew.index.visibility import NameMask
from clew.lake.history import prefix_condition, quote_literal
from clew.lake.storage import open_storage
from clew.query import search
from clew.query.context import QueryResources
from clew.query.entities.model import CatalogRun
from clew.query.entities.runs import to_run
from clew.query.graph.nodes import NodeKind
from clew.query.model import State, from_epoch_micros
from clew.query.quality import QualityCounts, load_run_assertions


class EntityName(Struct, frozen=True, order=True):
    """Namespace and name of a dataset or job."""

    namespace: str
    name: str

    @property
    def key(self) -> tuple[str, str]:
        """The name as a tuple, for index queries."""
        return self.namespace, self.name


class RunListItem(Struct, frozen=True, rename="camel"):
    """A run in a list."""

    run_uuid: str
    job: EntityName | None
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    session_id: str | None
    is_child: bool
    error: str | None
    tests: QualityCounts | None


class Usage(Struct, frozen=True, rename="camel"):
    """A job that uses a dataset, or a dataset used by a job, with the latest run."""

    node: EntityName
    at: datetime | None
    run_uuid: str | None
    state: State | None
    is_implied: bool


def to_run_item(run: CatalogRun) -> RunListItem:
    """Convert a run with its test results to a list item."""
    return RunListItem(
        run_uuid=run.id,
        job=None if run.job is None else EntityName(*run.job),
        state=run.state,
        started_at=run.start_time,
        ended_at=run.ended_at,
        session_id=run.session_id,
        is_child=run.parent.run_id is not None,
        error=None if run.error is None else run.error[:300],
        tests=QualityCounts.of(run.assertions),
    )


def load_run_items(index: IndexReader, rows: Sequence[RunRecord]) -> tuple[RunListItem, ...]:
    """Convert run records to list items, with the counts of their tests."""
    assertions = load_run_assertions(index, [row.run_uuid for row in rows])
    return tuple(
        [to_run_item(structs.replace(to_run(row), assertions=assertions.get(row.run_uuid, ()))) for row in rows]
    )


def to_usages(rows: Iterable[Row], kind: NodeKind) -> tuple[Usage, ...]:
    """Convert job edges to usages, with the end of kind `kind`; operations of a notebook are one usage."""
    usages: dict[EntityName, Usage] = {}
    for row in rows:
        name = EntityName(row[f"{kind}_namespace"], row[f"{kind}_name"])
        node = display_job(name) if kind == "job" else name
        usages.setdefault(
            node,
            Usage(
                node=node,
                at=from_epoch_micros(row["last_event_at"]),
                run_uuid=row["last_run_uuid"],
                state=row["state"],
                is_implied=bool(row["is_implied"]),
            ),
        )
    return tuple(usages.values())


def display_job(job: EntityName) -> EntityName:
    """Return the job to display: the notebook for `<notebook>/<cell>/<operation>`."""
    parts = split_cell_name(job.name) if job.namespace == NOTEBOOK_NAMESPACE else None
    return job if parts is None else EntityName(job.namespace, parts[0])


_RUNS_PER_JOB = 12
_RECENT_RUNS = 8


class Counts(Struct, frozen=True):
    """Total counts."""

    datasets: int
    jobs: int
    runs: int
    sessions: int


class DatasetListItem(Struct, frozen=True, rename="camel"):
    """A dataset in a list."""

    dataset: EntityName
    at: datetime | None
    is_deleted: bool
    producers: tuple[EntityName, ...]


class JobListItem(Struct, frozen=True, rename="camel"):
    """A job in a list, with its latest runs, newest first."""

    job: EntityName
    kind: str | None
    at: datetime | None
    state: State | None
    runs: tuple[RunListItem, ...]
    run_total: int


class DatasetListView(Struct, frozen=True):
    """A page of datasets."""

    items: tuple[DatasetListItem, ...]
    total: int


class JobListView(Struct, frozen=True):
    """A page of jobs."""

    items: tuple[JobListItem, ...]
    total: int


class RunListView(Struct, frozen=True):
    """A page of runs."""

    items: tuple[RunListItem, ...]
    total: int


class Activity(Struct, frozen=True):
    """Recent activity: the home page when there is no notebook run."""

    counts: Counts
    runs: RunListView
    failed: RunListView
    datasets: DatasetListView


def build_activity(index: IndexReader) -> Activity:
    """Build the activity page."""
    return Activity(
        load_counts(index),
        list_runs(index, "", "", _RECENT_RUNS),
        list_runs(index, "", "FAILED", 4),
        list_datasets(index, "", 8),
    )


def load_counts(index: IndexReader) -> Counts:
    """Count datasets, jobs, runs and sessions as the lists do."""
    row = index.counts()
    return Counts(0, 0, 0, 0) if row is None else Counts(*row)


def _named(text: str) -> EntityFilter:
    """Select entities with a text in their names, without operations of notebooks."""
    return EntityFilter(text=text, with_operations=False)


def list_datasets(index: IndexReader, text: str, limit: int) -> DatasetListView:
    """List the datasets with a text in their names."""
    rows, total = index.entity_page("dataset_states", _named(text), "last position", limit)
    items = []
    for key, state in index.activity_of(rows).items():
        name, at = EntityName(*key), from_epoch_micros(state.last_event_at)
        producers = to_usages(index.jobs_using(key, "OUTPUT"), "job")
        items.append(DatasetListItem(name, at, state.is_deleted, tuple(usage.node for usage in producers[:3])))
    return DatasetListView(tuple(items), total)


def list_jobs(index: IndexReader, text: str, limit: int) -> JobListView:
    """List the jobs with a text in their names."""
    rows, total = index.entity_page("jobs", _named(text), "last event", limit)
    items = []
    for row in rows:
        name = EntityName(row["namespace"], row["name"])
        latest = load_run_items(index, index.runs_of_job(name.key, _RUNS_PER_JOB))
        state = latest[0].state if latest else None
        at, run_total = from_epoch_micros(row["last_event_at"]), index.count_runs(name.key)
        items.append(JobListItem(name, row["job_type"], at, state, latest, run_total))
    return JobListView(tuple(items), total)


def list_runs(index: IndexReader, text: str, state: str, limit: int) -> RunListView:
    """List the runs without a parent run."""
    rows, total = index.run_page(text, state, limit)
    return RunListView(load_run_items(index, rows), total)


SearchResultKind = Literal["dataset", "column", "job", "run", "code", "text_match"]
_MAX_PER_KIND = 8


class SearchResult(Struct, frozen=True, rename="camel"):
    """A search result with what its link needs."""

    kind: SearchResultKind
    name: EntityName
    column: str | None = None
    run_uuid: str | None = None
    session_id: str | None = None
    text: str | None = None
    # For a text match: the kind of the matching entity.
    matched_kind: search.HitKind | None = None


class SearchResults(Struct, frozen=True, rename="camel"):
    """Search results grouped by kind, best matches first; `totals` counts all results per kind.

    `is_complete`: the search index was up to date. Otherwise it is being refreshed, and a later search finds more.
    """

    items: tuple[SearchResult, ...]
    totals: dict[SearchResultKind, int]
    is_complete: bool


def search_all(index: IndexReader, resources: QueryResources, text: str) -> SearchResults:
    """Search names and notebook code for a text, then SQL, descriptions, tags and facets."""
    query = text.strip()
    if not query:
        return SearchResults((), {}, is_complete=True)
    datasets, dataset_total = index.entity_page("dataset_states", _named(query), "last position", 200)
    jobs, job_total = index.entity_page("jobs", _named(query), "last event", 200)
    columns = [
        SearchResult("column", EntityName(row["namespace"], row["name"]), column=row["column_name"])
        for row in index.search_columns(query)
    ]
    runs = [
        SearchResult("run", EntityName(row.job_namespace or "", row.job_name or ""), run_uuid=row.run_uuid)
        for row in index.search_runs(query)
    ]
    code = [
        SearchResult(
            "code",
            display_job(EntityName("marimo", row["notebook"] or "")),
            session_id=row["session_id"],
            text=row["line"],
        )
        for row in index.search_code(query)
    ]
    text_matches = search.search_entities(resources.search_index, index, query, limit=_MAX_PER_KIND)
    kinds = [
        ([SearchResult("dataset", EntityName(row["namespace"], row["name"])) for row in datasets], dataset_total),
        (columns, len(columns)),
        ([SearchResult("job", EntityName(row["namespace"], row["name"])) for row in jobs], job_total),
        (runs, len(runs)),
        (code, len(code)),
    ]
    items = [item for kind, _ in kinds for item in sorted(kind, key=lambda item: _rank(item, query))[:_MAX_PER_KIND]]
    names = {item.name for item in items}
    # Text matches in operations of a notebook are in its code, which is searched above.
    other_hits = [hit for hit in text_matches.hits if display_job(EntityName(hit.namespace, hit.name)).name == hit.name]
    more = [_text_match(hit) for hit in other_hits if EntityName(hit.namespace, hit.name) not in names]
    totals = {kind[0].kind: total for kind, total in kinds if kind}
    return SearchResults((*items, *more), totals, text_matches.is_complete)


def _text_match(hit: search.Hit) -> SearchResult:
    return SearchResult("text_match", EntityName(hit.namespace, hit.name), text=hit.snippet, matched_kind=hit.kind)


def _rank(result: SearchResult, query: str) -> tuple[int, int]:
    """Rank exact names first, then prefixes, then others; short names before long ones."""
    name = (result.column or result.name.name.rsplit("/", 1)[-1]).lower()
    text = query.lower()
    return (0 if name == text else 1 if name.startswith(text) else 2), len(name)


# Longer events are truncated, so that a browser can show them.
MAX_CHARACTERS: Final = 200_000

_NOTEBOOK = """event_type, concat(coalesce(notebook, ''), ' ', coalesce(cell_name, cell_id, '')) as job,
session_id as run, null as detail"""
# The table of each stream, and its columns under common names.
_STREAMS: Final = {
    "lineage": (
        "lineage_events",
        """event_type, concat(coalesce(job_namespace, dataset_namespace, ''), ' ',
        coalesce(job_name, dataset_name, '')) as job, run_uuid as run, producer as detail""",
        "event",
    ),
    "runtime": ("runtime_events", _NOTEBOOK, "event"),
    "dataframe": ("dataframe_events", _NOTEBOOK, "event"),
    "rejected": ("rejected_events", "reason as event_type, source as job, null as run, detail", "body"),
}


class EventListItem(Struct, frozen=True, rename="camel"):
    """An event in a list; `detail` is the producer or, for a rejected event, the error."""

    seq: int
    event_id: str
    received_at: datetime | None
    type: str | None
    job: str | None
    run: str | None
    detail: str | None


class EventList(Struct, frozen=True, rename="camel"):
    """A page of events; pass `next_cursor` as `before` to get the next page."""

    stream: str
    items: tuple[EventListItem, ...]
    total: int
    next_cursor: int | None


class EventText(Struct, frozen=True):
    """The text of an event, possibly truncated, and its full size in characters."""

    text: str
    size: int


class EventFilter(Struct, frozen=True):
    """Filter and page of an event list."""

    stream: str = "lineage"
    text: str = ""
    type: str = ""
    run: str = ""
    before: int | None = None
    limit: int = 50


def query_events(lake: LakeLocation, event_filter: EventFilter, mask: NameMask | None = None) -> EventList:
    """Query the newest events of a stream; with a mask, those of visible namespaces."""
    name, columns, _ = _stream(event_filter.stream)
    source = f"select seq, event_id, received_at, {columns} from events where {_visible(event_filter.stream, mask)}"  # noqa: S608
    where = " and ".join(_conditions(event_filter)) or "true"
    page = "" if event_filter.before is None else f" where seq < {int(event_filter.before)}"
    filtered = f"select * from ({source}) events where {where}"  # noqa: S608
    counts = _rows(lake, name, f"select count(*) as total from ({filtered}) filtered")  # noqa: S608
    limit = int(event_filter.limit) + 1
    rows = _rows(lake, name, f"select * from ({filtered}) filtered{page} order by seq desc limit {limit}")  # noqa: S608
    items = tuple(map(_to_item, rows[: event_filter.limit]))
    next_cursor = items[-1].seq if len(rows) > event_filter.limit else None
    return EventList(event_filter.stream, items, counts[0]["total"] if counts else 0, next_cursor)


def read_event(lake: LakeLocation, stream: str, seq: int, mask: NameMask | None = None) -> EventText:
    """Read an event, truncated to `MAX_CHARACTERS`; with a mask, names of other namespaces are masked."""
    name, _, body = _stream(stream)
    query = f"select {body} as body from events where seq = {int(seq)} and {_visible(stream, mask)}"  # noqa: S608
    rows = _rows(lake, name, query)
    if not rows:
        raise UsageError(f"Event {seq} does not exist in {stream}.", hint="It may have expired.")
    text = rows[0]["body"]
    if mask is not None:
        text = mask.mask_json(text.encode() if isinstance(text, str) else text)
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    return EventText(text[:MAX_CHARACTERS], len(text))


def _visible(stream: str, mask: NameMask | None) -> str:
    """Return the condition on visible events. Events of notebooks and rejected events have no namespace."""
    if mask is None:
        return "true"
    subject = "coalesce(job_namespace, dataset_namespace)"
    return f"({prefix_condition(subject, mask.prefixes)})" if stream == "lineage" else "false"


def _stream(name: str) -> tuple[str, str, str]:
    if name not in _STREAMS:
        raise UsageError(f"Unknown stream {name!r}.", hint=f"Streams: {', '.join(_STREAMS)}.")
    return _STREAMS[name]


def _conditions(event_filter: EventFilter) -> Iterator[str]:
    if event_filter.text:
        text = quote_literal(event_filter.text.lower())
        yield f"strpos(lower(concat(coalesce(job, ''), ' ', coalesce(detail, ''))), {text}) > 0"
    if event_filter.type:
        yield f"event_type = {quote_literal(event_filter.type)}"
    if event_filter.run:
        yield f"run = {quote_literal(event_filter.run)}"


def _rows(lake: LakeLocation, name: str, query: str) -> list[dict[str, Any]]:
    try:
        table = open_storage(lake).open_table(name)
    except TableNotFoundError:
        return []
    batches = QueryBuilder().register("events", table).execute(query).read_all()
    return [dict(row) for row in batches.to_struct_array().to_pylist()]


def _to_item(row: dict[str, Any]) -> EventListItem:
    return EventListItem(
        seq=row["seq"],
        event_id=row["event_id"],
        received_at=row["received_at"],
        type=row["event_type"],
        job=(row["job"] or "").strip() or None,
        run=row["run"],
        detail=row["detail"],
    )
