"""In-memory lineage model, independent of DataFrame libraries.

- `transformations.py`: transformation types as bit flags, and their composition
- `provenance.py`: provenance of columns, arrays and scalars
- `frame_version.py`: a version of a DataFrame and its columns
- `operations.py`: operations, their edges, and loop folding
- `datasets.py`: OpenLineage names of files and tables
- `query.py`: `clew.lineage()`: trace columns back to their sources
"""
