"""API keys, stored as hashes in a file of the data directory."""

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
from clew.serving.grants import Principal, Scope

PREFIX: Final = "clew"
# 256 random bits cannot be guessed, so a fast hash is enough; a slow one would cost every request.
_SECRET_BYTES = 32
_ID_BYTES = 4


class ApiKey(Struct, frozen=True):
    """Stored key; `id` is its public part."""

    name: str
    id: str
    hash: str
    scopes: list[Scope]
    namespaces: list[str]
    added_at: str


_FileSignature = tuple[int, int, int]
_decode = msgspec.json.Decoder(list[ApiKey]).decode


class KeyFile:
    """Key file of a data directory. Running servers see changes immediately."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cache: tuple[_FileSignature | None, dict[str, tuple[str, Principal]]] = (None, {})

    def list_keys(self) -> list[ApiKey]:
        """Return all keys in the order they were added."""
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            message = f"Cannot read the API keys in {self._path}: {error}."
            raise ClewError(message, hint="Restore the file, or remove it and add the keys again.") from error

    def add(self, name: str, scopes: Sequence[Scope], namespaces: Sequence[str] = ()) -> str:
        """Create a key, store its hash and return the key, which is not stored."""
        keys = self.list_keys()
        if any(key.name == name for key in keys):
            hint = "Use another name, or revoke that key first."
            raise UsageError(f"A key named {name!r} already exists.", hint=hint)
        key_id = secrets.token_hex(_ID_BYTES)
        key = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._write([*keys, ApiKey(name, key_id, _hash_key(key), list(scopes), list(namespaces), now)])
        return key

    def revoke(self, name: str) -> None:
        """Remove a key; it is not accepted any more."""
        keys = self.list_keys()
        remaining = [key for key in keys if key.name != name]
        if len(remaining) == len(keys):
            raise UsageError(f"There is no key named {name!r}.", hint="List the keys with `clew keys list`.")
        self._write(remaining)

    def find_principal(self, key: str) -> Principal | None:
        """Return the principal of a key, or None."""
        key_hash, principal = self._principals().get(_key_id(key), ("", None))
        return principal if hmac.compare_digest(key_hash, _hash_key(key)) else None

    def _principals(self) -> dict[str, tuple[str, Principal]]:
        """Return hash and principal by key id; reload when the file has changed."""
        cached_signature, principals = self._cache
        signature = _file_signature(self._path)
        if signature != cached_signature:
            principals = {
                key.id: (key.hash, Principal(f"The key {key.name!r}", frozenset(key.scopes), tuple(key.namespaces)))
                for key in self.list_keys()
            }
            self._cache = (signature, principals)
        return principals

    def _write(self, keys: Sequence[ApiKey]) -> None:
        text = msgspec.json.format(msgspec.json.encode(keys)) + b"\n"
        temporary = self._path.with_suffix(".tmp")
        try:
            # Readable by the owner only, from its creation on.
            with os.fdopen(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise ClewError(f"Cannot write the API keys to {self._path}: {error.strerror}.") from error


def _file_signature(path: Path) -> _FileSignature | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _key_id(key: str) -> str:
    prefix, _, rest = key.partition("_")
    return rest.partition("_")[0] if prefix == PREFIX else ""


def _hash_key(key: str) -> str:
    return sha256(key.encode()).hexdigest()
