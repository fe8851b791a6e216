"""Tests of `clew collect` with real clients, kills under load and a concurrent pipeline."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.transport.async_http import AsyncHttpConfig, AsyncHttpTransport
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpCompression, HttpConfig, HttpTransport
from openlineage.client.uuid import generate_new_uuid

from clew.server.auth import KeyFile, Scope

StartCollector = Callable[..., Any]
ReadLog = Callable[[Path], list[Any]]

KILLS = 20
CLIENTS = 8
SMALL = b'{"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": "r"}, "job": {"namespace": "n", "name": "j"}}'


def run_event(state: RunState) -> RunEvent:
    return RunEvent(
        eventType=state,
        eventTime=datetime.now(UTC).isoformat(),
        run=Run(str(generate_new_uuid())),
        job=Job("shop", "load"),
        producer="https://example.org/producer",
    )


def test_accepts_events_of_real_clients(tmp_path: Path, start_collector: StartCollector, read_log: ReadLog) -> None:
    events = [run_event(state) for state in (RunState.START, RunState.RUNNING, RunState.COMPLETE)]
    with start_collector(tmp_path) as collector:
        plain = HttpConfig(url=collector.url)
        gzip = HttpConfig(url=collector.url, compression=HttpCompression.GZIP)
        for event, config in zip(events, (plain, gzip), strict=False):
            OpenLineageClient(transport=HttpTransport(config)).emit(event)
        async_transport = AsyncHttpTransport(AsyncHttpConfig(url=collector.url))
        async_transport.emit(events[2])
        assert async_transport.close(timeout=20)
    assert {event["run"]["runId"] for event in read_log(tmp_path)} == {event.run.runId for event in events}


def test_authenticates_real_clients_by_key(tmp_path: Path, start_collector: StartCollector, read_log: ReadLog) -> None:
    key = KeyFile(tmp_path / "keys.json").add("shop", [Scope.WRITE], ["shop"])
    accepted, rejected = run_event(RunState.START), run_event(RunState.START)
    with start_collector(tmp_path, "--require-key") as collector:
        for event, secret in ((accepted, key), (rejected, "another")):
            config = HttpConfig(url=collector.url, auth=ApiKeyTokenProvider({"apiKey": secret}))
            transport = HttpTransport(config)
            if secret == key:
                transport.emit(event)
            else:
                with pytest.raises(requests.HTTPError, match="401"):
                    transport.emit(event)
        async_transport = AsyncHttpTransport(
            AsyncHttpConfig(
                url=collector.url, auth=ApiKeyTokenProvider({"apiKey": key}), compression=HttpCompression.GZIP
            )
        )
        async_transport.emit(run_event(RunState.COMPLETE))
        assert async_transport.close(timeout=20)
    assert [event["eventType"] for event in read_log(tmp_path)] == ["START", "COMPLETE"]


def test_real_clients_retry_after_rate_limiting(
    tmp_path: Path, start_collector: StartCollector, read_log: ReadLog
) -> None:
    events = [run_event(RunState.RUNNING) for _ in range(3)]
    with start_collector(tmp_path, "--max-rate", "1") as collector:
        transport = HttpTransport(HttpConfig(url=collector.url))
        for event in events:
            transport.emit(event)
        assert "sent more than 1 requests per second" in collector.process.stderr.readline()
    assert [event["run"]["runId"] for event in read_log(tmp_path)] == [event.run.runId for event in events]


def test_authenticates_by_jwt(tmp_path: Path, start_collector: StartCollector) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "jwks.json").write_text(
        json.dumps({"keys": [{**json.loads(ECAlgorithm.to_jwk(key.public_key())), "kid": "1"}]})
    )
    claims = {"sub": "airflow", "iss": "me", "aud": "clew", "exp": datetime.now(UTC) + timedelta(minutes=5)}
    options = ("--jwks", str(tmp_path / "jwks.json"), "--jwt-issuer", "me", "--jwt-audience", "clew")
    with start_collector(tmp_path, *options) as collector:
        statuses = []
        for scope in ("clew:write", "clew:read"):
            token = jwt.encode({**claims, "scope": scope}, key, "ES256", {"kid": "1"})
            headers = {"authorization": f"Bearer {token}"}
            statuses.append(
                requests.post(f"{collector.url}/api/v1/lineage", data=SMALL, headers=headers, timeout=20).status_code
            )
    assert statuses == [201, 403]


def test_tls(tmp_path: Path, start_collector: StartCollector, read_log: ReadLog) -> None:
    certificate, key = write_certificate(tmp_path)
    with start_collector(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as collector:
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", collector.port, context=context, timeout=20)
        connection.request("POST", "/api/v1/lineage", SMALL)
        assert connection.getresponse().status == http.HTTPStatus.CREATED
        connection.close()
        plain = http.client.HTTPConnection("127.0.0.1", collector.port, timeout=20)
        plain.request("GET", "/healthz")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        plain.close()
    assert len(read_log(tmp_path)) == 1


@pytest.mark.parametrize("options", [["--tls-cert", "{cert}"], ["--tls-cert", "{cert}", "--tls-key", "{cert}"]])
def test_invalid_tls_files_are_reported(options: list[str], tmp_path: Path, clew: Callable[..., Any]) -> None:
    certificate, _ = write_certificate(tmp_path)
    result = clew("collect", "--home", tmp_path, *(option.format(cert=certificate) for option in options))
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    assert "--tls-key" in result.stderr


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate for this machine and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


def test_logs_json(tmp_path: Path, start_collector: StartCollector) -> None:
    with start_collector(tmp_path, "--log-json") as collector:
        assert requests.post(f"{collector.url}/api/v1/lineage", data=b"no", timeout=20).status_code == 400
        assert collector.process.stderr is not None
        record = json.loads(collector.process.stderr.readline())
    assert (record["level"], record["status"], record["path"]) == ("warning", 400, "/api/v1/lineage")


def test_no_acknowledged_event_is_lost_by_sigkill(
    tmp_path: Path, start_collector: StartCollector, read_log: ReadLog
) -> None:
    acknowledged: set[str] = set()
    rng = random.Random(7)
    for round_number in range(KILLS):
        with start_collector(tmp_path) as collector:
            acknowledged_event = threading.Event()
            clients = [
                threading.Thread(
                    target=send_until_disconnected,
                    args=(collector.port, f"{round_number}-{client_number}", acknowledged, acknowledged_event),
                )
                for client_number in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            assert acknowledged_event.wait(20)
            threading.Event().wait(rng.uniform(0, 0.2))
            os.kill(collector.process.pid, signal.SIGKILL)
            for client in clients:
                client.join()
    assert len(acknowledged) > KILLS * CLIENTS
    assert acknowledged <= {event["run"]["runId"] for event in read_log(tmp_path)}


def send_until_disconnected(port: int, name: str, acknowledged: set[str], acknowledged_event: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    number = 0
    try:
        while True:
            number += 1
            run = f"{name}-{number}"
            body = json.dumps(
                {
                    "eventTime": "2026-01-01T10:00:00Z",
                    "run": {"runId": run},
                    "job": {"namespace": "n", "name": "j"},
                    "x": "y" * 5000,
                }
            )
            connection.request("POST", "/api/v1/lineage", body)
            response = connection.getresponse()
            response.read()
            if response.status == http.HTTPStatus.CREATED:
                acknowledged.add(run)
                acknowledged_event.set()
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()


def test_no_acknowledged_event_is_lost_by_sigterm(
    tmp_path: Path, start_collector: StartCollector, read_log: ReadLog
) -> None:
    acknowledged: set[str] = set()
    acknowledged_event = threading.Event()
    with start_collector(tmp_path) as collector:
        client = threading.Thread(
            target=send_until_disconnected, args=(collector.port, "a", acknowledged, acknowledged_event)
        )
        client.start()
        assert acknowledged_event.wait(20)
        collector.process.terminate()
        assert collector.process.wait(20) in {0, -signal.SIGTERM}
        client.join()
    assert acknowledged <= {event["run"]["runId"] for event in read_log(tmp_path)}


@pytest.mark.spark
def test_pipeline_ingests_while_the_collector_runs(
    tmp_path: Path, clew: Callable[..., Any], start_collector: StartCollector
) -> None:
    event = run_event(RunState.COMPLETE)
    with start_collector(tmp_path) as collector:
        OpenLineageClient(transport=HttpTransport(HttpConfig(url=collector.url))).emit(event)
        result = clew("pipeline", "run", "--json", "--home", tmp_path)
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["events"] == 1
        assert "The log is locked by another process" in result.stderr
        rejected = clew("pipeline", "run", "--from", __file__, "--home", tmp_path)
        assert (rejected.returncode, "Another process is writing to the log" in rejected.stderr) == (1, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "example.org"])
def test_listening_on_other_interfaces_requires_keys(host: str, tmp_path: Path, clew: Callable[..., Any]) -> None:
    result = clew("collect", "--host", host, "--home", tmp_path)
    assert result.returncode == 2
    assert "is reachable from other machines" in result.stderr
