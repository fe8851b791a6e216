"""Tools `describe`, `search` and `diff_runs`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.mcp.budget import ToolReply, count_label, fit_to_budget, more_line, next_cursor, parse_cursor, truncate
from clew.mcp.replies import (
    ColumnEntry,
    DatasetReply,
    DescribeReply,
    DiffReply,
    HitEntry,
    JobReply,
    JobRunReply,
    SearchReply,
)
from clew.query.diff import RunDiff
from clew.query.documents import DatasetDetails, JobDetails, JobName, RunDetails, RunIo
from clew.query.graph.nodes import Node
from clew.query.model import DatasetName
from clew.query.search.hits import Hits

_MAX_TEXT_LENGTH, _MAX_NAMES = 300, 20


def describe_reply(details: DatasetDetails | JobDetails | RunDetails, tokens: int) -> ToolReply:
    """Build the reply for a dataset, job or run; the columns of a dataset are cut to the budget."""
    if isinstance(details, DatasetDetails):
        columns = details.columns

        def compose(entries: int) -> ToolReply:
            data = DescribeReply(dataset=_dataset(details, entries))
            return ToolReply(_format_fields(data.dataset), data)

        return fit_to_budget(compose, len(columns), tokens)
    data = DescribeReply(job=_job(details)) if isinstance(details, JobDetails) else DescribeReply(run=_run(details))
    return ToolReply(_format_fields(data.job or data.run), data)


def search_reply(result: Hits, cursor: str | None, tokens: int) -> ToolReply:
    """Build the reply with a page of hits."""
    start = parse_cursor(cursor)
    hits = [HitEntry(kind=hit.kind, id=hit.id, snippet=truncate(hit.snippet, 120)) for hit in result.hits]

    def compose(entries: int) -> ToolReply:
        shown = hits[:entries]
        more = next_cursor(start, len(shown), result.total)
        head = f"Hits ({count_label(len(shown), result.total)}):" if result.total else "No hits."
        suggestions = [f"Did you mean {', '.join(result.did_you_mean)}?"] if result.did_you_mean else []
        lines = [head, *(f"- {hit.id}: {hit.snippet}" for hit in shown), *suggestions]
        data = SearchReply(hits=shown, total=result.total, next_cursor=more, did_you_mean=list(result.did_you_mean))
        return ToolReply("\n".join([*lines, *more_line(more)]), data)

    return fit_to_budget(compose, len(hits), tokens)


def diff_reply(diff: RunDiff, cursor: str | None, tokens: int) -> ToolReply:
    """Build the reply with the differences between two runs, one per line."""
    lines, start = list(_differences(diff)), parse_cursor(cursor)
    rest = lines[start:]

    def compose(entries: int) -> ToolReply:
        shown = rest[:entries]
        more = next_cursor(start, len(shown), len(lines))
        head = f"{diff.left} → {diff.right} ({count_label(len(shown), len(lines))}):" if lines else "No differences."
        data = DiffReply(left=diff.left, right=diff.right, lines=shown, line_total=len(lines), next_cursor=more)
        return ToolReply("\n".join([head, *shown, *more_line(more)]), data)

    return fit_to_budget(compose, len(rest), tokens)


def _format_fields(data: DatasetReply | JobReply | JobRunReply | None) -> str:
    if data is None:
        return ""
    fields = data.model_dump(mode="json", exclude_none=True)
    return "\n".join(f"{name}: {_format_value(value)}" for name, value in fields.items() if value not in ([], ""))


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_format_value(item) for item in value)
    if isinstance(value, dict):
        return " ".join(str(item) for item in value.values())
    return str(value)


def _dataset(dataset: DatasetDetails, entries: int) -> DatasetReply:
    tags = [f"{tag.key}={tag.value}" if tag.value else tag.key for tag in dataset.tags[:_MAX_NAMES]]
    return DatasetReply(
        id=dataset.id,
        description=_truncate_optional(dataset.description),
        last_event_at=dataset.last_event_at,
        is_deleted=dataset.is_deleted,
        columns=[
            ColumnEntry(name=column.name, type=column.type, description=_truncate_optional(column.description))
            for column in dataset.columns[:entries]
        ],
        column_total=len(dataset.columns),
        tags=tags,
        written_by=_jobs(dataset.written_by),
        read_by=_jobs(dataset.read_by),
        facets=sorted(dataset.facets)[:_MAX_NAMES],
    )


def _job(job: JobDetails) -> JobReply:
    return JobReply(
        id=job.id,
        type=job.type,
        description=_truncate_optional(job.description),
        latest_run=None if job.latest_run is None else job.latest_run.id,
        latest_state=None if job.latest_run is None else job.latest_run.state,
        reads=_datasets(job.inputs),
        writes=_datasets(job.outputs),
        facets=sorted(job.facets)[:_MAX_NAMES],
    )


def _run(run: RunDetails) -> JobRunReply:
    return JobRunReply(
        id=run.id,
        job=None if run.job is None else Node("job", run.job.namespace, run.job.name).id,
        state=run.state,
        started_at=run.started_at,
        duration_ms=run.duration_ms,
        parent=run.parent_run_id,
        error=_truncate_optional(run.error),
        reads=_datasets(run.inputs),
        writes=_datasets(run.outputs),
        facets=sorted(run.facets)[:_MAX_NAMES],
    )


def _truncate_optional(text: str | None) -> str | None:
    return None if text is None else truncate(text, _MAX_TEXT_LENGTH)


def _jobs(jobs: tuple[JobName, ...]) -> list[str]:
    return [Node("job", job.namespace, job.name).id for job in jobs[:_MAX_NAMES]]


def _datasets(datasets: tuple[DatasetName, ...] | tuple[RunIo, ...]) -> list[str]:
    return [Node("dataset", dataset.namespace, dataset.name).id for dataset in datasets[:_MAX_NAMES]]


def _differences(diff: RunDiff) -> Iterator[str]:
    for name in ("job", "state", "duration_ms", "job_version", "error"):
        change = getattr(diff, name)
        if change is not None:
            yield f"{name}: {change.left} → {change.right}"
    for verb, io in (("reads", diff.inputs), ("writes", diff.outputs)):
        yield from (f"+ {verb} {dataset.namespace}:{dataset.name}" for dataset in io.added)
        yield from (f"- {verb} {dataset.namespace}:{dataset.name}" for dataset in io.removed)
        for changed in io.changed:
            values = msgspec.to_builtins(changed)
            for field in ("version", "rowCount", "schema", "lineage"):
                if values[field] is not None:
                    text = msgspec.json.encode(values[field]).decode()
                    yield f"{verb} {changed.dataset.name} {field}: {truncate(text, _MAX_TEXT_LENGTH)}"
    for code in diff.code:
        yield f"code of {code.name}:"
        yield from code.text.splitlines()[2:]
