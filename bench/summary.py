"""The figures of the last `make bench` in one table, printed and kept in build/bench/summary.md.

python -m bench.summary
"""

from __future__ import annotations

from bench.figures import kept_figures, table_of
from bench.rounds import BUILD


def main() -> None:
    """Write the table."""
    table = table_of(kept_figures())
    (BUILD / "summary.md").write_text(table)
    print(table, end="")


if __name__ == "__main__":
    main()
