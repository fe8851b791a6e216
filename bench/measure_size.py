"""Bytes per event, the raw event included: in the event tables after `clew pipeline compact`, and in the index.

python -m bench.measure_size [EVENTS]
"""

from __future__ import annotations

import subprocess
import sys

from bench.figures import Report
from bench.logs import log_of
from bench.rounds import asked_for, scratch

from clew.data_dir import DataDir
from clew.lake.history import read_table_sizes
from clew.lake.schemas import EVENT_TABLE_NAMES


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("size", asked)
    log = log_of(asked.events)
    with scratch() as folder:
        home = log.home(folder / "home")
        clew("pipeline", "run", home=home)
        clew("pipeline", "compact", "--retention-hours", "0", "--force", home=home)
        sizes = {size.name: size.bytes / log.events for size in read_table_sizes(home.lake)}
        on_disk = sum(path.stat().st_size for path in home.lake_folder.rglob("*") if path.is_file()) / log.events
        index = home.index_file.stat().st_size / log.events
    for name in EVENT_TABLE_NAMES:
        report.say(f"{name:16} {sizes[name]:6,.0f} bytes per event")
    events = sum(sizes[name] for name in EVENT_TABLE_NAMES)
    report.say(f"of {log.end / log.events:,.0f} in the log; derived tables {sum(sizes.values()) - events:,.0f}")
    report.say(f"all files of the lake {on_disk:,.0f}, index {index:,.0f}")
    report.at_most("event tables after compaction", events, 1_500, " bytes per event")


def clew(*command: str, home: DataDir) -> None:
    """Run a command as a user does."""
    subprocess.run([sys.executable, "-m", "clew", *command, "--home", str(home.root)], check=True)


if __name__ == "__main__":
    main()
