"""Search box: datasets, columns, jobs and runs by name, notebook code, and full-text matches."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from clew.index.browsing import PageQueries
from clew.query.holdings import QueryResources
from clew.query.search import hits
from clew.query.views.model import EntityName, display_job

SearchResultKind = Literal["dataset", "column", "job", "run", "code", "text_match"]
_MAX_PER_KIND = 8


class SearchResult(Struct, frozen=True, rename="camel"):
    """A search result with what its link needs."""

    kind: SearchResultKind
    name: EntityName
    column: str | None = None
    run_uuid: str | None = None
    session_id: str | None = None
    text: str | None = None
    # For a text match: the kind of the matching entity.
    matched_kind: hits.HitKind | None = None


class SearchResults(Struct, frozen=True):
    """Search results grouped by kind, best matches first; `totals` counts all results per kind."""

    items: tuple[SearchResult, ...]
    totals: dict[SearchResultKind, int]


def search_all(index: PageQueries, resources: QueryResources, text: str) -> SearchResults:
    """Search names and notebook code for a text, then SQL, descriptions, tags and facets."""
    query = text.strip()
    if not query:
        return SearchResults((), {})
    datasets, dataset_total = index.dataset_page(query, 200)
    jobs, job_total = index.job_page(query, 200)
    columns = [
        SearchResult("column", EntityName(row["namespace"], row["name"]), column=row["column_name"])
        for row in index.search_columns(query)
    ]
    runs = [
        SearchResult("run", EntityName(row["job_namespace"] or "", row["job_name"] or ""), run_uuid=row["run_uuid"])
        for row in index.search_runs(query)
    ]
    code = [
        SearchResult(
            "code",
            display_job(EntityName("marimo", row["notebook"] or "")),
            session_id=row["session_id"],
            text=row["line"],
        )
        for row in index.search_code(query)
    ]
    text_matches = hits.search_entities(resources.search_index, index, query, limit=_MAX_PER_KIND)
    kinds = [
        ([SearchResult("dataset", EntityName(row["namespace"], row["name"])) for row in datasets], dataset_total),
        (columns, len(columns)),
        ([SearchResult("job", EntityName(row["namespace"], row["name"])) for row in jobs], job_total),
        (runs, len(runs)),
        (code, len(code)),
    ]
    items = [item for kind, _ in kinds for item in sorted(kind, key=lambda item: _rank(item, query))[:_MAX_PER_KIND]]
    names = {item.name for item in items}
    # Text matches in operations of a notebook are in its code, which is searched above.
    other_hits = [hit for hit in text_matches.hits if display_job(EntityName(hit.namespace, hit.name)).name == hit.name]
    more = [_text_match(hit) for hit in other_hits if EntityName(hit.namespace, hit.name) not in names]
    totals = {kind[0].kind: total for kind, total in kinds if kind}
    return SearchResults((*items, *more), totals)


def _text_match(hit: hits.Hit) -> SearchResult:
    return SearchResult("text_match", EntityName(hit.namespace, hit.name), text=hit.snippet, matched_kind=hit.kind)


def _rank(result: SearchResult, query: str) -> tuple[int, int]:
    """Rank exact names first, then prefixes, then others; short names before long ones."""
    name = (result.column or result.name.name.rsplit("/", 1)[-1]).lower()
    text = query.lower()
    return (0 if name == text else 1 if name.startswith(text) else 2), len(name)
