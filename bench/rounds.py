"""Size of a benchmark run: full, as the targets require, or smaller."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# Generated logs, jars and reports of partial runs.
BUILD = Path(os.environ.get("CLEW_BENCH_FOLDER", Path(__file__).parent.parent / "build" / "bench"))
FULL_RUN_EVENTS = 100_000


@dataclass(frozen=True)
class RunSize:
    """Size of a run as a number of events; other counts scale with it."""

    events: int = FULL_RUN_EVENTS

    def scale(self, full_count: int, minimum: int = 1) -> int:
        """Scale the count of a full run to this run."""
        return max(minimum, full_count * self.events // FULL_RUN_EVENTS)


def parse_run_size(description: str | None) -> RunSize:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "events", type=int, nargs="?", default=FULL_RUN_EVENTS, help=f"size of the run (default: {FULL_RUN_EVENTS})"
    )
    return RunSize(parser.parse_args().events)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a temporary folder on the disk of the checkout, because /tmp may be in memory."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=BUILD) as folder:
        yield Path(folder)
