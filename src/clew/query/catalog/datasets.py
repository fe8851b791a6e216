"""Datasets and their versions as documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from operator import attrgetter

import msgspec
from msgspec import Raw, Struct

from clew.events.facet_values import remembered, text_in, value_of
from clew.index.catalog import CatalogReader
from clew.index.rows import DatasetRow, EdgeRow, StatementRow
from clew.query.catalog.model import (
    ColumnSources,
    Dataset,
    DatasetVersion,
    Facets,
    Name,
    SchemaField,
    SourceColumn,
    Transformation,
)
from clew.query.catalog.notes import Notes, Tags
from clew.query.catalog.runs import runs_of
from clew.query.catalog.versions import Version, Versions
from clew.query.moments import moment

DEFAULT_SOURCE = "default"
_MOST_REMEMBERED = 4096


class _Field(Struct):
    name: str
    type: str | None = None
    description: str | None = None


class _Schema(Struct):
    fields: list[_Field] | None = None


_decode_schema = msgspec.json.Decoder(_Schema).decode


class Lineage:
    """Where the columns of datasets come from. A set of edges is named by its content: read once, it stays.

    Which sets count for a dataset is remembered until the index changes.
    """

    def __init__(self, reader: CatalogReader) -> None:
        self._reader = reader
        self._columns: dict[tuple[str, ...], tuple[ColumnSources, ...]] = {}
        self._said: dict[Name, tuple[str, ...]] = {}

    def forget(self) -> None:
        """The index has changed."""
        self._said.clear()

    def of(self, names: dict[Name, tuple[Name, ...]]) -> dict[Name, tuple[ColumnSources, ...]]:
        """The sources of each column of datasets, given with all their names: by the last word of each job."""
        said = self._sets(names)
        if len(self._columns) > _MOST_REMEMBERED:
            self._columns.clear()
        missing = {edge_sets for edge_sets in said.values() if edge_sets not in self._columns}
        if missing:
            found = self._reader.edges_in({one for edge_sets in missing for one in edge_sets})
            for edge_sets in missing:
                self._columns[edge_sets] = _columns(row for one in edge_sets for row in found.get(one, ()))
        return {name: self._columns[edge_sets] for name, edge_sets in said.items()}

    def _sets(self, names: dict[Name, tuple[Name, ...]]) -> dict[Name, tuple[str, ...]]:
        """The sets of edges that count for datasets, without those of which nothing was said."""
        if len(self._said) > _MOST_REMEMBERED:
            self._said.clear()
        missing = {name: all_names for name, all_names in names.items() if name not in self._said}
        if missing:
            owners = {one: name for name, all_names in missing.items() for one in all_names}
            found = _last_words(self._reader.statements_on(list(owners)), owners)
            self._said |= {name: found.get(name, ()) for name in missing}
        return {name: sets for name in names if (sets := self._said[name])}


def datasets_of(
    reader: CatalogReader,
    versions: Versions,
    notes: Notes,
    lineage: Lineage | None,
    names: dict[Name, tuple[Name, ...]],
) -> list[Dataset]:
    """Datasets in the order given, each with all its names, without those that are not known."""
    every = [one for all_names in names.values() for one in all_names]
    rows, facets = reader.datasets_of(every), reader.dataset_facets_of(every)
    columns = {} if lineage is None else lineage.of(names)
    versions.load(names)
    made = []
    for name, all_names in names.items():
        own = [rows[one] for one in all_names if one in rows]
        if own:
            said = facets.get(name) or next((facets[one] for one in all_names if one in facets), {})
            tags = notes.tags_on("dataset", name, said)
            made.append(_dataset(name, all_names, own, said, tags, columns.get(name, ()), versions.current(name)))
    return made


def dataset_versions(
    reader: CatalogReader,
    versions: Versions,
    notes: Notes,
    name: Name,
    all_names: tuple[Name, ...],
    chosen: Collection[Version],
) -> list[DatasetVersion]:
    """Versions of a dataset as documents."""
    runs = runs_of(reader, versions, [one.run_uuid for one in chosen if one.run_uuid is not None])
    current = versions.current(name)
    facets = reader.dataset_facets_of(all_names)
    told = {one.said: _facets(reader, name, one.said) for one in chosen if one.said}
    standing = facets.get(name) or next(iter(facets.values()), {})
    schemas = reader.schemas_of({one.schema_id for one in chosen if one.schema_id is not None})
    made = []
    for one in chosen:
        found = told.get(one.said) or standing
        fields = None if one.schema_id is None else schemas.get(one.schema_id)
        if fields is not None and not (current is not None and current.id == one.id):
            # The facets that stand may be of a later version; the schema is known for each.
            found = {**found, "schema": Raw(b'{"fields":' + fields.encode() + b"}")}
        tags = notes.tags_on("dataset", name, found)
        made.append(
            DatasetVersion(
                *name,
                physical_name=all_names[0][1],
                created_at=one.created_at,
                version=one.id,
                schema_version=one.schema_id,
                source=source_of(found),
                fields=_fields(found, tags),
                tags=tags.whole,
                lifecycle_state=one.lifecycle_state,
                description=_description(found),
                created_by=None if one.run_uuid is None else runs.get(one.run_uuid),
                facets=found,
            )
        )
    return made


def source_of(facets: Facets) -> str:
    """The name of the source that a dataset is kept in."""
    facet = facets.get("dataSource")
    return DEFAULT_SOURCE if facet is None else _source_name(bytes(facet)) or DEFAULT_SOURCE


@remembered
def _source_name(facet: bytes) -> str | None:
    return text_in(value_of(facet), "name")


def _facets(reader: CatalogReader, name: Name, said: str) -> Facets:
    return {facet: Raw(body) for facet, body in reader.facets("dataset", *name, said).items()}


def _dataset(
    name: Name,
    all_names: tuple[Name, ...],
    rows: list[DatasetRow],
    facets: Facets,
    tags: Tags,
    columns: tuple[ColumnSources, ...],
    current: Version | None,
) -> Dataset:
    last = rows[0] if len(rows) == 1 else max(rows, key=attrgetter("last_seq"))
    return Dataset(
        *name,
        all_names[0][1],
        moment(min([row.first_event_at for row in rows])),
        moment(max([row.last_event_at for row in rows])),
        None if current is None else current.created_at,
        source_of(facets),
        _fields(facets, tags),
        tags.whole,
        last.lifecycle_state,
        _description(facets),
        None if current is None else current.id,
        columns,
        facets,
        bool(last.is_deleted),
    )


def _fields(facets: Facets, tags: Tags) -> tuple[SchemaField, ...]:
    facet = facets.get("schema")
    stated = () if facet is None else _stated_fields(bytes(facet))
    if not tags.fields:
        return stated
    return tuple(
        SchemaField(field.name, field.type, tags.fields.get(field.name, ()), field.description) for field in stated
    )


@lru_cache(_MOST_REMEMBERED)
def _stated_fields(facet: bytes) -> tuple[SchemaField, ...]:
    try:
        fields = _decode_schema(facet).fields or []
    except (msgspec.DecodeError, RecursionError):
        return ()
    return tuple(SchemaField(field.name, field.type, (), field.description) for field in fields)


def _description(facets: Facets) -> str | None:
    facet = facets.get("documentation")
    return None if facet is None else text_in(value_of(bytes(facet)), "description")


def _last_words(rows: Iterable[StatementRow], owners: dict[Name, Name]) -> dict[Name, tuple[str, ...]]:
    """The sets of edges that count for each dataset; rows come the last first, and of each job its last run counts."""
    authors: dict[tuple[Name, str | None, str | None], str] = {}
    found: dict[Name, dict[str, None]] = {}
    for namespace, name, author, job_namespace, job_name, edge_set in rows:
        owner = owners[namespace, name]
        if authors.setdefault((owner, job_namespace, job_name), author) == author:
            found.setdefault(owner, {})[edge_set] = None
    return {name: tuple(sets) for name, sets in found.items()}


def _columns(rows: Iterable[EdgeRow]) -> tuple[ColumnSources, ...]:
    found: dict[str, dict[tuple[str, str, str], dict[Transformation, None]]] = {}
    for _, column, namespace, name, source, kind, subtype, description, masking in rows:
        how = Transformation(kind, subtype, description, None if masking is None else bool(masking))
        found.setdefault(column, {}).setdefault((namespace, name, source), {})[how] = None
    return tuple(
        [
            ColumnSources(column, tuple([SourceColumn(*source, tuple(how)) for source, how in sources.items()]))
            for column, sources in found.items()
        ]
    )
