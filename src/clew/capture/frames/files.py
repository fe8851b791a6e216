"""Rules for reading and writing files and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.io.json._json import JsonReader
from pandas.io.parsers.readers import TextFileReader

from clew.capture.datasets import FileDataset, located_at, table_in, tables_of_query
from clew.capture.flags import IDENTITY, INFERRED
from clew.capture.frames.calls import Call, made, record
from clew.capture.frames.hooks import hook_method
from clew.capture.frames.state import as_labels, index_names, version_of
from clew.capture.provenance import Provenance, union
from clew.capture.records import Listed, Record
from clew.capture.streams.metrics import measure_file
from clew.capture.versions import STATE, FrameVersion
from clew.capture.written import outside, remember_written

if TYPE_CHECKING:
    from collections.abc import Hashable

_SOURCE_NAMES = ("filepath_or_buffer", "path_or_buf", "path_or_buffer", "io", "path", "sql", "table_name", "filepath")
_TARGET_NAMES = ("path_or_buf", "path_or_buffer", "path", "excel_writer", "name", "fname")
_WRITES_INDEX = frozenset(["to_csv", "to_sql", "to_excel", "to_parquet", "to_feather"])
READERS = (TextFileReader, JsonReader)
WRITERS = "to_csv to_parquet to_json to_excel to_feather to_pickle to_sql to_hdf to_orc to_stata to_xml".split()


def read(call: Call) -> None:
    """pd.read_*: every column is the file's column of that name."""
    sources = [outside(dataset) for dataset in _sources(call)]
    if isinstance(call.result, READERS):
        call.result.__dict__[STATE] = sources
    elif isinstance(call.result, pd.DataFrame):
        _made_of(call, sources, call.result)
    elif isinstance(call.result, (dict, list)):
        parts = call.result.items() if isinstance(call.result, dict) else enumerate(call.result)
        for place, part in parts:
            if isinstance(part, pd.DataFrame):
                # Sheets of a workbook, tables of a page: each is told, for each has columns of its own.
                _made_of(call, sources, part).shape().append(place)


def read_part(call: Call) -> None:
    """The next rows of a file that is read in parts."""
    sources = call.subject.__dict__.get(STATE)
    if sources and isinstance(call.result, pd.DataFrame):
        _made_of(call, sources, call.result)


def _made_of(call: Call, sources: list[FrameVersion], frame: pd.DataFrame) -> Record:
    labels = [*index_names(frame.index), *frame.columns]
    # A query over several tables does not say here which column is whose.
    step = IDENTITY if len(sources) == 1 else IDENTITY | INFERRED
    fields: dict[Hashable, Provenance] = {
        label: union(*[{(source, label): step} for source in sources]) for label in labels
    }
    entry = made(call, "io", Listed(fields), frame=frame)
    if sources:
        entry.read_from = sources[0]
        measure_file(frame, version_of(frame), entry)
    return entry


def _sources(call: Call) -> list[FileDataset]:
    source = (
        call.args[0] if call.args else next((call.kwargs[name] for name in _SOURCE_NAMES if name in call.kwargs), None)
    )
    if call.name.startswith("read_sql"):
        connection = call.argument(1, "con")
        if call.name == "read_sql_table":
            return [table_in(connection, _qualified(source, call.argument(2, "schema")))]
        return [table_in(connection, table) for table in tables_of_query(str(source))]
    found = located_at(source)
    return [found] if found is not None else []


def _qualified(table: Any, schema: Any) -> str:
    return f"{schema}.{table}" if schema else str(table)


def write(call: Call) -> None:
    """df.to_*: the file's columns are the frame's."""
    target = (
        call.args[0] if call.args else next((call.kwargs[name] for name in _TARGET_NAMES if name in call.kwargs), None)
    )
    connection = call.argument(1, "con") if call.name == "to_sql" else None
    table = _qualified(target, call.kwargs.get("schema"))
    dataset = table_in(connection, table) if connection is not None else located_at(target)
    if dataset is None:
        return
    frame, version = call.subject, call.before if isinstance(call.before, FrameVersion) else version_of(call.subject)
    written = outside(dataset)
    chosen, header = call.kwargs.get("columns"), call.kwargs.get("header")
    columns = list(frame.columns) if chosen is None else list(chosen)
    written.columns = list(header) if isinstance(header, list) and len(header) == len(columns) else columns
    has_levels = call.name in _WRITES_INDEX and call.kwargs.get("index") is not False
    levels = version.index_names if has_levels else ()
    written.index_names = _level_names(call, levels)
    written.shape = (len(frame), len(written.columns))
    types = version.types()
    names = dict(zip(written.labels(), (*levels, *columns), strict=True))
    fields = {name: version.field(label) for name, label in names.items()}
    entry = record(call, "io", written, Listed(fields), None, (version,))
    entry.written_types = {name: types[label] for name, label in names.items() if label in types}
    remember_written(written)
    measure_file(frame, version, entry)


def _level_names(call: Call, levels: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the levels of an index are called in a file: by `index_label` where it names each of them."""
    given = tuple(as_labels(call.kwargs.get("index_label")))
    return given if levels and len(given) == len(levels) else levels


def write_series(call: Call) -> None:
    """series.to_csv and the like: a frame of one column."""
    target = (
        call.args[0] if call.args else next((call.kwargs[name] for name in _TARGET_NAMES if name in call.kwargs), None)
    )
    dataset = located_at(target)
    if dataset is None:
        return
    state, series = call.before, call.subject
    written = outside(dataset)
    written.columns = [series.name]
    written.shape = (len(series), 1)
    levels = (state.index or {}) if call.kwargs.get("index") is not False else {}
    written.index_names = tuple(levels)
    record(call, "io", written, Listed({series.name: state.provenance, **levels}), state.rows, ())
    remember_written(written)


def hook_readers() -> None:
    """Look on at files that are read in parts."""
    for owner in READERS:
        for name in ("__next__", "get_chunk", "read"):
            if hasattr(owner, name):
                hook_method(owner, name, read_part)


RULES: dict[str, Callable[[Call], None]] = dict.fromkeys(WRITERS, write)
__all__ = ["RULES", "WRITERS", "hook_readers", "read", "write", "write_series"]
