"""A server as started by `clew up`, in this process, for requests of Marquez's clients: API, collector and index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_OID, uuid4, uuid5

from starlette.testclient import TestClient
from tests.unit.api.marquez.conftest import Shop

from clew.api.app import CollectorDispatch
from clew.api.marquez.revivals import Revivals
from clew.cli.serving import build_app
from clew.collector.app import RequestLimits, create_collector
from clew.eventlog.writer import LogWriter

Document = dict[str, Any]

PRODUCER = "https://example.org/marquez-requests"
_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/"
_FACET = {"_producer": PRODUCER, "_schemaURL": "https://example.org/facet.json"}


class MarquezServer(Shop):
    """A server with Marquez's API. Events are indexed at once if it `is_eager`, otherwise before a list is read."""

    def __init__(self, root: Path, log: LogWriter, *, is_eager: bool) -> None:
        super().__init__(root)
        self._is_eager = is_eager
        collector = create_collector(log, RequestLimits(), self.home.streams)
        revivals = Revivals()
        api, _ = build_app(self.home, lambda event: collector.appender.append([event]), revivals=revivals)
        collector.appender.find_companions = revivals.annotations_for
        self.client = TestClient(CollectorDispatch(api, collector))

    def send_event(self, event: Document | str, status: int = 201) -> str:
        """Post an event, and return the body of the response."""
        body = event if isinstance(event, str) else json.dumps(event)
        response = self.client.post("/api/v1/lineage", content=body, headers={"content-type": "application/json"})
        assert response.status_code == status, response.text
        self._wrote()
        return response.text

    def write(self, method: str, path: str, status: int = 200, body: Any = None, **params: Any) -> Any:
        """Send a request that changes something, and return the decoded response."""
        document = self.request(method, path, status, body, **params)
        self._wrote()
        return document

    def read_list(self, path: str, **params: Any) -> Any:
        """Return a list or a graph once the index has all events."""
        self.index_new_events()
        return self.get(path, **params)

    def _wrote(self) -> None:
        if self._is_eager:
            self.index_new_events()

    def put_namespace(self, name: str, owner: str = "ann", description: str | None = "All of ours") -> Any:
        """Create or change a namespace."""
        body = {"ownerName": owner, "description": description}
        return self.write("PUT", f"/namespaces/{escape(name)}", body=body)

    def put_source(self, name: str, url: str = "jdbc:postgresql://db:5432/shop", kind: str = "POSTGRESQL") -> Any:
        """Create or change a source."""
        body = {"type": kind, "connectionUrl": url, "description": "The database"}
        return self.write("PUT", f"/sources/{escape(name)}", body=body)

    def put_table(self, namespace: str, name: str, status: int = 200, **body: Any) -> Any:
        """Create or change a dataset of type DB_TABLE."""
        defaults = {"type": "DB_TABLE", "physicalName": name, "sourceName": "db", "fields": []}
        return self.write("PUT", dataset_path(namespace, name), status, {**defaults, **body})

    def put_job(self, namespace: str, name: str, status: int = 200, **body: Any) -> Any:
        """Create or change a job."""
        defaults = {"type": "BATCH", "inputs": [], "outputs": [], "location": "https://git.example.org/shop"}
        return self.write("PUT", job_path(namespace, name), status, {**defaults, **body})

    def create_run(self, namespace: str, job: str, status: int = 201, **body: Any) -> Any:
        """Create a run of a job."""
        return self.write("POST", f"{job_path(namespace, job)}/runs", status, body)

    def mark_run(self, run: str, action: str, **params: Any) -> Any:
        """Change the state of a run: `start`, `complete`, `fail` or `abort`."""
        return self.write("POST", f"/jobs/runs/{run}/{action}", **params)


@contextmanager
def run_marquez_server(root: Path, *, is_eager: bool) -> Iterator[MarquezServer]:
    """Run a server with a namespace and two sources."""
    with LogWriter(root / "log") as log:
        server = MarquezServer(root, log, is_eager=is_eager)
        with server.client:
            server.put_namespace("team")
            server.put_source("db")
            server.put_source("kafka", "kafka://broker:9092", "KAFKA")
            yield server


def escape(name: str) -> str:
    """Escape a name in a path."""
    return quote(name, safe="")


def dataset_path(namespace: str, name: str) -> str:
    """Return the path of a dataset."""
    return f"/namespaces/{escape(namespace)}/datasets/{escape(name)}"


def job_path(namespace: str, name: str) -> str:
    """Return the path of a job."""
    return f"/namespaces/{escape(namespace)}/jobs/{escape(name)}"


def run_id(name: str | None = None) -> str:
    """Return the id of a run: that of a name, or a new one."""
    return str(uuid4()) if name is None else str(uuid5(NAMESPACE_OID, name))


def facet(**members: Any) -> Document:
    """Return a facet."""
    return {**_FACET, **members}


def dataset(name: str, namespace: str = "warehouse", **facets: Document) -> Document:
    """Return a dataset of an event."""
    return {"namespace": namespace, "name": name, "facets": facets}


def schema(*columns: str) -> Document:
    """Return a schema facet."""
    return facet(fields=[{"name": column, "type": "STRING", "description": ""} for column in columns])


def run_event(run: str, job: str, kind: str = "COMPLETE", namespace: str = "team", **members: Any) -> Document:
    """Return an event of a run. `parent` is the id of the parent's run and the name of its job."""
    parent, facets = members.pop("parent", None), members.pop("run_facets", {})
    if parent is not None:
        facets = {**facets, "parent": parent_facet(parent[0], parent[1], namespace)}
    return {
        "eventType": kind,
        "eventTime": "2026-01-01T10:00:00Z",
        "run": {"runId": run, "facets": facets},
        "job": {"namespace": namespace, "name": job, "facets": members.pop("job_facets", {})},
        "inputs": [],
        "outputs": [],
        "producer": PRODUCER,
        "schemaURL": f"{_SPEC}RunEvent",
        **members,
    }


def parent_facet(run: str, job: str, namespace: str = "team") -> Document:
    """Return the facet that names the parent of a run."""
    return facet(run={"runId": run}, job={"namespace": namespace, "name": job})


def static_event(kind: str, **members: Any) -> Document:
    """Return a DatasetEvent or a JobEvent."""
    return {
        "eventTime": "2026-01-01T10:00:00+10:00",
        "producer": PRODUCER,
        "schemaURL": f"{_SPEC}{kind}",
        **members,
    }
