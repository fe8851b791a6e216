"""API keys: told once, kept as hashes in a file of the home."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from clew.errors import ClewError, UsageError
from clew.serving.grants import Grant, Scope

PREFIX: Final = "clew"
# Nobody guesses one of 256 random bits, so that a quick hash does: a slow one would cost every request.
_SECRET_BYTES = 32
_ID_BYTES = 4


class Key(Struct, frozen=True):
    """What is kept of a key; `id` is the part of it that is no secret."""

    name: str
    id: str
    hash: str
    scopes: list[Scope]
    namespaces: list[str]
    added_at: str


_Stamp = tuple[int, int, int]
_decode = msgspec.json.Decoder(list[Key]).decode


class KeyFile:
    """The keys of a home. What is added or revoked holds at once, for servers that are at work as well."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[_Stamp | None, dict[str, tuple[str, Grant]]] = (None, {})

    def listed(self) -> list[Key]:
        """All keys, in the order they were added."""
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as fault:
            message = f"The keys in {self._path} cannot be read: {fault}."
            raise ClewError(message, hint="Restore the file, or move it away and add keys anew.") from fault

    def add(self, name: str, scopes: Sequence[Scope], namespaces: Sequence[str] = ()) -> str:
        """Make a key, keep its hash, and give it: it can never be told again."""
        known = self.listed()
        if any(key.name == name for key in known):
            hint = "Choose another name, or revoke that one first."
            raise UsageError(f"There is a key named {name!r} already.", hint=hint)
        public = secrets.token_hex(_ID_BYTES)
        key = f"{PREFIX}_{public}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._write([*known, Key(name, public, _hash(key), list(scopes), list(namespaces), now)])
        return key

    def revoke(self, name: str) -> None:
        """Forget a key: whoever still has it is no longer let in."""
        known = self.listed()
        left = [key for key in known if key.name != name]
        if len(left) == len(known):
            raise UsageError(f"There is no key named {name!r}.", hint="`clew keys list` names them all.")
        self._write(left)

    def grant(self, key: str) -> Grant | None:
        """What a key allows, if it is one."""
        known, grant = self._grants().get(_id(key), ("", None))
        return grant if hmac.compare_digest(known, _hash(key)) else None

    def _grants(self) -> dict[str, tuple[str, Grant]]:
        """Hash and grant by id, read again when the file has changed."""
        stamp, grants = self._read
        now = _stamp(self._path)
        if now != stamp:
            grants = {
                key.id: (key.hash, Grant(f"The key {key.name!r}", frozenset(key.scopes), tuple(key.namespaces)))
                for key in self.listed()
            }
            self._read = (now, grants)
        return grants

    def _write(self, keys: Sequence[Key]) -> None:
        text = msgspec.json.format(msgspec.json.encode(keys)) + b"\n"
        temporary = self._path.with_suffix(".tmp")
        try:
            # For the owner's eyes only, from the beginning.
            with os.fdopen(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as fault:
            raise ClewError(f"The keys cannot be written to {self._path}: {fault.strerror}.") from fault


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _id(key: str) -> str:
    prefix, _, rest = key.partition("_")
    return rest.partition("_")[0] if prefix == PREFIX else ""


def _hash(key: str) -> str:
    return sha256(key.encode()).hexdigest()
