"""S3 storage backend.

Objects are accessed with obstore, which supports conditional puts; commits go through deltalake, which does as well;
Parquet is read by pyarrow. All three read credentials and endpoint from the usual AWS_* variables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from clew.home import BucketUrl
from clew.lake.bucket_faults import ignore_not_found, translate_s3_errors
from clew.lake.storage import FileInfo, Storage, T

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from obstore import PutMode, PutResult
    from pyarrow.fs import S3FileSystem

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
        return _store(self._url.bucket)

    def _key(self, name: str) -> str:
        return f"{self._url.key}/{name}".strip("/")

    def _path(self, name: str) -> str:
        return f"{self._url.bucket}/{self._key(name)}"


def _etag(put: PutResult) -> ETag:
    return ETag(put["e_tag"] or "")


@lru_cache
def _store(bucket: str) -> S3Store:
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
