"""Tests of parsing symlinks and lifecycle changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.events.facets import parse_lifecycle_change, parse_symlinks

A, B = {"namespace": "n", "name": "a", "type": "TABLE"}, {"namespace": "n", "name": "b"}


@pytest.mark.parametrize(
    ("facet", "identifiers"),
    [
        ({"identifiers": [A]}, (("n", "a"),)),
        ({"identifiers": [B, A, B]}, (("n", "a"), ("n", "b"))),
        # Only a malformed identifier is ignored.
        ({"identifiers": [{"name": "x"}, 7, A]}, (("n", "a"),)),
        ({"identifiers": [A], "_deleted": True}, ()),
        ({"identifiers": [A], "_deleted": None}, (("n", "a"),)),
        ({"identifiers": 7}, ()),
        ({}, ()),
        (None, ()),
        ("text", ()),
    ],
)
def test_parse_symlinks(facet: Any, identifiers: tuple[tuple[str, str], ...]) -> None:
    assert parse_symlinks(json.dumps(facet).encode()) == identifiers


@pytest.mark.parametrize(
    ("facet", "change"),
    [
        ({"lifecycleStateChange": "DROP"}, ("DROP", None, None)),
        ({"lifecycleStateChange": "RENAME", "previousIdentifier": B}, ("RENAME", "n", "b")),
        ({"lifecycleStateChange": "RENAME", "previousIdentifier": {"name": "b"}}, ("RENAME", None, None)),
        ({"lifecycleStateChange": "RENAME"}, ("RENAME", None, None)),
        # Only a rename has a previous name.
        ({"lifecycleStateChange": "ALTER", "previousIdentifier": B}, ("ALTER", None, None)),
        ({"lifecycleStateChange": "DROP", "_deleted": True}, None),
        ({"lifecycleStateChange": 7}, None),
        ({"lifecycleStateChange": ""}, None),
        ({}, None),
        (None, None),
    ],
)
def test_parse_lifecycle_change(facet: Any, change: tuple[str | None, ...] | None) -> None:
    assert parse_lifecycle_change(json.dumps(facet).encode()) == change
