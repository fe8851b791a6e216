"""Storage in a bucket of S3, Google Cloud Storage or Azure: conditional puts, error translation, lease."""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import obstore
from msgspec import Struct
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError

from clew.data_dir import BucketUrl
from clew.errors import ClewError
from clew.lake.providers import ObjectStore, find_provider, open_bucket, open_filesystem
from clew.lake.storage import FileInfo, Storage, T

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from obstore import PutMode, PutResult
    from pyarrow.fs import FileSystem


# Of S3, Google and Azure.
_NO_BUCKET: Final = re.compile("NoSuchBucket|The specified bucket does not exist|ContainerNotFound")
_STORE_NAME: Final = re.compile(
    r"\b(S3|AWS|GCS|Azure\w*|MicrosoftAzure)\b|GetFileInfo|google::cloud|Error performing [A-Z]+ https?://"
)


class _Cause(NamedTuple):
    """A pattern in the error text of the store, with the message, and the term of the provider that is the hint."""

    pattern: str
    reason: str
    term: str


# The first match is used.
_CAUSES: Final = (
    _Cause(_NO_BUCKET.pattern, "the bucket does not exist", "bucket"),
    _Cause(
        r"169\.254\.169\.254|metadata\.google\.internal|CredentialsNotLoaded|token request|NoCredentials"
        "|MissingAccount",
        "no credentials were found",
        "credentials",
    ),
    _Cause(
        "InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|InvalidClientTokenId|AuthenticationFailed"
        "|invalid_grant|Invalid Credentials",
        "the credentials were rejected",
        "credentials",
    ),
    _Cause(
        r"AccessDenied|AllAccessDisabled|\b403\b|\b401\b|PermissionDenied|Unauthenticated|Authorization\w*Mismatch",
        "access was denied",
        "permissions",
    ),
    _Cause("BadScheme|URL scheme is not allowed", "its endpoint uses http, which is not allowed", "http"),
    _Cause(
        r"\b301\b|PermanentRedirect|AuthorizationHeaderMalformed|IncorrectEndpoint",
        "the bucket is in another region",
        "region",
    ),
    _Cause(r"NotImplemented|\b501\b", "the object store does not support conditional puts", "conditional"),
    _Cause(
        r"Connect|connect|dns|resolve|timed out|Timeout|HTTP error|NETWORK_CONNECTION|\b50[0234]\b",
        "the object store cannot be reached",
        "endpoint",
    ),
)
_COMMON_TERMS: Final = {
    "bucket": "Create the bucket, or pass another with --lake.",
    "conditional": "Commits and the lock need If-None-Match. Use a store that supports it, or a local folder.",
}


@contextmanager
def translate_bucket_errors(url: BucketUrl, noun: str = "lake") -> Iterator[None]:
    """Raise errors of the store as ClewError with a hint; results of conditional requests pass unchanged."""
    try:
        yield
    except Exception as error:
        if not _is_store_error(error):
            raise
        raise _user_error(url, str(error), noun) from error


@contextmanager
def ignore_not_found() -> Iterator[None]:
    """Ignore a missing object, but not a missing bucket."""
    try:
        yield
    except (FileNotFoundError, NotFoundError) as error:
        if _NO_BUCKET.search(str(error)):
            raise


def _is_store_error(error: Exception) -> bool:
    """Return whether this is an error of the store, and not the expected result of a conditional request or a get."""
    # Imported lazily: most requests do not need deltalake.
    from deltalake.exceptions import DeltaError, TableNotFoundError

    if isinstance(error, NotFoundError | FileNotFoundError):
        return _NO_BUCKET.search(str(error)) is not None
    if isinstance(error, AlreadyExistsError | PreconditionError | TableNotFoundError):
        return False
    # pyarrow and deltalake raise the same types for local files.
    return isinstance(error, BaseError) or (
        isinstance(error, OSError | DeltaError) and bool(_STORE_NAME.search(str(error)))
    )


def _user_error(url: BucketUrl, text: str, noun: str) -> ClewError:
    for cause in _CAUSES:
        if re.search(cause.pattern, text):
            terms = {**_COMMON_TERMS, **find_provider(url).terms}
            return ClewError(f"The {noun} {url} cannot be used: {cause.reason}.", hint=terms[cause.term])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = lines[0][:300].rstrip(".") if lines else "the store gave no reason"
    return ClewError(f"The {noun} {url} cannot be used: {reason}.", hint="Fix the cause and run the command again.")


_MAX_CONCURRENT_REQUESTS = 16


