"""Tests of mapped files of arrays: damaged files are not used."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from msgspec import Struct

from clew.query.graph.nodes import map_arrays, write_arrays


class Version(Struct):
    """Metadata of a file."""

    number: int


def flip_bit(body: bytearray, rng: Random) -> None:
    body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)


def truncate(body: bytearray, rng: Random) -> None:
    del body[rng.randrange(len(body)) :]


def replace_by_random_bytes(body: bytearray, rng: Random) -> None:
    body[8:] = rng.randbytes(len(body) - 8)


def append(body: bytearray, rng: Random) -> None:
    body += rng.randbytes(8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_arrays(tmp_path / "graph", {"ends": array("I", range(100)), "names": b"orders\n"}, Version(7))
    return tmp_path / "graph"


def test_written_arrays_are_read(path: Path) -> None:
    mapped = map_arrays(path)
    assert mapped is not None
    assert list(mapped.arrays["ends"]) == list(range(100))
    assert (bytes(mapped.arrays["names"]), bytes(mapped.metadata)) == (b"orders\n", b'{"number":7}')


def test_only_the_owner_can_read_the_file(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", [flip_bit, truncate, replace_by_random_bytes, append])
def test_a_damaged_file_is_not_used(path: Path, damage: Callable[[bytearray, Random], None]) -> None:
    intact = path.read_bytes()
    for seed in range(50):
        body = bytearray(intact)
        damage(body, Random(seed))
        path.write_bytes(body)
        assert map_arrays(path) is None


def test_an_empty_or_missing_file_is_not_used(path: Path) -> None:
    path.write_bytes(b"")
    assert map_arrays(path) is None
    path.unlink()
    assert map_arrays(path) is None
