"""Encoding of index values: composite keys, LIKE patterns, compressed facets."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

import msgspec
import zstandard
from msgspec import Struct

from clew.events.facets import FacetOrder, is_deleted
from clew.events.openlineage import ANNOTATIONS_NAME, ANNOTATIONS_NAMESPACE

# A control character that does not occur in names.
KEY_SEPARATOR: Final = "\x1f"


def entity_key(*parts: str | None) -> str:
    """Join the parts of a key; an absent part is empty."""
    # A list: `join` copies any other iterable to one.
    return KEY_SEPARATOR.join([part or "" for part in parts])


def dataset_key(namespace: str, name: str, version: str | None) -> str:
    """Return the key of a dataset version. Faster than `entity_key`; called for every dataset of every event."""
    return f"{namespace}{KEY_SEPARATOR}{name}{KEY_SEPARATOR}{version or ''}"


def run_dataset_key(run_uuid: str | None, dataset: str) -> str:
    """Return the key of a run's input or output; the run comes first so that its rows are stored together."""
    return f"{run_uuid or ''}{KEY_SEPARATOR}{dataset}"


# The same as an expression on the columns of `run_io`.
RUN_DATASET_KEY: Final = """run_uuid || char(31) || dataset_namespace || char(31) || dataset_name || char(31)
|| dataset_version"""


def split_key(key: str) -> list[str | None]:
    """Split a key into its parts; an empty part is None."""
    return [part or None for part in key.split(KEY_SEPARATOR)]


def prefix_end(prefix: str) -> str:
    """Return the exclusive upper bound of all keys with this prefix."""
    return prefix.removesuffix(KEY_SEPARATOR) + chr(ord(KEY_SEPARATOR) + 1)


# Condition with the number of the pattern's parameter; ASCII letters match regardless of case.
IS_LIKE: Final = "like ?{} escape '\\'"
_LIKE_WILDCARDS = re.compile(r"[\\%_]")
# SQLite rejects patterns of more than 50,000 bytes.
_MAX_PATTERN_LENGTH = 2000


def like_pattern(text: str) -> str:
    """Return the pattern that matches names that contain the text; a very long text is truncated."""
    # A NUL would end the pattern.
    truncated = text[:_MAX_PATTERN_LENGTH].replace("\x00", "\ufffd")
    escaped = _LIKE_WILDCARDS.sub(lambda match: f"\\{match[0]}", truncated)
    return f"%{escaped}%"


IS_ANNOTATIONS: Final = f"(namespace = '{ANNOTATIONS_NAMESPACE}' and name = '{ANNOTATIONS_NAME}')"
# All other datasets.
DATASETS: Final = f"datasets where not {IS_ANNOTATIONS}"


DELETED: Final = b""
MIN_TRAINING_SAMPLES: Final = 1000

# On blobs of 1 KB, level 1 costs a third of level 3 and is a tenth larger.
_LEVEL = 1
_MAX_TRAINING_SAMPLES = 5000
_DICTIONARY_BYTES = 32 << 10


class StoredFacet(Struct, array_like=True, gc=False):
    """A facet with the position and time of its event; the body is unchanged, or empty if the facet was deleted."""

    name: str
    seq: int
    event_time: int
    body: bytes

    @classmethod
    def of(cls, name: str, seq: int, event_time: int, body: bytes) -> StoredFacet:
        """Create from a facet as received."""
        return cls(name, seq, event_time, DELETED if is_deleted(body) else body)


class FacetEncoder:
    """Encode and compress facets, with a dictionary if there is one. Not thread-safe: zstandard contexts are not."""

    def __init__(self, dictionary: bytes | None = None) -> None:
        dict_data = None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
        self._compress = zstandard.ZstdCompressor(level=_LEVEL, dict_data=dict_data).compress
        self._encode = msgspec.msgpack.Encoder().encode

    def encode(self, facets: Sequence[StoredFacet]) -> bytes:
        """Encode the facets of one entity."""
        return self._compress(self._encode(facets))


class FacetDecoder(threading.local):
    """Decode blobs with the dictionary that they were compressed with; each thread has its own contexts."""

    def __init__(self, dictionaries: Mapping[int, bytes] | None = None) -> None:
        by_id = {dict_id: zstandard.ZstdCompressionDict(body) for dict_id, body in (dictionaries or {}).items()}
        self._decompress = {
            dict_id: zstandard.ZstdDecompressor(dict_data=body).decompress for dict_id, body in by_id.items()
        }
        self._decompress[0] = zstandard.ZstdDecompressor().decompress
        self._decode = msgspec.msgpack.Decoder(list[StoredFacet]).decode

    def decode(self, body: bytes) -> list[StoredFacet]:
        """Decode the facets of an entity; KeyError if the dictionary is not loaded."""
        return self._decode(self._decompress[zstandard.get_frame_parameters(body).dict_id](body))


def merge_facets(
    existing: Iterable[StoredFacet], incoming: Iterable[StoredFacet], order: FacetOrder
) -> list[StoredFacet]:
    """Merge two lists of facets: the last facet of each name wins."""
    # Spec: a facet replaces an earlier one of the same name as a whole, without a deep merge.
    merged = {facet.name: facet for facet in existing}
    for facet in incoming:
        other = merged.get(facet.name)
        if other is None or order.sort_key(facet.seq, facet.event_time) >= order.sort_key(other.seq, other.event_time):
            merged[facet.name] = facet
    return list(merged.values())


def train_dictionary(facets: Sequence[bytes]) -> tuple[int, bytes]:
    """Train a dictionary on facets; returns its id, which is in the header of every blob, and its content.

    The id is a hash of the samples, so that open readers notice when an index with another dictionary is swapped in.
    """
    step = max(1, len(facets) // _MAX_TRAINING_SAMPLES)
    samples: list[bytes | bytearray | memoryview] = list(facets[::step])
    # 16 bits: two bytes in each blob.
    dict_id = 1 + crc32(b"".join(samples)) % 0xFFFF
    return dict_id, zstandard.train_dictionary(_DICTIONARY_BYTES, samples, d=8, k=512, dict_id=dict_id).as_bytes()
