"""Data directory (`--home`): the paths of the log, lake, index and keys."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from clew.config import resolve_setting
from clew.errors import ClewError, UsageError

FOLDER_NAME = ".clew"

_POSTGRES_SCHEMES = "postgresql://", "postgres://"
# Only characters that need no URL encoding: engines decode encoded ones differently.
_KEY = r"(?P<key>(/[\w.=-]+)*)/*"
_BUCKET_URLS = [
    re.compile(f"{text}{_KEY}", re.ASCII)
    for text in (
        r"(?P<scheme>s3)a?://(?P<bucket>[a-z0-9][a-z0-9.-]+)",
        r"(?P<scheme>gs)://(?P<bucket>[a-z0-9][a-z0-9._-]+)",
        r"(?P<scheme>az)://(?P<bucket>[a-z0-9][a-z0-9-]+)",
        r"(?P<scheme>abfs)s?://(?P<bucket>[a-z0-9][a-z0-9-]+@[a-z0-9]+\.dfs\.core\.windows\.net)",
    )
]
# The scheme in which a URL is kept, by that of its pattern.
_SCHEMES = {"s3": "s3", "gs": "gs", "az": "az", "abfs": "abfss"}


@dataclass(frozen=True)
class DatabaseUrl:
    """PostgreSQL URL, and the folder for files beside the index. `str()` omits the password."""

    text: str
    folder: Path

    def __str__(self) -> str:
        return re.sub(r"(?<=://)([^/@]*?):[^/@]*@", r"\1@", re.sub(r"[?&]password=[^&]*", "", self.text))

    def __repr__(self) -> str:
        return f"DatabaseUrl({self})"


# SQLite file or PostgreSQL database.
IndexLocation = Path | DatabaseUrl


@dataclass(frozen=True)
class BucketUrl:
    """URL of a prefix in a bucket or container; joined with `/` like a path."""

    text: str

    def __truediv__(self, name: str) -> BucketUrl:
        return BucketUrl(f"{self.text}/{name}")

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        """Last path segment."""
        return self.text.rpartition("/")[2]

    @property
    def parent(self) -> BucketUrl:
        """Parent prefix."""
        return BucketUrl(self.text.rpartition("/")[0])

    @property
    def scheme(self) -> str:
        """Scheme of the provider: s3, gs, az or abfss."""
        return self.text.partition("://")[0]

    @property
    def bucket(self) -> str:
        """Name of the bucket or container."""
        return urlsplit(self.text).netloc.partition("@")[0]

    @property
    def account(self) -> str | None:
        """Account of Azure that an abfss:// URL contains."""
        host = urlsplit(self.text).netloc.partition("@")[2]
        return host.partition(".")[0] or None

    @property
    def root(self) -> BucketUrl:
        """The bucket itself."""
        return BucketUrl(f"{self.scheme}://{urlsplit(self.text).netloc}")

    @property
    def key(self) -> str:
        """Key within the bucket; empty for the bucket itself."""
        return urlsplit(self.text).path.lstrip("/")


# Folder or prefix in a bucket.
LakeLocation = Path | BucketUrl


