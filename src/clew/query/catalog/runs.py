"""Runs as documents."""

from __future__ import annotations

from collections.abc import Collection

from clew.index.catalog import CatalogReader
from clew.index.rows import RunRow, UsedRow
from clew.query.catalog.model import Parent, Run, RunDataset
from clew.query.catalog.versions import Versions, version_id
from clew.query.moments import moment

_OUTPUT = "OUTPUT"


def runs_of(reader: CatalogReader, versions: Versions, run_uuids: Collection[str]) -> dict[str, Run]:
    """Runs by their ids, each with its facets and what it read and wrote."""
    rows = reader.runs_of(run_uuids)
    used = reader.used_by(rows)
    versions.load({(space, name) for io in used.values() for _, way, space, name, *_ in io if way != _OUTPUT})
    return {run_uuid: _run(reader, versions, row, used.get(run_uuid, ())) for run_uuid, row in rows.items()}


def _run(reader: CatalogReader, versions: Versions, row: RunRow, io: Collection[UsedRow]) -> Run:
    inputs, outputs = _used(reader, versions, row, io)
    return Run(
        row.run_uuid,
        None if row.job_namespace is None or row.job_name is None else (row.job_namespace, row.job_name),
        row.state,
        moment(row.first_event_at),
        moment(row.last_event_at),
        moment(row.nominal_start_at),
        moment(row.nominal_end_at),
        moment(row.started_at),
        moment(row.ended_at),
        Parent(row.parent_run_uuid, row.parent_job_namespace, row.parent_job_name),
        row.job_version,
        tuple(inputs),
        tuple(outputs),
        reader.unpacked(row.body),
    )


def _used(
    reader: CatalogReader, versions: Versions, run: RunRow, io: Collection[UsedRow]
) -> tuple[list[RunDataset], list[RunDataset]]:
    """Inputs and outputs of a run; of one that has not completed, outputs are no versions yet."""
    inputs, outputs = [], []
    is_done = run.state == "COMPLETED"
    versioned = {one[1:4] for one in io if one[4]}
    for one in io:
        _, direction, namespace, name, said, body = one
        if not said and one[1:4] in versioned:
            # Said before its version was known: it is one use with the other.
            continue
        if direction == _OUTPUT:
            written = version_id((namespace, name), said, run.run_uuid) if is_done else None
            outputs.append(RunDataset(namespace, name, written, reader.unpacked(body)))
        else:
            read = versions.read_by(run, (namespace, name), said)
            inputs.append(RunDataset(namespace, name, None if read is None else read.id, reader.unpacked(body)))
    return inputs, outputs
