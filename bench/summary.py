"""Print the figures of the last `make bench` as a table, and write it to build/bench/summary.md.

python -m bench.summary
"""

from __future__ import annotations

from bench.figures import format_table, read_figures
from bench.rounds import BUILD


def main() -> None:
    """Write the table."""
    table = format_table(read_figures())
    (BUILD / "summary.md").write_text(table)
    print(table, end="")


if __name__ == "__main__":
    main()
