"""`/api/v2beta/search`: full-text search for jobs and datasets, with highlights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Raw, Struct

from clew.api.marquez.reading import json_response
from clew.api.marquez.requests import MarquezRequest, MarquezResponse
from clew.api.marquez.shapes import marquez_job_type
from clew.events.facet_values import decode_facet
from clew.query.catalog.catalog import Catalog
from clew.query.catalog.model import CatalogDataset, CatalogJob, CatalogRun, Facets, Name
from clew.query.holdings import QueryResources
from clew.query.search.hits import search_entities, split_words
from clew.query.search.kept import EntityKind

_LIMIT: Final = 10
_EVENT_TYPES: Final = {"COMPLETED": "COMPLETE", "FAILED": "FAIL", "ABORTED": "ABORT", "RUNNING": "RUNNING"}
# JSON names as in events; Marquez has `run_id`.
_JSON_NAMES: Final = {
    "event_type": "eventType",
    "run_facets": "runFacets",
    "input_facets": "inputFacets",
    "output_facets": "outputFacets",
}
# Larger facets are not highlighted.
_MAX_FACET_BYTES = 256 << 10
_MAX_DEPTH = 12
# Characters of a highlight before the first match, and in total.
_CONTEXT_CHARS, _FRAGMENT_CHARS = 30, 100


class JobSearchHit(Struct, frozen=True, rename=_JSON_NAMES):
    """Job with the facets of its latest run."""

    run_id: str | None
    name: str
    namespace: str
    event_type: str | None
    type: Literal["BATCH", "STREAM"]
    facets: Facets
    run_facets: Facets


class DatasetSearchHit(Struct, frozen=True, rename=_JSON_NAMES):
    """Dataset with the facets of the run that last wrote it."""

    run_id: str | None
    name: str
    namespace: str
    event_type: str | None
    facets: Facets
    input_facets: Facets
    output_facets: Facets


class TextSearchHandlers:
    """Handlers of the full-text search endpoints."""

    def __init__(self, resources: QueryResources) -> None:
        self._search_index = resources.search_index

    def jobs(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /api/v2beta/search/jobs`."""
        text, names = self._search(catalog, request, "job")
        jobs = {(job.namespace, job.name): job for job in catalog.job_summaries(names)}
        return _search_response(text, [_job_hit(jobs[name]) for name in names if name in jobs])

    def datasets(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /api/v2beta/search/datasets`."""
        text, names = self._search(catalog, request, "dataset")
        datasets = {(dataset.namespace, dataset.name): dataset for dataset in catalog.dataset_summaries(names)}
        writers = catalog.last_writers(datasets)
        return _search_response(
            text, [_dataset_hit(datasets[name], writers.get(name)) for name in names if name in datasets]
        )

    def _search(self, catalog: Catalog, request: MarquezRequest, kind: EntityKind) -> tuple[str, list[Name]]:
        text = request.required_param("q")
        result = search_entities(self._search_index, catalog.reader, text, kind=kind, limit=_LIMIT)
        return text, [(hit.namespace, hit.name) for hit in result.hits]


def _job_hit(job: CatalogJob) -> JobSearchHit:
    run = job.latest_run
    return JobSearchHit(
        None if run is None else run.id,
        job.name,
        job.namespace,
        None if run is None else _EVENT_TYPES.get(run.state),
        marquez_job_type(job),
        job.facets,
        {} if run is None else run.facets,
    )


def _dataset_hit(dataset: CatalogDataset, run: CatalogRun | None) -> DatasetSearchHit:
    name = dataset.namespace, dataset.name
    written = (
        [] if run is None else [output.facets for output in run.outputs if (output.namespace, output.name) == name]
    )
    return DatasetSearchHit(
        None if run is None else run.id,
        dataset.name,
        dataset.namespace,
        None if run is None else _EVENT_TYPES.get(run.state),
        dataset.facets,
        {},
        written[0] if written else {},
    )


def _search_response(text: str, hits: Sequence[JobSearchHit | DatasetSearchHit]) -> MarquezResponse:
    pattern = re.compile("|".join(map(re.escape, split_words(text))) or "(?!)", re.IGNORECASE)
    return json_response({"hits": hits, "highlights": [_highlights(hit, pattern) for hit in hits]})


def _highlights(hit: JobSearchHit | DatasetSearchHit, pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Return the matching fragments by field."""
    highlights: dict[str, list[str]] = {}
    for field, text in _searched_texts(hit):
        first = pattern.search(text)
        if first is not None:
            start = max(0, first.start() - _CONTEXT_CHARS) if len(text) > _FRAGMENT_CHARS else 0
            fragment = pattern.sub(lambda match: f"<em>{match[0]}</em>", text[start : start + _FRAGMENT_CHARS])
            highlights.setdefault(field, []).append(fragment)
    return highlights


def _searched_texts(hit: JobSearchHit | DatasetSearchHit) -> Iterator[tuple[str, str]]:
    yield from (("name", hit.name), ("namespace", hit.namespace))
    for name, facet in _small_facets(hit.facets).items():
        yield from _facet_texts(f"facets.{name}", decode_facet(bytes(facet)))


def _small_facets(facets: Mapping[str, Raw]) -> dict[str, Raw]:
    return {name: facet for name, facet in facets.items() if len(bytes(facet)) <= _MAX_FACET_BYTES}


def _facet_texts(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield path and text of each string of a facet, without `_`-prefixed fields."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, child in value.items():
            if not key.startswith("_"):
                yield from _facet_texts(f"{path}.{key}", child, depth + 1)
    elif isinstance(value, list) and depth < _MAX_DEPTH:
        for child in value:
            yield from _facet_texts(path, child, depth + 1)
