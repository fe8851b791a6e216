"""Events of 10 MB in one gzip file, which cannot be split: how much memory taking them in needs.

What the command, the JVM and all workers hold together is looked at ten times a second. Pages that processes share
count once (PSS), as they do in the machine's memory.

python -m bench.measure_big_events [EVENTS]     a full round takes 160 of them
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from random import Random

import msgspec
from bench.figures import Report
from bench.generate import big_event, make_jobs, make_tables
from bench.logs import SEED
from bench.memory import peak_of
from bench.rounds import asked_for, scratch

_EVENTS = 160
_EVENT_BYTES = 10_000_000


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("big_events", asked)
    count = asked.share(_EVENTS, at_least=8)
    with scratch() as folder:
        events = folder / "big.jsonl.gz"
        size = write_events(count, events)
        report.say(
            f"{count} events, {size / count / 1e6:.1f} MB each, in one file of {events.stat().st_size / 1e6:,.0f} MB"
        )
        home = str(folder / "home")
        command = [sys.executable, "-m", "clew", "pipeline", "run", "--from", str(events), "--json", "--home", home]
        peak, ended = peak_of(command)
    taken = msgspec.json.decode(ended.stdout)["events"] if ended.returncode == 0 else 0
    if taken != count:
        print(ended.stderr, file=sys.stderr)
    report.say(f"counted once for each process that shares it (RSS): {peak.rss / 1e6:,.0f} MB")
    report.at_least("big events taken in", taken, count)
    report.at_most("memory of all processes (PSS)", peak.pss / 1e6, 2_000, " MB")


def write_events(count: int, path: Path) -> int:
    """Write so many big events, and give their bytes."""
    random, size = Random(SEED), 0
    jobs = make_jobs(random, make_tables(random))
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(count):
            size += file.write(big_event(random, random.choice(jobs), _EVENT_BYTES) + b"\n")
    return size


if __name__ == "__main__":
    main()