@dataclass(frozen=True)
class DataDir:
    """Paths of one installation.

    All data is below `root`, unless the lake is `external_lake` or the index is at `database_url`.
    """

    root: Path
    external_lake: LakeLocation | None = None
    database_url: str | None = None

    @classmethod
    def find(
        cls, home: str | os.PathLike[str] | None = None, lake: str | None = None, index: str | None = None
    ) -> Self:
        """Use `--home`, CLEW_HOME or clew.toml, else the nearest `.clew` above the working directory, else `~/.clew`.

        The lake is `--lake`, CLEW_LAKE or clew.toml, else a folder in it. The index is resolved the same way.
        """
        lake_text = resolve_setting("lake", lake).value
        external_lake = parse_lake_location(lake_text) if lake_text else None
        database_url = _parse_database_url(resolve_setting("index", index).value)
        root = resolve_setting("home", None if home is None else os.fspath(home)).value
        if root:
            return cls(Path(root).expanduser().absolute(), external_lake, database_url)
        here = Path.cwd()
        for folder in (here, *here.parents):
            if (folder / FOLDER_NAME).is_dir():
                return cls(folder / FOLDER_NAME, external_lake, database_url)
        return cls(Path.home() / FOLDER_NAME, external_lake, database_url)

    @property
    def streams(self) -> Path:
        """Events written by notebook capture, one folder per session."""
        return self.root / "streams"

    @property
    def log(self) -> Path:
        """Append-only log segments of received events."""
        return self.root / "log"

    @property
    def lake(self) -> LakeLocation:
        """Lake: one Delta table per folder."""
        return self.external_lake or self.root / "lake"

    @property
    def lake_folder(self) -> Path:
        """Folder of the lake; UsageError if the lake is in a bucket."""
        if isinstance(self.lake, BucketUrl):
            raise UsageError(f"The lake {self.lake} is not a local folder.", hint="Pass a folder with --lake PATH.")
        return self.lake

    @property
    def index(self) -> IndexLocation:
        """SQLite file or PostgreSQL database of the query index."""
        return self.index_file if self.database_url is None else DatabaseUrl(self.database_url, self.root)

    @property
    def index_file(self) -> Path:
        """SQLite file of the index, if it is not in PostgreSQL."""
        return self.root / "index.sqlite"

    @property
    def checkpoint(self) -> Path:
        """Checkpoint of the pipeline: its position in the log."""
        return self.root / "checkpoint"

    @property
    def keys(self) -> Path:
        """File with the hashes of the API keys."""
        return self.root / "keys.json"

    def create(self) -> Self:
        """Create the folder; ClewError if it is not writable."""
        try:
            create_private_folder(self.root)
            probe = self.root / f".write-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            message = f"Cannot write to the data directory {self.root}: {error.strerror}."
            raise ClewError(message, hint="Use another folder with --home DIR or CLEW_HOME.") from error
        return self


def create_private_folder(path: Path) -> None:
    """Create a folder and its missing parents, with access for the owner only: events contain source code."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in (*reversed(missing), path):
        folder.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically, with access for the owner only. A folder in its place is renamed."""
    temporary = path.with_name(f"{path.name}.tmp")
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if path.is_dir() and not path.is_symlink():
        path.replace(path.with_name(f"{path.name}.damaged"))
    temporary.replace(path)


def parse_lake_location(text: str) -> LakeLocation:
    """Parse a path, a `file://` URL, or a URL of S3, Google Cloud Storage or Azure."""
    url = urlsplit(text)
    if "://" not in text:
        return Path(text).expanduser().absolute()
    if url.scheme == "file" and url.netloc in {"", "localhost"}:
        return Path(unquote(url.path))
    for pattern in _BUCKET_URLS:
        match = pattern.fullmatch(text)
        if match is not None:
            return BucketUrl(f"{_SCHEMES[match['scheme']]}://{match['bucket']}{match['key']}")
    example = _EXAMPLES.get(url.scheme)
    if example is not None:
        message = f"Invalid lake URL {_redact_credentials(text)}: it does not name a bucket."
        hint = f"Use {example} with letters, digits and . _ = - only. Set credentials with variables."
        raise UsageError(message, hint=hint)
    hint = f"Use a folder, a file:/// URL or the URL of a bucket: {', '.join(dict.fromkeys(_EXAMPLES.values()))}."
    message = f"Invalid lake location {_redact_credentials(text)}: it is neither a folder nor a bucket."
    raise UsageError(message, hint=hint)


_EXAMPLES = {
    "s3": "s3://bucket/prefix",
    "s3a": "s3://bucket/prefix",
    "gs": "gs://bucket/prefix",
    "az": "az://container/prefix",
    "abfs": "abfss://container@account.dfs.core.windows.net/prefix",
    "abfss": "abfss://container@account.dfs.core.windows.net/prefix",
}


def is_bucket_url(text: str) -> bool:
    """Return whether a text has the scheme of a bucket."""
    return urlsplit(text).scheme in _EXAMPLES and "://" in text


def _redact_credentials(url: str) -> str:
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def _parse_database_url(url: str | None) -> str | None:
    if not url or url.startswith(_POSTGRES_SCHEMES):
        return url or None
    hint = "Use postgresql://user@host/database. Without a URL, the index is a SQLite file in the data directory."
    raise UsageError(f"Invalid index location {url!r}.", hint=hint)
