"""Files read and written by DuckDB relations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.capture.datasets import dataset_at
from clew.capture.flags import IDENTITY
from clew.capture.foreign import version_of_frame
from clew.capture.provenance import union
from clew.capture.records import ExplicitEdges, OperationRecord
from clew.capture.written import external_version, record_written

if TYPE_CHECKING:
    from clew.capture.versions import FrameVersion

READ_FUNCTIONS = ("read_csv", "read_parquet", "read_json", "from_csv_auto", "from_parquet")
WRITE_METHODS = ("write_csv", "to_csv", "write_parquet", "to_parquet")


def read_record(name: str, source: Any, output: FrameVersion) -> OperationRecord | None:
    """Return the record of duckdb.read_csv(source), for one or several files; None if they have no names."""
    paths = source if isinstance(source, (list, tuple)) else [source]
    files = [external_version(dataset) for path in paths if (dataset := dataset_at(path)) is not None]
    if not files:
        return None
    fields = {label: union(*[{(file, label): IDENTITY} for file in files]) for label in output.columns}
    return OperationRecord(name, "io", output, ExplicitEdges(fields), read_from=files[0])


def write_record(name: str, relation: Any, target: Any) -> OperationRecord | None:
    """Return the record of relation.write_parquet(target), or None if the target has no name."""
    dataset, source = dataset_at(target), version_of_frame(relation)
    if dataset is None:
        return None
    written = external_version(dataset)
    written.columns = list(source.columns)
    record_written(written)
    edges = ExplicitEdges({label: source.field(label) for label in written.columns})
    return OperationRecord(name, "io", written, edges, {}, (source,), written_types=source.types())
