"""Tests of the metrics and the monitoring routes of HTTP servers."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from clew.errors import ClewError
from clew.server.auth import Authenticator, KeyFile, Scope
from clew.server.fast_path import FastRequest, RawResponse
from clew.server.metrics import ResponseMetrics, create_registry, monitoring_routes
from clew.server.monitoring import always_ready


def samples(text: str) -> dict[str, float]:
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def make_client(metrics: ResponseMetrics, authenticator: Authenticator | None = None) -> TestClient:
    def fail(_: Request) -> Response:
        raise ValueError

    def answer(_: Request) -> Response:
        return PlainTextResponse("answer")

    routes = monitoring_routes(create_registry(metrics), authenticator or Authenticator(), always_ready)
    app = Starlette(routes=[Route("/", answer), Route("/fail", fail), *routes])
    return TestClient(metrics.measure(app), raise_server_exceptions=False)


def test_responses_are_counted_on_both_paths() -> None:
    metrics = ResponseMetrics()
    client = make_client(metrics)
    for path in ("/", "/", "/missing", "/fail"):
        client.get(path)
    fast = metrics.measure_fast(lambda _, url: RawResponse(200, (), b"") if url == b"/fast" else None)
    assert fast is not None
    assert fast(FastRequest({}, b"", None), b"/other") is None
    fast(FastRequest({}, b"", None), b"/fast")
    values = samples(client.get("/metrics").text)
    assert values["clew_http_responses_total 200"] == 3
    assert values["clew_http_responses_total 404"] == 1
    assert values["clew_http_responses_total 500"] == 1
    assert values["clew_http_response_seconds_count"] == 5
    assert values["process_resident_memory_bytes"] > 0
    assert metrics.measure_fast(None) is None


def test_metrics_need_a_key_if_keys_are_required(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    key = {scope: keys.add(scope.value, [scope]) for scope in (Scope.READ, Scope.WRITE)}
    client = make_client(ResponseMetrics(), Authenticator(keys))
    statuses = [
        client.get("/metrics", headers=headers).status_code
        for headers in (
            {},
            {"Authorization": f"Bearer {key[Scope.WRITE]}"},
            {"Authorization": f"Bearer {key[Scope.READ]}"},
        )
    ]
    assert statuses == [401, 403, 200]
    assert client.get("/readyz").text == "ready\n"


def test_readiness() -> None:
    def check() -> None:
        raise ClewError("The index cannot be read.", hint="Rebuild it.")

    app = Starlette(routes=[*monitoring_routes(create_registry(), Authenticator(), check)])
    response = TestClient(app).get("/readyz")
    assert (response.status_code, response.text) == (503, "not ready: The index cannot be read.\n")
