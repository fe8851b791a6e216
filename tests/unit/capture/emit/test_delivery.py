"""Tests of delivery over HTTP: every event arrives after failures, and capture does not wait for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.support.event_receivers import EventReceiver

from clew.capture import diagnostics
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


def start_sender(folder: Path, url: str) -> SpoolSender:
    folder.mkdir(exist_ok=True)
    sender = SpoolSender(folder, DeliveryEndpoint(url, api_key="k1"))
    assert sender.acquire()
    return sender


def test_sends_each_stream_to_its_path_and_removes_its_state(tmp_path: Path) -> None:
    receiver, folder = EventReceiver(), tmp_path / "out"
    with receiver.listen() as url:
        sender = start_sender(folder, url)
        write(folder, 3)
        assert sender.poll()
        sender.close()
    for name, path in PATHS.items():
        assert receiver.bodies(path) == (folder / name).read_bytes().splitlines()
    assert receiver.authorizations == {"Bearer k1"}
    assert {path.name for path in folder.iterdir()} == set(FILES)


def spark_event(kind: str, run: str, job_type: str) -> bytes:
    job = b'{"facets": {"jobType": {"jobType": "%s"}}}' % job_type.encode()
    return b'{"eventType": "%s", "run": {"runId": "%s"}, "job": %s}\n' % (kind.encode(), run.encode(), job)


def test_waits_for_the_end_of_spark_applications(tmp_path: Path) -> None:
    receiver, folder = EventReceiver(), tmp_path / "out"
    with receiver.listen() as url:
        init_delivery_state(folder)
        first, job = spark_event("START", "a", "APPLICATION"), spark_event("START", "j", "RDD_JOB")
        last = spark_event("COMPLETE", "a", "APPLICATION")
        (folder / SPARK).write_bytes(first + b"no event\n" + job)
        sender = start_sender(folder, url)
        assert sender.poll()
        assert sender.has_running_apps
        with (folder / SPARK).open("ab") as file:
            file.write(last)
        assert sender.poll()
        assert not sender.has_running_apps
        sender.close()
    assert receiver.bodies(PATHS[LINEAGE]) == (folder / SPARK).read_bytes().splitlines()


def test_sends_only_openlineage_to_other_endpoints(tmp_path: Path) -> None:
    receiver, folder = EventReceiver(lambda path: 201 if path == PATHS[LINEAGE] else 404), tmp_path / "out"
    with receiver.listen() as url:
        sender = start_sender(folder, url)
        write(folder, 2)
        assert sender.poll()
        sender.close()
    assert len(receiver.received) == 2
    assert not (folder / STATE_FOLDER).exists()


@pytest.mark.parametrize("status", [401, 404, 408, 429, 500, 503])
def test_next_sender_retries_failed_events(tmp_path: Path, status: int) -> None:
    statuses = iter([201, status])
    receiver, folder = EventReceiver(lambda _: next(statuses, 201)), tmp_path / "out"
    with receiver.listen() as url:
        sender = start_sender(folder, url)
        write(folder, 2)
        assert not sender.poll()
        assert sender.pending_bytes()
        sender.close()
        next_sender = start_sender(folder, url)
        assert next_sender.poll()
        assert not next_sender.pending_bytes()
        next_sender.close()
    assert receiver.bodies(PATHS[LINEAGE]) == (folder / LINEAGE).read_bytes().splitlines()


def test_rejected_event_does_not_block_others(tmp_path: Path) -> None:
    statuses = iter([400])
    receiver, folder = EventReceiver(lambda _: next(statuses, 201)), tmp_path / "out"
    with receiver.listen() as url:
        sender = start_sender(folder, url)
        write(folder, 3)
        assert sender.poll()
        assert sender.state.rejected == 1
        sender.close()
    assert len(receiver.bodies(PATHS[LINEAGE])) == 2


def test_sends_after_the_endpoint_is_up_again(tmp_path: Path) -> None:
    receiver, folder = EventReceiver(), tmp_path / "out"
    with receiver.listen() as url:
        sender = start_sender(folder, url)
        write(folder, 1)
        assert sender.poll()
    write(folder, 1, start=1)
    assert not sender.poll()
    with receiver.listen(int(url.rsplit(":", 1)[1])):
        assert sender.poll()
    sender.close()
    assert receiver.bodies(PATHS[LINEAGE]) == (folder / LINEAGE).read_bytes().splitlines()


def test_one_sender_per_folder(tmp_path: Path) -> None:
    first = start_sender(tmp_path / "out", "http://127.0.0.1:9")
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
        (
            {},
            "transport: {type: async_http, url: 'http://here', timeout: soon, auth: {api_key: 7}}",
            DeliveryEndpoint("http://here", api_key="7"),
        ),
        ({"OPENLINEAGE_URL": "http://here"}, "transport:\n  type: console\n", None),
        ({}, "transport: {type: http, url: 'http://here', auth: none}", DeliveryEndpoint("http://here")),
        ({"OPENLINEAGE_URL": "http://here"}, "", DeliveryEndpoint("http://here")),
        ({"OPENLINEAGE_URL": "http://here"}, "transport:\n", DeliveryEndpoint("http://here")),
        ({"OPENLINEAGE_URL": "http://here"}, "facets:\n  environment_variables: []\n", DeliveryEndpoint("http://here")),
    ],
)
def test_find_endpoint_follows_openlineage_configuration(
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


@pytest.mark.parametrize(
    ("config", "has_yaml", "warning"),
    [
        (YML, False, "openlineage.yml is ignored without PyYAML: run `pip install pyyaml`, or set OPENLINEAGE_URL"),
        ("transport: [", True, "openlineage.yml is ignored: "),
        ("transport: http", True, "Expected `object | null`, got `str` - at `$.transport`"),
    ],
)
def test_warns_about_an_unreadable_configuration(
    config: str,
    has_yaml: bool,
    warning: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(diagnostics, "_warned", set())
    monkeypatch.setenv("OPENLINEAGE_URL", "http://here")
    if not has_yaml:
        monkeypatch.setitem(sys.modules, "yaml", None)
    Path("openlineage.yml").write_text(config)
    assert find_endpoint() == find_endpoint() == DeliveryEndpoint("http://here")
    output = capsys.readouterr().err
    assert warning in output
    assert output.count("clew: ") == 1


def test_endpoint_target_keeps_the_base_path() -> None:
    endpoint = DeliveryEndpoint("https://lineage.example.org/base/", "/api/v1/lineage")
    assert endpoint.target(LINEAGE) == "/base/api/v1/lineage"
