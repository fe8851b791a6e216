"""`/api/v2beta/search`: jobs and datasets by all that is said of them, and where the words stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Raw, Struct

from clew.api.marquez.reading import answer
from clew.api.marquez.requests import Answer, Asked
from clew.api.marquez.shapes import job_type
from clew.events.facet_values import value_of
from clew.query.catalog.catalog import Catalog
from clew.query.catalog.model import Dataset, Facets, Job, Name, Run
from clew.query.holdings import Holdings
from clew.query.search.hits import search, words_in
from clew.query.search.kept import EntityKind

_LIMIT: Final = 10
_EVENT_TYPES: Final = {"COMPLETED": "COMPLETE", "FAILED": "FAIL", "ABORTED": "ABORT", "RUNNING": "RUNNING"}
# As an event writes them; `run_id` is Marquez's own.
_NAMES: Final = {
    "event_type": "eventType",
    "run_facets": "runFacets",
    "input_facets": "inputFacets",
    "output_facets": "outputFacets",
}
# A facet that is larger is not looked through for where a word stands.
_LARGEST_FACET = 256 << 10
_MOST_DEPTH = 12
# Around the first word of a long text.
_BEFORE, _FRAGMENT = 30, 100


class JobHit(Struct, frozen=True, rename=_NAMES):
    """A job that was found, with what its last run said."""

    run_id: str | None
    name: str
    namespace: str
    event_type: str | None
    type: Literal["BATCH", "STREAM"]
    facets: Facets
    run_facets: Facets


class DatasetHit(Struct, frozen=True, rename=_NAMES):
    """A dataset that was found, with what the run said that made it what it is."""

    run_id: str | None
    name: str
    namespace: str
    event_type: str | None
    facets: Facets
    input_facets: Facets
    output_facets: Facets


class TextSearch:
    """The endpoints, over the words that a process keeps."""

    def __init__(self, holdings: Holdings) -> None:
        self._words = holdings.search_file

    def jobs(self, catalog: Catalog, asked: Asked) -> Answer:
        """`GET /api/v2beta/search/jobs`."""
        text, names = self._found(catalog, asked, "job")
        jobs = {(one.namespace, one.name): one for one in catalog.jobs_in_graphs(names)}
        return _answer(text, [_job_hit(jobs[name]) for name in names if name in jobs])

    def datasets(self, catalog: Catalog, asked: Asked) -> Answer:
        """`GET /api/v2beta/search/datasets`."""
        text, names = self._found(catalog, asked, "dataset")
        datasets = {(one.namespace, one.name): one for one in catalog.datasets_in_graphs(names)}
        made_by = catalog.last_writers(datasets)
        return _answer(text, [_dataset_hit(datasets[name], made_by.get(name)) for name in names if name in datasets])

    def _found(self, catalog: Catalog, asked: Asked, kind: EntityKind) -> tuple[str, list[Name]]:
        text = asked.required("q")
        found = search(self._words, catalog.reader, text, kind=kind, limit=_LIMIT)
        return text, [(hit.namespace, hit.name) for hit in found.hits]


def _job_hit(job: Job) -> JobHit:
    run = job.latest_run
    return JobHit(
        None if run is None else run.id,
        job.name,
        job.namespace,
        None if run is None else _EVENT_TYPES.get(run.state),
        job_type(job),
        job.facets,
        {} if run is None else run.facets,
    )


def _dataset_hit(dataset: Dataset, run: Run | None) -> DatasetHit:
    name = dataset.namespace, dataset.name
    written = [] if run is None else [one.facets for one in run.outputs if (one.namespace, one.name) == name]
    return DatasetHit(
        None if run is None else run.id,
        dataset.name,
        dataset.namespace,
        None if run is None else _EVENT_TYPES.get(run.state),
        dataset.facets,
        {},
        written[0] if written else {},
    )


def _answer(text: str, hits: Sequence[JobHit | DatasetHit]) -> Answer:
    words = re.compile("|".join(map(re.escape, words_in(text))) or "(?!)", re.IGNORECASE)
    return answer({"hits": hits, "highlights": [_highlights(hit, words) for hit in hits]})


def _highlights(hit: JobHit | DatasetHit, words: re.Pattern[str]) -> dict[str, list[str]]:
    """Where the words stand: each field, with its texts that hold one."""
    found: dict[str, list[str]] = {}
    for field, text in _texts(hit):
        first = words.search(text)
        if first is not None:
            start = max(0, first.start() - _BEFORE) if len(text) > _FRAGMENT else 0
            fragment = words.sub(lambda word: f"<em>{word[0]}</em>", text[start : start + _FRAGMENT])
            found.setdefault(field, []).append(fragment)
    return found


def _texts(hit: JobHit | DatasetHit) -> Iterator[tuple[str, str]]:
    yield from (("name", hit.name), ("namespace", hit.namespace))
    for name, facet in _small(hit.facets).items():
        yield from _texts_in(f"facets.{name}", value_of(bytes(facet)))


def _small(facets: Mapping[str, Raw]) -> dict[str, Raw]:
    return {name: facet for name, facet in facets.items() if len(bytes(facet)) <= _LARGEST_FACET}


def _texts_in(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The texts of a facet, each with its path; what the facet says of itself left out."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict) and depth < _MOST_DEPTH:
        for key, one in value.items():
            if not key.startswith("_"):
                yield from _texts_in(f"{path}.{key}", one, depth + 1)
    elif isinstance(value, list) and depth < _MOST_DEPTH:
        for one in value:
            yield from _texts_in(path, one, depth + 1)
