"""Schema and row count of the inputs and outputs of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clew.events.dataset_facets import ROW_COUNT_FACETS, has_row_count, parse_row_count, parse_schema
from clew.events.openlineage import Dataset, Facets
from clew.index.changes import RunIoRow, SchemaRow
from clew.index.observing.sighting import EventContext
from clew.index.observing.turns import EventPrecedence

_ROW_COUNT_FACETS = frozenset(ROW_COUNT_FACETS)
# Run, direction, namespace, name and version.
RunIoKey = tuple[str, str, str, str, str]


class SchemaCollector:
    """Collect distinct schemas."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def add(self, facets: Facets) -> str | None:
        """Add the schema of a dataset and return its id; None if it has no valid schema."""
        facet = facets.get("schema")
        schema = None if facet is None else parse_schema(bytes(facet))
        if schema is None:
            return None
        self._fields[schema.schema_id] = schema.fields
        return schema.schema_id

    def rows(self) -> Iterator[SchemaRow]:
        """Return the rows of all schemas."""
        return (SchemaRow(*schema) for schema in self._fields.items())


class IoStatsCollector:
    """Collect the last schema and row count of each input and output; schemas are parsed at the end."""

    def __init__(self, schemas: SchemaCollector, precedence: EventPrecedence) -> None:
        self._schemas = schemas
        self._precedence = precedence
        self._schema_facets: dict[RunIoKey, Facets] = {}

    def add(self, key: RunIoKey, row: RunIoRow, dataset: Dataset, context: EventContext) -> None:
        """Add the schema and row count that an event reports for an input or output."""
        facets = dataset.facets
        if facets:
            if "schema" in facets:
                self._add_schema(key, row, facets, context)
            if not _ROW_COUNT_FACETS.isdisjoint(facets):
                self._add_row_count(row, facets, context)
        # After the dataset facets: the row count of the run takes precedence.
        if dataset.input_facets:
            self._add_row_count(row, dataset.input_facets, context)
        if dataset.output_facets:
            self._add_row_count(row, dataset.output_facets, context)

    def _add_schema(self, key: RunIoKey, row: RunIoRow, facets: Facets, context: EventContext) -> None:
        if not self._precedence.supersedes(context, row.schema_seq):
            self._schemas.add(facets)
            return
        row.schema_seq = context.seq
        earlier = self._schema_facets.get(key)
        # Comparing is cheaper than hashing, and most events of a run repeat the schema.
        if earlier is not None and earlier["schema"] != facets["schema"]:
            self._schemas.add(earlier)
        self._schema_facets[key] = facets

    def _add_row_count(self, row: RunIoRow, facets: Facets, context: EventContext) -> None:
        for name, facet in facets.items():
            if (
                name in _ROW_COUNT_FACETS
                and has_row_count(body := bytes(facet))
                and self._precedence.supersedes(context, row.row_count_seq)
            ):
                row.row_count, row.row_count_seq = parse_row_count(body), context.seq

    def assign_schema_ids(self, rows: Mapping[RunIoKey, RunIoRow]) -> None:
        """Set the schema ids of all inputs and outputs."""
        for key, facets in self._schema_facets.items():
            rows[key].schema_id = self._schemas.add(facets)
