"""What a dataset held when a run read or wrote it: its schema, and how many rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clew.events.dataset_facets import ROW_COUNT_FACETS, row_count_of, says_row_count, schema_of
from clew.events.openlineage import Dataset, Facets
from clew.index.changes import RunIoRow, SchemaRow
from clew.index.observing.sighting import Sighting
from clew.index.observing.turns import Turns

_COUNTING = frozenset(ROW_COUNT_FACETS)
# Run, direction, namespace, name and version.
RunIoKey = tuple[str, str, str, str, str]


class SeenSchemas:
    """Each schema once."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def note(self, facets: Facets) -> str | None:
        """Take a dataset's schema; gives its name, None if it has none that can be read."""
        facet = facets.get("schema")
        schema = None if facet is None else schema_of(bytes(facet))
        if schema is None:
            return None
        self._fields[schema.schema_id] = schema.fields
        return schema.schema_id

    def rows(self) -> Iterator[SchemaRow]:
        """All schemas seen."""
        return (SchemaRow(*schema) for schema in self._fields.items())


class SeenContents:
    """The last schema and row count that was said of each input and output; they are read when all has been seen."""

    def __init__(self, schemas: SeenSchemas, turns: Turns) -> None:
        self._schemas = schemas
        self._turns = turns
        self._schema_facets: dict[RunIoKey, Facets] = {}

    def note(self, key: RunIoKey, row: RunIoRow, dataset: Dataset, sighting: Sighting) -> None:
        """Take what an event says of the content of a run's input or output."""
        facets = dataset.facets
        if facets:
            if "schema" in facets:
                self._note_schema(key, row, facets, sighting)
            if not _COUNTING.isdisjoint(facets):
                self._note_row_count(row, facets, sighting)
        # After those of the dataset, as in the event: the run's own count goes before the dataset's.
        if dataset.input_facets:
            self._note_row_count(row, dataset.input_facets, sighting)
        if dataset.output_facets:
            self._note_row_count(row, dataset.output_facets, sighting)

    def _note_schema(self, key: RunIoKey, row: RunIoRow, facets: Facets, sighting: Sighting) -> None:
        if not self._turns.is_last(sighting, row.schema_seq):
            self._schemas.note(facets)
            return
        row.schema_seq = sighting.seq
        earlier = self._schema_facets.get(key)
        # A comparison costs less than a name, and most events of a run say the same.
        if earlier is not None and earlier["schema"] != facets["schema"]:
            self._schemas.note(earlier)
        self._schema_facets[key] = facets

    def _note_row_count(self, row: RunIoRow, facets: Facets, sighting: Sighting) -> None:
        for name, facet in facets.items():
            if (
                name in _COUNTING
                and says_row_count(body := bytes(facet))
                and self._turns.is_last(sighting, row.row_count_seq)
            ):
                row.row_count, row.row_count_seq = row_count_of(body), sighting.seq

    def settle(self, rows: Mapping[RunIoKey, RunIoRow]) -> None:
        """Give inputs and outputs the schemas that they had last."""
        for key, facets in self._schema_facets.items():
            rows[key].schema_id = self._schemas.note(facets)
