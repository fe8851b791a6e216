"""Which parts of the log are taken in raw: a choice that is kept, so that a batch given again is written alike."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

# From a position, up to but without another.
RawSpans = tuple[tuple[int, int], ...]

_FILE = "raw_spans.json"
_OPEN_END: Final = 2**63 - 1
_decode = msgspec.json.Decoder(RawSpans).decode


def is_raw(seq: int, spans: RawSpans) -> bool:
    """Whether an event at that position is taken in raw."""
    return any(start <= seq < end for start, end in spans)


def choose(checkpoint: Path, position: int, *, is_raw_only: bool) -> RawSpans:
    """Let what stands in the log from `position` on be taken in raw, or not; gives all spans that are."""
    path = checkpoint / _FILE
    known = _decode(path.read_bytes()) if path.exists() else ()
    spans = tuple((start, min(end, position)) for start, end in known if start < position)
    if is_raw_only:
        spans = (*spans, (position, _OPEN_END))
    if spans != known:
        _write(path, spans)
    return spans


def beyond(seq: int, spans: RawSpans) -> RawSpans:
    """The parts of the spans that lie after an event."""
    return tuple((max(start, seq + 1), end) for start, end in spans if end > seq + 1)


def _write(path: Path, spans: RawSpans) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_bytes(msgspec.json.encode(spans))
    draft.replace(path)
