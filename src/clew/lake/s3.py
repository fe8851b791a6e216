"""S3 storage: conditional puts, error translation, lease."""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import obstore
from msgspec import Struct
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import S3Store

from clew.data_dir import BucketUrl
from clew.errors import ClewError
from clew.lake.storage import FileInfo, Storage, T

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from obstore import PutMode, PutResult
    from pyarrow.fs import S3FileSystem


_NO_BUCKET: Final = "NoSuchBucket"
_S3_NAME: Final = re.compile(r"\bS3\b|\bAWS\b")
_CREDENTIAL_VARIABLES: Final = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is one, AWS_SESSION_TOKEN"


class _Cause(NamedTuple):
    """A pattern in the error text of the store, with the message and hint for it."""

    pattern: str
    reason: str
    hint: str


# The first match is used.
_CAUSES: Final = (
    _Cause(_NO_BUCKET, "the bucket does not exist", "Create the bucket, or pass another with --lake."),
    _Cause(
        r"169\.254\.169\.254|CredentialsNotLoaded|token request|NoCredentials",
        "no credentials were found",
        f"Set {_CREDENTIAL_VARIABLES}; `aws configure export-credentials --format env` prints those of a profile.",
    ),
    _Cause(
        "InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|InvalidClientTokenId",
        "the credentials were rejected",
        f"Set {_CREDENTIAL_VARIABLES} again.",
    ),
    _Cause(
        r"AccessDenied|AllAccessDisabled|\b403\b|\b401\b|PermissionDenied|Unauthenticated",
        "access was denied",
        "Required: s3:ListBucket on the bucket; s3:GetObject, s3:PutObject and s3:DeleteObject on its objects.",
    ),
    _Cause(
        "BadScheme|URL scheme is not allowed",
        "its endpoint uses http, which is not allowed",
        "Set AWS_ALLOW_HTTP=true if the network is trusted, or set AWS_ENDPOINT_URL to an https endpoint.",
    ),
    _Cause(
        r"\b301\b|PermanentRedirect|AuthorizationHeaderMalformed|IncorrectEndpoint",
        "the bucket is in another region",
        "Set AWS_REGION to the region of the bucket.",
    ),
    _Cause(
        r"NotImplemented|\b501\b",
        "the object store does not support conditional puts",
        "Commits and the lock need If-None-Match. Use a store that supports it, or a local folder.",
    ),
    _Cause(
        r"Connect|connect|dns|resolve|timed out|Timeout|HTTP error|NETWORK_CONNECTION|\b50[0234]\b",
        "the object store cannot be reached",
        "Check the network connection and, if set, AWS_ENDPOINT_URL.",
    ),
)


@contextmanager
def translate_s3_errors(url: BucketUrl, noun: str = "lake") -> Iterator[None]:
    """Raise errors of S3 as ClewError with a hint; results of conditional requests pass unchanged."""
    try:
        yield
    except Exception as error:
        if not _is_s3_error(error):
            raise
        raise _user_error(url, str(error), noun) from error


@contextmanager
def ignore_not_found() -> Iterator[None]:
    """Ignore a missing object, but not a missing bucket."""
    try:
        yield
    except (FileNotFoundError, NotFoundError) as error:
        if _NO_BUCKET in str(error):
            raise


def _is_s3_error(error: Exception) -> bool:
    """Return whether this is an error of S3, and not the expected result of a conditional request or a get."""
    # Imported lazily: most requests do not need deltalake.
    from deltalake.exceptions import DeltaError, TableNotFoundError

    if isinstance(error, NotFoundError | FileNotFoundError):
        return _NO_BUCKET in str(error)
    if isinstance(error, AlreadyExistsError | PreconditionError | TableNotFoundError):
        return False
    # pyarrow and deltalake raise the same types for local files.
    return isinstance(error, BaseError) or (
        isinstance(error, OSError | DeltaError) and bool(_S3_NAME.search(str(error)))
    )


def _user_error(url: BucketUrl, text: str, noun: str) -> ClewError:
    for cause in _CAUSES:
        if re.search(cause.pattern, text):
            return ClewError(f"The {noun} {url} cannot be used: {cause.reason}.", hint=cause.hint)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = lines[0][:300].rstrip(".") if lines else "the store gave no reason"
    return ClewError(f"The {noun} {url} cannot be used: {reason}.", hint="Fix the cause and run the command again.")


