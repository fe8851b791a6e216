"""Lineage graphs of jobs and columns.

- `nodes.py`: node ids, adjacency arrays, mapped files
- `job_graph.py`, `column_graph.py`: graphs, cached or read lazily from the index
- `view.py`: point in time, roll-up, in-memory frames
- `traversal.py`: upstream, downstream, shortest path
"""
