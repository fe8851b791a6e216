"""Load datasets and dataset versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from operator import attrgetter

import msgspec
from msgspec import Raw, Struct

from clew.events.facets import cached_by_bytes, decode_facet, get_str
from clew.index.queries.catalog import EntityQueries
from clew.index.queries.entities import AssertionRecord, DatasetRecord, EdgeRecord
from clew.query.entities.annotations import Annotations, EntityTags
from clew.query.entities.model import (
    CatalogDataset,
    ColumnSources,
    ColumnTransformation,
    DatasetVersion,
    Facets,
    Name,
    SchemaField,
    SourceColumn,
    VersionCache,
    VersionRecord,
)
from clew.query.entities.runs import load_runs
from clew.query.model import from_epoch_micros

DEFAULT_SOURCE = "default"
_MAX_CACHED = 4096


class _Field(Struct):
    name: str
    type: str | None = None
    description: str | None = None


class _Schema(Struct):
    fields: list[_Field] | None = None


_decode_schema = msgspec.json.Decoder(_Schema).decode


class ColumnSourceCache:
    """Cache of the sources of dataset columns.

    Edge sets are content-addressed, so their contents stay valid; which sets apply to a dataset is cached until the
    index changes.
    """

    def __init__(self, reader: EntityQueries) -> None:
        self._reader = reader
        self._columns: dict[tuple[str, ...], tuple[ColumnSources, ...]] = {}
        self._edge_sets: dict[Name, tuple[str, ...]] = {}

    def clear(self) -> None:
        """Forget which edge sets apply, after an index change."""
        self._edge_sets.clear()

    def get(self, names: dict[Name, tuple[Name, ...]]) -> dict[Name, tuple[ColumnSources, ...]]:
        """Return the column sources of datasets, given with all their names, by the latest assertion of each job."""
        edge_sets_by_name = self._load_edge_sets(names)
        if len(self._columns) > _MAX_CACHED:
            self._columns.clear()
        missing = {edge_sets for edge_sets in edge_sets_by_name.values() if edge_sets not in self._columns}
        if missing:
            edges = self._reader.edges_by_set({edge_set for edge_sets in missing for edge_set in edge_sets})
            for edge_sets in missing:
                self._columns[edge_sets] = _columns(row for edge_set in edge_sets for row in edges.get(edge_set, ()))
        return {name: self._columns[edge_sets] for name, edge_sets in edge_sets_by_name.items()}

    def _load_edge_sets(self, names: dict[Name, tuple[Name, ...]]) -> dict[Name, tuple[str, ...]]:
        """Return the edge sets that apply to datasets, without datasets that have none."""
        if len(self._edge_sets) > _MAX_CACHED:
            self._edge_sets.clear()
        missing = {name: aliases for name, aliases in names.items() if name not in self._edge_sets}
        if missing:
            owners = {alias: name for name, aliases in missing.items() for alias in aliases}
            edge_sets = _latest_assertions(self._reader.assertions_on(list(owners)), owners)
            self._edge_sets |= {name: edge_sets.get(name, ()) for name in missing}
        return {name: sets for name in names if (sets := self._edge_sets[name])}


def load_datasets(
    reader: EntityQueries,
    versions: VersionCache,
    annotations: Annotations,
    column_sources: ColumnSourceCache | None,
    names: dict[Name, tuple[Name, ...]],
) -> list[CatalogDataset]:
    """Load datasets, given with all their names, in the given order; unknown ones are left out."""
    all_names = [alias for aliases in names.values() for alias in aliases]
    rows, facets = reader.datasets_of(all_names), reader.dataset_facets_of(all_names)
    columns = {} if column_sources is None else column_sources.get(names)
    versions.load(names)
    datasets = []
    for name, aliases in names.items():
        own_rows = [rows[alias] for alias in aliases if alias in rows]
        if own_rows:
            own_facets = facets.get(name) or next((facets[alias] for alias in aliases if alias in facets), {})
            tags = annotations.tags_on("dataset", name, own_facets)
            current = versions.current(name)
            datasets.append(_dataset(name, aliases, own_rows, own_facets, tags, columns.get(name, ()), current))
    return datasets


def load_dataset_versions(
    reader: EntityQueries,
    versions: VersionCache,
    annotations: Annotations,
    name: Name,
    aliases: tuple[Name, ...],
    records: Collection[VersionRecord],
) -> list[DatasetVersion]:
    """Load versions of a dataset."""
    runs = load_runs(reader, versions, [record.run_uuid for record in records if record.run_uuid is not None])
    current = versions.current(name)
    facets = reader.dataset_facets_of(aliases)
    facets_by_version = {
        record.producer_version: _facets(reader, name, record.producer_version)
        for record in records
        if record.producer_version
    }
    current_facets = facets.get(name) or next(iter(facets.values()), {})
    schemas = reader.schemas_of({record.schema_id for record in records if record.schema_id is not None})
    dataset_versions = []
    for record in records:
        record_facets = facets_by_version.get(record.producer_version) or current_facets
        fields = None if record.schema_id is None else schemas.get(record.schema_id)
        if fields is not None and not (current is not None and current.id == record.id):
            # The current facets may be of a later version, but each version has its own schema.
            record_facets = {**record_facets, "schema": Raw(b'{"fields":' + fields.encode() + b"}")}
        tags = annotations.tags_on("dataset", name, record_facets)
        dataset_versions.append(
            DatasetVersion(
                *name,
                physical_name=aliases[0][1],
                created_at=record.created_at,
                version=record.id,
                schema_version=record.schema_id,
                source=source_name(record_facets),
                fields=_fields(record_facets, tags),
                tags=tags.on_entity,
                lifecycle_state=record.lifecycle_state,
                description=_description(record_facets),
                created_by=None if record.run_uuid is None else runs.get(record.run_uuid),
                facets=record_facets,
            )
        )
    return dataset_versions


def source_name(facets: Facets) -> str:
    """Return the name of the data source of a dataset."""
    facet = facets.get("dataSource")
    return DEFAULT_SOURCE if facet is None else _source_name(bytes(facet)) or DEFAULT_SOURCE


@cached_by_bytes
def _source_name(facet: bytes) -> str | None:
    return get_str(decode_facet(facet), "name")


def _facets(reader: EntityQueries, name: Name, version: str) -> Facets:
    return {facet: Raw(body) for facet, body in reader.facets("dataset", *name, version).items()}


def _dataset(
    name: Name,
    aliases: tuple[Name, ...],
    rows: list[DatasetRecord],
    facets: Facets,
    tags: EntityTags,
    columns: tuple[ColumnSources, ...],
    current: VersionRecord | None,
) -> CatalogDataset:
    last = rows[0] if len(rows) == 1 else max(rows, key=attrgetter("last_seq"))
    return CatalogDataset(
        *name,
        aliases[0][1],
        from_epoch_micros(min([row.first_event_at for row in rows])),
        from_epoch_micros(max([row.last_event_at for row in rows])),
        None if current is None else current.created_at,
        source_name(facets),
        _fields(facets, tags),
        tags.on_entity,
        last.lifecycle_state,
        _description(facets),
        None if current is None else current.id,
        columns,
        facets,
        bool(last.is_deleted),
    )


def _fields(facets: Facets, tags: EntityTags) -> tuple[SchemaField, ...]:
    facet = facets.get("schema")
    fields = () if facet is None else _decode_fields(bytes(facet))
    if not tags.on_fields:
        return fields
    return tuple(
        SchemaField(field.name, field.type, tags.on_fields.get(field.name, ()), field.description) for field in fields
    )


@lru_cache(_MAX_CACHED)
def _decode_fields(facet: bytes) -> tuple[SchemaField, ...]:
    try:
        fields = _decode_schema(facet).fields or []
    except (msgspec.DecodeError, RecursionError):
        return ()
    return tuple(SchemaField(field.name, field.type, (), field.description) for field in fields)


def _description(facets: Facets) -> str | None:
    facet = facets.get("documentation")
    return None if facet is None else get_str(decode_facet(bytes(facet)), "description")


def _latest_assertions(rows: Iterable[AssertionRecord], owners: dict[Name, Name]) -> dict[Name, tuple[str, ...]]:
    """Return the edge sets that apply to each dataset: those of the latest run of each job. Rows are newest first."""
    latest_runs: dict[tuple[Name, str | None, str | None], str] = {}
    edge_sets: dict[Name, dict[str, None]] = {}
    for namespace, name, run, job_namespace, job_name, edge_set in rows:
        dataset = owners[namespace, name]
        if latest_runs.setdefault((dataset, job_namespace, job_name), run) == run:
            edge_sets.setdefault(dataset, {})[edge_set] = None
    return {name: tuple(sets) for name, sets in edge_sets.items()}


def _columns(rows: Iterable[EdgeRecord]) -> tuple[ColumnSources, ...]:
    columns: dict[str, dict[tuple[str, str, str], dict[ColumnTransformation, None]]] = {}
    for _, column, namespace, name, source, kind, subtype, description, masking in rows:
        transformation = ColumnTransformation(kind, subtype, description, None if masking is None else bool(masking))
        columns.setdefault(column, {}).setdefault((namespace, name, source), {})[transformation] = None
    return tuple(
        [
            ColumnSources(
                column,
                tuple([SourceColumn(*source, tuple(transformations)) for source, transformations in sources.items()]),
            )
            for column, sources in columns.items()
        ]
    )
