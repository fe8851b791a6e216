"""Resolve names, node ids and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final, Literal

from msgspec import Struct

from clew.errors import ClewError, MalformedError, UsageError
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import RunRecord
from clew.query.graph.nodes import Column, Node, NodeKind
from clew.query.model import DatasetName, Field, parse_fields


def schema_fields(index: IndexReader, dataset: DatasetName, version: str | None) -> tuple[Field, ...]:
    """Return the fields of a version's schema facet; none if it is missing or malformed."""
    facet = index.dataset_facet(dataset.namespace, dataset.name, version, "schema")
    return () if facet is None else parse_fields(facet)


def column_names(index: IndexReader, dataset: DatasetName) -> list[str]:
    """Return all column names of a dataset: those of its latest schema first, then those in lineage."""
    versions = dict.fromkeys((index.last_version(dataset.namespace, dataset.name), None))
    in_schema = [field.name for version in versions for field in schema_fields(index, dataset, version)]
    return list(dict.fromkeys([*in_schema, *index.columns(dataset.namespace, dataset.name)]))


RUN_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MAX_LISTED = 5
_MAX_SUGGESTIONS = 1000
# Longer names are truncated in messages.
_MAX_NAME_CHARS = 200
# Comparing a name with a million others would take half a minute.
_MAX_COMPARED = 5_000
_DATASETS = "select namespace, name from datasets"
_NEWEST_FIRST = "order by last_seq desc, namespace, name"
_EMPTY_HINT = "Nothing was recorded yet: run `clew demo`."
_NO_SCHEMA_HINT = "No column of it is recorded: its events have no schema."
COLUMN_FORM = "A column is written as DATASET.COLUMN, such as orders.csv.price."


class UnknownNameError(UsageError):
    """No entity has that name."""

    @classmethod
    def of(
        cls, kind: str, text: str, existing: Iterable[str], extra_hint: str = "", *, empty_hint: str = _EMPTY_HINT
    ) -> UnknownNameError:
        """Build the error with similar names as hint, or `empty_hint` if there is no name; `extra_hint` is appended."""
        text = text[:_MAX_NAME_CHARS]
        existing = list(islice(existing, _MAX_COMPARED))
        close = get_close_matches(text, existing, n=_MAX_LISTED, cutoff=0.5)
        if close:
            hint = f"Did you mean {_join_names(close)}?"
        elif existing:
            hint = f"Available: {_join_names(existing)}."
        else:
            hint = empty_hint
        return cls(f"There is no {kind} {text!r}.", hint=f"{hint} {extra_hint}".rstrip())

    @classmethod
    def of_entity(cls, index: IndexReader, kind: str, name: str) -> UnknownNameError:
        """Build the error for a job or dataset."""
        existing = [other for _, other in index.recent_names(kind, _MAX_SUGGESTIONS)]
        return cls.of(kind, name, existing, empty_hint=_empty_hint(index, kind))


def _empty_hint(index: IndexReader, kind: str) -> str:
    """Return the hint if there is no entity of a kind, but there may be others."""
    is_empty = not index.recent_names("job", 1) and not index.recent_names("dataset", 1)
    return _EMPTY_HINT if is_empty else f"No {kind} was recorded yet."


