"""What is allowed, and yet makes an OpenLineage event of less use: a producer's lint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from clew.events.openlineage import FACET_ALIASES

Rule = Literal["facet-prefix", "schema-url", "run-id", "run-start", "run-end"]

_STANDARD: Final = frozenset(
    """catalog columnLineage dataQualityAssertions dataQualityMetrics dataSource datasetType documentation
    environmentVariables errorMessage executionParameters externalQuery extractionError hierarchy inputStatistics
    jobDependencies jobType lifecycleStateChange lineage nominalTime outputStatistics ownership parent processing_engine
    schema sourceCode sourceCodeLocation sql storage subset symlinks tags test version""".split()
)
# Names that a later spec has replaced; producers still write them.
_FORMER: Final = frozenset({"parentRun", "sourceCodeLocationJob", *FACET_ALIASES})
# Where hosts of repositories put the name of a branch, a tag or a commit.
_REVISION = re.compile(
    r"https?://(?:raw\.githubusercontent\.com/[^/]+/[^/]+|[^?#]+/(?:blob|raw|tree|src))/(?P<at>refs/tags/|refs/heads/)?"
    r"(?P<name>[^/?#]+)/"
)
_COMMIT_OR_VERSION = re.compile(r"[0-9a-f]{7,64}|.*\d+[.-]\d+.*|[vV]\d+")
_ENDS: Final = frozenset({"COMPLETE", "FAIL", "ABORT"})


class Advice(NamedTuple):
    """What would be better, and where."""

    rule: Rule
    path: str
    message: str


def advice(event: Mapping[str, Any]) -> Iterator[Advice]:
    """All that is to be said of one event."""
    yield from _run_id(event)
    yield from _address("/schemaURL", event.get("schemaURL"))
    for path, name, facet in _facets(event):
        if name not in _STANDARD and name not in _FORMER and "_" not in name:
            message = f"The facet {name!r} is not of the spec: give it your prefix, as in `acme_{name}`."
            yield Advice("facet-prefix", path, message)
        if isinstance(facet, dict):
            yield from _address(f"{path}/_schemaURL", facet.get("_schemaURL"))


class RunPairs:
    """Which runs have begun and ended, over all events that are noted."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def note(self, event: Mapping[str, Any]) -> None:
        """Note what an event says of its run."""
        run, kind = _run_of(event), event.get("eventType")
        if run is not None:
            self._seen.setdefault(run, set()).add(kind if isinstance(kind, str) else "")

    def advice(self) -> Iterator[Advice]:
        """Runs that lack a START or an end, in the order in which they were first seen."""
        for run, kinds in self._seen.items():
            if "START" not in kinds:
                yield Advice("run-start", run, "The run has no START: when it began is not known.")
            if not kinds & _ENDS:
                message = "The run has no COMPLETE, FAIL or ABORT: it will seem to be running for ever."
                yield Advice("run-end", run, message)


def _run_of(event: Mapping[str, Any]) -> str | None:
    run = event.get("run")
    found = run.get("runId") if isinstance(run, dict) else None
    return found if isinstance(found, str) else None


def _run_id(event: Mapping[str, Any]) -> Iterator[Advice]:
    run = _run_of(event)
    if run is None:
        return
    try:
        UUID(run)
    except ValueError:
        message = f"The run id {run[:60]!r} is no UUID: other runs may have the same. Make a new UUID for each run."
        yield Advice("run-id", "/run/runId", message)


def _address(path: str, address: object) -> Iterator[Advice]:
    found = _REVISION.match(address) if isinstance(address, str) else None
    if found is None or found["at"] == "refs/tags/":
        return
    if found["at"] or not _COMMIT_OR_VERSION.fullmatch(found["name"]):
        message = f"The schema is on the branch {found['name']!r} and may change: point to a tag or a commit."
        yield Advice("schema-url", path, message)


def _facets(event: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Every facet with its place and its name."""
    for place in ("run", "job", "dataset"):
        yield from _facets_of(f"/{place}", event.get(place))
    for place in ("inputs", "outputs"):
        datasets = event.get(place)
        for number, dataset in enumerate(datasets if isinstance(datasets, list) else ()):
            yield from _facets_of(f"/{place}/{number}", dataset)


def _facets_of(path: str, entity: Any) -> Iterator[tuple[str, str, Any]]:
    for kind in ("facets", "inputFacets", "outputFacets"):
        facets = entity.get(kind) if isinstance(entity, dict) else None
        for name, facet in (facets if isinstance(facets, dict) else {}).items():
            yield f"{path}/{kind}/{name}", name, facet
