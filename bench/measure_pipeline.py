"""Benchmark: the pipeline against two plain Python processes that write the same files from the same events.

Figures are CPU-seconds of all processes including the JVM, because wall time varies on a shared machine.

python -m bench.measure_pipeline [EVENTS]
"""

from __future__ import annotations

from bench.figures import Report
from bench.logs import Log, open_log
from bench.rounds import parse_run_size, scratch_folder
from bench.tables_only import measure_two_processes
from bench.whole_log import ingest_into_tables, ingest_log, rebuild_index

from clew.data_dir import DataDir
from clew.pipeline.spark.session import build_session


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("pipeline", run_size)
    log = open_log(run_size.events)
    report.log(f"{log.events:,} events, {log.end / log.events:,.0f} bytes each")
    with scratch_folder() as folder:
        baseline = measure_two_processes(log, folder / "plain")
        report.log(f"two plain processes   {baseline.rate(log.events)}")
        measure_pipeline(log, log.create_home(folder / "home"), baseline.cpu, report)


def measure_pipeline(log: Log, home: DataDir, baseline_cpu: float, report: Report) -> None:
    """Measure the pipeline, each figure from the second run of one session."""
    spark = build_session(launcher_dir=home.root / "java")
    tables = [ingest_into_tables(log, home, spark) for _ in range(2)][-1]
    report.log(f"tables committed      {tables.rate(log.events)}")
    report.check_min("tables: CPU of two plain processes / of the pipeline", baseline_cpu / tables.cpu, 0.65)
    full = [ingest_log(log, home, spark) for _ in range(2)][-1]
    report.log(f"with the index        {full.ingestion.rate(log.events)}, including start and end")
    report.check_min("tables and index, streaming", full.per_second, 6_000, " events/s")
    report.log(f"derived tables        {full.derivation.rate(log.events)}")
    rebuilt = [rebuild_index(home, spark) for _ in range(2)][-1]
    report.log(f"index rebuilt         {rebuilt.rate(log.events)}")
    report.check_min("index rebuilt from the lake", log.events / rebuilt.wall, 10_000, " events/s")


if __name__ == "__main__":
    main()
