"""The pipeline against its floor: two plain Python processes that take the same events apart into the same files.

Both are told in CPU-seconds of all their processes, the JVM included, since wall time on a shared machine says little.

python -m bench.measure_pipeline [EVENTS]
"""

from __future__ import annotations

from bench.figures import Report
from bench.logs import Log, log_of
from bench.rounds import asked_for, scratch
from bench.tables_only import two_processes
from bench.whole_log import rebuild, take_into_tables, take_whole

from clew.data_dir import DataDir
from clew.pipeline.spark.session import build_session


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("pipeline", asked)
    log = log_of(asked.events)
    report.say(f"{log.events:,} events, {log.end / log.events:,.0f} bytes each")
    with scratch() as folder:
        floor = two_processes(log, folder / "plain")
        report.say(f"two plain processes   {floor.rate(log.events)}")
        measure(log, log.home(folder / "home"), floor.cpu, report)


def measure(log: Log, home: DataDir, floor: float, report: Report) -> None:
    """The pipeline's own figures, each from the second run of one session."""
    spark = build_session(launcher_dir=home.root / "java")
    tables = [take_into_tables(log, home, spark) for _ in range(2)][-1]
    report.say(f"tables committed      {tables.rate(log.events)}")
    report.at_least("tables: CPU of two plain processes / of the pipeline", floor / tables.cpu, 0.65)
    whole = [take_whole(log, home, spark) for _ in range(2)][-1]
    report.say(f"with the index        {whole.intake.rate(log.events)}, its start and end included")
    report.at_least("tables and index, streaming", whole.per_second, 6_000, " events/s")
    report.say(f"derived tables        {whole.derivation.rate(log.events)}")
    rebuilt = [rebuild(home, spark) for _ in range(2)][-1]
    report.say(f"index rebuilt         {rebuilt.rate(log.events)}")
    report.at_least("index rebuilt from the lake", log.events / rebuilt.wall, 10_000, " events/s")


if __name__ == "__main__":
    main()
