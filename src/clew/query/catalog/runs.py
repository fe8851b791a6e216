"""Runs as documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from clew.index.catalog import CatalogReader
from clew.index.reader import Row
from clew.query.catalog.model import Name, Parent, Run, RunDataset
from clew.query.catalog.versions import Version, Versions, version_id
from clew.query.moments import moment

_OUTPUT = "OUTPUT"


def runs_of(reader: CatalogReader, versions: Versions, run_uuids: Collection[str]) -> dict[str, Run]:
    """Runs by their ids, each with its facets and what it read and wrote."""
    rows = reader.runs_of(run_uuids)
    used = reader.used_by(rows)
    versions.load({_dataset(one) for io in used.values() for one in io if one["direction"] != _OUTPUT})
    return {run_uuid: _run(reader, versions, row, used.get(run_uuid, ())) for run_uuid, row in rows.items()}


def _run(reader: CatalogReader, versions: Versions, row: Row, io: Iterable[Row]) -> Run:
    inputs, outputs = _used(reader, versions, row, list(io))
    return Run(
        id=row["run_uuid"],
        job=None if row["job_name"] is None else (row["job_namespace"], row["job_name"]),
        state=row["state"],
        created_at=moment(row["first_event_at"]),
        updated_at=moment(row["last_event_at"]),
        nominal_start_at=moment(row["nominal_start_at"]),
        nominal_end_at=moment(row["nominal_end_at"]),
        started_at=moment(row["started_at"]),
        ended_at=moment(row["ended_at"]),
        parent=Parent(row["parent_run_uuid"], row["parent_job_namespace"], row["parent_job_name"]),
        job_version=row["job_version"],
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        facets=reader.unpacked(row["body"]),
    )


def _used(
    reader: CatalogReader, versions: Versions, run: Row, io: list[Row]
) -> tuple[list[RunDataset], list[RunDataset]]:
    """Inputs and outputs of a run; of one that has not completed, outputs are no versions yet."""
    inputs, outputs = [], []
    is_done = run["state"] == "COMPLETED"
    versioned = {(one["direction"], _dataset(one)) for one in io if one["dataset_version"]}
    for one in io:
        dataset, said, direction = _dataset(one), one["dataset_version"], one["direction"]
        if not said and (direction, dataset) in versioned:
            # Said before its version was known: it is one use with the other.
            continue
        facets = reader.unpacked(one["body"])
        if direction == _OUTPUT:
            written = version_id(dataset, said, run["run_uuid"]) if is_done else None
            outputs.append(RunDataset(*dataset, written, facets))
        else:
            inputs.append(RunDataset(*dataset, _id(versions.read_by(run, dataset, said)), facets))
    return inputs, outputs


def _id(version: Version | None) -> str | None:
    return None if version is None else version.id


def _dataset(io: Row) -> Name:
    return io["dataset_namespace"], io["dataset_name"]
