"""The one folder in which an embedded clew keeps everything."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from clew.errors import ClewError, UsageError
from clew.settings import chosen

FOLDER_NAME = ".clew"

_SCHEMES = "postgresql://", "postgres://"
# What a URL need not encode: engines differ in how they read one that does.
_BUCKET = re.compile(r"(s3|s3a)://(?P<rest>[a-z0-9][a-z0-9.-]+(/[\w.=-]+)*)/*", re.ASCII)


@dataclass(frozen=True)
class DatabaseUrl:
    """A PostgreSQL database by its URL, and a folder for what is kept beside an index. Its password is never shown."""

    text: str
    folder: Path

    def __str__(self) -> str:
        return re.sub(r"(?<=://)([^/@]*?):[^/@]*@", r"\1@", re.sub(r"[?&]password=[^&]*", "", self.text))

    def __repr__(self) -> str:
        return f"DatabaseUrl({self})"


# Where an index is: a file, or a database.
Place = Path | DatabaseUrl


@dataclass(frozen=True)
class BucketUrl:
    """A place in an object store, by its URL; like a path's, what is below it is named with a slash."""

    text: str

    def __truediv__(self, name: str) -> BucketUrl:
        return BucketUrl(f"{self.text}/{name}")

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        """The last part."""
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> BucketUrl:
        """What it is below."""
        return BucketUrl(self.text.rpartition("/")[0])

    @property
    def bucket(self) -> str:
        """The bucket's own name."""
        return urlsplit(self.text).netloc

    @property
    def key(self) -> str:
        """Its name within the bucket; empty if it is the bucket."""
        return urlsplit(self.text).path.lstrip("/")


# Where a lake is: a folder, or a place in a bucket.
LakePlace = Path | BucketUrl


@dataclass(frozen=True)
class Home:
    """Where each stage of one installation lives. Copy `root` and you have copied everything.

    Unless the lake is `elsewhere`, or the index in a `database`.
    """

    root: Path
    elsewhere: LakePlace | None = None
    database: str | None = None

    @classmethod
    def find(
        cls, given: str | os.PathLike[str] | None = None, lake: str | None = None, index: str | None = None
    ) -> Self:
        """`--home`, else CLEW_HOME or clew.toml, else the nearest `.clew` above the working directory, else `~/.clew`.

        Its lake is `--lake`, else CLEW_LAKE or clew.toml, else a folder in it; its index likewise, else a file in it.
        """
        place = chosen("lake", lake).value
        elsewhere = lake_place(place) if place else None
        database = _database(chosen("index", index).value)
        root = chosen("home", None if given is None else os.fspath(given)).value
        if root:
            return cls(Path(root).expanduser().absolute(), elsewhere, database)
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / FOLDER_NAME).is_dir():
                return cls(folder / FOLDER_NAME, elsewhere, database)
        return cls(Path.home() / FOLDER_NAME, elsewhere, database)

    @property
    def streams(self) -> Path:
        """What the notebook agent wrote, a folder per session."""
        return self.root / "streams"

    @property
    def log(self) -> Path:
        """Append-only segments of received events."""
        return self.root / "log"

    @property
    def lake(self) -> LakePlace:
        """A Delta table per folder."""
        return self.elsewhere or self.root / "lake"

    @property
    def lake_folder(self) -> Path:
        """The lake, unless it is in a bucket."""
        if isinstance(self.lake, BucketUrl):
            raise UsageError(f"The lake {self.lake} is no folder.", hint="Name one with --lake PATH.")
        return self.lake

    @property
    def index(self) -> Place:
        """The SQLite file or the database that answers come from."""
        return self.index_file if self.database is None else DatabaseUrl(self.database, self.root)

    @property
    def index_file(self) -> Path:
        """The index, unless it is in a database."""
        return self.root / "index.sqlite"

    @property
    def checkpoint(self) -> Path:
        """How far the pipeline has read the log."""
        return self.root / "checkpoint"

    @property
    def keys(self) -> Path:
        """Hashes of the API keys."""
        return self.root / "keys.json"

    def create(self) -> Self:
        """Make the folder, or say why it cannot be made."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".write-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as fault:
            message = f"clew cannot write to its home {self.root}: {fault.strerror}."
            raise ClewError(message, hint="Choose another folder with --home DIR or CLEW_HOME.") from fault
        return self


def lake_place(text: str) -> LakePlace:
    """The folder that a path or a `file://` URL names, or the place in a bucket that an `s3://` URL names."""
    url = urlsplit(text)
    if "://" not in text:
        return Path(text).expanduser().absolute()
    if url.scheme == "file" and url.netloc in {"", "localhost"}:
        return Path(unquote(url.path))
    found = _BUCKET.fullmatch(text)
    if found is not None:
        return BucketUrl(f"s3://{found['rest']}")
    if url.scheme in {"s3", "s3a"}:
        hint = "Write s3://bucket/prefix, in letters, digits and . _ = - only. Keys go into the variables AWS_*."
        raise UsageError(f"The lake cannot be at {_without_keys(text)}: that names no place in a bucket.", hint=hint)
    hint = "Name a folder, a URL that starts with file:///, or one of an S3 bucket: s3://bucket/prefix."
    raise UsageError(f"The lake cannot be at {_without_keys(text)}: that is neither a folder nor S3.", hint=hint)


def _without_keys(url: str) -> str:
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def _database(url: str | None) -> str | None:
    if not url or url.startswith(_SCHEMES):
        return url or None
    hint = "Give a URL: postgresql://user@host/database. Without one, the index is a file in the home."
    raise UsageError(f"The index cannot be at {url!r}.", hint=hint)
