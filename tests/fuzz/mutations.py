"""Mutations of events: of their JSON values, of their text and of their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**63, -(2**63) - 1, 10**400, "", " ", "\x00", "\x1f", "/", "..", "a" * 300,
    "é\u202e", "2026-01-01T00:00:00Z", "2026-13-45", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999+14:00",
    "<b>", "%00",
    [], {}, [[]], [{}], [None], {"": ""}, {"a": {"a": {"a": []}}}, {"_deleted": True},
)  # fmt: skip
# Not JSON, or JSON that parsers read differently.
TOKENS = (
    b"NaN",
    b"Infinity",
    b"1e999",
    b"-0",
    b"01",
    b'"\\ud800"',
    b'"\\u0000"',
    b"[" * 600 + b"]" * 600,
    b"",
    b"{",
    b"//",
)

Path = tuple[str | int, ...]


def mutate(random: Random, body: bytes) -> bytes:
    """Apply one to three mutations to an event."""
    for _ in range(random.randint(1, 3)):
        mutation = random.choice((change_value, change_value, change_value, change_key, change_token, change_bytes))
        body = mutation(random, body)
    return body


def change_value(random: Random, body: bytes) -> bytes:
    """Replace, remove or repeat a value."""

    def change(parent: Any, key: Any) -> None:
        action = random.randrange(4)
        if action == 0:
            del parent[key]
        elif action == 1 and isinstance(parent, list):
            parent.append(parent[key])
        elif action == 2 and isinstance(parent, dict):
            # Exchange with another member.
            other = random.choice(sorted(parent))
            parent[key], parent[other] = parent[other], parent[key]
        else:
            parent[key] = random.choice(VALUES)

    return _change_json(random, body, change)


def change_key(random: Random, body: bytes) -> bytes:
    """Rename a member."""

    def change(parent: Any, key: Any) -> None:
        if isinstance(parent, dict):
            parent[random.choice([value for value in VALUES if isinstance(value, str)])] = parent.pop(key)

    return _change_json(random, body, change)


def change_token(random: Random, body: bytes) -> bytes:
    """Replace the text of a value by a token, or repeat a member."""
    positions = [position for position, byte in enumerate(body) if byte == ord(":")]
    if not positions:
        return body + random.choice(TOKENS)
    start = random.choice(positions) + 1
    end = next((end for end in range(start, len(body)) if body[end] in b",}]"), len(body))
    return body[:start] + random.choice(TOKENS) + body[end:]


def change_bytes(random: Random, body: bytes) -> bytes:
    """Flip, insert, remove or truncate bytes."""
    position = random.randrange(len(body) + 1)
    random_bytes = random.randbytes(random.randint(1, 4))
    return random.choice(
        (
            body[:position] + random_bytes + body[position + len(random_bytes) :],
            body[:position] + random_bytes + body[position:],
            body[:position] + body[position + random.randint(1, 40) :],
            body[:position],
        )
    )


def _change_json(random: Random, body: bytes, change: Callable[[Any, Any], None]) -> bytes:
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        return change_bytes(random, body)
    paths = list(_paths(event))
    if not paths:
        return change_bytes(random, body)
    *parents, key = random.choice(paths)
    parent = event
    for part in parents:
        parent = parent[part]
    change(parent, key)
    try:
        return json.dumps(event, ensure_ascii=random.random() < 0.5).encode()
    except UnicodeEncodeError:
        return json.dumps(event).encode()


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield (*path, key)
        yield from _paths(member, (*path, key))