# Commits must not overwrite each other. deltalake's default; explicit, so that the environment cannot change it.
_DELTA_OPTIONS: Final = {"aws_conditional_put": "etag"}
# Short outages are retried. The default (10 retries in 3 minutes) is too long when there is no network at all.
_MAX_RETRIES = 6
_RETRY_TIMEOUT_SECONDS = 60
_CONNECT_TIMEOUT_SECONDS = 5
_MAX_CONCURRENT_REQUESTS = 16


class ETag(NamedTuple):
    """The ETag of an object."""

    value: str


class StoredObject(NamedTuple):
    """The content of an object with its ETag and its time by the clock of the object store."""

    content: bytes
    etag: ETag
    written_at: datetime


class S3Storage(Storage):
    """The objects below a prefix of a bucket."""

    is_local = False
    options = _DELTA_OPTIONS

    def __init__(self, url: BucketUrl) -> None:
        self._url = url

    def create(self) -> None:
        pass

    def read(self, name: str) -> bytes | None:
        stored = self.get_object(name)
        return None if stored is None else stored.content

    def size(self, name: str) -> int | None:
        with translate_s3_errors(self._url), ignore_not_found():
            return obstore.head(self._store, self._key(name))["size"]
        return None

    def map_concurrently(self, function: Callable[[str], T], names: Iterable[str]) -> Iterable[T]:
        with ThreadPoolExecutor(_MAX_CONCURRENT_REQUESTS) as pool:
            return list(pool.map(function, names))

    def add(self, name: str, content: bytes) -> None:
        self._put(name, content)

    def replace(self, name: str, content: bytes) -> None:
        self._put(name, content)

    def remove(self, name: str) -> None:
        # S3 ignores a missing object; other stores return an error.
        with translate_s3_errors(self._url), ignore_not_found():
            obstore.delete(self._store, self._key(name))

    def remove_all(self) -> None:
        with translate_s3_errors(self._url), ignore_not_found():
            for objects in obstore.list(self._store, f"{self._url.key}/".lstrip("/")):
                obstore.delete(self._store, [item["path"] for item in objects])

    def list_files(self) -> Iterable[FileInfo]:
        with translate_s3_errors(self._url):
            objects = obstore.list_with_delimiter(self._store, self._url.key or None)["objects"]
        return [
            FileInfo(item["path"].rpartition("/")[2], item["size"], item["last_modified"].timestamp())
            for item in objects
        ]

    def list_folders(self) -> list[str]:
        with translate_s3_errors(self._url):
            prefixes = obstore.list_with_delimiter(self._store, self._url.key or None)["common_prefixes"]
        return sorted(prefix.rpartition("/")[2] for prefix in prefixes)

    def has_folder(self, name: str = "") -> bool:
        with translate_s3_errors(self._url):
            return bool(next(iter(obstore.list(self._store, self._key(name) or None, chunk_size=1)), []))

    def write_parquet(self, name: str, write: Callable[[Any], None]) -> int:
        import pyarrow as pa

        # Buffered in memory, so that the object appears complete or not at all.
        sink = pa.BufferOutputStream()
        write(sink)
        # obstore accepts unsigned bytes without a copy.
        content = memoryview(sink.getvalue()).cast("B")
        self._put(name, content)
        return content.nbytes

    def parquet_source(self, name: str) -> Any:
        return _filesystem().open_input_file(self._path(name))

    def dataset(self, names: list[str], schema: Any) -> Any:
        import pyarrow.dataset as ds

        paths = [self._path(name) for name in names]
        return ds.dataset(paths, schema=schema, format="parquet", filesystem=_filesystem())

    def open_table(self, name: str) -> DeltaTable:
        from deltalake import DeltaTable

        with translate_s3_errors(self._url):
            return DeltaTable(str(self._url / name), storage_options=_DELTA_OPTIONS)

    def filesystem(self, table: str) -> Any:
        from pyarrow.fs import SubTreeFileSystem

        # Not deltalake's own file system: it calls Python from pyarrow threads, which aborts a process that exits.
        return SubTreeFileSystem(self._path(table), _filesystem())

    def get_object(self, name: str) -> StoredObject | None:
        """Get an object with its ETag; None if it does not exist."""
        with translate_s3_errors(self._url), ignore_not_found():
            response = obstore.get(self._store, self._key(name))
            return StoredObject(
                bytes(response.bytes()), ETag(response.meta["e_tag"] or ""), response.meta["last_modified"]
            )
        return None

    def put_if_absent(self, name: str, content: bytes) -> ETag | None:
        """Write an object unless it exists (If-None-Match); None if it exists."""
        with suppress(AlreadyExistsError):
            return _etag(self._put(name, content, "create"))
        return None

    def put_if_match(self, name: str, content: bytes, etag: ETag) -> ETag | None:
        """Replace an object if its ETag is unchanged (If-Match); None if it was changed or deleted."""
        with suppress(PreconditionError), ignore_not_found():
            return _etag(self._put(name, content, {"e_tag": etag.value}))
        return None

    def _put(self, name: str, content: bytes | memoryview, mode: PutMode = "overwrite") -> PutResult:
        with translate_s3_errors(self._url):
            return obstore.put(self._store, self._key(name), content, mode=mode)

    @property
    def _store(self) -> S3Store:
        return open_bucket(self._url.bucket)

    def _key(self, name: str) -> str:
        return f"{self._url.key}/{name}".strip("/")

    def _path(self, name: str) -> str:
        return f"{self._url.bucket}/{self._key(name)}"


