"""Refresh of the derived tables: process new events and replace the rows of the entities that they touch."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from clew.index.encoding import KEY_SEPARATOR
from clew.lake.backfill_state import read_backfilled_ranges, read_chunks
from clew.lake.data_files import DataFile
from clew.lake.lake import BatchId, Lake
from clew.lake.refresh_state import RefreshState, read_refresh_state, reset_refresh_state, write_refresh_state
from clew.lake.schemas import DERIVED_TABLE_NAMES, LINEAGE_EVENTS, STATE_TABLE_NAMES, STATE_TABLES
from clew.lake.storage import open_parquet
from clew.pipeline.derive import datasets, edges, facets, runs
from clew.pipeline.derive.extract import STATE_SCHEMAS, STATE_SPECS, NewEvents, extract_changes, reduce_rows
from clew.pipeline.derive.merge import merge_rows
from clew.pipeline.derive.scope import (
    ASSERTER,
    DATASET,
    DECLARED,
    EDGE_JOB,
    EDGE_SET,
    JOB,
    OPERATION_RUN,
    RUN,
    SESSION,
    TESTER,
    RefreshScope,
    Unit,
    drop_keys,
    write_rows,
)
from clew.pipeline.spark.dataframes import read_table_files, run_concurrently
from clew.pipeline.spark.session import translate_spark_errors, tuned_for_size
from clew.progress import ProgressCallback, ProgressReporter, no_progress

_APP_ID: Final = "clew-derived"
# Above this share of new events, a rebuild is cheaper.
_MAX_NEW_SHARE: Final = 0.25
# Bytes of new events, as received, that are processed at once: their rows fit into this process.
_STEP_BYTES: Final = 64 << 20
_TABLE_COUNT: Final = len({*DERIVED_TABLE_NAMES, *STATE_TABLE_NAMES})
_NAME: Final = ("namespace", "name")
_JOB_NAME: Final = ("job_namespace", "job_name")
_DATASET_NAME: Final = ("dataset_namespace", "dataset_name")


def refresh_derived_tables(
    spark: SparkSession, lake: Lake, on_progress: ProgressCallback = no_progress, *, is_full: bool = False
) -> bool:
    """Bring the derived tables up to date; return False if they are.

    A refresh processes new events only, and all of them if there is no valid state. All steps can be repeated: after a
    crash, the next refresh starts from the last complete one.
    """
    before, after = None if is_full else read_refresh_state(lake), RefreshState.of(lake)
    if before == after:
        return False
    if before is not None and _new_bytes(lake, before, after) > _MAX_NEW_SHARE * after.last_position:
        before = None
    progress = ProgressReporter(on_progress, "Refreshing derived tables", "tables")
    with translate_spark_errors():
        if before is None:
            reset_refresh_state(lake)
            _Refresh(spark, lake, NewEvents({}), progress, rebuilt_bytes=after.last_position).run()
        else:
            for new, state in _plan_steps(lake, before, after):
                _Refresh(spark, lake, new, progress).run()
                write_refresh_state(lake, state)
    write_refresh_state(lake, after)
    # Py4J objects are in reference cycles: until they are collected, the JVM holds their plans (40 MB each time).
    gc.collect()
    return True


def _new_bytes(lake: Lake, before: RefreshState, after: RefreshState) -> int:
    """Return the size of new and newly backfilled events; positions are byte offsets in the log."""
    chunks = read_chunks(lake)[before.backfills : after.backfills]
    backfilled = sum(chunk.last_seq - chunk.first_seq for chunk in chunks)
    return after.last_position - before.last_position + backfilled


def _plan_steps(lake: Lake, before: RefreshState, after: RefreshState) -> Iterator[tuple[NewEvents, RefreshState]]:
    """Yield new events and newly backfilled chunks, each with the state after it was processed."""
    state = before
    if before.positions != after.positions:
        for last in (*range(before.last_position + _STEP_BYTES, after.last_position, _STEP_BYTES), after.last_position):
            new = NewEvents(state.positions, last)
            positions = {
                name: max(state.positions[name], min(position, last)) for name, position in after.positions.items()
            }
            state = replace(state, positions=positions)
            yield new, state
    for chunk in read_chunks(lake)[before.backfills : after.backfills]:
        state = replace(state, backfills=state.backfills + 1)
        yield NewEvents(state.positions, chunk=chunk), state


class _Refresh:
    """One step of a refresh, or a rebuild of all tables from events of `rebuilt_bytes`."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        new: NewEvents,
        progress: ProgressReporter,
        rebuilt_bytes: int | None = None,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._new = new
        self._progress = progress
        self._done = 0
        self._units: dict[str, pa.Table] = {}
        self._size = rebuilt_bytes or 0
        units = self._units if rebuilt_bytes is None else None
        is_small = self._size <= _STEP_BYTES
        self._scope = RefreshScope(spark, lake, units, BatchId(_APP_ID, 0), is_small=is_small)
        self._changes: dict[str, pa.Table] = {}
        self._cached: list[DataFrame] = []
        self._has_new_aliases = False

    def run(self) -> None:
        """Extract changes, merge them into the state tables and derive the public tables."""
        files = extract_changes(self._spark, self._lake, self._new, read_backfilled_ranges(self._lake))
        try:
            with tuned_for_size(self._spark, self._size, is_small=self._scope.is_local):
                self._merge_states(files)
                self._derive()
        finally:
            self._lake.delete_uncommitted(files)
            for frame in self._cached:
                frame.unpersist()

    def _merge_states(self, files: Sequence[DataFile]) -> None:
        paths = {
            name: [str(self._lake.root / table / file.name) for file in files if file.table == table]
            for name, table in STATE_TABLES.items()
        }
        if not self._scope.is_local:
            self._run_all([partial(self._merge_in_spark, name, paths[name]) for name in STATE_TABLES])
            return
        for name, schema in STATE_SCHEMAS.items():
            tables = [pq.ParquetFile(open_parquet(path)).read() for path in paths[name]]
            self._changes[name] = pa.concat_tables([schema.empty_table(), *tables])
        if self._scope.units is not None:
            self._find_touched_entities()
        self._run_all([partial(self._merge_locally, name) for name in STATE_TABLES])

    def _merge_in_spark(self, name: str, paths: Sequence[str]) -> None:
        changes = read_table_files(self._spark, self._lake, paths, from_arrow_schema(STATE_SCHEMAS[name]))
        self._scope.overwrite(STATE_TABLES[name], merge_rows(changes, STATE_SPECS[name]))

    def _merge_locally(self, name: str) -> None:
        """Merge few rows in this process, with the compiled reducer."""
        scope, table, spec, changes = self._scope, STATE_TABLES[name], STATE_SPECS[name], self._changes[name]
        write = partial(write_rows, str(self._lake.root), table)
        if scope.units is None:
            scope.overwrite_files(table, STATE_SCHEMAS[name], write(reduce_rows(name, [changes])))
        elif changes.num_rows:
            keys = _distinct(changes.select(spec.key))
            existing = scope.arrow_rows(table, keys, spec.key)
            if spec.groups:
                scope.replace_files(table, write(reduce_rows(name, [existing, changes])), keys, spec.key)
            else:
                # Existing rows are equal to new ones of the same key.
                added = drop_keys(reduce_rows(name, [changes]), existing.select(spec.key), spec.key)
                scope.replace_files(table, write(added), keys.slice(0, 0), spec.key)

    def _find_touched_entities(self) -> None:
        """Find the entities whose rows change, from the changes alone."""
        run, session, asserter = ("run_uuid",), ("session_id",), ("asserted_by",)
        sources: dict[str, dict[str, tuple[str, ...]]] = {
            RUN: dict.fromkeys(("runs", "run_io", "referenced_runs", "lineage_assertions"), run),
            JOB: {
                **dict.fromkeys(("jobs", "referenced_jobs"), _NAME),
                **dict.fromkeys(("runs", "run_io", "lineage_assertions", "job_declarations"), _JOB_NAME),
                **dict.fromkeys(("reported_job_edges", "job_dependency_assertions"), _JOB_NAME),
            },
            DATASET: dict.fromkeys(("datasets", "renames"), _NAME),
            DECLARED: {"dataset_declarations": _DATASET_NAME},
            SESSION: dict.fromkeys(("cell_executions", "operations", "runs"), session),
            ASSERTER: dict.fromkeys(("lineage_assertions", "static_lineage"), asserter),
            TESTER: {"quality_assertions": asserter},
        }
        for unit, columns_by_table in sources.items():
            for name, columns in columns_by_table.items():
                self._touch(unit, self._changes[name], *columns)

    def _touch(self, unit: str, rows: pa.Table, *columns: str) -> None:
        """Add the entities in columns of rows to those of a kind; rows without an entity are ignored."""
        keys = _keys(rows, columns)
        known = self._units.get(unit)
        self._units[unit] = keys if known is None else _distinct(pa.concat_tables([known, keys]))

    def _touch_related(self, unit: str, columns: Sequence[str], table: str, by: Unit, *by_columns: str) -> None:
        """Add the entities in `columns` of the rows of other touched entities."""
        self._touch(unit, self._scope.arrow_rows(table, by, by_columns, columns), *columns)

    def _add_related_entities(self) -> None:
        """Add entities that depend on touched ones, from the merged state."""
        scope, units = self._scope, self._units
        static = _keys(self._changes["static_lineage"], ("asserted_by",))
        self._touch_related(JOB, _JOB_NAME, "state_job_dependency_assertions", static, "asserted_by")
        # Events may lack the job of their run.
        self._touch_related(JOB, _JOB_NAME, "state_runs", RUN, "run_uuid")
        self._touch_related(SESSION, ("session_id",), "state_operations", RUN, "run_uuid")
        self._touch_related(OPERATION_RUN, ("run_uuid",), "state_operations", SESSION, "session_id")
        self._touch(ASSERTER, units[RUN], "0")
        # Jobs of edges before and after the refresh.
        for table in ("state_dataset_edges", "state_lineage_assertions"):
            self._touch_related(JOB, _JOB_NAME, table, ASSERTER, "asserted_by")
        run_io = scope.arrow_rows("state_run_io", ASSERTER, ("run_uuid",), ("run_uuid", *_JOB_NAME))
        jobs = run_io.group_by("run_uuid").aggregate([(name, "max") for name in _JOB_NAME])
        self._touch(JOB, jobs, *(f"{name}_max" for name in _JOB_NAME))
        self._touch(ASSERTER, _job_keys(units[JOB]), "0")
        self._touch_related(EDGE_SET, ("edge_set_id",), "state_lineage_assertions", ASSERTER, "asserted_by")
        no_job = pa.table({name: pa.array([None], pa.string()) for name in units[JOB].column_names})
        units[EDGE_JOB] = pa.concat_tables([units[JOB], no_job])

    def _refresh_aliases(self) -> None:
        """Compute the canonical names again if symlinks have changed, and add what mentions a changed name."""
        scope = self._scope
        if scope.units is not None and not self._changes["symlinks"].num_rows:
            scope.aliases = scope.all_rows("dataset_aliases")
            return
        new = datasets.derive_dataset_aliases(scope).toArrow()
        scope.aliases = self._spark.createDataFrame(new)
        self._has_new_aliases = True
        if scope.units is None:
            return
        old = scope.all_rows("dataset_aliases").toArrow()
        rows = [set(map(tuple, (row.values() for row in table.to_pylist()))) for table in (old, new)]
        changed = sorted({row[:2] for row in rows[0] ^ rows[1]})
        names = pa.table([pa.array([row[index] for row in changed], pa.string()) for index in (0, 1)], names=["0", "1"])
        self._touch(DATASET, names, "0", "1")
        self._touch_related(ASSERTER, ("asserted_by",), "state_lineage_assertions", names, *_DATASET_NAME)
        edge_sets = scope.arrow_rows("state_edge_sets", names, ("source_namespace", "source_name"), ("edge_set_id",))
        by_source = _keys(edge_sets, ("edge_set_id",))
        self._touch_related(ASSERTER, ("asserted_by",), "state_lineage_assertions", by_source, "edge_set_id")
        self._touch_related(ASSERTER, ("run_uuid",), "state_run_io", names, *_DATASET_NAME)
        self._touch_related(JOB, _JOB_NAME, "state_reported_job_edges", names, *_DATASET_NAME)

    def _derive(self) -> None:
        scope = self._scope
        self._refresh_aliases()
        if scope.units is not None:
            self._add_related_entities()
        self._run_all(
            [
                partial(self._publish, "runs", runs.derive_runs, RUN, "run_uuid"),
                partial(self._publish, "run_io", runs.derive_run_io, RUN, "run_uuid"),
                partial(self._publish, "datasets", datasets.derive_datasets, DATASET, *_NAME),
                partial(self._publish, "job_edges", edges.derive_job_edges, JOB, *_JOB_NAME),
                partial(self._publish, "job_dependencies", edges.derive_job_dependencies, JOB, *_JOB_NAME),
                partial(self._publish, "column_edges", edges.derive_column_edges, ASSERTER, "asserted_by"),
                partial(
                    self._publish, "data_quality_assertions", facets.derive_quality_assertions, TESTER, "asserted_by"
                ),
                partial(self._publish, "cell_executions", runs.derive_cell_executions, SESSION, "session_id"),
                *(partial(self._merge_facets, table) for table in facets.FACET_TABLES),
            ]
        )
        asserted_edges = self._persist(edges.derive_asserted_dataset_edges(scope))
        versions = self._persist(runs.observed_versions(scope))
        dataset_edges = partial(edges.derive_dataset_edges, asserted=asserted_edges)
        job_versions = partial(runs.derive_job_versions, versions=versions)
        self._run_all(
            [
                partial(self._publish, "jobs", partial(runs.derive_jobs, versions=versions), JOB, *_NAME),
                partial(self._publish, "job_versions", job_versions, JOB, *_JOB_NAME),
                self._publish_dataset_versions,
                partial(self._publish, "dataset_edges", dataset_edges, EDGE_JOB, *_JOB_NAME),
                partial(self._publish, "operations", runs.derive_operations, SESSION, "session_id"),
                *(partial(self._publish_labels, label) for label in facets.LABELS),
            ]
        )
        # Last, because the next refresh would not find what depends on changes of these tables after a crash.
        self._publish("state_dataset_edges", lambda _: asserted_edges, ASSERTER, "asserted_by")
        if self._has_new_aliases:
            scope.overwrite("dataset_aliases", scope.aliases)

    def _persist(self, rows: DataFrame) -> DataFrame:
        self._cached.append(rows.persist())
        return rows

    def _publish(self, table: str, derive: Callable[[RefreshScope], DataFrame], unit: str, *columns: str) -> None:
        if self._scope.is_touched(unit):
            self._scope.replace(table, derive(self._scope), unit, *columns)

    def _publish_dataset_versions(self) -> None:
        scope = self._scope
        written, declared = datasets.derive_written_versions(scope), datasets.derive_declared_versions(scope)
        if scope.units is None:
            scope.overwrite("dataset_versions", written.unionByName(declared))
            return
        scope.replace("dataset_versions", written, RUN, "run_uuid")
        names = self._units[DECLARED]
        without_run = names.append_column("run_uuid", pa.nulls(names.num_rows, pa.string()))
        scope.replace("dataset_versions", declared, without_run, *_DATASET_NAME, "run_uuid")

    def _merge_facets(self, table: facets.FacetTable) -> None:
        scope = self._scope
        new = facets.new_facets(scope, table, self._new.ranges(LINEAGE_EVENTS.name))
        if scope.units is not None:
            rows = new.toArrow()
            self._units[table.source] = _distinct(rows.select(table.key))
            new = self._spark.createDataFrame(rows, new.schema)
        merged = facets.merge_new_facets(scope, table, new)
        scope.replace_flagged("is_deleted", (table.current, table.deleted), merged, table.source, *table.key)

    def _publish_labels(self, label: facets.Label) -> None:
        scope = self._scope
        if scope.units is None:
            scope.overwrite(label.table, facets.derive_labels(scope, label, None))
            return
        touched = facets.touched_facets(label, self._units)
        keys = facets.label_keys(label, touched)
        if keys.num_rows:
            scope.replace(label.table, facets.derive_labels(scope, label, touched), keys, *facets.label_columns(label))

    def _run_all(self, tasks: Sequence[Callable[[], None]]) -> None:
        def on_done() -> None:
            self._done += 1
            self._progress(self._done, _TABLE_COUNT)

        run_concurrently(self._spark, tasks, on_done)


def _keys(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the distinct values of columns as text, without nulls; columns are named by their position."""
    values = [rows.column(name).cast(pa.string()) for name in columns]
    return _distinct(pa.table(values, names=[str(index) for index in range(len(values))]).drop_null())


def _distinct(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names).aggregate([]).select(rows.column_names)


def _job_keys(jobs: pa.Table) -> pa.Table:
    """Return the keys of jobs as asserters."""
    return pa.table({"0": pc.binary_join_element_wise(*jobs.columns, KEY_SEPARATOR)})
