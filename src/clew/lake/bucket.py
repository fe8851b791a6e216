"""A lake's files in an S3 bucket.

Objects go by obstore, which can put one only if there is none, or only if it is unchanged; commits by deltalake, which
does the same; Parquet is read by pyarrow. All three take keys and endpoint from the usual variables AWS_*.
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
from clew.lake.bucket_faults import suppress_absence, told_of_bucket
from clew.lake.storage import Entry, Storage, T

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from obstore import PutMode, PutResult
    from pyarrow.fs import S3FileSystem

# Commits must not overwrite each other. It is deltalake's default, which a setting elsewhere must not undo.
_OPTIONS: Final = {"aws_conditional_put": "etag"}
# Some seconds of outage are waited for. Ten tries in three minutes, the default, are too long for someone who waits to
# learn that there is no network.
_MOST_TRIES = 6
_MOST_SECONDS = 60
_CONNECT_SECONDS = 5
_LOOKS_AT_A_TIME = 16


class Version(NamedTuple):
    """Which of an object's contents it was: S3's tag."""

    tag: str


class Object(NamedTuple):
    """An object as it was found; the time is the store's."""

    content: bytes
    version: Version
    written_at: datetime


class Bucket(Storage):
    """The objects whose names begin with that of a place in a bucket."""

    is_local = False
    options = _OPTIONS

    def __init__(self, url: BucketUrl) -> None:
        self._url = url

    def make(self) -> None:
        pass

    def read(self, name: str) -> bytes | None:
        found = self.look(name)
        return None if found is None else found.content

    def look_at_all(self, look: Callable[[str], T], names: Iterable[str]) -> Iterable[T]:
        with ThreadPoolExecutor(_LOOKS_AT_A_TIME) as pool:
            return list(pool.map(look, names))

    def add(self, name: str, content: bytes) -> None:
        self._put(name, content)

    def replace(self, name: str, content: bytes) -> None:
        self._put(name, content)

    def remove(self, name: str) -> None:
        # S3 does not mind if there is none; others say so.
        with told_of_bucket(self._url), suppress_absence():
            obstore.delete(self._store, self._key(name))

    def entries(self) -> Iterable[Entry]:
        with told_of_bucket(self._url):
            found = obstore.list_with_delimiter(self._store, self._url.key or None)["objects"]
        return [Entry(one["path"].rpartition("/")[2], one["size"], one["last_modified"].timestamp()) for one in found]

    def folders(self) -> list[str]:
        with told_of_bucket(self._url):
            found = obstore.list_with_delimiter(self._store, self._url.key or None)["common_prefixes"]
        return sorted(prefix.rpartition("/")[2] for prefix in found)

    def has_folder(self, name: str = "") -> bool:
        with told_of_bucket(self._url):
            return bool(next(iter(obstore.list(self._store, self._key(name) or None, chunk_size=1)), []))

    def write_parquet(self, name: str, write: Callable[[Any], None]) -> int:
        import pyarrow as pa

        # In memory first: an object is there whole or not at all.
        sink = pa.BufferOutputStream()
        write(sink)
        # As unsigned bytes, which is what obstore takes without a copy.
        content = memoryview(sink.getvalue()).cast("B")
        self._put(name, content)
        return content.nbytes

    def parquet(self, name: str) -> Any:
        return _filesystem().open_input_file(self._path(name))

    def dataset(self, names: list[str], schema: Any) -> Any:
        import pyarrow.dataset as ds

        paths = [self._path(name) for name in names]
        return ds.dataset(paths, schema=schema, format="parquet", filesystem=_filesystem())

    def open_table(self, name: str) -> DeltaTable:
        from deltalake import DeltaTable

        with told_of_bucket(self._url):
            return DeltaTable(str(self._url / name), storage_options=_OPTIONS)

    def filesystem(self, table: str) -> Any:
        from pyarrow.fs import SubTreeFileSystem

        # Not deltalake's own: it calls Python from threads of pyarrow, and one that does so while the process ends
        # aborts it.
        return SubTreeFileSystem(self._path(table), _filesystem())

    def look(self, name: str) -> Object | None:
        """An object with its version; None if there is none."""
        with told_of_bucket(self._url), suppress_absence():
            found = obstore.get(self._store, self._key(name))
            return Object(bytes(found.bytes()), Version(found.meta["e_tag"] or ""), found.meta["last_modified"])
        return None

    def create(self, name: str, content: bytes) -> Version | None:
        """Write an object unless there is one; None if there is."""
        with suppress(AlreadyExistsError):
            return _version(self._put(name, content, "create"))
        return None

    def exchange(self, name: str, content: bytes, version: Version) -> Version | None:
        """Write an object in place of that version of it; None if it is another by now, or gone."""
        with suppress(PreconditionError), suppress_absence():
            return _version(self._put(name, content, {"e_tag": version.tag}))
        return None

    def _put(self, name: str, content: bytes | memoryview, mode: PutMode = "overwrite") -> PutResult:
        with told_of_bucket(self._url):
            return obstore.put(self._store, self._key(name), content, mode=mode)

    @property
    def _store(self) -> S3Store:
        return _store(self._url.bucket)

    def _key(self, name: str) -> str:
        return f"{self._url.key}/{name}".strip("/")

    def _path(self, name: str) -> str:
        return f"{self._url.bucket}/{self._key(name)}"


def _version(put: PutResult) -> Version:
    return Version(put["e_tag"] or "")


@lru_cache
def _store(bucket: str) -> S3Store:
    return S3Store(
        bucket,
        # Where there are options, the variable no longer counts.
        client_options={"allow_http": _is_said("AWS_ALLOW_HTTP"), "connect_timeout": f"{_CONNECT_SECONDS} seconds"},
        retry_config={"max_retries": _MOST_TRIES, "retry_timeout": timedelta(seconds=_MOST_SECONDS)},
    )


@lru_cache
def _filesystem() -> S3FileSystem:
    """Objects as files of pyarrow. It knows fewer of the variables than the others, and is told."""
    from pyarrow.fs import S3FileSystem

    endpoint = _said("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return S3FileSystem(
        region=_said("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1",
        anonymous=_is_said("AWS_SKIP_SIGNATURE"),
        **({"endpoint_override": endpoint} if endpoint else {}),
    )


def _said(*variables: str) -> str | None:
    return next((os.environ[name] for name in variables if os.environ.get(name)), None)


def _is_said(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in {"1", "true", "yes", "on"}
