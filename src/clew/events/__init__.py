"""Events: structs, tolerant decoding, facets, validation.

- `streams.py`: the three event streams of a notebook, and decoding by stream
- `decoding.py`: tolerant JSON decoding, rejection reasons
- `openlineage.py`: OpenLineage run, job and dataset events
- `notebook.py`: runtime events and DataFrame events
- `erasure.py`: remove a dataset, a session or a namespace from events
- `ids.py`: event ids and job versions
- `facets.py`: typed access to the standard facets
- `column_lineage.py`: `columnLineage` and `lineage` facets as column edges and assertions
- `validation.py`: strict validation against the schemas, and lint rules
- `schemas/`: JSON Schemas of the events
"""
