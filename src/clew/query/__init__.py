"""Query: answers to lineage questions, without HTTP and without Spark.

A question is answered in three steps:

1. `names.py`: resolve a name or id to a node
2. `graph/` or `entities/`: traverse the graph, or load the entity
3. `lineage.py`, `upstream.py`, `diff.py`, `search.py`, `quality.py`: build the result, of the types in `model.py`

`notifications.py` finds failed runs, failed tests and schema changes after a position, for `clew watch`.

`service.py` is the facade; `context.py` has the shared readers and caches; `search_index.py` is the full-text index.
`pages/` and `notebooks/` build the documents of the web UI, `layout.py` their positions, and `exports.py` SVG, Mermaid
and Graphviz.
"""
