"""Load datasets and dataset versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from clew.events.facets import FacetOrder, Tag, cached_by_bytes, decode_facet, get_str
from clew.index.encoding import DELETED, StoredFacet, dataset_key, merge_facets
from clew.index.queries.entities import Facets, Name
from clew.index.queries.lineage import latest_assertions
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import AssertedEdge, DatasetRecord
from clew.query.entities.annotations import NO_ANNOTATIONS, Annotations, read_annotations
from clew.query.entities.model import (
    CatalogDataset,
    ColumnSources,
    DatasetVersion,
    SchemaField,
    SourceColumn,
    VersionCache,
    VersionRecord,
)
from clew.query.entities.runs import MAX_NEIGHBOURS, load_runs
from clew.query.model import DatasetName, Transformation, decode_fields, from_epoch_micros
from clew.query.names import UnknownNameError
from clew.query.quality import load_dataset_assertions

DEFAULT_SOURCE = "default"
_MAX_CACHED = 4096
# Of a version whose dataset has no schema facet any more.
_SCHEMA_PRODUCER: Final = "https://github.com/clew-lineage/clew"
_SCHEMA_FACET_URL: Final = "https://openlineage.io/spec/facets/1-1-1/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet"


class ColumnSourceCache:
    """Cache of the sources of dataset columns.

    Edge sets are content-addressed, so their contents stay valid; which sets apply to a dataset is cached until the
    index changes.
    """

    def __init__(self, reader: IndexReader) -> None:
        self._reader = reader
        self._columns: dict[tuple[str, ...], tuple[ColumnSources, ...]] = {}
        # By the canonical name.
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
            edges: defaultdict[str, list[AssertedEdge]] = defaultdict(list)
            for edge in self._reader.asserted_edges({edge_set for edge_sets in missing for edge_set in edge_sets}):
                edges[edge.edge_set_id].append(edge)
            for edge_sets in missing:
                self._columns[edge_sets] = _columns(edge for edge_set in edge_sets for edge in edges[edge_set])
        return {name: self._columns[edge_sets] for name, edge_sets in edge_sets_by_name.items()}

    def _load_edge_sets(self, names: dict[Name, tuple[Name, ...]]) -> dict[Name, tuple[str, ...]]:
        """Return the edge sets that apply to datasets, without datasets that have none."""
        if len(self._edge_sets) > _MAX_CACHED:
            self._edge_sets.clear()
        missing = {aliases[0]: aliases for aliases in names.values() if aliases[0] not in self._edge_sets}
        if missing:
            owners = {alias: name for name, aliases in missing.items() for alias in aliases}
            assertions = latest_assertions(self._reader, list(owners))
            edge_sets: dict[Name, dict[str, None]] = {name: {} for name in missing}
            for assertion in sorted(assertions, key=lambda assertion: assertion.position, reverse=True):
                owner = owners[assertion.dataset_namespace, assertion.dataset_name]
                edge_sets[owner] |= {assertion.edge_set_id: None} if assertion.edge_set_id else {}
            self._edge_sets |= {name: tuple(ids) for name, ids in edge_sets.items()}
        return {name: sets for name, aliases in names.items() if (sets := self._edge_sets[aliases[0]])}


def describe_dataset(reader: IndexReader, name: Name) -> CatalogDataset:
    """Load a dataset by any of its names, with the jobs that read and write it; raise if it does not exist."""
    names = reader.aliases_of(name)
    if len(names) > 1 and not reader.datasets_of([name]):
        # A name that occurs only in symlinks.
        name = names[0]
    datasets = load_datasets(reader, {name: names}, annotations=read_annotations(reader))
    if not datasets:
        raise UnknownNameError.of_entity(reader, "dataset", name[1])
    written_by, read_by = (
        tuple(
            sorted(
                {
                    (row["job_namespace"], row["job_name"])
                    for alias in names
                    for row in reader.jobs_using(alias, direction, MAX_NEIGHBOURS, by_name=True)
                }
            )
        )[:MAX_NEIGHBOURS]
        for direction in ("OUTPUT", "INPUT")
    )
    assertions, _ = load_dataset_assertions(reader, names)
    return msgspec.structs.replace(datasets[0], written_by=written_by, read_by=read_by, assertions=assertions)


def load_datasets(
    reader: IndexReader,
    names: dict[Name, tuple[Name, ...]],
    versions: VersionCache | None = None,
    annotations: Annotations | None = None,
    column_sources: ColumnSourceCache | None = None,
) -> list[CatalogDataset]:
    """Load datasets, given with all their names, in the given order; unknown ones are left out."""
    # Several of the datasets may be names of one dataset, of which there may be thousands.
    aliases_by_canonical = {aliases[0]: aliases for aliases in names.values()}
    all_names = list(dict.fromkeys(alias for aliases in aliases_by_canonical.values() for alias in aliases))
    rows, facets = reader.datasets_of(all_names), reader.dataset_facets_of(all_names)
    io_facets = reader.io_facets_of(all_names)
    shared_by_canonical = {
        canonical: _combine_aliases(aliases, rows, facets, io_facets)
        for canonical, aliases in aliases_by_canonical.items()
    }
    columns = {} if column_sources is None else column_sources.get(names)
    if versions is not None:
        versions.load(names)
    datasets = []
    for name, aliases in names.items():
        shared = shared_by_canonical[aliases[0]]
        if shared is not None:
            version_facets = facets.get(name, shared.facets)
            current = None if versions is None else versions.current(name)
            dataset = _dataset(name, aliases, shared, version_facets, annotations, columns.get(name, ()), current)
            if shared.input_facets or shared.output_facets:
                dataset = msgspec.structs.replace(
                    dataset,
                    input_facets=_last_io_facets(reader, dataset, shared.input_facets),
                    output_facets=_last_io_facets(reader, dataset, shared.output_facets),
                )
            datasets.append(dataset)
    return datasets


class _SharedState(NamedTuple):
    """State that all names of a dataset share: its last record, its times and its facets."""

    last: DatasetRecord
    first_event_at: int
    last_event_at: int
    # Of the first name that has any.
    facets: tuple[str | None, Facets]
    input_facets: list[StoredFacet]
    output_facets: list[StoredFacet]


def _combine_aliases(
    aliases: tuple[Name, ...],
    rows: Mapping[Name, DatasetRecord],
    facets: Mapping[Name, tuple[str | None, Facets]],
    io_facets: Mapping[tuple[str, str, str], Sequence[StoredFacet]],
) -> _SharedState | None:
    """Combine the records of the names of a dataset; None if it is unknown."""
    own_rows = [rows[alias] for alias in aliases if alias in rows]
    if not own_rows:
        return None
    read, written = (
        merge_facets(
            (),
            sorted(
                (facet for alias in aliases for facet in io_facets.get((kind, *alias), ())),
                key=attrgetter("event_time"),
            ),
            FacetOrder.EVENT_TIME,
        )
        for kind in ("input", "output")
    )
    return _SharedState(
        max(own_rows, key=attrgetter("last_seq")),
        min(row.first_event_at for row in own_rows),
        max(row.last_event_at for row in own_rows),
        _first_facets(facets, aliases),
        read,
        written,
    )


def _last_io_facets(reader: IndexReader, dataset: CatalogDataset, used: list[StoredFacet]) -> Facets:
    """Return the input or output facets, without those that the dataset has in a later or the same event."""
    if any(facet.name in dataset.facets for facet in used):
        own = [
            facet
            for version in {None, dataset.facet_version}
            for facet in reader.stored_facets("dataset", dataset.namespace, dataset.name, version)
        ]
        times = {facet.name: facet.event_time for facet in sorted(own, key=attrgetter("event_time"))}
        used = [facet for facet in used if facet.name not in times or facet.event_time > times[facet.name]]
    return {facet.name: Raw(facet.body) for facet in used if facet.body != DELETED}


def _first_facets(facets: Mapping[Name, tuple[str | None, Facets]], names: Iterable[Name]) -> tuple[str | None, Facets]:
    """Return the version and facets of the first name that has any."""
    return next((facets[name] for name in names if name in facets), (None, {}))


def load_dataset_versions(
    reader: IndexReader,
    versions: VersionCache,
    annotations: Annotations,
    name: Name,
    aliases: tuple[Name, ...],
    records: Collection[VersionRecord],
) -> list[DatasetVersion]:
    """Load versions of a dataset."""
    runs = load_runs(reader, [record.run_uuid for record in records if record.run_uuid is not None], versions)
    current = versions.current(name)
    _, current_facets = _first_facets(reader.dataset_facets_of(aliases), (name, *aliases))
    keys = [("dataset", dataset_key(*name, record.producer_version)) for record in records]
    facets = reader.facets_of({key for key, record in zip(keys, records, strict=True) if record.producer_version})
    schemas = reader.schemas_of({record.schema_id for record in records if record.schema_id is not None})
    dataset_versions = []
    for record, key in zip(records, keys, strict=True):
        is_current = current is not None and current.id == record.id
        record_facets = current_facets if is_current else facets.get(key) or current_facets
        fields = None if record.schema_id is None else schemas.get(record.schema_id)
        if fields is not None and not is_current:
            # The current facets may be of a later version, but each version has its own schema.
            record_facets = {**record_facets, "schema": _schema_facet(fields, record_facets.get("schema"))}
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
                tags=tags,
                lifecycle_state=record.lifecycle_state,
                description=_description(record_facets),
                created_by=None if record.run_uuid is None else runs.get(record.run_uuid),
                facets=record_facets,
            )
        )
    return dataset_versions


def _schema_facet(fields: str, current: Raw | None) -> Raw:
    """Return the schema facet of a version, with the producer and the schema URL of the current one."""
    facet = {"_producer": _SCHEMA_PRODUCER, "_schemaURL": _SCHEMA_FACET_URL}
    if current is not None:
        known = decode_facet(bytes(current))
        facet |= {name: text for name in facet if (text := get_str(known, name)) is not None}
    return Raw(msgspec.json.encode({**facet, "fields": Raw(fields.encode())}))


def source_name(facets: Facets) -> str:
    """Return the name of the data source of a dataset."""
    facet = facets.get("dataSource")
    return DEFAULT_SOURCE if facet is None else _source_name(bytes(facet)) or DEFAULT_SOURCE


@cached_by_bytes
def _source_name(facet: bytes) -> str | None:
    return get_str(decode_facet(facet), "name")


def _dataset(
    name: Name,
    aliases: tuple[Name, ...],
    shared: _SharedState,
    version_facets: tuple[str | None, Facets],
    annotations: Annotations | None,
    columns: tuple[ColumnSources, ...],
    current: VersionRecord | None,
) -> CatalogDataset:
    last = shared.last
    version, facets = version_facets
    tags = (annotations or NO_ANNOTATIONS).tags_on("dataset", name, facets)
    return CatalogDataset(
        *name,
        aliases,
        from_epoch_micros(shared.first_event_at),
        from_epoch_micros(shared.last_event_at),
        from_epoch_micros(last.written_at),
        last.lifecycle_state,
        bool(last.is_deleted),
        _dataset_name(last.renamed_from_namespace, last.renamed_from_name),
        _dataset_name(last.to_namespace, last.to_name),
        source_name(facets),
        _fields(facets, tags),
        tags,
        _description(facets),
        facets,
        version,
        current,
        columns,
    )


def _dataset_name(namespace: str | None, name: str | None) -> DatasetName | None:
    return None if namespace is None or name is None else DatasetName(namespace, name)


def _fields(facets: Facets, tags: tuple[Tag, ...]) -> tuple[SchemaField, ...]:
    facet = facets.get("schema")
    fields = () if facet is None else _parse_schema(bytes(facet))
    if not tags or all(tag.field is None for tag in tags):
        return fields
    tags_by_field: defaultdict[str | None, set[str]] = defaultdict(set)
    for tag in tags:
        tags_by_field[tag.field].add(tag.key)
    return tuple(
        SchemaField(field.name, field.type, tuple(sorted(tags_by_field[field.name])), field.description)
        for field in fields
    )


@lru_cache(_MAX_CACHED)
def _parse_schema(facet: bytes) -> tuple[SchemaField, ...]:
    return tuple(SchemaField(field.name, field.type, (), field.description) for field in decode_fields(facet))


def load_schemas(reader: IndexReader, schema_ids: Iterable[str | None]) -> dict[str | None, tuple[SchemaField, ...]]:
    """Load the fields of stored schemas by id; none if a schema is malformed."""
    schemas = reader.schemas_of({schema_id for schema_id in schema_ids if schema_id is not None})
    return {schema_id: _parse_schema(b'{"fields":' + fields.encode() + b"}") for schema_id, fields in schemas.items()}


def _description(facets: Facets) -> str | None:
    facet = facets.get("documentation")
    return None if facet is None else get_str(decode_facet(bytes(facet)), "description")


def _columns(edges: Iterable[AssertedEdge]) -> tuple[ColumnSources, ...]:
    columns: dict[str | None, dict[tuple[str, str, str | None], dict[Transformation, None]]] = {}
    for _, column, namespace, name, source, kind, subtype, description, masking in edges:
        is_masking = None if masking is None else bool(masking)
        # The type as sent, which need not be an OpenLineage type.
        transformation = Transformation(kind, subtype, description, is_masking)  # type: ignore[arg-type]
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
