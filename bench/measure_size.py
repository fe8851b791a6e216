"""Benchmark: bytes per event, including the raw event, in compacted event tables and in the index.

python -m bench.measure_size [EVENTS]
"""

from __future__ import annotations

import subprocess
import sys

from bench.figures import Report
from bench.logs import open_log
from bench.rounds import parse_run_size, scratch_folder

from clew.data_dir import DataDir
from clew.lake.history import read_table_sizes
from clew.lake.schemas import EVENT_TABLE_NAMES


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("size", run_size)
    log = open_log(run_size.events)
    with scratch_folder() as folder:
        home = log.create_home(folder / "home")
        run_clew("pipeline", "run", home=home)
        run_clew("pipeline", "compact", "--retention-hours", "0", "--force", home=home)
        sizes = {size.name: size.bytes / log.events for size in read_table_sizes(home.lake)}
        on_disk = sum(path.stat().st_size for path in home.lake_folder.rglob("*") if path.is_file()) / log.events
        index = home.index_file.stat().st_size / log.events
    for name in EVENT_TABLE_NAMES:
        report.log(f"{name:16} {sizes[name]:6,.0f} bytes per event")
    events = sum(sizes[name] for name in EVENT_TABLE_NAMES)
    report.log(f"log {log.end / log.events:,.0f}; derived tables {sum(sizes.values()) - events:,.0f}")
    report.log(f"all files of the lake {on_disk:,.0f}, index {index:,.0f}")
    report.check_max("event tables after compaction", events, 1_500, " bytes per event")


def run_clew(*command: str, home: DataDir) -> None:
    """Run a clew command."""
    subprocess.run([sys.executable, "-m", "clew", *command, "--home", str(home.root)], check=True)


if __name__ == "__main__":
    main()
