"""Load runs."""

from __future__ import annotations

from collections.abc import Collection

from clew.index.catalog import EntityQueries
from clew.index.rows import RunIoRecord, RunRecord
from clew.query.catalog.model import CatalogRun, ParentRun, RunDataset
from clew.query.catalog.versions import VersionCache, make_version_id
from clew.query.moments import from_epoch_micros

_OUTPUT = "OUTPUT"


def load_runs(reader: EntityQueries, versions: VersionCache, run_uuids: Collection[str]) -> dict[str, CatalogRun]:
    """Load runs by id, with facets, inputs and outputs."""
    rows = reader.runs_of(run_uuids)
    io_by_run = reader.io_with_facets(rows)
    inputs = (record for io in io_by_run.values() for record in io if record[1] != _OUTPUT)
    versions.load({(namespace, name) for _, _, namespace, name, *_ in inputs})
    return {run_uuid: _run(reader, versions, row, io_by_run.get(run_uuid, ())) for run_uuid, row in rows.items()}


def _run(reader: EntityQueries, versions: VersionCache, row: RunRecord, io: Collection[RunIoRecord]) -> CatalogRun:
    inputs, outputs = _split_run_io(reader, versions, row, io)
    return CatalogRun(
        row.run_uuid,
        None if row.job_namespace is None or row.job_name is None else (row.job_namespace, row.job_name),
        row.state,
        from_epoch_micros(row.first_event_at),
        from_epoch_micros(row.last_event_at),
        from_epoch_micros(row.nominal_start_at),
        from_epoch_micros(row.nominal_end_at),
        from_epoch_micros(row.started_at),
        from_epoch_micros(row.ended_at),
        ParentRun(row.parent_run_uuid, row.parent_job_namespace, row.parent_job_name),
        row.job_version,
        tuple(inputs),
        tuple(outputs),
        reader.decode_facets(row.body),
    )


def _split_run_io(
    reader: EntityQueries, versions: VersionCache, run: RunRecord, io: Collection[RunIoRecord]
) -> tuple[list[RunDataset], list[RunDataset]]:
    """Return the inputs and outputs of a run; outputs have a version only if it completed."""
    inputs, outputs = [], []
    is_completed = run.state == "COMPLETED"
    versioned = {record[1:4] for record in io if record[4]}
    for record in io:
        _, direction, namespace, name, version, body = record
        if not version and record[1:4] in versioned:
            # Reported before the version was known; the versioned record replaces it.
            continue
        if direction == _OUTPUT:
            written = make_version_id((namespace, name), version, run.run_uuid) if is_completed else None
            outputs.append(RunDataset(namespace, name, written, reader.decode_facets(body)))
        else:
            read = versions.version_read_by(run, (namespace, name), version)
            inputs.append(RunDataset(namespace, name, None if read is None else read.id, reader.decode_facets(body)))
    return inputs, outputs
