"""OpenLineage events of the pipeline about itself: its runs, and the tables that it wrote.

They are appended to an event file like those of notebooks, which the collector or the next import reads.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import uuid4

import msgspec
from deltalake.exceptions import DeltaError

from clew import __version__
from clew.data_dir import BucketUrl, DataDir, LakeLocation, create_private_folder
from clew.events.streams import STREAM_FILES, Stream
from clew.lake.lake import Lake
from clew.pipeline.checkpoint import BatchRecord

_FOLDER: Final = "clew-pipeline"
_FILE: Final = next(name for name, stream in STREAM_FILES.items() if stream is Stream.OPENLINEAGE)
_UNREAD_FILE: Final = "unread"
_NAMESPACE: Final = "clew"
_PRODUCER: Final = f"https://pypi.org/project/clew/{__version__}"
_EVENT_SCHEMA: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACET_SCHEMA: Final = "https://openlineage.io/spec/facets/{version}/{name}.json#/$defs/{name}"
# Of a stream: one run for the batches of this time.
_INTERVAL_SECONDS: Final = 300.0
_EVENTS_PER_RUN: Final = 2

JobKind = Literal["run", "stream"]


class OwnLineage:
    """Batch listener that reports batches as runs of the job `pipeline.run` or `pipeline.stream`.

    The events themselves are ingested as well. They are subtracted, so that they cause no further events.
    """

    def __init__(
        self,
        home: DataDir,
        kind: JobKind,
        *,
        interval_seconds: float = _INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._home, self._kind = home, kind
        self._interval_seconds, self._clock = interval_seconds, clock
        self._path = home.streams / _FOLDER / _FILE
        # Own events that are not ingested yet, also those of earlier processes.
        self._unread_path = self._path.with_name(_UNREAD_FILE)
        self._unread = self._read_unread()
        self._reset()

    def _reset(self) -> None:
        self._rows: Counter[str] = Counter()
        self._events = 0
        self._start: tuple[float, datetime] | None = None

    def __call__(self, batch: BatchRecord) -> None:
        """Add a batch; in a stream, report the batches of the last minutes."""
        count = batch.events + batch.rejected + batch.duplicates
        own = min(count, self._unread)
        if own:
            self._set_unread(self._unread - own)
        if count > own:
            if self._start is None:
                self._start = self._clock(), datetime.now(UTC)
            self._events += count - own
            self._rows.update(batch.rows)
        is_due = self._start is not None and self._clock() - self._start[0] >= self._interval_seconds
        if self._kind == "stream" and is_due:
            self.emit()

    def emit(self, error: BaseException | None = None) -> bool:
        """Append the events of a run of the batches so far; return False if there were none."""
        if self._start is None and error is None:
            return False
        started = datetime.now(UTC) if self._start is None else self._start[1]
        run = {"runId": str(uuid4()), "facets": self._run_facets(error)}
        lines = b"".join(
            msgspec.json.encode(event) + b"\n"
            for event in (
                self._event("START", started, {**run, "facets": {}}, with_datasets=False),
                self._event("COMPLETE" if error is None else "FAIL", datetime.now(UTC), run, with_datasets=True),
            )
        )
        create_private_folder(self._path.parent)
        with self._path.open("ab") as file:
            file.write(lines)
        self._set_unread(self._unread + _EVENTS_PER_RUN)
        self._reset()
        return True

    def _read_unread(self) -> int:
        try:
            return int(self._unread_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0

    def _set_unread(self, count: int) -> None:
        self._unread = count
        with suppress(OSError):
            self._unread_path.write_text(f"{count}\n", encoding="utf-8")

    def _event(self, kind: str, at: datetime, run: dict[str, Any], *, with_datasets: bool) -> dict[str, Any]:
        processing_type = "STREAMING" if self._kind == "stream" else "BATCH"
        job_type = _facet(
            "JobTypeJobFacet", "2-0-3", processingType=processing_type, integration="CLEW", jobType="PIPELINE"
        )
        return {
            "eventType": kind,
            "eventTime": at.isoformat(),
            "producer": _PRODUCER,
            "schemaURL": _EVENT_SCHEMA,
            "run": run,
            "job": {"namespace": _NAMESPACE, "name": f"pipeline.{self._kind}", "facets": {"jobType": job_type}},
            "inputs": [_identity(self._home.log)] if with_datasets else [],
            "outputs": self._outputs() if with_datasets else [],
        }

    def _run_facets(self, error: BaseException | None) -> dict[str, Any]:
        facets = {"processing_engine": _facet("ProcessingEngineRunFacet", "1-1-1", name="clew", version=__version__)}
        if error is not None:
            facets["errorMessage"] = _facet(
                "ErrorMessageRunFacet", "1-0-1", message=str(error), programmingLanguage="PYTHON"
            )
        return facets

    def _outputs(self) -> list[dict[str, Any]]:
        lake = Lake(self._home.lake)
        return [_output(lake, name, rows) for name, rows in sorted(self._rows.items()) if rows]


def _output(lake: Lake, name: str, rows: int) -> dict[str, Any]:
    dataset = _identity(lake.root / name)
    # A table that cannot be read now is reported without its schema.
    with suppress(DeltaError, OSError):
        table = lake.table(name)
        if table is not None:
            fields = [{"name": field.name, "type": _type_name(field.type)} for field in table.schema().fields]
            dataset["facets"] = {
                "schema": _facet("SchemaDatasetFacet", "1-1-1", fields=fields),
                "version": _facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=str(table.version())),
            }
    statistics = _facet("OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=rows)
    return {**dataset, "outputFacets": {"outputStatistics": statistics}}


def _type_name(kind: Any) -> str:
    return str(getattr(kind, "type", kind))


def _identity(location: LakeLocation) -> dict[str, Any]:
    """Return the OpenLineage name of a folder or a prefix."""
    if isinstance(location, BucketUrl):
        return {"namespace": str(location.root), "name": location.key}
    return {"namespace": "file", "name": str(location)}


def _facet(schema: str, schema_version: str, /, **values: Any) -> dict[str, Any]:
    url = _FACET_SCHEMA.format(name=schema, version=schema_version)
    return {"_producer": _PRODUCER, "_schemaURL": url, **values}
