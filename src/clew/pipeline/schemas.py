"""Spark schemas of the event tables."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from clew.lake.tables import TABLES_BY_NAME

EVENT_TABLES: Final[dict[str, StructType]] = {
    name: from_arrow_schema(table.schema) for name, table in TABLES_BY_NAME.items()
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """Convert a Spark schema to Arrow, with times in UTC."""
    return to_arrow_schema(schema, timezone="UTC")
