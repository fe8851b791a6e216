"""Runs as documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from clew.index.catalog import CatalogReader
from clew.index.keys import entity
from clew.index.reader import Row
from clew.query.catalog.model import Facets, Name, Parent, Run, RunDataset
from clew.query.catalog.versions import Version, Versions, version_id
from clew.query.moments import moment

_OUTPUT = "OUTPUT"


def runs_of(reader: CatalogReader, versions: Versions, run_uuids: Collection[str]) -> dict[str, Run]:
    """Runs by their ids, each with its facets and what it read and wrote."""
    rows = reader.runs_of(run_uuids)
    io = reader.io_of(rows)
    facets = reader.facets_of("run", list(rows))
    listed = [one for used in io.values() for one in used]
    versions.load({_dataset(one) for one in listed if one["direction"] != _OUTPUT})
    of_io = {
        direction: reader.facets_of(
            direction.lower(), [_entity(one) for one in listed if one["direction"] == direction]
        )
        for direction in ("INPUT", _OUTPUT)
    }
    return {
        run_uuid: _run(row, _used(row, io.get(run_uuid, ()), of_io, versions), facets.get(run_uuid, {}))
        for run_uuid, row in rows.items()
    }


def _run(row: Row, used: tuple[list[RunDataset], list[RunDataset]], facets: Facets) -> Run:
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
        inputs=tuple(used[0]),
        outputs=tuple(used[1]),
        facets=facets,
    )


def _used(
    run: Row, io: Iterable[Row], facets: dict[str, dict[str, Facets]], versions: Versions
) -> tuple[list[RunDataset], list[RunDataset]]:
    """Inputs and outputs of a run; of one that has not completed, outputs are no versions yet."""
    inputs, outputs = [], []
    is_done = run["state"] == "COMPLETED"
    rows = list(io)
    versioned = {(one["direction"], _dataset(one)) for one in rows if one["dataset_version"]}
    for one in rows:
        dataset, said = _dataset(one), one["dataset_version"]
        if not said and (one["direction"], dataset) in versioned:
            # Said before its version was known: it is one use with the other.
            continue
        of_run = facets[one["direction"]].get(_entity(one), {})
        if one["direction"] == _OUTPUT:
            written = version_id(dataset, said, run["run_uuid"]) if is_done else None
            outputs.append(RunDataset(*dataset, written, of_run))
        else:
            inputs.append(RunDataset(*dataset, _id(versions.read_by(run, dataset, said)), of_run))
    return inputs, outputs


def _id(version: Version | None) -> str | None:
    return None if version is None else version.id


def _dataset(io: Row) -> Name:
    return io["dataset_namespace"], io["dataset_name"]


def _entity(io: Row) -> str:
    return entity(io["dataset_namespace"], io["dataset_name"], io["dataset_version"], io["run_uuid"])
