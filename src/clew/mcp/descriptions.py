"""`describe`, `search` and `diff`: what is known of something, what is called so, what differs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.mcp.budget import Reply, clipped, fitting, next_cursor, shown, start_of
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
from clew.query.documents import DatasetDocument, DatasetUse, JobDocument, JobName, RunDocument
from clew.query.graph.nodes import Node
from clew.query.model import Dataset
from clew.query.search.hits import Hits

_LONGEST_TEXT, _MOST_NAMES = 300, 20


def description(found: DatasetDocument | JobDocument | RunDocument, tokens: int) -> Reply:
    """A dataset, a job or a run; the columns of a dataset are cut to fit."""
    if isinstance(found, DatasetDocument):
        columns = found.columns

        def compose(entries: int) -> Reply:
            data = DescribeReply(dataset=_dataset(found, entries))
            return Reply(_told(data.dataset), data)

        return fitting(compose, len(columns), tokens)
    data = DescribeReply(job=_job(found)) if isinstance(found, JobDocument) else DescribeReply(run=_run(found))
    return Reply(_told(data.job or data.run), data)


def search_reply(found: Hits, cursor: str | None, tokens: int) -> Reply:
    """A page of hits."""
    start = start_of(cursor)
    hits = [HitEntry(kind=hit.kind, id=hit.id, snippet=clipped(hit.snippet, 120)) for hit in found.hits]

    def compose(entries: int) -> Reply:
        some = hits[:entries]
        more = next_cursor(start, len(some), found.total)
        head = f"Found ({shown(len(some), found.total)}):" if found.total else "Nothing was found."
        meant = [f"Did you mean {', '.join(found.did_you_mean)}?"] if found.did_you_mean else []
        lines = [head, *(f"- {hit.id}: {hit.snippet}" for hit in some), *meant]
        data = SearchReply(hits=some, total=found.total, next_cursor=more, did_you_mean=list(found.did_you_mean))
        return Reply("\n".join([*lines, *([] if more is None else [f"More with cursor {more}."])]), data)

    return fitting(compose, len(hits), tokens)


def diff_reply(found: RunDiff, cursor: str | None, tokens: int) -> Reply:
    """What differs between two runs, line by line."""
    lines, start = list(_differences(found)), start_of(cursor)
    rest = lines[start:]

    def compose(entries: int) -> Reply:
        some = rest[:entries]
        more = next_cursor(start, len(some), len(lines))
        head = f"{found.left} → {found.right} ({shown(len(some), len(lines))}):" if lines else "Nothing differs."
        data = DiffReply(left=found.left, right=found.right, lines=some, line_total=len(lines), next_cursor=more)
        return Reply("\n".join([head, *some, *([] if more is None else [f"More with cursor {more}."])]), data)

    return fitting(compose, len(rest), tokens)


def _told(data: DatasetReply | JobReply | JobRunReply | None) -> str:
    if data is None:
        return ""
    facts = data.model_dump(mode="json", exclude_none=True)
    return "\n".join(f"{name}: {_words(value)}" for name, value in facts.items() if value not in ([], ""))


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_words(one) for one in value)
    if isinstance(value, dict):
        return " ".join(str(part) for part in value.values())
    return str(value)


def _dataset(found: DatasetDocument, entries: int) -> DatasetReply:
    tags = [f"{tag.key}={tag.value}" if tag.value else tag.key for tag in found.tags[:_MOST_NAMES]]
    return DatasetReply(
        id=found.id,
        description=_clipped(found.description),
        last_event_at=found.last_event_at,
        is_deleted=found.is_deleted,
        columns=[
            ColumnEntry(name=one.name, type=one.type, description=_clipped(one.description))
            for one in found.columns[:entries]
        ],
        column_total=len(found.columns),
        tags=tags,
        written_by=_jobs(found.written_by),
        read_by=_jobs(found.read_by),
        facets=sorted(found.facets)[:_MOST_NAMES],
    )


def _job(found: JobDocument) -> JobReply:
    return JobReply(
        id=found.id,
        type=found.type,
        description=_clipped(found.description),
        latest_run=None if found.latest_run is None else found.latest_run.id,
        latest_state=None if found.latest_run is None else found.latest_run.state,
        reads=_datasets(found.inputs),
        writes=_datasets(found.outputs),
        facets=sorted(found.facets)[:_MOST_NAMES],
    )


def _run(found: RunDocument) -> JobRunReply:
    return JobRunReply(
        id=found.id,
        job=None if found.job is None else Node("job", found.job.namespace, found.job.name).id,
        state=found.state,
        started_at=found.started_at,
        duration_ms=found.duration_ms,
        parent=found.parent_run_id,
        error=_clipped(found.error),
        reads=_datasets(found.inputs),
        writes=_datasets(found.outputs),
        facets=sorted(found.facets)[:_MOST_NAMES],
    )


def _clipped(text: str | None) -> str | None:
    return None if text is None else clipped(text, _LONGEST_TEXT)


def _jobs(jobs: tuple[JobName, ...]) -> list[str]:
    return [Node("job", job.namespace, job.name).id for job in jobs[:_MOST_NAMES]]


def _datasets(datasets: tuple[Dataset, ...] | tuple[DatasetUse, ...]) -> list[str]:
    return [Node("dataset", one.namespace, one.name).id for one in datasets[:_MOST_NAMES]]


def _differences(found: RunDiff) -> Iterator[str]:
    for name in ("job", "state", "duration_ms", "job_version", "error"):
        change = getattr(found, name)
        if change is not None:
            yield f"{name}: {change.left} → {change.right}"
    for word, io in (("reads", found.inputs), ("writes", found.outputs)):
        yield from (f"+ {word} {one.namespace}:{one.name}" for one in io.added)
        yield from (f"- {word} {one.namespace}:{one.name}" for one in io.removed)
        for changed in io.changed:
            facts = msgspec.to_builtins(changed)
            for part in ("version", "rowCount", "schema", "lineage"):
                if facts[part] is not None:
                    told = msgspec.json.encode(facts[part]).decode()
                    yield f"{word} {changed.dataset.name} {part}: {clipped(told, _LONGEST_TEXT)}"
    for code in found.code:
        yield f"code of {code.name}:"
        yield from code.text.splitlines()[2:]
