"""Rules for reading and writing files and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.io.json._json import JsonReader
from pandas.io.parsers.readers import TextFileReader

from clew.capture.datasets import ExternalDataset, dataset_at, table_dataset, tables_in_query
from clew.capture.flags import IDENTITY, INFERRED
from clew.capture.frames.calls import Call, record_created, record_output
from clew.capture.frames.hooks import patch_method
from clew.capture.frames.state import as_labels, current_version, index_names
from clew.capture.provenance import Provenance, union
from clew.capture.records import ExplicitEdges, OperationRecord
from clew.capture.streams.metrics import measure_file
from clew.capture.versions import STATE_ATTR, FrameVersion
from clew.capture.written import external_version, record_written

if TYPE_CHECKING:
    from collections.abc import Hashable

_SOURCE_NAMES = ("filepath_or_buffer", "path_or_buf", "path_or_buffer", "io", "path", "sql", "table_name", "filepath")
_TARGET_NAMES = ("path_or_buf", "path_or_buffer", "path", "excel_writer", "name", "fname")
_INDEX_WRITERS = frozenset(["to_csv", "to_sql", "to_excel", "to_parquet", "to_feather"])
CHUNK_READERS = (TextFileReader, JsonReader)
WRITERS = "to_csv to_parquet to_json to_excel to_feather to_pickle to_sql to_hdf to_orc to_stata to_xml".split()


def trace_read(call: Call) -> None:
    """Trace pd.read_*: every column comes from the file's column of the same name."""
    sources = [external_version(dataset) for dataset in _source_datasets(call)]
    if isinstance(call.result, CHUNK_READERS):
        call.result.__dict__[STATE_ATTR] = sources
    elif isinstance(call.result, pd.DataFrame):
        _record_read(call, sources, call.result)
    elif isinstance(call.result, (dict, list)):
        frames = call.result.items() if isinstance(call.result, dict) else enumerate(call.result)
        for position, frame in frames:
            if isinstance(frame, pd.DataFrame):
                # Sheets of a workbook or tables of a page have different columns: emit one operation for each.
                _record_read(call, sources, frame).loop_signature().append(position)


def trace_read_chunk(call: Call) -> None:
    """Trace the next chunk of a file that is read in chunks."""
    sources = call.receiver.__dict__.get(STATE_ATTR)
    if sources and isinstance(call.result, pd.DataFrame):
        _record_read(call, sources, call.result)


def _record_read(call: Call, sources: list[FrameVersion], frame: pd.DataFrame) -> OperationRecord:
    labels = [*index_names(frame.index), *frame.columns]
    # The table of each column is unknown for a query over several tables.
    step = IDENTITY if len(sources) == 1 else IDENTITY | INFERRED
    fields: dict[Hashable, Provenance] = {
        label: union(*[{(source, label): step} for source in sources]) for label in labels
    }
    operation = record_created(call, "io", ExplicitEdges(fields), frame=frame)
    if sources:
        operation.read_from = sources[0]
        measure_file(frame, current_version(frame), operation)
    return operation


def _source_datasets(call: Call) -> list[ExternalDataset]:
    source = (
        call.args[0] if call.args else next((call.kwargs[name] for name in _SOURCE_NAMES if name in call.kwargs), None)
    )
    if call.name.startswith("read_sql"):
        connection = call.argument(1, "con")
        if call.name == "read_sql_table":
            return [table_dataset(connection, _qualify_table(source, call.argument(2, "schema")))]
        return [table_dataset(connection, table) for table in tables_in_query(str(source))]
    dataset = dataset_at(source)
    return [dataset] if dataset is not None else []


def _qualify_table(table: Any, schema: Any) -> str:
    return f"{schema}.{table}" if schema else str(table)


def trace_write(call: Call) -> None:
    """Trace df.to_*: the file has the columns of the frame."""
    target = (
        call.args[0] if call.args else next((call.kwargs[name] for name in _TARGET_NAMES if name in call.kwargs), None)
    )
    connection = call.argument(1, "con") if call.name == "to_sql" else None
    table = _qualify_table(target, call.kwargs.get("schema"))
    dataset = table_dataset(connection, table) if connection is not None else dataset_at(target)
    if dataset is None:
        return
    frame, version = (
        call.receiver,
        call.pre_state if isinstance(call.pre_state, FrameVersion) else current_version(call.receiver),
    )
    written = external_version(dataset)
    selected, header = call.kwargs.get("columns"), call.kwargs.get("header")
    columns = list(frame.columns) if selected is None else list(selected)
    written.columns = list(header) if isinstance(header, list) and len(header) == len(columns) else columns
    has_levels = call.name in _INDEX_WRITERS and call.kwargs.get("index") is not False
    levels = version.index_names if has_levels else ()
    written.index_names = _written_level_names(call, levels)
    written.shape = (len(frame), len(written.columns))
    types = version.types()
    names = dict(zip(written.labels(), (*levels, *columns), strict=True))
    fields = {name: version.field(label) for name, label in names.items()}
    operation = record_output(call, "io", written, ExplicitEdges(fields), None, (version,))
    operation.written_types = {name: types[label] for name, label in names.items() if label in types}
    record_written(written)
    measure_file(frame, version, operation)


def _written_level_names(call: Call, levels: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the names of index levels in the file: `index_label` if it names every level."""
    names = tuple(as_labels(call.kwargs.get("index_label")))
    return names if levels and len(names) == len(levels) else levels


def trace_series_write(call: Call) -> None:
    """Trace series.to_csv and similar: a file with one column."""
    target = (
        call.args[0] if call.args else next((call.kwargs[name] for name in _TARGET_NAMES if name in call.kwargs), None)
    )
    dataset = dataset_at(target)
    if dataset is None:
        return
    lineage, series = call.pre_state, call.receiver
    written = external_version(dataset)
    written.columns = [series.name]
    written.shape = (len(series), 1)
    levels = (lineage.index or {}) if call.kwargs.get("index") is not False else {}
    written.index_names = tuple(levels)
    record_output(call, "io", written, ExplicitEdges({series.name: lineage.provenance, **levels}), lineage.rows, ())
    record_written(written)


def patch_chunk_readers() -> None:
    """Patch the readers that return a file in chunks."""
    for owner in CHUNK_READERS:
        for name in ("__next__", "get_chunk", "read"):
            if hasattr(owner, name):
                patch_method(owner, name, trace_read_chunk)


RULES: dict[str, Callable[[Call], None]] = dict.fromkeys(WRITERS, trace_write)
__all__ = ["RULES", "WRITERS", "patch_chunk_readers", "trace_read", "trace_series_write", "trace_write"]
