"""Tests of log lines on stderr."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from clew.server.run import configure_logging


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("clew").setLevel(logging.NOTSET)


def test_json_lines_have_fields_and_traces(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(as_json=True)
    log = logging.getLogger("clew.collector")
    log.info("rejected: %s", 'a "quoted"\nline', extra={"fields": {"status": 503}})
    try:
        raise ValueError("no room")  # noqa: TRY301
    except ValueError:
        log.exception("an error")
    logging.getLogger("other").info("not logged")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"], first["status"]) == ("info", "clew.collector", 503)
    assert first["message"] == 'rejected: a "quoted"\nline'
    assert "ValueError: no room" in second["trace"]


def test_text_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(as_json=False)
    logging.getLogger("clew").warning("a thing")
    assert capsys.readouterr().err.endswith(" WARNING a thing\n")
