"""A small world of jobs and tables, told as events and indexed."""

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


class World:
    """Jobs of namespace `jobs` and tables of namespace `db`, unless a name says otherwise: `file:a.csv`.

    A column's sources are written `table.column` or `table.column!FILTER`; an influence is INDIRECT.
    """

    def __init__(self, folder: Path, index: IndexLocation | None = None) -> None:
        self.index = index or folder / "index.sqlite"
        self.events: list[dict[str, Any]] = []
        self._told = 0
        self._batches = 0

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
        """An event of a run, a minute after the one before; gives the run's id."""
        identity = self.run_id(run or f"{job} {len(self.events)}")
        about = dict(run_facets or {})
        if parent is not None:
            about["parent"] = {"run": {"runId": self.run_id(parent)}, "job": named("jobs", parent)}
        self.events.append(
            {
                "eventTime": self._time(minute),
                "eventType": kind,
                "run": {"runId": identity, "facets": about},
                "job": {**named("jobs", job), "facets": facets or {}},
                "inputs": [self._dataset(name, dataset_facets, {}) for name in inputs.split()],
                "outputs": [self._output(name, dataset_facets, columns or {}, rows) for name in outputs.split()],
            }
        )
        return identity

    def dataset(self, name: str, *, minute: int | None = None, **facets: Any) -> None:
        """An event of a dataset alone."""
        self.events.append({"eventTime": self._time(minute), "dataset": {**named("db", name), "facets": facets}})

    def symlink(self, name: str, other: str) -> None:
        """Another name of a dataset."""
        self.dataset(name, symlinks={"identifiers": [{**named("db", other), "type": "TABLE"}]})

    def rename(self, old: str, new: str) -> None:
        """A dataset that is called otherwise from now on."""
        change = {"lifecycleStateChange": "RENAME", "previousIdentifier": named("db", old)}
        self.dataset(new, lifecycleStateChange=change)

    def tell(self) -> IndexLocation:
        """Index what was not indexed yet, as one batch."""
        observer = ChangeExtractor()
        for seq, event in enumerate(self.events[self._told :], start=self._told):
            observer.add(decode_event("openlineage", json.dumps(event).encode()), f"{seq:032x}", seq)
        with IndexWriter(self.index) as sink:
            sink.apply(f"world/{self._batches}", observer.changes())
        self._told, self._batches = len(self.events), self._batches + 1
        return self.index

    @staticmethod
    def run_id(name: str) -> str:
        """The id of a run by its name."""
        return str(uuid5(NAMESPACE_OID, name))

    def _time(self, minute: int | None) -> str:
        return (START + timedelta(minutes=len(self.events) if minute is None else minute)).isoformat()

    def _dataset(self, name: str, facets: dict[str, dict[str, Any]] | None, more: dict[str, Any]) -> dict[str, Any]:
        return {**named("db", name), "facets": {**(facets or {}).get(name, {}), **more}}

    def _output(
        self,
        name: str,
        facets: dict[str, dict[str, Any]] | None,
        columns: dict[str, dict[str, str]],
        rows: int | None,
    ) -> dict[str, Any]:
        stated = columns.get(name)
        more = {} if stated is None else {"columnLineage": lineage_of(stated)}
        statistics = {} if rows is None else {"outputFacets": {"outputStatistics": {"rowCount": rows}}}
        return {**self._dataset(name, facets, more), **statistics}


def named(namespace: str, name: str) -> dict[str, str]:
    before, mark, own = name.partition(":")
    return {"namespace": before, "name": own} if mark else {"namespace": namespace, "name": name}


def lineage_of(columns: dict[str, str]) -> dict[str, Any]:
    fields = {
        column: {"inputFields": [*map(field_of, sources.split())]} for column, sources in columns.items() if column
    }
    return {"fields": fields, "dataset": [*map(field_of, columns.get("", "").split())]}


def field_of(source: str) -> dict[str, Any]:
    text, _, influence = source.partition("!")
    table, _, column = text.rpartition(".")
    how = {"type": "INDIRECT", "subtype": influence} if influence else {"type": "DIRECT", "subtype": "IDENTITY"}
    return {**named("db", table), "field": column, "transformations": [how]}
