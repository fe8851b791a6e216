"""Check a data directory against acknowledged events: nothing is lost, nothing is counted twice, every row is right.

python -m tests.faults.checker HOME ACKNOWLEDGED.ndjson [DAMAGED.ndjson]

The program reads the log, the tables of the lake and the index. It compares them with each other, with the acknowledged
events, and with the rows that the reference implementation of `tests/reference` computes from the log. Lines of the log
that are in the second file were damaged on purpose: each must be counted as rejected. All events must have been
ingested before (`clew pipeline run`). It prints each difference, and exits with 1 if there is one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from deltalake import DeltaTable
from tests.reference import stored
from tests.reference.events import lineage_events, log_lines, parse_record
from tests.reference.expected import INDEX, LAKE, Rows, Tables, differences, expected_tables
from tests.reference.query_context import index_tables, lake_tables, restrict_to_index

from clew.data_dir import DataDir

_MAX_SHOWN = 3
_MAX_ROW_CHARACTERS = 300
EVENT_TABLES: Tables = {
    "lineage_events": stored.lineage_events,
    "run_facets": stored.run_facets,
    "job_facets": stored.job_facets,
    "dataset_facets": stored.dataset_facets,
}


def main() -> None:
    """Print what is wrong."""
    home, acknowledged = DataDir(Path(sys.argv[1])), Path(sys.argv[2])
    damaged = Path(sys.argv[3]).read_bytes().splitlines(keepends=True) if len(sys.argv) > 3 else []
    problems = list(find_problems(home, acknowledged.read_bytes().splitlines(), damaged))
    print(*problems or ["No differences."], sep="\n")  # noqa: T201
    sys.exit(bool(problems))


def find_problems(home: DataDir, acknowledged: Iterable[bytes], damaged: Collection[bytes] = ()) -> Iterator[str]:
    """Compare acknowledged events, log, lake and index."""
    lines = [(position, line) for position, line in log_lines(home.log) if line not in damaged]
    yield from find_uncounted(home, damaged)
    in_log = Counter(parse_record(line)[1] for _, line in lines)
    lost = [body for body in set(acknowledged) if body not in in_log]
    if lost:
        yield f"{len(lost)} acknowledged events are not in the log, e.g. {shorten(lost[0].decode())}"
    yield from compare_events(home, lines)
    lake = expected_tables(lines, {**EVENT_TABLES, **LAKE})
    yield from describe("lake", lake_tables(home.lake_folder, lake), lake)
    index = restrict_to_index(expected_tables(lines, INDEX))
    yield from describe("index", index_tables(home.index_file, index), index)


def find_uncounted(home: DataDir, damaged: Collection[bytes]) -> Iterator[str]:
    """Compare the damaged lines with the rejected records."""
    if not damaged:
        return
    reasons = DeltaTable(home.lake_folder / "rejected_events").to_pyarrow_table(columns=["reason"]).column("reason")
    rejected = reasons.to_pylist().count("corrupt_record")
    if rejected < len(damaged):
        yield f"{rejected} of {len(damaged)} damaged records are counted as rejected"


def compare_events(home: DataDir, lines: list[tuple[int, bytes]]) -> Iterator[str]:
    """Compare the events of the log with those of the lake, without the reference tables."""
    table = DeltaTable(home.lake_folder / "lineage_events").to_pyarrow_table(columns=["event"])
    in_lake = Counter(table.column("event").to_pylist())
    repeated = sum(count - 1 for count in in_lake.values())
    if repeated:
        yield f"{repeated} events are in the lake more than once"
    missing = {event.text for event in lineage_events(lines)} - set(in_lake)
    if missing:
        yield f"{len(missing)} events of the log are not in the lake, e.g. {shorten(min(missing))}"


def describe(store: str, actual: Rows, expected: Rows) -> Iterator[str]:
    """Describe the differences of each table."""
    for table, sides in differences(actual, expected).items():
        for side, rows in sides.items():
            if rows:
                shown = "".join(f"\n  {shorten(row)}" for row in rows[:_MAX_SHOWN])
                yield f"{store}, table {table}: {len(rows)} rows {side}{shown}"


def shorten(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= _MAX_ROW_CHARACTERS else f"{text[:_MAX_ROW_CHARACTERS]}…"


if __name__ == "__main__":
    main()
