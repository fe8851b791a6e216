"""Derived tables, made anew from the event tables."""

from __future__ import annotations

from pyspark.sql import SparkSession

from clew.lake.delta import Lake
from clew.lake.tables import EVENT_TABLE_NAMES
from clew.lake.wide_edges import WIDE
from clew.pipeline.derive import INNER_STEPS, LAKE_STEPS, SHARED
from clew.pipeline.derive.derivation import Derivation
from clew.pipeline.effort import suited_to
from clew.pipeline.faults import told_in_a_sentence
from clew.pipeline.lake_tables import whole_lake, write_tables
from clew.pipeline.saying import Headway, Say, silently
from clew.pipeline.schemas import arrow_schema


def refresh_derived_tables(spark: SparkSession, lake: Lake, say: Say = silently) -> bool:
    """Write what follows from all events in place of what followed before; False if none have come since."""
    state = lake.state_of_events()
    if lake.is_derived_from(state):
        return False
    headway = Headway(say, "Deriving runs, lineage and cells", "tables")
    with told_in_a_sentence(), suited_to(spark, lake), derivation(spark, lake) as tables:
        derived = {name: tables[name] for name in LAKE_STEPS}
        files = write_tables(derived, lake.root, headway)
    for name, rows in derived.items():
        lake.replace(name, arrow_schema(rows.drop(WIDE).schema), [file for file in files if file.table == name], state)
    return True


def derivation(spark: SparkSession, lake: Lake) -> Derivation:
    """All that follows from the lake's events; a table is derived when it is asked for."""
    # What is far is fetched once, whole: Spark cannot leave out columns of it, as it does with files that it reads.
    kept = SHARED if lake.storage.is_local else SHARED | set(EVENT_TABLE_NAMES)
    return Derivation(whole_lake(spark, lake), {**INNER_STEPS, **LAKE_STEPS}, kept)
