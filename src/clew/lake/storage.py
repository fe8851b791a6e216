"""Storage backends of a lake: a local folder or a prefix in a bucket. Engines are imported lazily."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from clew.data_dir import BucketUrl, LakeLocation, replace_file
from clew.errors import MissingExtraError

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from clew.lake.bucket import BucketStorage

T = TypeVar("T")

DELTA_LOG_DIR: Final = "_delta_log"
# The damaged log of a table while it is repaired.
REPAIR_LOG_DIR: Final = f"{DELTA_LOG_DIR}.repairing"
_MAX_CACHED = 256


class FileInfo(NamedTuple):
    """A file with its size in bytes and its modification time in seconds since 1970."""

    name: str
    size: int
    written_at: float


class Storage(ABC):
    """Files below a root, addressed by slash-separated names."""

    # Whether Spark can read the files itself.
    is_local: bool
    # Storage options for deltalake.
    options: dict[str, str] | None = None

    @abstractmethod
    def create(self) -> None:
        """Create the root, if the backend has directories."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Read a file; None if it does not exist."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""

    def map_concurrently(self, function: Callable[[str], T], names: Iterable[str]) -> Iterable[T]:
        """Apply a function to each name, in order; concurrently if requests are remote."""
        return map(function, names)

    @abstractmethod
    def add(self, name: str, content: bytes) -> None:
        """Write a new file."""

    @abstractmethod
    def replace(self, name: str, content: bytes) -> None:
        """Write a file atomically."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    @abstractmethod
    def remove_all(self) -> None:
        """Remove the root with all files below it, or a file in its place."""

    @abstractmethod
    def list_files(self) -> Iterable[FileInfo]:
        """List the files directly below the root."""

    @abstractmethod
    def list_folders(self) -> list[str]:
        """List the folders directly below the root."""

    @abstractmethod
    def has_folder(self, name: str = "") -> bool:
        """Return whether a folder, by default the root, exists."""

    @abstractmethod
    def write_parquet(self, name: str, write: Callable[[Any], None]) -> int:
        """Call `write` with a pyarrow sink for a new file; return the file's size. A failed write leaves no file."""

    @abstractmethod
    def parquet_source(self, name: str) -> Any:
        """Return the source that pyarrow reads a file from."""

    @abstractmethod
    def dataset(self, names: list[str], schema: Any) -> Any:
        """Return a pyarrow dataset of files."""

    @abstractmethod
    def open_table(self, name: str) -> DeltaTable:
        """Open a Delta table; raise TableNotFoundError if it does not exist."""

    @abstractmethod
    def filesystem(self, table: str) -> Any:
        """Return the pyarrow file system to read a table with; None for deltalake's own."""


class LocalStorage(Storage):
    """A folder of the local file system."""

    is_local = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def size(self, name: str) -> int | None:
        try:
            return (self._path / name).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def add(self, name: str, content: bytes) -> None:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def replace(self, name: str, content: bytes) -> None:
        replace_file(self._path / name, content)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def remove_all(self) -> None:
        if self._path.is_dir() and not self._path.is_symlink():
            shutil.rmtree(self._path)
        else:
            self._path.unlink(missing_ok=True)

    def list_files(self) -> Iterable[FileInfo]:
        if not self._path.is_dir():
            return
        with os.scandir(self._path) as listing:
            for file in listing:
                # A symbolic link may be a loop.
                with suppress(OSError):
                    if file.is_file():
                        status = file.stat()
                        yield FileInfo(file.name, status.st_size, status.st_mtime)

    def list_folders(self) -> list[str]:
        return sorted(path.name for path in self._path.iterdir() if path.is_dir()) if self._path.is_dir() else []

    def has_folder(self, name: str = "") -> bool:
        return (self._path / name).is_dir()

    def write_parquet(self, name: str, write: Callable[[Any], None]) -> int:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path.stat().st_size

    def parquet_source(self, name: str) -> str:
        return str(self._path / name)

    def dataset(self, names: list[str], schema: Any) -> Any:
        import pyarrow.dataset as ds

        options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        parquet = ds.ParquetFileFormat(default_fragment_scan_options=options)
        return ds.dataset([self.parquet_source(name) for name in names], schema=schema, format=parquet)

    def open_table(self, name: str) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(str(self._path / name))

    def filesystem(self, table: str) -> None:  # noqa: ARG002
        return None


def open_storage(location: LakeLocation | str) -> Storage:
    """Open the storage of a path or URL."""
    return _storage(str(location))


def translate_storage_errors(location: LakeLocation) -> AbstractContextManager[None]:
    """Translate errors of a bucket into user errors; errors of local files pass unchanged."""
    if isinstance(location, Path):
        return nullcontext()
    open_bucket_storage(location)
    from clew.lake.bucket import translate_bucket_errors

    return translate_bucket_errors(location)


def table_names(root: LakeLocation) -> list[str]:
    """List the Delta tables of a lake."""
    storage = open_storage(root)
    names = storage.list_folders()
    have_logs = storage.map_concurrently(lambda name: storage.has_folder(f"{name}/{DELTA_LOG_DIR}"), names)
    return [name for name, has_log in zip(names, have_logs, strict=True) if has_log]


def open_parquet(path: str) -> Any:
    """Return the source that pyarrow reads a file from, by its full path or URL."""
    if "://" not in path:
        return path
    url = BucketUrl(path)
    return open_storage(url.parent).parquet_source(url.name)


def open_bucket_storage(url: BucketUrl) -> BucketStorage:
    """Open a prefix of a bucket; needs the extra `s3`."""
    try:
        from clew.lake.bucket import BucketStorage
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_module("s3", error.name or "obstore") from error
    return BucketStorage(url)


@lru_cache(_MAX_CACHED)
def _storage(text: str) -> Storage:
    return open_bucket_storage(BucketUrl(text)) if "://" in text else LocalStorage(Path(text))
