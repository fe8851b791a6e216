"""Files that DuckDB's relations are read from and written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.capture.datasets import located_at
from clew.capture.flags import IDENTITY
from clew.capture.foreign import version_of_frame
from clew.capture.provenance import union
from clew.capture.records import Listed, Record
from clew.capture.written import outside, remember_written

if TYPE_CHECKING:
    from clew.capture.versions import FrameVersion

READS = ("read_csv", "read_parquet", "read_json", "from_csv_auto", "from_parquet")
WRITES = ("write_csv", "to_csv", "write_parquet", "to_parquet")


def read_record(name: str, source: Any, output: FrameVersion) -> Record | None:
    """The record of duckdb.read_csv(source): a relation over one file or several; None if they have no names."""
    given = source if isinstance(source, (list, tuple)) else [source]
    files = [outside(dataset) for one in given if (dataset := located_at(one)) is not None]
    if not files:
        return None
    fields = {label: union(*[{(file, label): IDENTITY} for file in files]) for label in output.columns}
    return Record(name, "io", output, Listed(fields), read_from=files[0])


def write_record(name: str, relation: Any, target: Any) -> Record | None:
    """The record of relation.write_parquet(target)."""
    dataset, source = located_at(target), version_of_frame(relation)
    if dataset is None:
        return None
    written = outside(dataset)
    written.columns = list(source.columns)
    remember_written(written)
    edges = Listed({label: source.field(label) for label in written.columns})
    return Record(name, "io", written, edges, {}, (source,), written_types=source.types())