def _etag(put: PutResult) -> ETag:
    return ETag(put["e_tag"] or "")


@lru_cache
def open_bucket(bucket: str) -> S3Store:
    """Open a bucket with the settings of the AWS_* variables."""
    return S3Store(
        bucket,
        # With client options, obstore ignores the variable AWS_ALLOW_HTTP.
        client_options={
            "allow_http": _env_flag("AWS_ALLOW_HTTP"),
            "connect_timeout": f"{_CONNECT_TIMEOUT_SECONDS} seconds",
        },
        retry_config={"max_retries": _MAX_RETRIES, "retry_timeout": timedelta(seconds=_RETRY_TIMEOUT_SECONDS)},
    )


@lru_cache
def _filesystem() -> S3FileSystem:
    """Return the pyarrow file system; pyarrow does not read all AWS_* variables itself."""
    from pyarrow.fs import S3FileSystem

    endpoint = _env("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return S3FileSystem(
        region=_env("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1",
        anonymous=_env_flag("AWS_SKIP_SIGNATURE"),
        **({"endpoint_override": endpoint} if endpoint else {}),
    )


def _env(*variables: str) -> str | None:
    return next((os.environ[name] for name in variables if os.environ.get(name)), None)


def _env_flag(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in {"1", "true", "yes", "on"}


LEASE_SECONDS: Final = 60.0
# Three heartbeats may be lost.
_HEARTBEATS_PER_LEASE = 4


class LeaseRecord(Struct, frozen=True):
    """Content of the lock object: its holder, since when, and its validity after each heartbeat."""

    pid: int
    host: str
    since: str
    lease_seconds: float
    token: str
    # Counter, so that each heartbeat changes the content and thus the ETag.
    heartbeat: int = 0


class LeaseLostError(ClewError):
    """The lease could not be renewed in time; another process may hold it."""

    @classmethod
    def of(cls, name: str) -> LeaseLostError:
        """Build the error for a lock."""
        message = (
            f"The lock {name} could not be renewed in time, and another process may hold it: nothing more is committed."
        )
        hint = "Was this machine suspended, or its network down? Run the command again: it resumes where it stopped."
        return cls(message, hint=hint)


_decode = msgspec.json.Decoder(LeaseRecord).decode
# Counts the time that the machine is suspended, if the system has such a clock.
_clock = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """A named lease in S3; a thread renews it while it is held."""

    def __init__(self, storage: S3Storage, name: str, seconds: float | None = None) -> None:
        self._storage = storage
        self._name = name
        self._seconds = LEASE_SECONDS if seconds is None else seconds
        self._record = _new_record(self._seconds)
        self._etag = ETag("")
        self._valid_until = 0.0
        self._stop = Event()
        # The holder found by `try_acquire`.
        self.current_holder: LeaseRecord | None = None

    def try_acquire(self) -> bool:
        """Acquire the lease if it is free or expired; return whether it was acquired."""
        requested_at = _clock()
        etag = self._storage.put_if_absent(self._name, self._encode())
        if etag is None:
            stored = self._storage.get_object(self._name)
            self.current_holder = None if stored is None else parse_lease(stored)
            if stored is None or self._is_expired(stored):
                etag = self._replace(stored)
            elif self._is_own(stored):
                # It was created, but the response was lost.
                etag = stored.etag
        return self._extend_validity(etag, requested_at)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Renew an acquired lease until the end of the block, then release it."""
        thread = Thread(target=self._heartbeat_loop, name="clew-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            self._release()

    def check(self) -> None:
        """Raise if the lease has expired."""
        if _clock() >= self._valid_until:
            raise LeaseLostError.of(self._name)

    def renew(self) -> None:
        """Send a heartbeat; a failed one is repeated with the next."""
        requested_at = _clock()
        self._record = msgspec.structs.replace(self._record, heartbeat=self._record.heartbeat + 1)
        etag = self._storage.put_if_match(self._name, self._encode(), self._etag)
        if etag is None:
            # Either another process has it, or the response to a heartbeat was lost.
            stored = self._storage.get_object(self._name)
            etag = stored.etag if stored is not None and self._is_own(stored) else None
            if etag is None:
                self._valid_until = 0.0
                self._stop.set()
                return
        self._extend_validity(etag, requested_at)

    def _heartbeat_loop(self) -> None:
        while not self._stop.wait(self._seconds / _HEARTBEATS_PER_LEASE):
            try:
                self.renew()
            except ClewError:
                # No network: the lease is valid until it expires, which `check` detects.
                continue

    def _extend_validity(self, etag: ETag | None, requested_at: float) -> bool:
        if etag is None:
            return False
        # From the time of the request: for other processes the validity starts later, at the response.
        self._etag, self._valid_until = etag, requested_at + self._seconds
        return True

    def _replace(self, stored: StoredObject | None) -> ETag | None:
        if stored is None:
            return self._storage.put_if_absent(self._name, self._encode())
        return self._storage.put_if_match(self._name, self._encode(), stored.etag)

    def _is_expired(self, stored: StoredObject) -> bool:
        record = parse_lease(stored)
        seconds = LEASE_SECONDS if record is None else record.lease_seconds
        return (self._now() - stored.written_at).total_seconds() > seconds

    def _now(self) -> datetime:
        """Return the time of the object store, which also timestamps the lock: the local clock may be wrong."""
        probe = f"{self._name}.{self._record.token}"
        self._storage.add(probe, b"")
        try:
            stored = self._storage.get_object(probe)
        finally:
            self._storage.remove(probe)
        return datetime.now(UTC) if stored is None else stored.written_at

    def _release(self) -> None:
        # A lease that cannot be released expires.
        with suppress(ClewError):
            stored = self._storage.get_object(self._name)
            if stored is not None and self._is_own(stored) and _clock() < self._valid_until:
                self._storage.remove(self._name)

    def _is_own(self, stored: StoredObject) -> bool:
        record = parse_lease(stored)
        return record is not None and record.token == self._record.token

    def _encode(self) -> bytes:
        return msgspec.json.encode(self._record)


def read_lease(storage: S3Storage, name: str) -> LeaseRecord | None:
    """Read the current lease, if any. Uses the local clock, because reading must not write a probe."""
    stored = storage.get_object(name)
    record = None if stored is None else parse_lease(stored)
    if stored is None or record is None:
        return None
    return record if (datetime.now(UTC) - stored.written_at).total_seconds() <= record.lease_seconds else None


def parse_lease(stored: StoredObject) -> LeaseRecord | None:
    """Parse the lock object; None if it is invalid."""
    try:
        return _decode(stored.content)
    except msgspec.DecodeError:
        return None


def _new_record(seconds: float) -> LeaseRecord:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return LeaseRecord(os.getpid(), socket.gethostname(), since, seconds, uuid.uuid4().hex)
