"""Encoding events: labels may be anything, so what JSON does not know is written as text."""

from __future__ import annotations

from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(enc_hook=str)


def encode(value: Any) -> bytes:
    """A value as JSON."""
    return _encoder.encode(value)


def encoded(value: Any) -> msgspec.Raw:
    """A value as JSON that is put into events as it is."""
    return msgspec.Raw(_encoder.encode(value))
