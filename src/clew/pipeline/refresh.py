"""Derived tables and the index, made anew from the event tables."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from clew.index.sink import IndexSink
from clew.lake.delta import Lake
from clew.lake.tables import ONE_ROW_PER_EVENT, REJECTED_EVENTS
from clew.pipeline.bulk import changes_of, facets_in
from clew.pipeline.derive import INDEX_STEPS, INNER_STEPS, LAKE_ONLY, LAKE_STEPS, SHARED
from clew.pipeline.derive.derivation import Derivation
from clew.pipeline.effort import suited_to
from clew.pipeline.faults import told_in_a_sentence
from clew.pipeline.lake_tables import whole_lake, write_tables
from clew.pipeline.schemas import arrow_schema
from clew.pipeline.side_by_side import side_by_side

_REBUILD = "rebuild/0"


def refresh_derived_tables(spark: SparkSession, lake: Lake) -> None:
    """Write what follows from all events; replaces what followed before."""
    state = lake.state_of_events()
    with (
        told_in_a_sentence(),
        suited_to(spark, lake),
        Derivation(whole_lake(spark, lake), {**INNER_STEPS, **LAKE_STEPS}, SHARED) as tables,
    ):
        derived = {name: tables[name] for name in LAKE_STEPS}
        files = write_tables(derived, lake.root)
    for name, rows in derived.items():
        lake.replace(name, arrow_schema(rows.schema), [file for file in files if file.table == name], state)


def rebuild_index(spark: SparkSession, lake: Lake, index: IndexSink) -> None:
    """Feed the index from the lake, as if all had come in one batch."""
    tables = whole_lake(spark, lake)
    identities = {name: tables[name].select("seq", "event_id") for name in ONE_ROW_PER_EVENT}
    rejected = identities.pop(REJECTED_EVENTS.name)
    events = reduce(DataFrame.union, identities.values())
    with told_in_a_sentence(), suited_to(spark, lake), Derivation(tables, INDEX_STEPS, SHARED) as steps:
        derived = {name: steps[name] for name in INDEX_STEPS if name not in LAKE_ONLY}
        found = side_by_side(DataFrame.toArrow, {**derived, "events": events, "rejected": rejected})
    index.learn(facets_in(found))
    index.apply(_REBUILD, changes_of(found, index.dictionary))
