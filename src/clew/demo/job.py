"""Notebook → streams → log → Spark → lake → index → answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from clew import __version__
from clew.api.export import page_html
from clew.capture.launch import capture_notebook
from clew.collector.intake import take_streams
from clew.collector.log import LogWriter
from clew.errors import ClewError
from clew.home import Home
from clew.pipeline.ingest import Ingested
from clew.pipeline.saying import Say
from clew.pipeline.work import open_pipeline
from clew.query.answers import Answers
from clew.query.model import Hop, NotebookRun
from clew.query.run_page import run_page

NOTEBOOK = "orders.py"
COLUMN = "daily_revenue.parquet.net_revenue"


@dataclass(frozen=True)
class Demo:
    """What the demo found out."""

    column: str
    answer: Hop
    run: NotebookRun
    page: Path
    taken: Ingested
    was_recorded: bool


def run_demo(home: Home, *, say: Say, is_fresh: bool, master: str, conf: Mapping[str, str]) -> Demo:
    """Do the whole job. A notebook whose run is recorded is not run again: its events are, and add nothing."""
    folder = home.root / "demo"
    folder.mkdir(exist_ok=True)
    recorded = None if is_fresh else _recorded_session(home, folder)
    session = recorded or _capture(home, folder, say)
    with LogWriter(home.log) as log:
        take_streams(home.streams, log)
    with open_pipeline(home, say=say, master=master, conf=conf) as pipeline:
        say("Taking the notebook's events in")
        taken = pipeline.take_available()
    say("Answering")
    with Answers(home.index) as answers:
        answer, run = answers.upstream(_column(folder)), answers.run(session)
    page = folder / "orders.html"
    page.write_text(page_html(run_page(run, answer=answer)), encoding="utf-8")
    return Demo(COLUMN, answer, run, page, taken, was_recorded=recorded is not None)


def _capture(home: Home, folder: Path, say: Say) -> str:
    say(f"Running the notebook {NOTEBOOK} under capture")
    # A copy, because marimo writes beside the notebook, and a package's own folder may not be writable.
    notebook = folder / NOTEBOOK
    notebook.write_bytes((files("clew.demo") / NOTEBOOK).read_bytes())
    captured = capture_notebook(notebook, home.streams, env={**os.environ, "CLEW_DEMO_DATA": str(folder)})
    if not (home.streams / captured.session_id).is_dir():
        raise ClewError(
            "The notebook ran, but nothing of it was captured.", hint="Is CLEW_DISABLED set? Unset it and try again."
        )
    _marker(folder).write_text(json.dumps({"session_id": captured.session_id, "of": _fingerprint()}))
    return captured.session_id


def _recorded_session(home: Home, folder: Path) -> str | None:
    """The session that this notebook and this clew left behind, if it is still there."""
    marker = _marker(folder)
    if not marker.exists():
        return None
    note = json.loads(marker.read_text())
    is_same = note["of"] == _fingerprint() and (home.streams / note["session_id"]).is_dir()
    return note["session_id"] if is_same else None


def _column(folder: Path) -> str:
    return f"{folder / COLUMN}"


def _marker(folder: Path) -> Path:
    return folder / "session.json"


def _fingerprint() -> str:
    source = (files("clew.demo") / NOTEBOOK).read_bytes()
    return f"{__version__}:{sha256(source).hexdigest()[:16]}"