class EmptyIndexError(ClewError):
    """The index has no data yet."""

    @classmethod
    def no_notebook_runs(cls) -> EmptyIndexError:
        """Build the error for an index without notebook runs."""
        hint = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`."
        return cls("No notebook run was recorded yet.", hint=hint)


class AmbiguousNameError(UnknownNameError):
    """Several entities match the name."""

    @classmethod
    def among(cls, kind: str, text: str, candidates: list[str]) -> AmbiguousNameError:
        """Build the error with the candidates."""
        message = f"{text[:_MAX_NAME_CHARS]!r} matches {len(candidates)} {kind}s: {_join_names(candidates)}."
        return cls(message, hint="Give more of the name.")


class UnknownColumnError(UnknownNameError):
    """The dataset exists, but it has no such column."""


def resolve_dataset(index: IndexReader, text: str) -> DatasetName:
    """Find a dataset by full name or unique suffix (`orders.csv` for `/data/orders.csv`)."""
    matches = match_datasets(index, text)
    if not matches:
        existing = [DatasetName(*name) for name in index.recent_names("dataset")]
        raise UnknownNameError.of("dataset", text, _short_names(existing), empty_hint=_empty_hint(index, "dataset"))
    if len(matches) > 1:
        raise AmbiguousNameError.among("dataset", text, [full_name(dataset) for dataset in matches])
    return matches[0]


def match_datasets(index: IndexReader, text: str) -> list[DatasetName]:
    """Return all datasets that match a full name or a suffix."""
    rows = index.query(f"{_DATASETS} where name = ?1 or namespace || ':' || name = ?1 {_NEWEST_FIRST}", text)
    if not rows:
        ends_with = "substr(name, length(name) - length(?1) + 1) = ?1"
        rows = index.query(f"{_DATASETS} where {ends_with} {_NEWEST_FIRST}", f"/{text}")
    return [DatasetName(row["namespace"], row["name"]) for row in rows] or _match_symlinks(index, text)


def _match_symlinks(index: IndexReader, text: str) -> list[DatasetName]:
    """Return the datasets that match by a symlink name."""
    rows = index.symlinks()
    matches = {row for row in rows if text in {row["name"], full_name(DatasetName(row["namespace"], row["name"]))}}
    matches = matches or {row for row in rows if row["name"].endswith(f"/{text}")}
    return sorted({DatasetName(row["canonical_namespace"], row["canonical_name"]) for row in matches})


def find_column(index: IndexReader, text: str) -> tuple[DatasetName, str]:
    """Find the column of `dataset.column` or `dataset:column`; both names may contain dots."""
    errors: list[UnknownNameError] = []
    for dataset_name, column in _possible_splits(text):
        try:
            dataset = resolve_dataset(index, dataset_name)
            _require_column(index, dataset, dataset_name, column)
        except UnknownNameError as error:
            errors.append(error)
        else:
            return dataset, column
    raise _best_error(index, text, errors)


def _require_column(index: IndexReader, dataset: DatasetName, dataset_name: str, column: str) -> None:
    columns = column_names(index, dataset)
    if column not in columns:
        raise UnknownColumnError.of(f"column of {dataset_name}", column, columns, empty_hint=_NO_SCHEMA_HINT)


def _best_error(index: IndexReader, text: str, errors: list[UnknownNameError]) -> UsageError:
    """Choose the most helpful error among those of all possible splits."""
    for kind in (AmbiguousNameError, UnknownColumnError):
        for error in errors:
            if isinstance(error, kind):
                return error
    try:
        columns = column_names(index, resolve_dataset(index, text))
    except UnknownNameError:
        return errors[0] if errors else UsageError(f"{text[:_MAX_NAME_CHARS]!r} is not a column.", hint=COLUMN_FORM)
    return UsageError(
        f"{text!r} is a dataset: append one of its columns.", hint=f"Its columns: {_join_names(columns)}."
    )


def qualified_name(namespace: str | None, name: str | None) -> str:
    """Return `namespace:name`; an empty part is left out."""
    return ":".join(part for part in (namespace, name) if part)


def full_name(dataset: DatasetName) -> str:
    """Return `namespace:name` of a dataset."""
    return qualified_name(dataset.namespace, dataset.name)


def short_name(dataset: DatasetName) -> str:
    """Return the last path component: the file name or the notebook variable."""
    return last_segment(dataset.name)


def last_segment(name: str) -> str:
    """Return the last component of a path."""
    return name.rstrip("/").rsplit("/", 1)[-1]


def _short_names(datasets: list[DatasetName]) -> list[str]:
    return list(dict.fromkeys(short_name(dataset) for dataset in datasets))


def _possible_splits(text: str) -> list[tuple[str, str]]:
    positions = [position for position, character in enumerate(text) if character in ".:"]
    return [
        (text[:position], text[position + 1 :])
        for position in reversed(positions)
        if text[:position] and text[position + 1 :]
    ]


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{more}"


DATASET: Final = "dataset"
JOB: Final = "job"
FIELD: Final = "datasetField"
RUN: Final = "run"
_FORMS = "dataset:NAMESPACE:NAME, job:NAMESPACE:NAME, datasetField:NAMESPACE:DATASET:FIELD or run:UUID"
# In a namespace such as postgres://host:5432 these colons are not separators.
_INNER_COLON = re.compile(r":(?=//|\d)")
_MAX_NAMES = 2_000
_MAX_SPLITS = 64


class MalformedNodeIdError(MalformedError):
    """The text is not a node id."""

    @classmethod
    def of(cls, text: str) -> MalformedNodeIdError:
        """Build the error with the valid forms."""
        return cls(f"{text[:200]!r} is not a node id.", hint=f"Valid forms: {_FORMS}.")


def node_kind(text: str) -> str:
    """Return the kind prefix of a node id."""
    kind, separator, rest = text.partition(":")
    if kind not in {DATASET, JOB, FIELD, RUN} or not separator or not rest:
        raise MalformedNodeIdError.of(text)
    return kind


def resolve_node_id(index: IndexReader, text: str) -> Node:
    """Find the job or dataset with a node id."""
    kind = node_kind(text)
    if kind not in {DATASET, JOB}:
        raise MalformedNodeIdError.of(text)
    pairs = list(_namespace_name_pairs(_without_version(text).partition(":")[2]))
    if not pairs:
        raise MalformedNodeIdError.of(text)
    exists = index.has_job if kind == JOB else index.has_dataset
    for namespace, name in pairs:
        if exists(namespace, name):
            return Node(kind, namespace, name)  # type: ignore[arg-type]
    existing = index.recent_names(kind, _MAX_NAMES)
    raise UnknownNameError.of(
        kind, text.partition(":")[2], [qualified_name(namespace, name) for namespace, name in existing]
    )


def resolve_field_id(index: IndexReader, text: str) -> Column:
    """Find the column with a node id; a `dataset:` id is the whole dataset."""
    kind = node_kind(text)
    if kind == DATASET:
        node = resolve_node_id(index, text)
        return Column(node.namespace, node.name)
    if kind != FIELD:
        raise MalformedNodeIdError.of(text)
    rest = _without_version(text).partition(":")[2]
    match: Node | None = None
    for position in _split_positions(rest):
        for namespace, name in _namespace_name_pairs(rest[:position]):
            if rest[position + 1 :] and index.has_dataset(namespace, name):
                match = match or Node("dataset", namespace, name)
                if rest[position + 1 :] in column_names(index, DatasetName(namespace, name)):
                    return Column(namespace, name, rest[position + 1 :])
    if match is None:
        existing = [qualified_name(namespace, name) for namespace, name in index.recent_names(DATASET, _MAX_NAMES)]
        raise UnknownNameError.of("dataset with such a field", rest, existing)
    field = rest.removeprefix(f"{match.namespace}:{match.name}:")
    existing = column_names(index, DatasetName(match.namespace, match.name))
    raise UnknownNameError.of(f"column of {match.name}", field, existing, empty_hint=_NO_SCHEMA_HINT)


def _without_version(text: str) -> str:
    """Strip a version suffix (`#` and a UUID) from a node id."""
    return re.sub(rf"#{RUN_ID.pattern}$", "", text)


