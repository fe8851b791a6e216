"""Emission: from recorded operations to event files and HTTP.

1. `recorder.py`: in the kernel, encode executions and flush them periodically
2. `files.py`: the kernel log and the three event files
3. `expander.py`: kernel log to named operations
4. `event_builders.py`, `facets.py`: OpenLineage, runtime and DataFrame events
5. `worker.py`: process beside the kernel that runs steps 3 and 4
6. `delivery.py`: send the files to an OpenLineage endpoint

`column_metrics.py` computes column metrics; `redaction.py` removes secrets and data values.
"""
