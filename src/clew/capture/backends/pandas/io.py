"""Rules of constructors, readers and writers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray
from pandas.io.json._json import JsonReader
from pandas.io.parsers.readers import TextFileReader

from clew.capture.backends.base import Call, record_operation, record_text, text_provenance
from clew.capture.backends.pandas.call import (
    argument_span,
    infer_from_statement,
    is_code_literal,
    record_created,
    record_output,
)
from clew.capture.backends.pandas.state import (
    as_labels,
    current_version,
    is_scalar,
    level_provenance,
    lineage_or_empty,
    mark_inferred,
    provenance_of,
    provenance_or_empty,
    snapshot_frame,
)
from clew.capture.emit.column_metrics import measure_file
from clew.capture.introspection.bytecode import mapping_value_spans
from clew.capture.introspection.read_tracking import columns_read_for, record_read
from clew.capture.lineage.datasets import ExternalDataset, dataset_at, table_dataset
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, index_names
from clew.capture.lineage.operations import (
    ExplicitEdges,
    IdentityEdges,
    OperationRecord,
    external_version,
    record_written,
)
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    array_columns,
    array_version,
    as_indirect,
    attach_to_series,
    union,
    zip_by_position,
)
from clew.capture.lineage.transformations import FILTER, IDENTITY, INFERRED, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from clew.capture.introspection.bytecode import Span


# No more than the number of scalars tracked per thread.
_MAX_ROWS_TRACED = 256
_CONTAINERS = (list, tuple, set, frozenset, dict)


def trace_frame_init(call: Call) -> None:
    """Trace pd.DataFrame(data)."""
    if getattr(call.receiver, STATE_ATTR, None) is None:
        call.is_module_function = True
        fields = _fields_from_data(call.argument(0, "data"), call.receiver, call, "DataFrame")
        record_created(call, ExplicitEdges(fields), frame=call.receiver, method="DataFrame")


def trace_series_init(call: Call) -> None:
    """Trace pd.Series(data)."""
    data, index = call.argument(0, "data"), call.argument(1, "index")
    provenance = provenance_of(data)
    if isinstance(data, dict):
        provenance = union(*[provenance_of(value) for value in list(data.values())[:64]]) or None
    is_value = isinstance(data, (np.ndarray, ExtensionArray, *_CONTAINERS))
    if provenance is None and is_value and not is_code_literal(data, call):
        provenance = infer_from_statement(call, "Series")
    if isinstance(index, (pd.Index, pd.Series)) and provenance_of(index):
        attach_to_series(call.receiver, provenance or {}, {index.name: provenance_or_empty(index)})
    elif provenance is not None:
        lineage = lineage_or_empty(data) if isinstance(data, pd.Series) else SeriesLineage(provenance)
        attach_to_series(call.receiver, lineage.provenance, lineage.index, lineage.rows)
    else:
        attach_to_series(call.receiver, {})
    call.name, call.result, call.is_module_function = "Series", call.receiver, True


def trace_frame_from(call: Call) -> None:
    """Trace pd.DataFrame.from_dict, from_records and from_arrow."""
    record_created(call, ExplicitEdges(_fields_from_data(call.argument(0, "data"), call.result, call, call.name)))


def trace_arrow_to_pandas(call: Call) -> None:
    """Trace table.to_pandas() of Arrow; what the statement read, if the table was made from another one."""
    call.name, version = "to_pandas", array_version(call.argument(1, "table"))
    if version is not None:
        record_created(call, IdentityEdges(version, IDENTITY), None, (version,))
        return
    sources = infer_from_statement(call)
    names = [name for name in call.result.index.names if name is not None]
    record_created(call, ExplicitEdges(dict.fromkeys([*call.result.columns, *names], sources)))


def trace_arrow_from_pandas(call: Call) -> None:
    """Trace Table.from_pandas(frame) of Arrow: the columns of a frame leave pandas."""
    version = current_version(call.argument(0, "df"))
    record_read(call.caller, union(version.fields(), *version.levels().values()))


def _fields_from_data(data: Any, frame: Any, call: Call, function_name: str) -> dict[Hashable, Provenance]:
    """Return the provenance of each column and level of a frame that a function built from `data`."""
    names = [name for name in frame.index.names if name is not None]
    if call.kwargs.get("orient") == "index" and isinstance(data, dict):
        # One entry per row.
        data = list(data.values())
    if isinstance(data, dict):
        fields = _fields_from_dict(data, frame, call, function_name)
        levels = [value for value in data.values() if isinstance(value, pd.Series)]
        return _series_levels(levels, names) | fields | _index_argument_levels(call, names)
    if isinstance(data, pd.DataFrame):
        source = current_version(data)
        return {label: source.field(label) for label in (*frame.columns, *source.index_names) if source.has(label)}
    if isinstance(data, pd.Series):
        lineage = lineage_or_empty(data)
        return {**dict.fromkeys(frame.columns, lineage.combined()), **(lineage.index or {})}
    by_column = array_columns(data) if isinstance(data, np.ndarray) else None
    if by_column is not None and len(by_column) == len(frame.columns):
        return zip_by_position(list(frame.columns), by_column) | _index_argument_levels(call, names)
    if _is_row_list(data):
        return _fields_from_rows(data, list(frame.columns), call, function_name) | _index_argument_levels(call, names)
    is_empty = data is None or is_scalar(data) or isinstance(data, range)
    # Of an iterator, such as `zip` or the items of a Counter, only the reads are known.
    provenance = provenance_of(data) if isinstance(data, (list, tuple, np.ndarray)) else {} if is_empty else None
    if provenance is None:
        provenance = apply_direct(infer_from_statement(call, function_name), TRANSFORMATION)
    # The source of each column of an array or list is unknown.
    column_provenance = mark_inferred(provenance) if len(frame.columns) > 1 else provenance
    return dict.fromkeys(frame.columns, column_provenance) | _index_argument_levels(call, names)


def _is_row_list(data: Any) -> bool:
    """Return whether data is a list of rows."""
    return isinstance(data, (list, tuple)) and any(isinstance(row, (list, tuple, dict)) for row in data[:1])


def _fields_from_rows(data: Any, labels: list[Hashable], call: Call, function_name: str) -> dict[Hashable, Provenance]:
    """Return the provenance of columns in a list of rows: from tracked cells, else from unaccounted reads."""
    entries = {label: _column_provenance(data, position, label) for position, label in enumerate(labels)}
    if not any(entries.values()):
        return dict.fromkeys(labels, apply_direct(infer_from_statement(call, function_name), TRANSFORMATION))
    unaccounted = _unaccounted_reads(call, function_name, entries.values())
    if all(entries.values()) and call.kwargs.get("orient") != "index":
        # Other reads may be those of a condition: `if row["x"] > 0: rows.append({"k": row["k"]})`.
        conditions = as_indirect(unaccounted, FILTER)
        return {label: union(provenance, conditions) for label, provenance in entries.items()}
    return {label: provenance or unaccounted for label, provenance in entries.items()}


def _column_provenance(rows: Any, position: int, label: Hashable) -> Provenance | None:
    """Return the provenance of one column of a list of rows; None unless every cell is tracked."""
    if len(rows) > _MAX_ROWS_TRACED:
        return None
    cells = [provenance_of(_cell_value(row, position, label)) for row in rows]
    return None if any(cell is None for cell in cells) else union(*cells)


def _cell_value(row: Any, position: int, label: Hashable) -> Any:
    if isinstance(row, dict):
        return row.get(label)
    return row[position] if isinstance(row, (list, tuple)) and position < len(row) else None


def _fields_from_dict(data: dict[Any, Any], frame: Any, call: Call, function_name: str) -> dict[Hashable, Provenance]:
    """Return the provenance of dict entries: tracked values, else inferred from their spans or unaccounted reads."""
    entries = {label: provenance_of(data.get(label)) for label in frame.columns}
    untracked = [
        label
        for label, provenance in entries.items()
        if provenance is None and not is_scalar(data.get(label)) and not is_code_literal(data.get(label), call)
    ]
    if not untracked:
        return {label: provenance or {} for label, provenance in entries.items()}
    spans = _entry_spans(data, call)
    unaccounted = _unaccounted_reads(call, function_name, entries.values())
    accounted = {
        field for provenance in entries.values() if provenance for field in provenance if field not in unaccounted
    }
    inferred = {
        label: _infer_entry(call, spans[label], accounted) if label in spans else unaccounted for label in untracked
    }
    return {label: inferred.get(label, provenance or {}) for label, provenance in entries.items()}


def _infer_entry(call: Call, span: Span, accounted: set[Any]) -> Provenance:
    """Infer an entry from the reads in its span, without those that tracked entries account for."""
    provenance = infer_from_statement(call, span)
    return {field: flags for field, flags in provenance.items() if field not in accounted}


def _entry_spans(data: dict[Any, Any], call: Call) -> dict[Any, Span]:
    """Return the bytecode span of each entry, if the mapping is a literal in the call."""
    argument = argument_span(data, call)
    spans = mapping_value_spans(call.caller.f_code, argument) if argument is not None else []
    return dict(zip(data, spans, strict=True)) if len(spans) == len(data) else {}


def _unaccounted_reads(call: Call, function_name: str, tracked_entries: Iterable[Provenance | None]) -> Provenance:
    """Return the columns that were read more often than tracked entries account for."""
    counts = Counter(field for read in columns_read_for(call.caller, function_name) for field in read)
    counts.subtract(field for entry in tracked_entries if entry is not None for field in entry)
    return {field: TRANSFORMATION | INFERRED for field, count in counts.items() if count > 0}


def _index_argument_levels(call: Call, names: list[Hashable]) -> dict[Hashable, Provenance]:
    """Return the level provenance of the `index` argument, if it is tracked."""
    index = call.argument(1, "index")
    return level_provenance(index, names) if isinstance(index, pd.Series) or provenance_of(index) is not None else {}


def _series_levels(series: list[Any], names: list[Hashable]) -> dict[Hashable, Provenance]:
    return {name: union(*[(lineage_or_empty(item).index or {}).get(name) for item in series]) for name in names}


_SOURCE_NAMES = ("filepath_or_buffer", "path_or_buf", "path_or_buffer", "io", "path", "sql", "table_name", "filepath")
_TARGET_NAMES = ("path_or_buf", "path_or_buffer", "path", "excel_writer", "name", "fname")
_INDEX_WRITERS = frozenset(["to_csv", "to_sql", "to_excel", "to_parquet", "to_feather"])
CHUNK_READERS = (TextFileReader, JsonReader)


def trace_read(call: Call) -> None:
    """Trace pd.read_*: every column comes from the file's column of the same name."""
    if call.name.startswith("read_sql") and _is_query(call):
        _trace_read_query(call)
        return
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
    text = {} if sources else text_provenance(call, _path_argument(call, _SOURCE_NAMES))
    if text:
        return record_created(call, ExplicitEdges(dict.fromkeys(labels, text)), frame=frame)
    # The table of each column is unknown for a query over several tables.
    step = IDENTITY if len(sources) == 1 else IDENTITY | INFERRED
    fields: dict[Hashable, Provenance] = {
        label: union(*[{(source, label): step} for source in sources]) for label in labels
    }
    operation = record_created(call, ExplicitEdges(fields), frame=frame)
    if sources:
        operation.read_from = sources[0]
        measure_file(frame, current_version(frame), operation)
    else:
        operation.origin = f"{call.name}({type(_path_argument(call, _SOURCE_NAMES)).__name__})"
    return operation


