"""Documents of the web UI's pages.

- `run_page.py`, `run_page_model.py`: page of a notebook run
- `graph.py`: expandable lineage graph
- `entities.py`: pages of a run, a job, a dataset, and of a diff
- `lists.py`: lists, activity, search and raw events
"""
