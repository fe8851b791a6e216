"""How large a round of measurements is: the size that the bars were set for, or less for a quick look."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUILD = Path(__file__).parent.parent / "build" / "bench"
FULL = 200_000


@dataclass(frozen=True)
class Round:
    """A round over so many usual events; what is counted otherwise shrinks and grows with them."""

    events: int = FULL

    def share(self, full: int, at_least: int = 1) -> int:
        """As much of something as this round is of a full one."""
        return max(at_least, full * self.events // FULL)


def asked_for(description: str | None) -> Round:
    """The round that the command line names."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=int, nargs="?", default=FULL, help=f"size of the round, {FULL} unless told")
    return Round(parser.parse_args().events)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the disk of the checkout (a temporary folder may be memory) that goes when the work is done."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=BUILD) as folder:
        yield Path(folder)
