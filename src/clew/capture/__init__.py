"""Capture: record the lineage of a notebook while it runs.

The steps of one call, in order:

1. `tracking.py`: `track()` installs the environments and backends
2. `environments/`: which cell is running (marimo, IPython, script)
3. `backends/`: patched calls of pandas, polars and DuckDB are traced by rules
4. `lineage/`: the in-memory model: frame versions, operations, column provenance
5. `introspection/`: source code of the running statement, and the values it read
6. `emit/`: kernel log, worker process, event files, HTTP delivery

`launch.py` and `bootstrap.py` run a notebook or script under capture in a subprocess. `diagnostics.py` counts errors
of capture itself, which never reach the user's code.
"""
