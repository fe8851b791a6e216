"""Object stores that tests start on loopback: S3Mock (a jar), and Azurite, the emulator of Azure (a Node program)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.jars import NoJarError, download_jar
from tests.support.paths import ROOT

from clew.pipeline.spark.java import environment, find_java

_S3MOCK_VERSION = "5.2.0"
_AZURITE = "azurite@3.35.0"
_AZURITE_FOLDER = ROOT / ".tools" / "azurite"
_START_SECONDS = 90.0
_INSTALL_SECONDS = 300.0
# The public key of the emulator's account.
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class NoStoreError(Exception):
    """The object store cannot be started here."""


@contextmanager
def start_s3mock(folder: Path) -> Iterator[str]:
    """Start S3Mock; yield its URL."""
    try:
        jar = download_jar("com.adobe.testing", "s3mock", f"{_S3MOCK_VERSION}-exec", ROOT / ".tools" / "s3mock")
    except NoJarError as error:
        raise NoStoreError(str(error)) from error
    java = {**os.environ, **environment(find_java(folder / "java"))}
    http, https = _free_port(), _free_port()
    program = str(Path(java["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in java else "java"
    command = [program, "-Xmx256m", "-jar", str(jar), f"--server.port={https}", f"--http.port={http}"]
    with _run(command, folder, f"http://127.0.0.1:{http}", java) as url:
        yield url


@contextmanager
def start_azurite(folder: Path) -> Iterator[str]:
    """Start Azurite; yield its URL."""
    node, program = shutil.which("node"), _AZURITE_FOLDER / "node_modules" / ".bin" / "azurite-blob"
    if node is None:
        raise NoStoreError("Node is not installed")
    if not program.exists():
        command = ["npm", "install", "--silent", "--no-audit", "--prefix", str(_AZURITE_FOLDER), _AZURITE]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            message = f"Azurite cannot be installed: {error}"
            raise NoStoreError(message) from error
    port = _free_port()
    arguments = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    with _run([str(program), *arguments, "--blobPort", str(port)], folder, f"http://127.0.0.1:{port}") as url:
        yield url


@contextmanager
def _run(command: Sequence[str], folder: Path, url: str, environment: dict[str, str] | None = None) -> Iterator[str]:
    """Run a server until the end of the block; yield its URL once it answers."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(url):
            if process.poll() is not None or time.monotonic() > deadline:
                message = f"{command[0]} did not start: {(folder / 'server.log').read_text()[-500:]}"
                raise NoStoreError(message)
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port
