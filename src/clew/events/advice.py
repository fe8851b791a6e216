"""Lint rules for OpenLineage events that are valid but could be more useful."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from clew.events.openlineage import FACET_ALIASES

LintRule = Literal["facet-prefix", "schema-url", "run-id", "run-start", "run-end"]

_STANDARD_FACETS: Final = frozenset(
    """catalog columnLineage dataQualityAssertions dataQualityMetrics dataSource datasetType documentation
    environmentVariables errorMessage executionParameters externalQuery extractionError hierarchy inputStatistics
    jobDependencies jobType lifecycleStateChange lineage nominalTime outputStatistics ownership parent processing_engine
    schema sourceCode sourceCodeLocation sql storage subset symlinks tags test version""".split()
)
# Facet names that a later spec version replaced; producers still send them.
_RENAMED_FACETS: Final = frozenset({"parentRun", "sourceCodeLocationJob", *FACET_ALIASES})
# Branch, tag or commit in the URLs of common repository hosts.
_REVISION = re.compile(
    r"https?://(?:raw\.githubusercontent\.com/[^/]+/[^/]+|[^?#]+/(?:blob|raw|tree|src))/(?P<ref>refs/tags/|refs/heads/)?"
    r"(?P<name>[^/?#]+)/"
)
_COMMIT_OR_VERSION = re.compile(r"[0-9a-f]{7,64}|.*\d+[.-]\d+.*|[vV]\d+")
_TERMINAL_EVENT_TYPES: Final = frozenset({"COMPLETE", "FAIL", "ABORT"})


class LintWarning(NamedTuple):
    """A violated lint rule, with its JSON path or run id."""

    rule: LintRule
    path: str
    message: str


def lint_event(event: Mapping[str, Any]) -> Iterator[LintWarning]:
    """Yield the lint warnings of one event."""
    yield from _check_run_id(event)
    yield from _check_schema_url("/schemaURL", event.get("schemaURL"))
    for path, name, facet in _facets(event):
        if name not in _STANDARD_FACETS and name not in _RENAMED_FACETS and "_" not in name:
            message = f"The facet {name!r} is not in the spec. Add your prefix, for example `acme_{name}`."
            yield LintWarning("facet-prefix", path, message)
        if isinstance(facet, dict):
            yield from _check_schema_url(f"{path}/_schemaURL", facet.get("_schemaURL"))


class RunPairingCheck:
    """Check over many events that each run has a START and a terminal event."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Record the event type of the event's run."""
        run, kind = _run_id_of(event), event.get("eventType")
        if run is not None:
            self._seen.setdefault(run, set()).add(kind if isinstance(kind, str) else "")

    def warnings(self) -> Iterator[LintWarning]:
        """Yield runs without a START or a terminal event, ordered by first event."""
        for run, kinds in self._seen.items():
            if "START" not in kinds:
                yield LintWarning("run-start", run, "The run has no START event: its start time is unknown.")
            if not kinds & _TERMINAL_EVENT_TYPES:
                message = "The run has no COMPLETE, FAIL or ABORT event: it is shown as running forever."
                yield LintWarning("run-end", run, message)


def _run_id_of(event: Mapping[str, Any]) -> str | None:
    run = event.get("run")
    run_id = run.get("runId") if isinstance(run, dict) else None
    return run_id if isinstance(run_id, str) else None


def _check_run_id(event: Mapping[str, Any]) -> Iterator[LintWarning]:
    run = _run_id_of(event)
    if run is None:
        return
    try:
        UUID(run)
    except ValueError:
        message = f"The run id {run[:60]!r} is not a UUID and may not be unique. Generate a new UUID for each run."
        yield LintWarning("run-id", "/run/runId", message)


def _check_schema_url(path: str, url: object) -> Iterator[LintWarning]:
    match = _REVISION.match(url) if isinstance(url, str) else None
    if match is None or match["ref"] == "refs/tags/":
        return
    if match["ref"] or not _COMMIT_OR_VERSION.fullmatch(match["name"]):
        message = f"The schema URL names the branch {match['name']!r}, which may change. Use a tag or a commit."
        yield LintWarning("schema-url", path, message)


def _facets(event: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the path, name and value of every facet."""
    for key in ("run", "job", "dataset"):
        yield from _facets_of(f"/{key}", event.get(key))
    for key in ("inputs", "outputs"):
        datasets = event.get(key)
        for number, dataset in enumerate(datasets if isinstance(datasets, list) else ()):
            yield from _facets_of(f"/{key}/{number}", dataset)


def _facets_of(path: str, entity: Any) -> Iterator[tuple[str, str, Any]]:
    for kind in ("facets", "inputFacets", "outputFacets"):
        facets = entity.get(kind) if isinstance(entity, dict) else None
        for name, facet in (facets if isinstance(facets, dict) else {}).items():
            yield f"{path}/{kind}/{name}", name, facet
