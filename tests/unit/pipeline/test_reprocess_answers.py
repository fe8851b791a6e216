"""Tests of answers with facets before, during and after a backfill: they are the same through every interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from click.testing import CliRunner
from mcp import Client
from starlette.testclient import TestClient
from tests.unit.pipeline.test_reprocess import ALL_RAW_ONLY, backfill, ingest_log, make_event, make_special_events

from clew.cli.main import cli
from clew.cli.serving import build_read_app
from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.facets import FacetOrder
from clew.index.queries.reader import IndexReader
from clew.lake import backfill_state
from clew.lake.lake import Lake
from clew.mcp.server import create_server
from clew.pipeline.reprocess import BackfillProgress

pytestmark = pytest.mark.slow

# A few events per chunk: some entities are backfilled in part.
CHUNK_BYTES = 100 << 10
FACET_KEYS = {"facet", "facets", "inputFacets", "outputFacets"}


def make_home(root: Path, order: FacetOrder, *, is_raw_only: bool) -> DataDir:
    home = DataDir(root)
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "test", body) for body in make_special_events())
    Lake(home.create().lake).create_or_validate(order)
    ingest_log(home, ALL_RAW_ONLY if is_raw_only else ())
    return home


class Answers:
    """Answers of all interfaces about all runs, jobs and datasets of a data directory."""

    def __init__(self, home: DataDir) -> None:
        self._home = home
        with IndexReader(home.index) as index:
            self._runs = [row["run_uuid"] for row in index.query("select run_uuid from runs order by 1")]
            self._jobs = [tuple(row) for row in index.query("select namespace, name from jobs order by 1, 2")]
            rows = index.query("select namespace, name from datasets where name != 's' order by 1, 2")
            self._datasets = [tuple(row) for row in rows]

    def read(self) -> dict[str, Any]:
        """Return the facets in each answer."""
        answers = dict(self._http())
        answers |= {f"cli {' '.join(arguments)}": self._cli(*arguments) for arguments in self._commands()}
        return {**answers, **asyncio.run(self._mcp())}

    def _http(self) -> Iterator[tuple[str, Any]]:
        with TestClient(build_read_app(self._home)) as client:
            for path in self._paths():
                response = client.get(path)
                assert response.status_code == 200, f"{path}: {response.text}"
                assert "clew-facets" not in response.headers
                yield path, list(find_facets(response.json()))

    def _paths(self) -> Iterator[str]:
        for run in self._runs:
            yield from (f"/api/v1/jobs/runs/{run}", f"/api/v2/runs/{run}", f"/api/v2/facets?nodeId=run:{run}")
            yield from (f"/api/v1/jobs/runs/{run}/facets?type={kind}" for kind in ("run", "job"))
            yield from (f"/api/v2/pages/run/{run}", f"/api/v2/facets/history?nodeId=run:{run}&name=note")
        for kind, names in (("job", self._jobs), ("dataset", self._datasets)):
            for namespace, name in names:
                yield f"/api/v1/namespaces/{namespace}/{kind}s/{quote(name, '')}"
                node = quote(f"{kind}:{namespace}:{name}", "")
                facet = "jobType" if kind == "job" else "schema"
                yield from (f"/api/v2/facets?nodeId={node}", f"/api/v2/facets/history?nodeId={node}&name={facet}")
                yield f"/api/v2/{kind}?nodeId={node}"
                yield f"/api/v2/pages/{kind}?{urlencode({'namespace': namespace, 'name': name})}"
        for namespace, name in self._jobs:
            yield f"/api/v1/namespaces/{namespace}/jobs/{name}/runs"
        for namespace, name in self._datasets:
            yield f"/api/v1/namespaces/{namespace}/datasets/{name}/versions"
        yield from ("/api/v1/jobs", "/api/v1/namespaces/n/jobs", "/api/v1/namespaces/n/datasets")

    def _commands(self) -> Iterator[tuple[str, ...]]:
        yield from (("run", run) for run in self._runs)
        yield from (("job", *name) for name in self._jobs)
        for name in self._datasets:
            yield "dataset", *name
            yield from (("dataset", *name, "--dataset-version", version) for version in "01")

    def _cli(self, *arguments: str) -> Any:
        command = ["facets", *arguments, "--json", "--home", str(self._home.root)]
        result = CliRunner().invoke(cli, command, catch_exceptions=False)
        return json.loads(result.stdout) if result.exit_code == 0 else result.stderr

    async def _mcp(self) -> dict[str, Any]:
        answers = {}
        async with Client(create_server(self._home.index, self._home.lake)) as client:
            names = [*self._runs, *(f"job:{ns}:{name}" for ns, name in self._jobs)]
            for name in (*names, *(f"dataset:{ns}:{name}" for ns, name in self._datasets)):
                reply = (await client.call_tool("describe", {"name": name})).structured_content
                answers[f"mcp {name}"] = list(find_facets(reply))
        return answers


def find_facets(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Find the facets in an answer."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key in FACET_KEYS:
                # A dataset that only lineage mentions has no facets, and is not in a list before the backfill.
                yield from [(f"{path}/{key}", member)] if member else []
            else:
                yield from find_facets(member, f"{path}/{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from find_facets(item, f"{path}/{number}")


@pytest.mark.parametrize("order", FacetOrder)
def test_answers_are_the_same_before_during_and_after(order: FacetOrder, tmp_path: Path) -> None:
    full_home = make_home(tmp_path / "full", order, is_raw_only=False)
    home = make_home(tmp_path / "raw", order, is_raw_only=True)
    expected = Answers(full_home).read()
    assert sum(answer not in ([], {}) for answer in expected.values()) > 100
    answers = Answers(home)
    compare(answers.read(), expected)
    chunks = 0

    def check(_: BackfillProgress) -> None:
        nonlocal chunks
        chunks += 1
        if chunks in (1, 3):
            compare(answers.read(), expected)

    assert backfill(home, CHUNK_BYTES, check).chunks > 3
    compare(answers.read(), expected)


def compare(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for question, answer in expected.items():
        assert actual[question] == answer, question


@pytest.mark.parametrize(("limit", "value"), [("MAX_RAW_EVENTS", 1), ("MAX_RAW_BYTES", 10)])
def test_answers_say_that_facets_are_incomplete(
    limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "raw", FacetOrder.RECEIVED, is_raw_only=True)
    monkeypatch.setattr(backfill_state, limit, value)
    node = {"namespace": "n", "name": "j1"}
    with TestClient(build_read_app(home)) as client:
        for path in ("v1/namespaces/n/jobs/j1", "v2/job?nodeId=job:n:j1", f"v2/pages/job?{urlencode(node)}"):
            response = client.get(f"/api/{path}")
            assert response.headers["clew-facets"] == "incomplete", path
            assert ("jobType" in response.json()["facets"]) is (limit == "MAX_RAW_EVENTS")
        response = client.get("/api/v2/facets/history?nodeId=job:n:j1&name=jobType")
        assert response.status_code == 503
        assert "not backfilled yet" in response.json()["title"]
    result = CliRunner().invoke(cli, ["facets", "job", "n", "j1", "--home", str(home.root)])
    assert "not backfilled yet" in result.stderr


def test_a_large_event_is_read_only_for_its_own_entities(tmp_path: Path) -> None:
    home = DataDir(tmp_path)
    large = {"namespace": "n", "name": "other", "facets": {"plan": {"text": "x" * (1 << 20)}}}
    bodies = [make_event(1), make_event(2, job=large, run={"runId": "large"}, inputs=[], outputs=[])]
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "test", body) for body in bodies)
    ingest_log(home, ALL_RAW_ONLY)
    lake = Lake(home.lake)
    backfilled = backfill_state.read_backfilled_ranges(lake)
    own = backfill_state.EventSelection(jobs=frozenset({("n", "j1")}))
    pending = backfill_state.read_pending_events(lake, backfilled, own)
    assert [event.run.run_id for event, _ in pending.events if event.run] == ["run-0"]
    assert pending.is_complete
