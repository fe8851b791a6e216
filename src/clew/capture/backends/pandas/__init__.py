"""pandas backend.

- `backend.py`: the backend: install and uninstall, column metrics
- `methods.py`: table of methods and their rules
- `patching.py`: wrappers with the calling conventions of pandas
- `call.py`: operands of a traced call; record created and mutated frames
- `state.py`: lineage attached to frames, Series and indexes
- `inference.py`: lineage of user functions and callbacks
- `io.py`: constructors, `read_*` and `to_*`
- `indexing.py`, `selection.py`, `assignment.py`, `elementwise.py`, `aggregation.py`, `groupby.py`, `joins.py`,
  `reshape.py`, `series.py`, `index.py`: the rules
"""
