"""Export of everything that clew stores: events as received, annotations, and rejected events."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw, Struct

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.events.openlineage import ANNOTATIONS_NAME, ANNOTATIONS_NAMESPACE
from clew.importer.event_files import ANNOTATIONS_FILE
from clew.importer.ingestion import StepCallback
from clew.index.backends.sqlite import MissingIndexError
from clew.index.encoding import DELETED
from clew.index.queries.reader import IndexReader
from clew.lake.lake import Lake
from clew.lake.manifest import require_lake
from clew.lake.scan import ValueRange, iter_by_seq, scan_range
from clew.lake.schemas import DATAFRAME_EVENTS, LINEAGE_EVENTS, REJECTED_EVENTS, RUNTIME_EVENTS

EVENTS_FILE: Final = "events.ndjson"
REJECTED_FILE: Final = "rejected_events.json"
_GZIP_SUFFIX: Final = ".gz"
_GZIP_LEVEL: Final = 1
_TABLES: Final = (LINEAGE_EVENTS, RUNTIME_EVENTS, DATAFRAME_EVENTS)
# Positions are bytes of the log: a window has about as many bytes of events.
_WINDOW: Final = 64 << 20


class ExportResult(Struct):
    """Folder of an export, and what is in it."""

    folder: str
    events: int = 0
    bytes: int = 0
    annotations: int = 0
    rejected: int = 0


def export_all(
    home: DataDir, folder: Path, *, is_compressed: bool = False, on_step: StepCallback = lambda *_: None
) -> ExportResult:
    """Write all events in the order received, all annotations, and the rejected events with their reasons.

    `clew import files` reads the folder.
    """
    require_lake(home.lake)
    lake, result = Lake(home.lake), ExportResult(str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        existing = sorted(path.name for path in folder.iterdir())
        if existing:
            message = f"The folder {folder} is not empty: it contains {existing[0]}."
            raise ClewError(message, hint="Pass a new folder with --out.")
        name = EVENTS_FILE + (_GZIP_SUFFIX if is_compressed else "")
        with _open(folder / name, is_compressed=is_compressed) as file:
            _write_events(lake, file, result, on_step)
        annotations = _read_annotation_bodies(home)
        (folder / ANNOTATIONS_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(annotations)))
        result.annotations = len(annotations)
        with (folder / REJECTED_FILE).open("wb") as file:
            for line in _rejected_lines(lake):
                file.write(line + b"\n")
                result.rejected += 1
    except OSError as error:
        raise ClewError(
            f"Cannot write to {folder}: {error.strerror}.", hint="Pass another folder with --out."
        ) from error
    return result


def _write_events(lake: Lake, file: BinaryIO, result: ExportResult, on_step: StepCallback) -> None:
    end = max((_last_seq(lake, table.name) for table in _TABLES), default=-1) + 1
    for start in range(0, end, _WINDOW):
        window = ValueRange("seq", start, min(start + _WINDOW, end) - 1)
        for body in _window_events(lake, window):
            file.write(body + b"\n")
            result.events += 1
            result.bytes += len(body)
        on_step(min(start + _WINDOW, end), end, result.events)


def _window_events(lake: Lake, window: ValueRange) -> Iterator[bytes]:
    parts = []
    for table in _TABLES:
        if lake.table(table.name) is None:
            continue
        condition = window.filter()
        if table is LINEAGE_EVENTS:
            names = (("dataset_namespace", ANNOTATIONS_NAMESPACE), ("dataset_name", ANNOTATIONS_NAME))
            is_annotation = [pc.coalesce(pc.field(column) == name, pc.scalar(value=False)) for column, name in names]
            condition &= ~(is_annotation[0] & is_annotation[1])
        parts.append(scan_range(lake, table, window).to_table(columns=["seq", "event"], filter=condition))
    for row in iter_by_seq(pa.concat_tables(parts)) if parts else ():
        body = row["event"]
        yield body.encode() if isinstance(body, str) else body


def _last_seq(lake: Lake, name: str) -> int:
    table = lake.table(name)
    if table is None:
        return -1
    rows = table.to_pyarrow_dataset(filesystem=lake.storage.filesystem(name)).to_table(columns=["seq"])
    return pc.max(rows["seq"]).as_py() if rows.num_rows else -1


def _read_annotation_bodies(home: DataDir) -> dict[str, Raw]:
    try:
        with IndexReader(home.index) as index:
            facets = index.stored_facets("dataset", ANNOTATIONS_NAMESPACE, ANNOTATIONS_NAME, None)
            bodies = {facet.name: Raw(facet.body) for facet in facets if facet.body != DELETED}
            return dict(sorted(bodies.items()))
    except MissingIndexError:
        return {}


def _rejected_lines(lake: Lake) -> Iterator[bytes]:
    table = lake.table(REJECTED_EVENTS.name)
    if table is not None:
        rows = table.to_pyarrow_dataset(filesystem=lake.storage.filesystem(REJECTED_EVENTS.name))
        for batch in rows.to_batches(batch_size=64):
            yield from (msgspec.json.encode(_plain(row)) for row in batch.to_pylist())


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _open(path: Path, *, is_compressed: bool) -> Any:
    return gzip.open(path, "wb", _GZIP_LEVEL) if is_compressed else path.open("wb")
