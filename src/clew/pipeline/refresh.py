"""Derived tables and the index, made anew from the event tables."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from clew.index.sink import IndexSink
from clew.lake.delta import Lake
from clew.lake.tables import ONE_ROW_PER_EVENT, REJECTED_EVENTS
from clew.pipeline.bulk import changes_of, facets_in
from clew.pipeline.derive import INDEX_STEPS, LAKE_STEPS
from clew.pipeline.lake_tables import whole_lake, write_tables
from clew.pipeline.schemas import arrow_schema
from clew.pipeline.together import collect_together

_REBUILD = "rebuild/0"


def refresh_derived_tables(spark: SparkSession, lake: Lake) -> None:
    """Write what follows from all events; replaces what followed before."""
    state = lake.state_of_events()
    tables = whole_lake(spark, lake)
    derived = {name: step(tables) for name, step in LAKE_STEPS.items()}
    files = write_tables(derived, lake.root)
    for name, rows in derived.items():
        lake.replace(name, arrow_schema(rows.schema), [file for file in files if file.table == name], state)


def rebuild_index(spark: SparkSession, lake: Lake, index: IndexSink) -> None:
    """Feed the index from the lake, as if all had come in one batch."""
    tables = whole_lake(spark, lake)
    identities = {name: tables[name].select("seq", "event_id") for name in ONE_ROW_PER_EVENT}
    rejected = identities.pop(REJECTED_EVENTS.name)
    events = reduce(DataFrame.union, identities.values())
    derived = {name: step(tables) for name, step in INDEX_STEPS.items()}
    found = collect_together({**derived, "events": events, "rejected": rejected})
    index.learn(facets_in(found))
    index.apply(_REBUILD, changes_of(found, index.dictionary))
