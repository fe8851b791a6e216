"""Tests of the pipeline's Prometheus metrics."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.pipeline.checkpoint import BatchRecord
from clew.pipeline.metrics import LagMetrics, PipelineMetrics


def parse_samples(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def metrics(home: DataDir) -> PipelineMetrics:
    """Metrics of a log with two events, one of them ingested."""
    with LogWriter(home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b"1")])
        position = log.position
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b"2")])
    pipeline_metrics = PipelineMetrics(home)
    pipeline_metrics(BatchRecord("app", 0, 0, 0.3, 1, 2, 3, {"run_facets": 4}, position, 2))
    pipeline_metrics.maintenance_stats.compactions = 5
    return pipeline_metrics


EXPECTED = {
    "clew_events_total": 1,
    "clew_rejected_events_total": 2,
    "clew_corrupt_records_total": 2,
    "clew_duplicate_events_total": 3,
    "clew_rows_total run_facets": 4,
    "clew_batch_duration_seconds_count": 1,
    "clew_batch_duration_seconds_sum": 0.3,
    "clew_batch_duration_seconds_bucket 0.25": 0,
    "clew_batch_duration_seconds_bucket 0.5": 1,
    "clew_log_lag_events": 1,
    "clew_maintenance_runs compaction": 5,
    "clew_maintenance_errors": 0,
}


def check_metrics(text: str) -> None:
    values = parse_samples(text)
    assert {name: values[name] for name in EXPECTED} == EXPECTED
    assert values["clew_log_lag_bytes"] > 0
    assert values["clew_seconds_since_last_batch"] >= 0


def test_writes_metrics_to_a_file(metrics: PipelineMetrics, tmp_path: Path) -> None:
    metrics.write(tmp_path / "clew.prom")
    check_metrics((tmp_path / "clew.prom").read_text())
    with pytest.raises(ClewError, match=r"Metrics cannot be written to .*nowhere.*: No such file"):
        metrics.write(tmp_path / "nowhere" / "clew.prom")


def test_serves_metrics(metrics: PipelineMetrics) -> None:
    with metrics.serve("127.0.0.1", 0) as port, urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        check_metrics(response.read().decode())


def test_reports_a_port_in_use(metrics: PipelineMetrics) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        with (
            pytest.raises(ClewError, match=rf"Metrics cannot be served on 127\.0\.0\.1:{port}: Address .*in use\."),
            metrics.serve("127.0.0.1", port),
        ):
            pass


def test_lag_for_a_server_beside_the_pipeline(metrics: PipelineMetrics, home: DataDir) -> None:
    """Without a checkpoint, nothing is ingested."""
    assert metrics is not None
    values = {sample.name: sample.value for family in LagMetrics(home).collect() for sample in family.samples}
    assert values["clew_log_lag_events"] == 2
    assert values["clew_log_lag_bytes"] > 0
