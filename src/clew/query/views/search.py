"""Finding things by a part of their name: datasets, columns, jobs, runs, and the code that mentions it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from clew.index.browsing import Browser
from clew.query.holdings import Holdings
from clew.query.search import hits
from clew.query.views.model import Name, told_as

FoundKind = Literal["dataset", "column", "job", "run", "code", "mention"]
_PER_KIND = 8


class Found(Struct, frozen=True, rename="camel"):
    """One thing that was found, and what is needed to go there."""

    kind: FoundKind
    name: Name
    column: str | None = None
    run_uuid: str | None = None
    session_id: str | None = None
    text: str | None = None
    # Of a mention: what it stands in.
    of: hits.HitKind | None = None


class FoundList(Struct, frozen=True):
    """What was found, kind by kind, names that begin with the text first; `totals` has all there is of each kind."""

    items: tuple[Found, ...]
    totals: dict[FoundKind, int]


def search(index: Browser, holdings: Holdings, text: str) -> FoundList:
    """What bears a text in its name or in its code, then what mentions it: in SQL, a description, a tag, a facet."""
    wanted = text.strip()
    if not wanted:
        return FoundList((), {})
    datasets, dataset_total = index.dataset_page(wanted, 200)
    jobs, job_total = index.job_page(wanted, 200)
    columns = [
        Found("column", Name(row["namespace"], row["name"]), column=row["column_name"])
        for row in index.columns_like(wanted)
    ]
    runs = [
        Found("run", Name(row["job_namespace"] or "", row["job_name"] or ""), run_uuid=row["run_uuid"])
        for row in index.runs_like(wanted)
    ]
    code = [
        Found("code", told_as(Name("marimo", row["notebook"] or "")), session_id=row["session_id"], text=row["line"])
        for row in index.code_like(wanted)
    ]
    mentions = hits.search(holdings.search_file, index, wanted, limit=_PER_KIND)
    kinds = [
        ([Found("dataset", Name(row["namespace"], row["name"])) for row in datasets], dataset_total),
        (columns, len(columns)),
        ([Found("job", Name(row["namespace"], row["name"])) for row in jobs], job_total),
        (runs, len(runs)),
        (code, len(code)),
    ]
    items = [one for kind, _ in kinds for one in sorted(kind, key=lambda one: _rank(one, wanted))[:_PER_KIND]]
    named = {one.name for one in items}
    # What a notebook's operations mention is its code, which was found already.
    found = [hit for hit in mentions.hits if told_as(Name(hit.namespace, hit.name)).name == hit.name]
    more = [_mention(hit) for hit in found if Name(hit.namespace, hit.name) not in named]
    totals = {kind[0].kind: total for kind, total in kinds if kind}
    return FoundList((*items, *more), totals)


def _mention(hit: hits.Hit) -> Found:
    return Found("mention", Name(hit.namespace, hit.name), text=hit.snippet, of=hit.kind)


def _rank(found: Found, wanted: str) -> tuple[int, int]:
    """The whole name first, then its beginning, then anywhere; short names before long ones."""
    name = (found.column or found.name.name.rsplit("/", 1)[-1]).lower()
    text = wanted.lower()
    return (0 if name == text else 1 if name.startswith(text) else 2), len(name)