def _namespace_name_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the possible splits into namespace and name, most likely first."""
    for position in _split_positions(text):
        if text[:position] and text[position + 1 :]:
            yield text[:position], text[position + 1 :]


def _split_positions(text: str) -> list[int]:
    inner = {match.start() for match in _INNER_COLON.finditer(text)}
    positions = [position for position, character in enumerate(text) if character == ":"][:_MAX_SPLITS]
    return sorted(positions, key=lambda position: (position in inner, position))


NameKind = Literal["dataset", "column", "job", "run"]
_ID = re.compile(rf"(?:{DATASET}|{FIELD}|{JOB}|{RUN}):.")


class ResolvedName(Struct, frozen=True):
    """A dataset, a column of a dataset, a job, or a run, which has its id as name."""

    kind: NameKind
    namespace: str
    name: str
    column: str | None = None

    @property
    def id(self) -> str:
        """Node id."""
        if self.kind == "run":
            return f"{RUN}:{self.name}"
        return self.node.id if self.column is None else self.target.id

    @property
    def node(self) -> Node:
        """The job or dataset; of a column, its dataset."""
        if self.kind == "run":
            raise MalformedNodeIdError.of(self.id)
        return Node("job" if self.kind == "job" else "dataset", self.namespace, self.name)

    @property
    def target(self) -> Column:
        """The column or dataset."""
        if self.kind in (JOB, RUN):
            raise _no_columns_error(self.kind)
        return Column(self.namespace, self.name, self.column)


def resolve_name(index: IndexReader, text: str) -> ResolvedName:
    """Resolve a name: ids and sessions first, then datasets, jobs and columns."""
    if text.startswith(f"{RUN}:"):
        return ResolvedName("run", "", resolve_run(index, text))
    if _ID.match(text):
        return resolve_id(index, text)
    if RUN_ID.fullmatch(text) and index.run(text) is not None:
        return ResolvedName("run", "", text)
    session = index.session_run(text)
    if session is not None:
        return ResolvedName("run", "", session["run_uuid"])
    return _resolve_by_name(index, text)


def require_run(index: IndexReader, run_uuid: str) -> RunRecord:
    """Return a run; raise if it does not exist."""
    run = index.run(run_uuid)
    if run is None:
        raise UnknownNameError(
            f"There is no run {run_uuid!r}.", hint="Pass the runId of its events; `clew runs` lists recent runs."
        )
    return run


def resolve_run(index: IndexReader, text: str) -> str:
    """Resolve a run id or a notebook session id to a run id."""
    run = text.removeprefix(f"{RUN}:")
    if index.run(run) is not None:
        return run
    session = index.session_run(run)
    if session is None:
        session_ids = [row["session_id"] for row in index.sessions(1000)]
        if not session_ids:
            raise UnknownNameError(f"There is no run {text!r}.", hint="`clew runs` lists the runs.")
        raise UnknownNameError.of("run or session", text, session_ids)
    return str(session["run_uuid"])


def resolve_column(index: IndexReader, text: str) -> tuple[DatasetName, str]:
    """Resolve a column by id or by DATASET.COLUMN."""
    if _ID.match(text):
        column = resolve_field_id(index, text)
        if column.column is not None:
            return DatasetName(column.namespace, column.dataset), column.column
    return find_column(index, text)


def resolve_id(index: IndexReader, text: str, column: str | None = None) -> ResolvedName:
    """Resolve a node id; with a column, that of a dataset. A run is not looked up."""
    kind = node_kind(text)
    if column is not None:
        if kind in (JOB, RUN):
            raise _no_columns_error(kind)
        node = resolve_node_id(index, text)
        _require_column(index, DatasetName(node.namespace, node.name), node.name, column)
        return ResolvedName("column", node.namespace, node.name, column)
    if kind == RUN:
        return ResolvedName("run", "", text.partition(":")[2])
    if kind == FIELD:
        field = resolve_field_id(index, text)
        return ResolvedName("column", field.namespace, field.dataset, field.column)
    node = resolve_node_id(index, text)
    return ResolvedName(node.kind, node.namespace, node.name)


def _no_columns_error(kind: str) -> MalformedError:
    return MalformedError(f"A {kind} has no columns.", hint="Pass a dataset or one of its columns.")


def _resolve_by_name(index: IndexReader, text: str) -> ResolvedName:
    candidates: dict[NodeKind, Sequence[DatasetName | Node]] = {
        "dataset": match_datasets(index, text),
        "job": _match_jobs(index, text),
    }
    for kind, matches in candidates.items():
        if len(matches) > 1:
            raise AmbiguousNameError.among(
                kind, text, [qualified_name(match.namespace, match.name) for match in matches]
            )
        if matches:
            return ResolvedName(kind, matches[0].namespace, matches[0].name)
    if "." not in text and ":" not in text:
        raise UnknownNameError.of("dataset, job or run", text, _existing_names(index), COLUMN_FORM)
    try:
        owner, column = find_column(index, text)
    except UnknownNameError as error:
        if isinstance(error, AmbiguousNameError | UnknownColumnError):
            raise
        raise UnknownNameError.of("dataset, column, job or run", text, _existing_names(index)) from error
    return ResolvedName("column", owner.namespace, owner.name, column)


def _existing_names(index: IndexReader) -> list[str]:
    sessions = [row["session_id"] for row in index.sessions(_MAX_SUGGESTIONS)]
    names = [*index.recent_names(DATASET, _MAX_SUGGESTIONS), *index.recent_names(JOB, _MAX_SUGGESTIONS)]
    return list(dict.fromkeys([*sessions, *(last_segment(name) for _, name in names)]))


def _match_jobs(index: IndexReader, text: str) -> list[Node]:
    rows = index.query(
        "select namespace, name from jobs where name = ?1 or namespace || ':' || name = ?1 limit 100", text
    ) or index.query(
        """select namespace, name from jobs where job_type = 'NOTEBOOK'
        and substr(name, length(name) - length(?1) + 1) = ?1 order by last_seq desc limit 100""",
        f"/{text.removesuffix('.py').removesuffix('.ipynb')}",
    )
    return [Node("job", row["namespace"], row["name"]) for row in rows]