class ETag(NamedTuple):
    """The ETag of an object, and its generation in Google Cloud Storage."""

    value: str
    version: str | None = None

    @property
    def condition(self) -> PutMode:
        """The condition of a put: the object is unchanged."""
        return {"e_tag": self.value} if self.version is None else {"e_tag": self.value, "version": self.version}


class StoredObject(NamedTuple):
    """The content of an object with its ETag and its time by the clock of the object store."""

    content: bytes
    etag: ETag
    written_at: datetime


class BucketStorage(Storage):
    """The objects below a prefix of a bucket."""

    is_local = False

    def __init__(self, url: BucketUrl) -> None:
        self._url = url
        self.options = dict(find_provider(url).delta_options)

    def create(self) -> None:
        pass

    def read(self, name: str) -> bytes | None:
        stored = self.get_object(name)
        return None if stored is None else stored.content

    def size(self, name: str) -> int | None:
        with translate_bucket_errors(self._url), ignore_not_found():
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
        # S3 ignores a missing object; others return an error.
        with translate_bucket_errors(self._url), ignore_not_found():
            obstore.delete(self._store, self._key(name))

    def remove_all(self) -> None:
        with translate_bucket_errors(self._url), ignore_not_found():
            for objects in obstore.list(self._store, f"{self._url.key}/".lstrip("/")):
                obstore.delete(self._store, [item["path"] for item in objects])

    def list_files(self) -> Iterable[FileInfo]:
        with translate_bucket_errors(self._url):
            objects = obstore.list_with_delimiter(self._store, self._url.key or None)["objects"]
        return [
            FileInfo(item["path"].rpartition("/")[2], item["size"], item["last_modified"].timestamp())
            for item in objects
        ]

    def list_folders(self) -> list[str]:
        with translate_bucket_errors(self._url):
            prefixes = obstore.list_with_delimiter(self._store, self._url.key or None)["common_prefixes"]
        return sorted(prefix.rpartition("/")[2] for prefix in prefixes)

    def has_folder(self, name: str = "") -> bool:
        with translate_bucket_errors(self._url):
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
        return self._filesystem.open_input_file(self._path(name))

    def dataset(self, names: list[str], schema: Any) -> Any:
        import pyarrow.dataset as ds

        paths = [self._path(name) for name in names]
        return ds.dataset(paths, schema=schema, format="parquet", filesystem=self._filesystem)

    def open_table(self, name: str) -> DeltaTable:
        from deltalake import DeltaTable

        with translate_bucket_errors(self._url):
            return DeltaTable(str(self._url / name), storage_options=self.options)

    def filesystem(self, table: str) -> Any:
        from pyarrow.fs import SubTreeFileSystem

        # Not deltalake's own file system: it calls Python from pyarrow threads, which aborts a process that exits.
        return SubTreeFileSystem(self._path(table), self._filesystem)

    def get_object(self, name: str) -> StoredObject | None:
        """Get an object with its ETag; None if it does not exist."""
        with translate_bucket_errors(self._url), ignore_not_found():
            response = obstore.get(self._store, self._key(name))
            etag = ETag(response.meta["e_tag"] or "", response.meta["version"])
            return StoredObject(bytes(response.bytes()), etag, response.meta["last_modified"])
        return None

    def put_if_absent(self, name: str, content: bytes) -> ETag | None:
        """Write an object unless it exists (If-None-Match); None if it exists."""
        with suppress(AlreadyExistsError):
            return _etag(self._put(name, content, "create"))
        return None

    def put_if_match(self, name: str, content: bytes, etag: ETag) -> ETag | None:
        """Replace an object if its ETag is unchanged (If-Match); None if it was changed or deleted."""
        with suppress(PreconditionError), ignore_not_found():
            return _etag(self._put(name, content, etag.condition))
        return None

    def _put(self, name: str, content: bytes | memoryview, mode: PutMode = "overwrite") -> PutResult:
        with translate_bucket_errors(self._url):
            return obstore.put(self._store, self._key(name), content, mode=mode)

    @property
    def _store(self) -> ObjectStore:
        return open_bucket(self._url.root)

    @property
    def _filesystem(self) -> FileSystem:
        return open_filesystem(self._url.root)

    def _key(self, name: str) -> str:
        return f"{self._url.key}/{name}".strip("/")

    def _path(self, name: str) -> str:
        return f"{self._url.bucket}/{self._key(name)}"


def _etag(put: PutResult) -> ETag:
    return ETag(put["e_tag"] or "", put["version"])


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
    """A named lease in a bucket; a thread renews it while it is held."""

    def __init__(self, storage: BucketStorage, name: str, seconds: float | None = None) -> None:
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


def read_lease(storage: BucketStorage, name: str) -> LeaseRecord | None:
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
