"""Run the demo: notebook → streams → log → Spark → lake → index → lineage."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from clew import __version__
from clew.api.static_files import render_run_page
from clew.capture.launch import capture_notebook
from clew.collector.file_import import import_streams
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.writer import LogWriter
from clew.pipeline.ingest import IngestStats
from clew.pipeline.pipeline import open_pipeline
from clew.progress import ProgressCallback
from clew.query.model import LineageStep, NotebookRun
from clew.query.pages.run_page import build_run_page
from clew.query.service import LineageService

NOTEBOOK = "orders.py"
COLUMN = "daily_revenue.parquet.net_revenue"


@dataclass(frozen=True)
class DemoResult:
    """Result of the demo; `reused` means that an earlier notebook run was used."""

    column: str
    upstream: LineageStep
    run: NotebookRun
    page: Path
    ingested: IngestStats
    reused: bool


def run_demo(
    home: DataDir, *, on_progress: ProgressCallback, is_fresh: bool, master: str, conf: Mapping[str, str]
) -> DemoResult:
    """Run the demo; an earlier notebook run is reused unless `is_fresh`, its events are deduplicated."""
    folder = home.root / "demo"
    folder.mkdir(exist_ok=True)
    recorded = None if is_fresh else _recorded_session(home, folder)
    session = recorded or _capture(home, folder, on_progress)
    with LogWriter(home.log) as log:
        import_streams(home.streams, log)
    with open_pipeline(home, on_progress=on_progress, master=master, conf=conf) as pipeline:
        on_progress("Ingesting the notebook's events")
        ingested = pipeline.run()
    on_progress("Tracing the column")
    with LineageService.open(home.index) as service:
        upstream, run = service.trace_column(_column(folder)), service.get_session(session)
    page = folder / "orders.html"
    page.write_text(render_run_page(build_run_page(run, upstream=upstream)), encoding="utf-8")
    return DemoResult(COLUMN, upstream, run, page, ingested, reused=recorded is not None)


def _capture(home: DataDir, folder: Path, on_progress: ProgressCallback) -> str:
    on_progress(f"Running the notebook {NOTEBOOK} under capture")
    # Copied because marimo writes next to the notebook, and the package folder may be read-only.
    notebook = folder / NOTEBOOK
    notebook.write_bytes((files("clew.demo") / NOTEBOOK).read_bytes())
    captured = capture_notebook(
        notebook, home.streams, env={**os.environ, "CLEW_DEMO_DATA": str(folder), "CLEW_PROJECT": str(folder)}
    )
    if not (home.streams / captured.session_id).is_dir():
        raise ClewError(
            "The notebook ran, but nothing was captured.", hint="Is CLEW_DISABLED set? Unset it and try again."
        )
    _marker(folder).write_text(json.dumps({"session_id": captured.session_id, "fingerprint": _fingerprint()}))
    return captured.session_id


def _recorded_session(home: DataDir, folder: Path) -> str | None:
    """Return the session of an earlier run of this notebook with this version, if it still exists."""
    marker = _marker(folder)
    if not marker.exists():
        return None
    marker_data = json.loads(marker.read_text())
    is_same = marker_data.get("fingerprint") == _fingerprint() and (home.streams / marker_data["session_id"]).is_dir()
    return marker_data["session_id"] if is_same else None


def _column(folder: Path) -> str:
    return f"{folder / COLUMN}"


def _marker(folder: Path) -> Path:
    return folder / "session.json"


def _fingerprint() -> str:
    source = (files("clew.demo") / NOTEBOOK).read_bytes()
    return f"{__version__}:{sha256(source).hexdigest()[:16]}"
