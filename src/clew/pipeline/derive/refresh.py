"""Refresh of the derived tables: process new events and replace the rows of the entities that they touch."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from clew.index.encoding import KEY_SEPARATOR
from clew.lake.backfill_state import read_backfilled_ranges, read_chunks
from clew.lake.data_files import DataFile
from clew.lake.lake import BatchId, Lake, active_files
from clew.lake.refresh_state import RefreshState, read_refresh_state, reset_refresh_state, write_refresh_state
from clew.lake.scan import files_in_ranges
from clew.lake.schemas import DERIVED_TABLE_NAMES, LINEAGE_EVENTS, STATE_TABLE_NAMES, STATE_TABLES
from clew.lake.storage import open_parquet
from clew.pipeline.derive import datasets, edges, facets, notebooks, runs
from clew.pipeline.derive.extract import STATE_SCHEMAS, STATE_SPECS, NewEvents, extract_changes, reduce_rows
from clew.pipeline.derive.merge import merge_rows
from clew.pipeline.derive.scope import (
    ASSERTER,
    DATASET,
    DECLARED,
    EDGE_JOB,
    JOB,
    OPERATION_RUN,
    RUN,
    SESSION,
    RefreshScope,
    write_rows,
)
from clew.pipeline.progress import ProgressCallback, ProgressReporter, no_progress
from clew.pipeline.spark.dataframes import large_facet_refs, run_concurrently
from clew.pipeline.spark.session import translate_spark_errors, tuned_for_small_data

_APP_ID: Final = "clew-derived"
# Above this share of new events, a rebuild is cheaper.
_MAX_NEW_SHARE: Final = 0.5
# Up to this number of changed rows and bytes of facet files, rows are read and written by the driver.
_MAX_SMALL_CHANGES: Final = 100_000
_MAX_SMALL_FACET_BYTES: Final = 32 << 20
_TABLE_COUNT: Final = len({*DERIVED_TABLE_NAMES, *STATE_TABLE_NAMES})
_NAME: Final = ("namespace", "name")


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
    if before is not None and (after.events - before.events) > _MAX_NEW_SHARE * after.events:
        before = None
    if before is None:
        reset_refresh_state(lake)
    with translate_spark_errors():
        _Refresh(spark, lake, before, on_progress).run()
    write_refresh_state(lake, after)
    # Py4J objects are in reference cycles: until they are collected, the JVM holds their plans (40 MB each time).
    gc.collect()
    return True


class _Refresh:
    """One refresh; `before` is the state of the last one, None to rebuild all tables."""

    def __init__(
        self, spark: SparkSession, lake: Lake, before: RefreshState | None, on_progress: ProgressCallback
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._before = before
        self._progress = ProgressReporter(on_progress, "Refreshing derived tables", "tables")
        self._done = 0
        self._units: dict[str, pa.Table] = {}
        self._cached: list[DataFrame] = []
        self._has_new_aliases = False

    def run(self) -> None:
        """Extract changes, merge them into the state tables and derive the public tables."""
        positions = {} if self._before is None else self._before.positions
        chunks = [] if self._before is None else read_chunks(self._lake)[self._before.backfills :]
        new = NewEvents(positions, chunks)
        files = extract_changes(self._spark, self._lake, new, read_backfilled_ranges(self._lake))
        ranges = new.ranges(LINEAGE_EVENTS.name)
        is_small = sum(file.rows for file in files) <= _MAX_SMALL_CHANGES and self._has_small_facets(ranges)
        units = None if self._before is None else self._units
        self._scope = RefreshScope(self._spark, self._lake, units, BatchId(_APP_ID, 0), is_small=is_small)
        self._changes = {name: [file for file in files if file.table == STATE_TABLES[name]] for name in STATE_TABLES}
        try:
            with tuned_for_small_data(self._spark, is_small=is_small):
                self._merge_states()
                self._derive(ranges)
        finally:
            self._lake.delete_uncommitted(files)
            for frame in self._cached:
                frame.unpersist()

    def _has_small_facets(self, ranges: Sequence[tuple[int, int]]) -> bool:
        names = {table.source: files_in_ranges(self._lake, table.source, ranges) for table in facets.FACET_TABLES}
        sizes = (
            file.size
            for table, paths in names.items()
            for file in active_files(self._lake.require_table(table))
            if str(self._lake.root / table / file.name) in paths
        )
        return sum(sizes) <= _MAX_SMALL_FACET_BYTES

    def _merge_states(self) -> None:
        if self._before is not None:
            self._find_touched_entities()
        self._run_all([partial(self._merge_state, name) for name in STATE_TABLES])

    def _merge_state(self, name: str) -> None:
        table, spec, schema, files = STATE_TABLES[name], STATE_SPECS[name], STATE_SCHEMAS[name], self._changes[name]
        scope = self._scope
        if not files and scope.units is None:
            scope.overwrite_files(table, schema, [])
        elif not files:
            return
        elif scope.is_small:
            self._merge_locally(name)
        else:
            changes = scope.read_files(table, [file.name for file in files], from_arrow_schema(schema))
            if scope.units is None:
                scope.overwrite(table, merge_rows(changes, spec))
            else:
                unit = f"{name} keys"
                self._units[unit] = self._keys((name, spec.key))
                existing = scope.rows(table, unit, *spec.key)
                scope.replace(table, merge_rows(changes.unionByName(existing), spec), unit, *spec.key)

    def _merge_locally(self, name: str) -> None:
        """Merge few rows in this process, with the compiled reducer."""
        scope, table, spec = self._scope, STATE_TABLES[name], STATE_SPECS[name]
        changes = [pq.ParquetFile(open_parquet(self._path(file))).read() for file in self._changes[name]]
        keys = self._keys((name, spec.key))
        existing = [] if scope.units is None else [scope.arrow_rows(table, keys, spec.key)]
        written = write_rows(str(self._lake.root), table, reduce_rows(name, [*existing, *changes]))
        if scope.units is None:
            scope.overwrite_files(table, STATE_SCHEMAS[name], written)
        else:
            scope.replace_files(table, written, keys, spec.key)

    def _find_touched_entities(self) -> None:
        """Find the entities whose rows change, from the changes alone."""
        run = ("run_uuid",)
        job = ("job_namespace", "job_name")
        dataset = ("dataset_namespace", "dataset_name")
        self._units[RUN] = self._keys(
            ("runs", run), ("run_io", run), ("referenced_runs", run), ("lineage_assertions", run)
        )
        self._units[JOB] = self._keys(
            *(("jobs", _NAME), ("referenced_jobs", _NAME), ("runs", job), ("run_io", job), ("lineage_assertions", job)),
            *(("job_declarations", job), ("reported_job_edges", job), ("job_dependency_assertions", job)),
        )
        self._units[DATASET] = self._keys(("datasets", _NAME), ("renames", _NAME))
        self._units[DECLARED] = self._keys(("dataset_declarations", dataset))
        self._units[SESSION] = self._keys(
            *((name, ("session_id",)) for name in ("cell_executions", "operations", "runs"))
        )
        self._units[ASSERTER] = self._keys(
            ("lineage_assertions", ("asserted_by",)), ("static_lineage", ("asserted_by",))
        )

    def _add_related_entities(self) -> None:
        """Add entities that depend on touched ones, from the merged state."""
        scope, units = self._scope, self._units
        static = self._keys(("static_lineage", ("asserted_by",)))
        if static.num_rows:
            self._units["static asserter"] = static
            dependencies = scope.rows("state_job_dependency_assertions", "static asserter", "asserted_by")
            units[JOB] = _distinct([units[JOB], _collect(dependencies, "job_namespace", "job_name")])
        if scope.is_touched(RUN):
            # Events may lack the job of their run.
            jobs = _collect(scope.rows("state_runs", RUN, "run_uuid"), "job_namespace", "job_name")
            units[JOB] = _distinct([units[JOB], jobs])
            operations = scope.rows("state_operations", RUN, "run_uuid")
            units[SESSION] = _distinct([units[SESSION], _collect(operations, "session_id")])
        units[ASSERTER] = _distinct([units[ASSERTER], units[RUN], _job_keys(units[JOB])])
        for asserted in (
            scope.rows("state_dataset_edges", ASSERTER, "asserted_by"),
            edges.derive_asserted_dataset_edges(scope),
        ):
            units[JOB] = _distinct([units[JOB], _collect(asserted, "job_namespace", "job_name")])
        if scope.is_touched(SESSION):
            operations = scope.rows("state_operations", SESSION, "session_id")
            units[OPERATION_RUN] = _distinct([_collect(operations, "run_uuid")])
        else:
            units[OPERATION_RUN] = pa.table({"run_uuid": pa.array([], pa.string())})

    def _refresh_aliases(self) -> None:
        """Compute the canonical names again if symlinks have changed, and add what mentions a changed name."""
        scope, units = self._scope, self._units
        if scope.units is not None and not self._changes["symlinks"]:
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
        if not changed:
            return
        names = pa.table([pa.array(column, pa.string()) for column in zip(*changed, strict=True)], names=list(_NAME))
        units["changed name"] = names
        dataset = ("dataset_namespace", "dataset_name")
        assertions = scope.rows("state_lineage_assertions", "changed name", *dataset)
        edge_sets = scope.rows("state_edge_sets", "changed name", "source_namespace", "source_name")
        units["changed edge set"] = _distinct([_collect(edge_sets, "edge_set_id")])
        by_source = scope.rows("state_lineage_assertions", "changed edge set", "edge_set_id")
        run_io = scope.rows("state_run_io", "changed name", *dataset)
        job_edges = scope.rows("state_reported_job_edges", "changed name", *dataset)
        units[DATASET] = _distinct([units[DATASET], names])
        asserters = [_collect(rows, "asserted_by") for rows in (assertions, by_source)]
        units[ASSERTER] = _distinct([units[ASSERTER], *asserters, _collect(run_io, "run_uuid")])
        units[JOB] = _distinct([units[JOB], _collect(job_edges, "job_namespace", "job_name")])

    def _derive(self, ranges: Sequence[tuple[int, int]]) -> None:
        scope = self._scope
        self._refresh_aliases()
        if scope.units is not None:
            self._add_related_entities()
        self._run_all(
            [
                partial(self._publish, "runs", runs.derive_runs, RUN, "run_uuid"),
                partial(self._publish, "run_io", runs.derive_run_io, RUN, "run_uuid"),
                partial(self._publish, "datasets", datasets.derive_datasets, DATASET, *_NAME),
                partial(self._publish, "job_edges", edges.derive_job_edges, JOB, "job_namespace", "job_name"),
                partial(
                    self._publish, "job_dependencies", edges.derive_job_dependencies, JOB, "job_namespace", "job_name"
                ),
                partial(self._publish, "column_edges", edges.derive_column_edges, ASSERTER, "asserted_by"),
                partial(self._publish, "cell_executions", notebooks.derive_cell_executions, SESSION, "session_id"),
                *(partial(self._merge_facets, table, ranges) for table in facets.FACET_TABLES),
            ]
        )
        asserted_edges = edges.derive_asserted_dataset_edges(scope).persist()
        self._cached.append(asserted_edges)
        if scope.units is not None:
            null_job = pa.table({name: pa.array([None], pa.string()) for name in _NAME})
            self._units[EDGE_JOB] = pa.concat_tables([self._units[JOB].rename_columns(list(_NAME)), null_job])
        versions = runs.observed_versions(scope).persist()
        self._cached.append(versions)
        self._run_all(
            [
                partial(self._publish, "jobs", partial(runs.derive_jobs, versions=versions), JOB, *_NAME),
                partial(self._publish_versions, versions),
                self._publish_dataset_versions,
                partial(self._publish_dataset_edges, asserted_edges),
                partial(self._publish, "operations", notebooks.derive_operations, SESSION, "session_id"),
                *(partial(self._publish_labels, label) for label in facets.LABELS),
            ]
        )
        # Last, because the next refresh would not find what depends on changes of these tables after a crash.
        self._publish("state_dataset_edges", lambda _: asserted_edges, ASSERTER, "asserted_by")
        if self._has_new_aliases:
            scope.overwrite("dataset_aliases", scope.aliases)

    def _publish_dataset_edges(self, asserted_edges: DataFrame) -> None:
        derive = partial(edges.derive_dataset_edges, asserted=asserted_edges)
        self._publish("dataset_edges", derive, EDGE_JOB, "job_namespace", "job_name")

    def _publish(self, table: str, derive: Callable[[RefreshScope], DataFrame], unit: str, *columns: str) -> None:
        if self._scope.is_touched(unit):
            self._scope.replace(table, derive(self._scope), unit, *columns)

    def _publish_versions(self, versions: DataFrame) -> None:
        derive = partial(runs.derive_job_versions, versions=versions)
        self._publish("job_versions", derive, JOB, "job_namespace", "job_name")

    def _publish_dataset_versions(self) -> None:
        scope = self._scope
        written, declared = datasets.derive_written_versions(scope), datasets.derive_declared_versions(scope)
        if scope.units is None:
            scope.overwrite("dataset_versions", written.unionByName(declared))
            return
        scope.replace("dataset_versions", written, RUN, "run_uuid")
        names = self._units[DECLARED]
        no_run = pa.table({"run_uuid": pa.nulls(names.num_rows, pa.string())})
        self._units["declared version"] = names.append_column("run_uuid", no_run["run_uuid"])
        scope.replace("dataset_versions", declared, "declared version", "dataset_namespace", "dataset_name", "run_uuid")

    def _merge_facets(self, table: facets.FacetTable, ranges: Sequence[tuple[int, int]]) -> None:
        scope = self._scope
        new = facets.new_facets(scope, table, ranges)
        if scope.units is not None:
            self._units[table.source] = _distinct_with_nulls(_collect(new, *table.key))
        merged = facets.merge_new_facets(scope, table, new)
        scope.replace_flagged("is_deleted", (table.current, table.deleted), merged, table.source, *table.key)

    def _publish_labels(self, label: facets.Label) -> None:
        scope = self._scope
        columns = ["kind", *facets.label_columns(label)]
        if scope.units is not None:
            units = []
            for kind in label.kinds:
                table, identity = facets.ENTITIES[kind]
                keys = self._units[table.source]
                touched = keys.filter(pc.equal(keys["name"], label.facet)).select(list(identity))
                touched = _distinct_with_nulls(touched)
                self._units[f"{label.table}_{kind}"] = touched
                nulls = pa.nulls(touched.num_rows, pa.string())
                units.append(
                    pa.table(
                        {
                            "kind": pa.array([kind] * touched.num_rows, pa.string()),
                            **{column: touched[column] if column in identity else nulls for column in columns[1:]},
                        }
                    )
                )
            self._units[label.table] = pa.concat_tables(units)
        if scope.is_touched(label.table):
            rows = facets.derive_labels(scope, label, large_facet_refs(self._spark, self._lake))
            scope.replace(label.table, rows, label.table, *columns)

    def _keys(self, *sources: tuple[str, tuple[str, ...]]) -> pa.Table:
        """Return the distinct keys in the changes of tables."""
        tables = [
            pq.read_table(open_parquet(self._path(file)), columns=list(columns)).rename_columns(
                [str(number) for number in range(len(columns))]
            )
            for name, columns in sources
            for file in self._changes[name]
        ]
        width = len(sources[0][1])
        empty = pa.table({str(number): pa.array([], pa.string()) for number in range(width)})
        return _distinct([empty, *tables])

    def _path(self, file: DataFile) -> str:
        return str(self._lake.root / file.table / file.name)

    def _run_all(self, tasks: Sequence[Callable[[], None]]) -> None:
        def on_done() -> None:
            self._done += 1
            self._progress(self._done, _TABLE_COUNT)

        run_concurrently(self._spark, tasks, on_done)


def _collect(rows: DataFrame, *columns: str) -> pa.Table:
    return rows.select(*columns).distinct().toArrow()


def _distinct(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the distinct rows of tables with equal columns, without nulls."""
    names = tables[0].column_names
    return _distinct_with_nulls(
        pa.concat_tables([_as_strings(table.rename_columns(names)) for table in tables]).drop_null()
    )


def _distinct_with_nulls(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names).aggregate([]).select(rows.column_names)


def _as_strings(rows: pa.Table) -> pa.Table:
    return pa.table([column.cast(pa.string()) for column in rows.columns], names=rows.column_names)


def _job_keys(jobs: pa.Table) -> pa.Table:
    """Return the keys of jobs as asserters."""
    keys = [KEY_SEPARATOR.join(row.values()) for row in jobs.to_pylist()]
    return pa.table({"asserted_by": pa.array(keys, pa.string())})
