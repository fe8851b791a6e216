"""Event files of an import: local paths, and objects in S3, which are downloaded one at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from clew.collector.file_import import COMPRESSED_SUFFIXES, EVENT_FILE_SUFFIXES, find_event_files
from clew.data_dir import BucketUrl, is_bucket_url, parse_lake_location
from clew.errors import ClewError, UsageError

ANNOTATIONS_FILE: Final = "annotations.json"
# In a folder, other JSON files are not event files.
_OBJECT_SUFFIXES: Final = EVENT_FILE_SUFFIXES + tuple(f".json{suffix}" for suffix in ("", *COMPRESSED_SUFFIXES))
_CHUNK_BYTES: Final = 8 << 20


@contextmanager
def resolve_event_files(locations: Sequence[str]) -> Iterator[Iterator[Path]]:
    """Yield local files one by one, and each object of S3 as a file, which is removed afterwards."""
    paths = [Path(location) for location in locations if not is_bucket_url(location)]
    urls = [location for location in locations if is_bucket_url(location)]
    with tempfile.TemporaryDirectory(prefix="clew-import-") as folder:

        def files() -> Iterator[Path]:
            yield from find_event_files([path for path in paths if path.name != ANNOTATIONS_FILE])
            for url in urls:
                yield from _download(url, Path(folder))

        yield files()


def read_annotation_files(locations: Sequence[str]) -> list[tuple[str, bytes]]:
    """Read the annotations that `clew export all` wrote beside the events."""
    annotations: list[tuple[str, bytes]] = []
    for location in locations:
        path = Path(location)
        file = path / ANNOTATIONS_FILE if path.is_dir() else path
        if file.name == ANNOTATIONS_FILE and file.is_file():
            annotations += _parse_annotations(file)
    return annotations


def _parse_annotations(file: Path) -> list[tuple[str, bytes]]:
    try:
        return [(key, bytes(body)) for key, body in msgspec.json.decode(file.read_bytes(), type=dict[str, Raw]).items()]
    except (OSError, msgspec.DecodeError) as error:
        message = f"Cannot read the annotations in {file}: {getattr(error, 'strerror', None) or error}."
        raise ClewError(message, hint="The events are imported. Fix the file and import it again.") from error


def _download(location: str, folder: Path) -> Iterator[Path]:
    from clew.lake.bucket import translate_bucket_errors

    # A single object has a suffix of event files; anything else is a prefix.
    url = parse_lake_location(location)
    assert isinstance(url, BucketUrl)  # noqa: S101  # selected by its scheme
    with translate_bucket_errors(url):
        keys = _list_keys(url)
    if not keys:
        raise UsageError(f"No event file at {url}.", hint=f"Event files end with {', '.join(EVENT_FILE_SUFFIXES)}.")
    for key in keys:
        target = folder / key.rpartition("/")[2]
        with translate_bucket_errors(url):
            _fetch(url, key, target)
        yield target
        target.unlink()


def _list_keys(url: BucketUrl) -> list[str]:
    if url.key.endswith(_OBJECT_SUFFIXES):
        return [url.key]
    prefix = f"{url.key}/" if url.key else ""
    keys = [item["path"] for page in _store(url).list(prefix or None) for item in page]
    return sorted(key for key in keys if key.endswith(EVENT_FILE_SUFFIXES))


def _fetch(url: BucketUrl, key: str, target: Path) -> None:
    with target.open("wb") as file:
        for chunk in _store(url).get(key).stream(min_chunk_size=_CHUNK_BYTES):
            file.write(chunk)


def _store(url: BucketUrl) -> Any:
    from clew.lake.providers import open_bucket

    return open_bucket(url.root)
