"""What the lake's own log tells: sizes of tables and the last batches. Without pyarrow, which takes long to load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import msgspec
from msgspec import Struct, field

from clew.home import LakePlace
from clew.lake.storage import COMMITS, storage_at, table_names

# Named by version in 20 digits, so their order as text is their order.
_COMMIT = re.compile(r"\d{20}\.json")
# Upkeep leaves commits of its own between those of batches.
_COMMITS_PER_BATCH = 4


class TableSize(Struct, frozen=True):
    """Rows, files and bytes of a table's newest version."""

    name: str
    rows: int
    files: int
    bytes: int


class CommittedBatch(Struct, frozen=True):
    """A batch, when its last table was committed (in milliseconds), and the rows that it added to each.

    How long it took, and events a second, where the pipeline has noted it.
    """

    app: str
    number: int
    at_ms: int
    rows: dict[str, int]
    seconds: float | None = None
    events_per_second: float | None = None


class _Transaction(Struct, rename="camel"):
    app_id: str
    version: int


class _Add(Struct):
    stats: str | None = None


class _Information(Struct):
    timestamp: int = 0


class _Action(Struct):
    txn: _Transaction | None = None
    add: _Add | None = None
    information: _Information | None = field(default=None, name="commitInfo")


class _Statistics(Struct, rename="camel"):
    num_records: int = 0


_decode_action = msgspec.json.Decoder(_Action).decode
_decode_statistics = msgspec.json.Decoder(_Statistics).decode


def table_sizes(root: LakePlace) -> list[TableSize]:
    """The size of each table below `root`, by name."""
    return list(storage_at(root).look_at_all(partial(_size, root), table_names(root)))


def last_batches(root: LakePlace, names: tuple[str, ...], count: int) -> list[CommittedBatch]:
    """The batches that were committed to these tables last, the newest first."""
    found: dict[tuple[str, int], CommittedBatch] = {}
    for name in names:
        for commit in _last_commits(root / name / COMMITS, count * _COMMITS_PER_BATCH):
            for batch in _batches(commit, name):
                known = found.get((batch.app, batch.number), batch)
                at_ms = max(known.at_ms, batch.at_ms)
                rows = {**known.rows, **batch.rows}
                found[batch.app, batch.number] = CommittedBatch(batch.app, batch.number, at_ms, rows)
    return sorted(found.values(), key=lambda batch: (batch.at_ms, batch.number), reverse=True)[:count]


def _size(root: LakePlace, name: str) -> TableSize:
    actions = storage_at(root).open_table(name).get_add_actions(flatten=True)
    rows, sizes = (list(actions.column(name).to_pylist()) for name in ("num_records", "size_bytes"))
    return TableSize(name, sum(rows), len(sizes), sum(sizes))


def _last_commits(folder: LakePlace, count: int) -> Iterator[bytes]:
    storage = storage_at(folder)
    names = sorted(entry.name for entry in storage.entries() if _COMMIT.fullmatch(entry.name))
    for content in storage.look_at_all(storage.read, names[-count:]):
        # Upkeep may have shortened the log meanwhile.
        if content is not None:
            yield content


def _batches(commit: bytes, table: str) -> Iterator[CommittedBatch]:
    """The batches that a commit carries: one, or none if it was made by upkeep."""
    actions = [_decode_action(line) for line in commit.splitlines()]
    rows = sum(_decode_statistics(one.add.stats or "{}").num_records for one in actions if one.add is not None)
    at_ms = max((one.information.timestamp for one in actions if one.information is not None), default=0)
    for one in actions:
        if one.txn is not None:
            yield CommittedBatch(one.txn.app_id, one.txn.version, at_ms, {table: rows})
