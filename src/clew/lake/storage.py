"""Where the files of a lake are: a folder, or a place in a bucket. The only module that asks which.

Free of any engine until one is needed, so that a look at a lake costs nothing.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from clew.errors import MissingExtraError
from clew.home import BucketUrl, LakePlace

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from clew.lake.bucket import Bucket

T = TypeVar("T")

COMMITS: Final = "_delta_log"
_MOST_PLACES = 256


class Entry(NamedTuple):
    """A file, its bytes, and when it was written (seconds since 1970)."""

    name: str
    size: int
    written_at: float


class Storage(ABC):
    """Files by their names from one place on, with slashes between."""

    # Spark can read what is here by itself.
    is_local: bool
    # What deltalake must be told of it.
    options: dict[str, str] | None = None

    @abstractmethod
    def make(self) -> None:
        """Make the place, where places have to be made."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is none."""

    def look_at_all(self, look: Callable[[str], T], names: Iterable[str]) -> Iterable[T]:
        """What a look at each name gives, in their order: many at once where each takes the way there and back."""
        return map(look, names)

    @abstractmethod
    def add(self, name: str, content: bytes) -> None:
        """Write a file that is new."""

    @abstractmethod
    def replace(self, name: str, content: bytes) -> None:
        """Write a file that is its old self or its new self, whatever happens."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def entries(self) -> Iterable[Entry]:
        """The files that are directly here; none if nothing is."""

    @abstractmethod
    def folders(self) -> list[str]:
        """What has something below it, by name."""

    @abstractmethod
    def has_folder(self, name: str = "") -> bool:
        """Whether there is something below that name; without one, whether there is anything here."""

    @abstractmethod
    def write_parquet(self, name: str, write: Callable[[Any], None]) -> int:
        """Let `write` fill what pyarrow takes for a new file; gives its bytes. One that fails leaves nothing."""

    @abstractmethod
    def parquet(self, name: str) -> Any:
        """What pyarrow reads a file from."""

    @abstractmethod
    def dataset(self, names: list[str], schema: Any) -> Any:
        """What pyarrow scans files with."""

    @abstractmethod
    def open_table(self, name: str) -> DeltaTable:
        """The table of that name; TableNotFoundError if there is none."""

    @abstractmethod
    def filesystem(self, table: str) -> Any:
        """What deltalake hands to pyarrow to read a table with; None leaves it to deltalake."""


class Folder(Storage):
    """A folder of this machine, or of one that shares it."""

    is_local = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def add(self, name: str, content: bytes) -> None:
        path = self._path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

    def replace(self, name: str, content: bytes) -> None:
        path = self._path / name
        draft = path.with_name(f"{path.name}.draft")
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def entries(self) -> Iterable[Entry]:
        if not self._path.is_dir():
            return
        with os.scandir(self._path) as found:
            for file in found:
                if file.is_file():
                    status = file.stat()
                    yield Entry(file.name, status.st_size, status.st_mtime)

    def folders(self) -> list[str]:
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

    def parquet(self, name: str) -> str:
        return str(self._path / name)

    def dataset(self, names: list[str], schema: Any) -> Any:
        import pyarrow.dataset as ds

        return ds.dataset([self.parquet(name) for name in names], schema=schema, format="parquet")

    def open_table(self, name: str) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(str(self._path / name))

    def filesystem(self, table: str) -> None:  # noqa: ARG002
        return None


def storage_at(place: LakePlace | str) -> Storage:
    """The files at a place, which may be named as `str(place)` names it."""
    return _storage(str(place))


def told_of(place: LakePlace) -> AbstractContextManager[None]:
    """Where whatever is wrong with a bucket is said in a sentence; a folder's faults are its users' to tell."""
    if isinstance(place, Path):
        return nullcontext()
    bucket_at(place)
    from clew.lake.bucket_faults import told_of_bucket

    return told_of_bucket(place)


def table_names(root: LakePlace) -> list[str]:
    """The tables that there are at the root of a lake."""
    storage = storage_at(root)
    names = storage.folders()
    have_commits = storage.look_at_all(lambda name: storage.has_folder(f"{name}/{COMMITS}"), names)
    return [name for name, has_commits in zip(names, have_commits, strict=True) if has_commits]


def parquet_at(path: str) -> Any:
    """What pyarrow reads a file of a lake from, by its whole path or URL."""
    if "://" not in path:
        return path
    url = BucketUrl(path)
    return storage_at(url.parent).parquet(url.name)


def bucket_at(url: BucketUrl) -> Bucket:
    """The objects at a place in a bucket."""
    try:
        from clew.lake.bucket import Bucket
    except ModuleNotFoundError as fault:
        raise MissingExtraError.named("s3", fault.name or "obstore") from fault
    return Bucket(url)


@lru_cache(_MOST_PLACES)
def _storage(text: str) -> Storage:
    return bucket_at(BucketUrl(text)) if "://" in text else Folder(Path(text))
