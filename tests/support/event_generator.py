"""Generator of events of jobs and tables, and their index."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from clew.data_dir import IndexLocation
from clew.events.streams import decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter

START = datetime(2026, 1, 1, 10, tzinfo=UTC)


class Scenario:
    """Jobs of namespace `jobs` and tables of namespace `db`, unless a name has a namespace: `file:a.csv`.

    A column's sources are written `table.column` or `table.column!FILTER`; a subtype after `!` makes it INDIRECT.
    """

    def __init__(self, folder: Path, index: IndexLocation | None = None) -> None:
        self.index = index or folder / "index.sqlite"
        self.events: list[dict[str, Any]] = []
        self._indexed_count = 0
        self._batch_count = 0

    def run(  # noqa: PLR0913
        self,
        job: str,
        inputs: str = "",
        outputs: str = "",
        *,
        minute: int | None = None,
        columns: dict[str, dict[str, str]] | None = None,
        kind: str = "COMPLETE",
        run: str | None = None,
        parent: str | None = None,
        facets: dict[str, Any] | None = None,
        run_facets: dict[str, Any] | None = None,
        dataset_facets: dict[str, dict[str, Any]] | None = None,
        rows: int | None = None,
    ) -> str:
        """Add an event of a run, one minute after the previous event, and return the run id."""
        run_id = self.run_id(run or f"{job} {len(self.events)}")
        all_run_facets = dict(run_facets or {})
        if parent is not None:
            all_run_facets["parent"] = {"run": {"runId": self.run_id(parent)}, "job": identifier("jobs", parent)}
        self.events.append(
            {
                "eventTime": self._time(minute),
                "eventType": kind,
                "run": {"runId": run_id, "facets": all_run_facets},
                "job": {**identifier("jobs", job), "facets": facets or {}},
                "inputs": [self._dataset(name, dataset_facets, {}) for name in inputs.split()],
                "outputs": [self._output(name, dataset_facets, columns or {}, rows) for name in outputs.split()],
            }
        )
        return run_id

    def dataset(self, name: str, *, minute: int | None = None, **facets: Any) -> None:
        """Add a DatasetEvent."""
        self.events.append({"eventTime": self._time(minute), "dataset": {**identifier("db", name), "facets": facets}})

    def symlink(self, name: str, other: str) -> None:
        """Add a symlink facet: `other` becomes an alias of `name`."""
        self.dataset(name, symlinks={"identifiers": [{**identifier("db", other), "type": "TABLE"}]})

    def rename(self, old: str, new: str) -> None:
        """Add a lifecycle event that renames a dataset."""
        change = {"lifecycleStateChange": "RENAME", "previousIdentifier": identifier("db", old)}
        self.dataset(new, lifecycleStateChange=change)

    def index_events(self) -> IndexLocation:
        """Index the events that are not indexed yet, as one batch."""
        extractor = ChangeExtractor()
        for seq, event in enumerate(self.events[self._indexed_count :], start=self._indexed_count):
            extractor.add(decode_event("openlineage", json.dumps(event).encode()), f"{seq:032x}", seq)
        with IndexWriter(self.index) as index_writer:
            index_writer.apply(f"scenario/{self._batch_count}", extractor.changes())
        self._indexed_count, self._batch_count = len(self.events), self._batch_count + 1
        return self.index

    @staticmethod
    def run_id(name: str) -> str:
        """Return the id of a run by its name."""
        return str(uuid5(NAMESPACE_OID, name))

    def _time(self, minute: int | None) -> str:
        return (START + timedelta(minutes=len(self.events) if minute is None else minute)).isoformat()

    def _dataset(
        self, name: str, facets: dict[str, dict[str, Any]] | None, extra_facets: dict[str, Any]
    ) -> dict[str, Any]:
        return {**identifier("db", name), "facets": {**(facets or {}).get(name, {}), **extra_facets}}

    def _output(
        self,
        name: str,
        facets: dict[str, dict[str, Any]] | None,
        columns: dict[str, dict[str, str]],
        rows: int | None,
    ) -> dict[str, Any]:
        own_columns = columns.get(name)
        extra_facets = {} if own_columns is None else {"columnLineage": column_lineage(own_columns)}
        statistics = {} if rows is None else {"outputFacets": {"outputStatistics": {"rowCount": rows}}}
        return {**self._dataset(name, facets, extra_facets), **statistics}


def identifier(namespace: str, name: str) -> dict[str, str]:
    prefix, separator, suffix = name.partition(":")
    return {"namespace": prefix, "name": suffix} if separator else {"namespace": namespace, "name": name}


def column_lineage(columns: dict[str, str]) -> dict[str, Any]:
    fields = {
        column: {"inputFields": [*map(input_field, sources.split())]} for column, sources in columns.items() if column
    }
    return {"fields": fields, "dataset": [*map(input_field, columns.get("", "").split())]}


def input_field(source: str) -> dict[str, Any]:
    text, _, indirect_subtype = source.partition("!")
    table, _, column = text.rpartition(".")
    transformation = (
        {"type": "INDIRECT", "subtype": indirect_subtype}
        if indirect_subtype
        else {"type": "DIRECT", "subtype": "IDENTITY"}
    )
    return {**identifier("db", table), "field": column, "transformations": [transformation]}
