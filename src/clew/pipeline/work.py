"""The pipeline at work: log in, lake and index out."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from clew.errors import ClewError
from clew.home import Home
from clew.index.sink import IndexSink
from clew.lake.delta import Lake
from clew.pipeline import source
from clew.pipeline.ingest import Ingest, Ingested
from clew.pipeline.lock import held
from clew.pipeline.refresh import rebuild_index, refresh_derived_tables
from clew.pipeline.session import build_session

Say = Callable[[str], None]

_POLL_SECONDS = 0.2
_STREAM_TRIGGER = "500 milliseconds"


@dataclass(frozen=True)
class Pipeline:
    """A session, a lake and an index that belong together."""

    spark: SparkSession
    home: Home
    lake: Lake
    index: IndexSink
    say: Say
    bytes_per_trigger: int = source.BYTES_PER_TRIGGER

    def take_available(self) -> Ingested:
        """Take in all that the log holds beyond the last position, and bring the derived tables up to date."""
        taken = self.take_new()
        self.refresh()
        return taken

    def refresh(self) -> None:
        """Bring the derived tables up to date, unless they are."""
        if not self.lake.is_derived_from(self.lake.state_of_events()):
            self.say("Deriving runs, lineage and cells")
            refresh_derived_tables(self.spark, self.lake)

    def take_new(self) -> Ingested:
        """Take in all that the log holds beyond the last position; derived tables stay as they are."""
        ingest = self._ingest()
        _await(self._query(ingest, availableNow=True))
        return ingest.taken

    def take_whole_log(self) -> Ingested:
        """Take in the whole log as one batch, whatever was taken before: nothing is doubled."""
        ingest = Ingest(self.lake, self.index, f"batch-{uuid.uuid4()}")
        ingest(self.spark.read.format(source.NAME).load(str(self.home.log)), 0)
        self.refresh()
        return ingest.taken

    def stream(self, stop: Event, meanwhile: Callable[[], object] = lambda: None) -> Ingested:
        """Take in what is appended to the log until told to stop; `meanwhile` is called again and again."""
        ingest = self._ingest()
        query = self._query(ingest, processingTime=_STREAM_TRIGGER)
        while not stop.wait(_POLL_SECONDS) and query.isActive:
            meanwhile()
        query.stop()
        _await(query)
        self.refresh()
        return ingest.taken

    def _ingest(self) -> Ingest:
        return Ingest(self.lake, self.index, _app_of(self.home.checkpoint))

    def _query(self, ingest: Ingest, **trigger: bool | str) -> StreamingQuery:
        self.home.log.mkdir(parents=True, exist_ok=True)
        reader = self.spark.readStream.format(source.NAME).option("bytesPerTrigger", self.bytes_per_trigger)
        events = reader.load(str(self.home.log))
        writer = events.writeStream.foreachBatch(ingest).option("checkpointLocation", str(self.home.checkpoint / "log"))
        return writer.trigger(**trigger).start()  # type: ignore[arg-type]


@contextmanager
def open_pipeline(
    home: Home,
    *,
    say: Say = lambda _: None,
    spark: SparkSession | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> Iterator[Pipeline]:
    """Prepare lake and index, start Spark unless a session is given, and hold the lake's lock."""
    home.create()
    lake = Lake(home.lake)
    with held(home.lake / ".lock"):
        lake.prepare()
        with IndexSink(home.index) as index:
            say("Starting Spark")
            session = spark or build_session(master=master, conf=conf, launchers=home.root / "java")
            if index.event_count == 0 and any(lake.row_counts().values()):
                say("Building the index anew from the lake")
                rebuild_index(session, lake, index)
            yield Pipeline(session, home, lake, index, say)


def _app_of(checkpoint: Path) -> str:
    """The name under which batches are numbered: a new checkpoint counts from 0 again, so it needs a new one."""
    path = checkpoint / "app"
    if not path.exists():
        checkpoint.mkdir(parents=True, exist_ok=True)
        path.write_text(f"clew-{uuid.uuid4()}")
    return path.read_text().strip()


def _await(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    except StreamingQueryException as fault:
        cause = query.exception()
        raise ClewError(f"The pipeline stopped: {_sentence(str(cause or fault))}", hint=_RETRY) from fault


_RETRY = "Nothing is lost: mend the cause and run it again; it goes on where it stopped."


def _sentence(text: str) -> str:
    """The line of a long Python-in-JVM trace that a person can act on."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line and not line.startswith("at ")]
    return (errors or lines or ["unknown"])[-1][:500]
