"""Where the body of a large facet is: a name that stands for it in plans, and is opened on the worker that reads it."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

import pyarrow.parquet as pq

from clew.events.dataset_facets import says_row_count
from clew.events.deletion import is_deleted
from clew.events.explicit_lineage import ENTRIES_KEY
from clew.events.statements import BETWEEN, edge_set_of
from clew.lake.storage import parquet_at

# No JSON holds this character, so a text with it is not the facet's own.
BEFORE_PLACE: Final = "\x00"
BEFORE_ROW: Final = "#"
_MOST_FOOTERS = 256


class Look(NamedTuple):
    """What steps ask of a facet's text; its hash is that of a statement, with the facet's name before it."""

    text_md5: str
    is_deletion: bool
    says_row_count: bool
    says_entries: bool


def is_place(text: str) -> bool:
    """Whether a text names a body."""
    return BEFORE_PLACE in text


def whole(text: str) -> bytes:
    """The text with the body in the place of its name."""
    head, mark, place = text.partition(BEFORE_PLACE)
    return head.encode() + _body(place) if mark else text.encode()


def look(name: str, facet: str) -> Look:
    """Look at a facet of that name."""
    body = whole(facet)
    text = f"{name}{BETWEEN}".encode() + body
    return Look(edge_set_of(text), is_deleted(body), says_row_count(body), ENTRIES_KEY.encode() in body)


def _body(place: str) -> bytes:
    path, _, row = place.rpartition(BEFORE_ROW)
    ends = _ends_of_groups(path)
    group = next(number for number, end in enumerate(ends) if int(row) < end)
    with pq.ParquetFile(parquet_at(path)) as file:
        facets = file.read_row_group(group, columns=["facet"])["facet"]
    body: bytes = facets[int(row) - ends[group]].as_buffer().to_pybytes()
    return body


@lru_cache(_MOST_FOOTERS)
def _ends_of_groups(path: str) -> list[int]:
    footer = pq.read_metadata(parquet_at(path))
    return list(accumulate(footer.row_group(number).num_rows for number in range(footer.num_row_groups)))
