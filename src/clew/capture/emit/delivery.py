"""Deliver event files to an OpenLineage endpoint, with the files as spool."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from clew import __version__
from clew.capture.diagnostics import warn_once
from clew.capture.emit.files import DATAFRAME, LINEAGE, RUNTIME, SPARK, STATE_FOLDER, logs_in

if TYPE_CHECKING:
    import http.client

_DEFAULT_PATH = "api/v1/lineage"
_DEFAULT_TIMEOUT = 5.0
# Additional endpoints of a clew collector; other servers answer 404.
_CLEW_PATHS = {RUNTIME: "api/v1/events/runtime", DATAFRAME: "api/v1/events/dataframe"}


class DeliveryEndpoint(NamedTuple):
    """URL, path and credentials of an endpoint."""

    url: str
    path: str = _DEFAULT_PATH
    api_key: str | None = None
    timeout: float = _DEFAULT_TIMEOUT

    def connection(self) -> http.client.HTTPConnection:
        """Create a connection, not opened yet."""
        # Imports ssl and email, which the kernel does not need.
        import http.client

        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "localhost", parts.port, timeout=self.timeout)

    def target(self, stream: str) -> str:
        """Return the request path for the events of a stream."""
        base_path = urlsplit(self.url).path.strip("/")
        path = _CLEW_PATHS.get(stream, self.path)
        return "/" + "/".join(filter(None, (base_path, path.strip("/"))))

    def headers(self) -> dict[str, str]:
        """Return the request headers."""
        headers = {"Content-Type": "application/json", "User-Agent": f"clew/{__version__}"}
        return {**headers, "Authorization": f"Bearer {self.api_key}"} if self.api_key else headers


def find_endpoint() -> DeliveryEndpoint | None:
    """Return the `http` transport of openlineage.yml, else of OPENLINEAGE_URL; None if delivery is not configured."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return None
    transport = _transport_config()
    if transport.get("type"):
        return _from_transport(transport)
    url = os.environ.get("OPENLINEAGE_URL", "")
    if not _is_http(url):
        return None
    path = os.environ.get("OPENLINEAGE_ENDPOINT") or _DEFAULT_PATH
    return DeliveryEndpoint(url, path, os.environ.get("OPENLINEAGE_API_KEY") or None)


def _from_transport(transport: dict[str, Any]) -> DeliveryEndpoint | None:
    url = str(transport.get("url"))
    if transport["type"] not in ("http", "async_http") or not _is_http(url):
        return None
    auth, names = transport.get("auth"), ("apiKey", "apikey", "api_key")
    keys = [str(auth[name]) for name in names if auth.get(name)] if isinstance(auth, dict) else []
    try:
        timeout = float(transport.get("timeout", _DEFAULT_TIMEOUT))
    except (TypeError, ValueError):
        timeout = _DEFAULT_TIMEOUT
    return DeliveryEndpoint(url, str(transport.get("endpoint") or _DEFAULT_PATH), next(iter(keys), None), timeout)