def _is_query(call: Call) -> bool:
    """Return whether pd.read_sql reads a query, not a whole table."""
    text = str(_path_argument(call, _SOURCE_NAMES)).strip()
    return call.name == "read_sql_query" or (call.name == "read_sql" and " " in " ".join(text.split()))


def _trace_read_query(call: Call) -> None:
    """Trace pd.read_sql(query, connection)."""
    # Few notebooks read from databases.
    from clew.capture.backends.sql_lineage import connection_database
    from clew.capture.backends.sql_query import QueryRecord, StatementRecorder

    text, connection = str(_path_argument(call, _SOURCE_NAMES)), call.argument(1, "con")
    database = connection_database(connection, text)
    query = StatementRecorder(call, "pandas", connection, database, {}).run(text)
    if query is not None and isinstance(call.result, pd.DataFrame):
        record = QueryRecord.of(call.name, query, snapshot_frame(call.result), "io")
        record.is_module_function = True
        record_operation(record, "pandas", call.location(), call.result)


def _source_datasets(call: Call) -> list[ExternalDataset]:
    source = _path_argument(call, _SOURCE_NAMES)
    if call.name.startswith("read_sql"):
        from clew.capture.backends.sql_lineage import connection_database

        table = _qualify_table(
            str(source).strip(), call.argument(2, "schema") if call.name == "read_sql_table" else None
        )
        return [connection_database(call.argument(1, "con"), table).dataset(table)]
    dataset = dataset_at(source)
    return [dataset] if dataset is not None else []


