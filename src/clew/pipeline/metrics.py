"""The pipeline in numbers, for Prometheus: served on a port, or written to a file that its node exporter reads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server, write_to_textfile

from clew.collector.lag import lag_behind
from clew.collector.segments import end_position
from clew.errors import ClewError
from clew.home import Home
from clew.pipeline.caretaker import Cared
from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.journal import TakenBatch

_BATCH_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)


class Metrics:
    """Listens to a pipeline's batches; what is waiting is counted when someone asks."""

    def __init__(self, home: Home) -> None:
        self.registry = CollectorRegistry()
        # What a caretaker beside a stream has done: it counts here itself.
        self.cared = Cared()
        self._home = home
        self._position = Checkpoint(home.checkpoint).position
        self._last = time.monotonic()
        self._make_counters()
        self._make_gauges()

    def __call__(self, batch: TakenBatch) -> None:
        """Count a batch."""
        self._position, self._last = batch.position, time.monotonic()
        self._events.inc(batch.events)
        self._rejected.inc(batch.rejected)
        self._repeated.inc(batch.repeated)
        self._seconds.observe(batch.seconds)
        for table, rows in batch.rows.items():
            self._rows.labels(table).inc(rows)

    @contextmanager
    def served(self, host: str, port: int) -> Iterator[int]:
        """Answer at `http://host:port/metrics` meanwhile; gives the port, which is a free one for 0."""
        try:
            server, thread = start_http_server(port, host, self.registry)
        except (OSError, OverflowError) as fault:
            reason = getattr(fault, "strerror", None) or fault
            message = f"Metrics cannot be served on {host}:{port}: {reason}."
            raise ClewError(message, hint="Choose another port with --metrics-port.") from fault
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def write(self, path: Path) -> None:
        """Write them to a file, in one step."""
        try:
            write_to_textfile(str(path), self.registry)
        except OSError as fault:
            message = f"Metrics cannot be written to {path}: {fault.strerror}."
            raise ClewError(message, hint="Events were taken in. Name another file with --metrics-file.") from fault

    def _make_counters(self) -> None:
        registry = self.registry
        self._events = Counter("clew_events", "Events taken in.", registry=registry)
        self._rejected = Counter("clew_rejected_events", "Events rejected.", registry=registry)
        self._repeated = Counter("clew_repeated_events", "Events known already.", registry=registry)
        self._rows = Counter("clew_rows", "Rows added.", ["table"], registry=registry)
        self._seconds = Histogram(
            "clew_batch_seconds", "How long a batch took.", buckets=_BATCH_SECONDS, registry=registry
        )

    def _make_gauges(self) -> None:
        for name, text, value in (
            ("clew_log_waiting_bytes", "Bytes of the log that are not taken in.", self._waiting_bytes),
            ("clew_log_waiting_events", "Events of the log that are not taken in.", self._waiting_events),
            ("clew_last_batch_age_seconds", "Seconds since the last batch.", self._age),
        ):
            Gauge(name, text, registry=self.registry).set_function(value)
        upkeep = Gauge("clew_upkeep_runs", "How often upkeep was done.", ["work"], registry=self.registry)
        for work in Cared.__struct_fields__:
            upkeep.labels(work).set_function(partial(getattr, self.cared, work))

    def _waiting_bytes(self) -> float:
        return max(0, end_position(self._home.log) - self._position)

    def _waiting_events(self) -> float:
        return lag_behind(self._home.log, self._position).events

    def _age(self) -> float:
        return time.monotonic() - self._last