def _is_http(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https")


class _ClientConfig(Struct, frozen=True):
    transport: dict[str, Any] | None = None


def _transport_config() -> dict[str, Any]:
    paths = (os.environ.get("OPENLINEAGE_CONFIG"), "openlineage.yml", Path.home() / ".openlineage" / "openlineage.yml")
    for path in paths:
        if not path:
            continue
        try:
            text = Path(path).expanduser().read_text(encoding="utf-8")
            config = msgspec.yaml.decode(text, type=_ClientConfig | None)
        except (OSError, UnicodeDecodeError):
            continue
        except ImportError:
            warn_once(f"{path} is ignored without PyYAML: run `pip install pyyaml`, or set OPENLINEAGE_URL instead")
            return {}
        except msgspec.DecodeError as error:
            warn_once(f"{path} is ignored: {error}")
            return {}
        return (config and config.transport) or {}
    return {}


class _JobType(Struct, frozen=True):
    jobType: str = ""  # noqa: N815 - OpenLineage field name


class _JobFacets(Struct, frozen=True):
    jobType: _JobType = _JobType()  # noqa: N815


class _Job(Struct, frozen=True):
    facets: _JobFacets = _JobFacets()


class _Run(Struct, frozen=True):
    runId: str  # noqa: N815


class _Event(Struct, frozen=True):
    eventType: str  # noqa: N815
    run: _Run
    job: _Job


_decode = msgspec.json.Decoder(_Event).decode
_ENDS = frozenset(["COMPLETE", "FAIL", "ABORT"])


class RunningSparkApps:
    """Applications with a start event but no end event."""

    def __init__(self) -> None:
        self.running: set[str] = set()

    def update(self, line: bytes) -> None:
        """Process an event; only applications are tracked, since runs inside one may never end."""
        try:
            event = _decode(line)
        except msgspec.DecodeError:
            return
        if event.eventType in _ENDS:
            self.running.discard(event.run.runId)
        elif event.job.facets.jobType.jobType == "APPLICATION":
            self.running.add(event.run.runId)


_STATE_FILE = "delivery.json"
_OPENLINEAGE: Final = (LINEAGE, SPARK)
_STREAMS: Final = (*_OPENLINEAGE, RUNTIME, DATAFRAME)
_EVENTS_PER_SAVE = 50
_MAX_STATE_BYTES = 1 << 16
_ACCEPTED = range(200, 300)
# Permanent rejections of an event, which stays in its file.
_REJECTED: Final = (400, 413, 415, 422)
_UNSUPPORTED: Final = (404, 405, 501)


class DeliveryState(Struct):
    """Acknowledged bytes of each file, and the number of rejected events."""

    sent: dict[str, int]
    rejected: int = 0


class UnreachableError(Exception):
    """The endpoint is down or temporarily rejects events."""


class SpoolSender:
    """Sends the event files of one folder, each event at least once."""

    def __init__(self, folder: Path, endpoint: DeliveryEndpoint) -> None:
        self._folder = folder
        self._path = folder / STATE_FOLDER / _STATE_FILE
        self._endpoint = endpoint
        self._unsupported: set[str] = set()
        self._connection: http.client.HTTPConnection | None = None
        self._state_fd: int | None = None
        self._spark_apps = RunningSparkApps()
        self.state = DeliveryState({})

    def acquire(self) -> bool:
        """Lock the folder for delivery; return False if another process has it. Earlier content is not sent."""
        init_delivery_state(self._folder)
        state_fd = os.open(self._path, os.O_RDWR)
        try:
            fcntl.flock(state_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(state_fd)
            return False
        self._state_fd = state_fd
        self.state = msgspec.json.decode(os.pread(state_fd, _MAX_STATE_BYTES, 0), type=DeliveryState)
        return True

    def poll(self) -> bool:
        """Send pending events; return False if not all were accepted."""
        from http.client import HTTPException

        try:
            for stream in _STREAMS:
                self._send(stream)
        except (UnreachableError, OSError, HTTPException):
            self._disconnect()
            return False
        finally:
            self._save_state()
        return True

    def close(self) -> None:
        """Release the folder, and remove the delivery state if everything is sent."""
        self._disconnect()
        if self._state_fd is not None:
            if not self.pending_bytes():
                self._path.unlink(missing_ok=True)
                with suppress(OSError):
                    # Not empty: there are logs.
                    self._path.parent.rmdir()
            os.close(self._state_fd)
            self._state_fd = None

    @property
    def has_running_apps(self) -> bool:
        """True while Spark applications may still write events; the JVM may outlive the kernel."""
        return bool(self._spark_apps.running)

    def pending_bytes(self) -> int:
        """Return the number of bytes to be sent."""
        if logs_in(self._folder):
            # Unexpanded logs: the final number is unknown.
            return 1
        return sum(
            _size(self._folder, name) - self._sent_bytes(name) for name in _STREAMS if name not in self._unsupported
        )

    def _send(self, stream: str) -> None:
        if stream in self._unsupported or _size(self._folder, stream) <= self._sent_bytes(stream):
            return
        for count, line in enumerate(self._lines(stream), start=1):
            status = self._post(stream, line)
            if status in _UNSUPPORTED and stream not in _OPENLINEAGE:
                # Not a clew collector: it accepts OpenLineage events only.
                self._unsupported.add(stream)
                return
            if status in _REJECTED:
                self.state.rejected += 1
            elif status not in _ACCEPTED:
                raise UnreachableError
            if stream == SPARK:
                self._spark_apps.update(line)
            self.state.sent[stream] = self._sent_bytes(stream) + len(line)
            if count % _EVENTS_PER_SAVE == 0:
                self._save_state()

    def _lines(self, stream: str) -> Iterator[bytes]:
        with (self._folder / stream).open("rb") as file:
            file.seek(self._sent_bytes(stream))
            for line in file:
                if line.endswith(b"\n"):
                    yield line

    def _post(self, stream: str, line: bytes) -> int:
        if self._connection is None:
            self._connection = self._endpoint.connection()
        self._connection.request("POST", self._endpoint.target(stream), line.rstrip(b"\n"), self._endpoint.headers())
        response = self._connection.getresponse()
        response.read()
        return response.status

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _sent_bytes(self, stream: str) -> int:
        return self.state.sent.get(stream, 0)

    def _save_state(self) -> None:
        if self._state_fd is None:
            return
        # Numbers only grow, so the text never gets shorter.
        os.pwrite(self._state_fd, msgspec.json.encode(self.state), 0)


def init_delivery_state(folder: Path) -> None:
    """Create the delivery state of a folder, so that events written from now on are sent, unless it exists.

    Created atomically: without it pending events would not be found.
    """
    path = folder / STATE_FOLDER / _STATE_FILE
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_bytes(msgspec.json.encode(DeliveryState({name: _size(folder, name) for name in _STREAMS})))
    with suppress(FileExistsError):
        # Created by another process at the same time.
        path.hardlink_to(draft)
    draft.unlink()


def _size(folder: Path, stream: str) -> int:
    path = folder / stream
    return path.stat().st_size if path.exists() else 0


def pending_folders(root: Path) -> list[Path]:
    """Return the folders below `root` with undelivered events of earlier workers."""
    return [path.parent.parent for path in sorted(root.glob(f"*/{STATE_FOLDER}/{_STATE_FILE}"))]
