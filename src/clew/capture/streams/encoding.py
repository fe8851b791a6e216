"""JSON encoding of events; labels of unsupported types are written as text."""

from __future__ import annotations

from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(enc_hook=str)


def encode(value: Any) -> bytes:
    """Encode a value as JSON."""
    return _encoder.encode(value)


def encode_raw(value: Any) -> msgspec.Raw:
    """Encode a value as raw JSON, to be embedded in events."""
    return msgspec.Raw(_encoder.encode(value))
