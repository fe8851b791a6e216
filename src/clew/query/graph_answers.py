"""Questions to the graph in the words of a person: names in place of ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from msgspec import Struct

from clew.home import LakePlace, Place
from clew.index.reader import IndexReader
from clew.query.column_paths import column_path
from clew.query.diff import RunDiff, VersionDiff, run_diff, version_diff
from clew.query.documents import (
    DatasetDocument,
    JobDocument,
    RunDocument,
    dataset_document,
    job_document,
    run_document,
)
from clew.query.graph.lens import Sight
from clew.query.graph.nodes import Column
from clew.query.graph.walk import Direction
from clew.query.holdings import Holdings
from clew.query.lineage import Bounds, Impact, Lineage, LineageEdge, impact, lineage, way
from clew.query.lineage import Path as NodePath
from clew.query.meant import Meant, meant, meant_column, meant_run
from clew.query.names import find_dataset
from clew.query.node_ids import find_node
from clew.query.run_walk import require_run
from clew.query.search.hits import Hits, search

_MOST_COLUMNS_WALKED = 10_000


class ColumnPath(Struct, frozen=True, rename="camel"):
    """The way from one column to another, along the flow of values; no edges if there is none."""

    start: str
    end: str
    edges: tuple[LineageEdge, ...]
    is_found: bool


class GraphAnswers:
    """Answers from the graph of one index. What it keeps beside the index serves the next who asks."""

    def __init__(self, index: Place, lake: LakePlace | None = None, *, is_brief: bool = True) -> None:
        # Who asks one thing at a time need not wait for the graph of everything, however long the process lives.
        self._holdings = Holdings(index, lake, is_brief=is_brief, is_stepping=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holdings.close()

    def meant(self, name: str) -> Meant:
        """What a name means."""
        with self._reader() as index:
            return meant(index, name)

    def walk(
        self, name: str, direction: Direction, bounds: Bounds | None = None, sight: Sight | None = None
    ) -> Lineage:
        """What a dataset, a column, a job or a run comes from, or what it goes to."""
        with self._reader() as index:
            found = meant(index, name)
            return lineage(self._holdings, index, found.id, found.column, direction, bounds, sight)

    def path(self, start: str, end: str, sight: Sight | None = None) -> NodePath:
        """A shortest way between two jobs or datasets."""
        with self._reader() as index:
            one, other = meant(index, start).id, meant(index, end).id
            return way(self._holdings, index, one, other, sight)

    def column_path(self, start: str, end: str, sight: Sight | None = None) -> ColumnPath:
        """A shortest way of values from one column to another, whichever of them is the source."""
        with self._reader() as index:
            columns = [self._column(index, name) for name in (start, end)]
            for source, target in (columns, reversed(columns)):
                node = f"dataset:{source.namespace}:{source.dataset}"
                bounds = Bounds(100, _MOST_COLUMNS_WALKED)
                walked = lineage(self._holdings, index, node, source.column, "downstream", bounds, sight)
                edges = column_path(walked, target.id)
                if edges is not None:
                    return ColumnPath(source.id, target.id, edges, is_found=True)
        return ColumnPath(columns[0].id, columns[1].id, (), is_found=False)

    def impact(self, name: str, bounds: Bounds | None = None, *, has_frames: bool = False) -> Impact:
        """What a change of a column, or of a dataset, would reach."""
        with self._reader() as index:
            found = meant(index, name)
            return impact(self._holdings, index, found.id, found.column, bounds, has_frames=has_frames)

    def run_diff(self, left: str, right: str) -> RunDiff:
        """What differs between two runs, or two sessions of notebooks."""
        with self._reader() as index:
            runs = meant_run(index, left), meant_run(index, right)
            return run_diff(index, *runs)

    def version_diff(self, dataset: str, left: str | None = None, right: str | None = None) -> VersionDiff:
        """What differs between two versions of a dataset, the last two unless told."""
        with self._reader() as index:
            return version_diff(index, find_dataset(index, dataset), left, right)

    def search(self, text: str, *, limit: int, offset: int = 0, is_patient: bool = False) -> Hits:
        """Jobs, datasets and runs of which the words are said; who is patient waits until all can be found."""
        if is_patient:
            self._holdings.search_file.refresh()
        with self._reader() as index:
            return search(self._holdings.search_file, index, text, limit=limit, offset=offset)

    def run_and_session(self, name: str) -> tuple[str, str | None]:
        """The id of a run; and of its session, if it is a notebook's as a whole."""
        with self._reader() as index:
            run = meant_run(index, name)
            session = require_run(index, run)["session_id"]
            whole = None if session is None else index.session_run(session)
            return run, session if whole is not None and whole["run_uuid"] == run else None

    def describe(self, name: str) -> DatasetDocument | JobDocument | RunDocument:
        """All that is known of a dataset, a job or a run; of a column, of its dataset."""
        with self._reader() as index:
            found = meant(index, name)
            if found.kind == "run":
                return run_document(index, found.id.partition(":")[2])
            node = find_node(index, found.id)
            document = job_document if node.kind == "job" else dataset_document
            return document(index, node.namespace, node.name)

    def _column(self, index: IndexReader, name: str) -> Column:
        dataset, column = meant_column(index, name)
        return Column(dataset.namespace, dataset.name, column)

    @contextmanager
    def _reader(self) -> Iterator[IndexReader]:
        with self._holdings.reader() as index:
            yield index
