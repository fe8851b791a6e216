"""pandas backend.

- `methods.py`: table of methods and their rules; install and uninstall
- `patching.py`: wrappers of methods, properties and indexers
- `call.py`: a traced call; record created and mutated frames
- `state.py`: lineage attached to frames, Series and indexes
- `inference.py`: lineage of user functions and callbacks
- `io.py`: constructors, `read_*` and `to_*`
- `indexing.py`, `selection.py`, `assignment.py`, `elementwise.py`, `aggregation.py`, `groupby.py`, `joins.py`,
  `reshape.py`, `series.py`, `index.py`: the rules
"""
