"""Result of `bench/measure_scale.py`, from which the cost model is generated."""

from __future__ import annotations

from msgspec import Struct


class StageCosts(Struct, frozen=True):
    """Bytes and CPU-seconds per event."""

    event_bytes: float
    log_bytes: float
    event_table_bytes: float
    derived_table_bytes: float
    index_bytes: float
    collector_seconds: float
    tables_seconds: float
    index_seconds: float
    # Wall time of the index writer, which is one thread.
    index_writer_seconds: float
    derivation_seconds: float
    rebuild_seconds: float


class ScaleRun(Struct, frozen=True):
    """A run of this benchmark: when, on which machine, with how many events, and its result."""

    date: str
    version: str
    machine: str
    cores: int
    memory_gb: float
    python: str
    events: int
    costs: StageCosts
