"""Streams over HTTP: everything arrives, however often the endpoint is down, and nothing waits for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.event_receivers import Taker

from clew.capture.emit.delivery import DeliveryEndpoint, SpoolSender, find_endpoint, init_delivery_state
from clew.capture.emit.files import DATAFRAME, FILES, LINEAGE, RUNTIME, SPARK, STATE_FOLDER

PATHS = {
    LINEAGE: "/api/v1/lineage",
    RUNTIME: "/api/v1/events/runtime",
    DATAFRAME: "/api/v1/events/dataframe",
}


def write(folder: Path, count: int, start: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        with (folder / name).open("ab") as file:
            file.writelines(b'{"stream": "%s", "n": %d}\n' % (name.encode(), n) for n in range(start, start + count))


def begun(folder: Path, url: str) -> SpoolSender:
    folder.mkdir(exist_ok=True)
    delivery = SpoolSender(folder, DeliveryEndpoint(url, api_key="k1"))
    assert delivery.acquire()
    return delivery


def test_each_stream_goes_to_its_own_path_and_nothing_is_left_behind(tmp_path: Path) -> None:
    taker, folder = Taker(), tmp_path / "out"
    with taker.listening() as url:
        delivery = begun(folder, url)
        write(folder, 3)
        assert delivery.poll()
        delivery.close()
    for name, path in PATHS.items():
        assert taker.bodies(path) == (folder / name).read_bytes().splitlines()
    assert taker.keys == {"Bearer k1"}
    assert {path.name for path in folder.iterdir()} == set(FILES)


def spark_event(kind: str, run: str, job_type: str) -> bytes:
    job = b'{"facets": {"jobType": {"jobType": "%s"}}}' % job_type.encode()
    return b'{"eventType": "%s", "run": {"runId": "%s"}, "job": %s}\n' % (kind.encode(), run.encode(), job)


def test_what_a_spark_session_tells_is_awaited_to_its_end(tmp_path: Path) -> None:
    taker, folder = Taker(), tmp_path / "out"
    with taker.listening() as url:
        init_delivery_state(folder)
        first, job = spark_event("START", "a", "APPLICATION"), spark_event("START", "j", "RDD_JOB")
        last = spark_event("COMPLETE", "a", "APPLICATION")
        (folder / SPARK).write_bytes(first + b"no event\n" + job)
        delivery = begun(folder, url)
        assert delivery.poll()
        assert delivery.has_running_apps
        with (folder / SPARK).open("ab") as file:
            file.write(last)
        assert delivery.poll()
        assert not delivery.has_running_apps
        delivery.close()
    assert taker.bodies(PATHS[LINEAGE]) == (folder / SPARK).read_bytes().splitlines()


def test_an_endpoint_of_somebody_else_gets_openlineage_alone(tmp_path: Path) -> None:
    taker, folder = Taker(lambda path: 201 if path == PATHS[LINEAGE] else 404), tmp_path / "out"
    with taker.listening() as url:
        delivery = begun(folder, url)
        write(folder, 2)
        assert delivery.poll()
        delivery.close()
    assert len(taker.taken) == 2
    assert not (folder / STATE_FOLDER).exists()


@pytest.mark.parametrize("status", [401, 404, 408, 429, 500, 503])
def test_what_is_not_taken_is_sent_again_by_the_next(tmp_path: Path, status: int) -> None:
    answers = iter([201, status])
    taker, folder = Taker(lambda _: next(answers, 201)), tmp_path / "out"
    with taker.listening() as url:
        delivery = begun(folder, url)
        write(folder, 2)
        assert not delivery.poll()
        assert delivery.pending_bytes()
        delivery.close()
        later = begun(folder, url)
        assert later.poll()
        assert not later.pending_bytes()
        later.close()
    assert taker.bodies(PATHS[LINEAGE]) == (folder / LINEAGE).read_bytes().splitlines()


def test_an_event_that_is_refused_does_not_hold_up_the_others(tmp_path: Path) -> None:
    answers = iter([400])
    taker, folder = Taker(lambda _: next(answers, 201)), tmp_path / "out"
    with taker.listening() as url:
        delivery = begun(folder, url)
        write(folder, 3)
        assert delivery.poll()
        assert delivery.state.rejected == 1
        delivery.close()
    assert len(taker.bodies(PATHS[LINEAGE])) == 2


def test_an_endpoint_that_is_down_and_up_again(tmp_path: Path) -> None:
    taker, folder = Taker(), tmp_path / "out"
    with taker.listening() as url:
        delivery = begun(folder, url)
        write(folder, 1)
        assert delivery.poll()
    write(folder, 1, start=1)
    assert not delivery.poll()
    with taker.listening(int(url.rsplit(":", 1)[1])):
        assert delivery.poll()
    delivery.close()
    assert taker.bodies(PATHS[LINEAGE]) == (folder / LINEAGE).read_bytes().splitlines()


def test_a_folder_is_sent_by_one_at_a_time(tmp_path: Path) -> None:
    first = begun(tmp_path / "out", "http://127.0.0.1:9")
    second = SpoolSender(tmp_path / "out", DeliveryEndpoint("http://127.0.0.1:9"))
    assert not second.acquire()
    first.close()
    assert second.acquire()
    second.close()


YML = """\
# where events go
transport:
  type: http
  url: "https://lineage.example.org/base"   # ours
  endpoint: api/v2/lineage
  timeout: 7
  auth:
    type: api_key
    apiKey: 'k3y'
"""


@pytest.mark.parametrize(
    ("environment", "config", "expected"),
    [
        ({}, None, None),
        ({"OPENLINEAGE_URL": "http://here:5000"}, None, DeliveryEndpoint("http://here:5000")),
        (
            {"OPENLINEAGE_URL": "http://here", "OPENLINEAGE_ENDPOINT": "e", "OPENLINEAGE_API_KEY": "k"},
            None,
            DeliveryEndpoint("http://here", "e", "k"),
        ),
        ({"OPENLINEAGE_URL": "http://here", "OPENLINEAGE_DISABLED": "true"}, None, None),
        ({"OPENLINEAGE_URL": "nonsense"}, None, None),
        (
            {"OPENLINEAGE_URL": "http://here"},
            YML,
            DeliveryEndpoint("https://lineage.example.org/base", "api/v2/lineage", "k3y", 7.0),
        ),
        ({"OPENLINEAGE_URL": "http://here"}, "transport:\n  type: console\n", None),
        ({"OPENLINEAGE_URL": "http://here"}, "facets:\n  environment_variables: []\n", DeliveryEndpoint("http://here")),
    ],
)
def test_the_endpoint_is_found_as_openlineage_clients_find_it(
    environment: dict[str, str],
    config: str | None,
    expected: DeliveryEndpoint | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if config is not None:
        Path("openlineage.yml").write_text(config)
    assert find_endpoint() == expected


def test_a_base_path_is_kept() -> None:
    endpoint = DeliveryEndpoint("https://lineage.example.org/base/", "/api/v1/lineage")
    assert endpoint.target(LINEAGE) == "/base/api/v1/lineage"
