"""Objects below a prefix of a bucket, for imports: listing, and reading in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import obstore

from clew.data_dir import BucketUrl
from clew.lake.bucket import translate_bucket_errors
from clew.lake.providers import open_bucket

_BYTES_PER_CHUNK = 1 << 20


class StoredObjectInfo(NamedTuple):
    """Key, ETag, size and time of an object."""

    key: str
    etag: str
    size: int
    modified_at: datetime


def list_objects(prefix: BucketUrl) -> Iterator[StoredObjectInfo]:
    """List the objects whose keys are the prefix itself or below it, in order of their keys."""
    with translate_bucket_errors(prefix, "prefix"):
        store = open_bucket(prefix.root)
        for page in obstore.list(store, prefix.key or None):
            for item in page:
                yield StoredObjectInfo(item["path"], item["e_tag"] or "", item["size"], item["last_modified"])
        # A prefix of obstore ends at a slash: the object with exactly this key is not below it.
        if prefix.key:
            yield from _find_object(prefix)


def _find_object(prefix: BucketUrl) -> Iterator[StoredObjectInfo]:
    try:
        item = obstore.head(open_bucket(prefix.root), prefix.key)
    except FileNotFoundError:
        return
    yield StoredObjectInfo(item["path"], item["e_tag"] or "", item["size"], item["last_modified"])


def read_object(prefix: BucketUrl, key: str) -> Iterator[bytes]:
    """Yield the content of an object in chunks."""
    with translate_bucket_errors(prefix, "prefix"):
        for chunk in obstore.get(open_bucket(prefix.root), key).stream(_BYTES_PER_CHUNK):
            yield bytes(chunk)