def _path_argument(call: Call, names: tuple[str, ...]) -> Any:
    """Return the first argument, or the one with one of the names that pandas uses for files and tables."""
    return call.args[0] if call.args else next((call.kwargs[name] for name in names if name in call.kwargs), None)


def _qualify_table(table: Any, schema: Any) -> str:
    return f"{schema}.{table}" if schema else str(table)


def trace_write(call: Call) -> None:
    """Trace df.to_*: the file has the columns of the frame."""
    target = _path_argument(call, _TARGET_NAMES)
    connection = call.argument(1, "con") if call.name == "to_sql" else None
    table = _qualify_table(target, call.kwargs.get("schema"))
    dataset = table_dataset(connection, table) if connection is not None else dataset_at(target)
    if dataset is None:
        record_text(call, target, call.pre_state)
        return
    frame, version = call.receiver, call.pre_state
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
    operation = record_output(call, written, ExplicitEdges(fields), None, (version,))
    operation.written_types = {name: types[label] for name, label in names.items() if label in types}
    record_written(written)
    measure_file(frame, version, operation)


def _written_level_names(call: Call, levels: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the names of index levels in the file: `index_label` if it names every level."""
    names = tuple(as_labels(call.kwargs.get("index_label")))
    return names if levels and len(names) == len(levels) else levels


def trace_series_write(call: Call) -> None:
    """Trace series.to_csv and similar: a file with one column."""
    target = _path_argument(call, _TARGET_NAMES)
    dataset = dataset_at(target)
    lineage, series = call.pre_state, call.receiver
    if dataset is None:
        if isinstance(call.result, str):
            record_read(call.caller, lineage.combined())
        return
    written = external_version(dataset)
    written.columns = [series.name]
    written.shape = (len(series), 1)
    levels = (lineage.index or {}) if call.kwargs.get("index") is not False else {}
    written.index_names = tuple(levels)
    record_output(call, written, ExplicitEdges({series.name: lineage.provenance, **levels}), lineage.rows, ())
    record_written(written)
