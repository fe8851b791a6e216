"""Commands, one module per group of related commands.

- `capture.py`: run, demo
- `pipeline.py`: pipeline
- `imports.py`: import
- `servers.py`: collect, up, mcp, keys
- `lineage.py`: upstream, downstream, path, impact, search, diff, export
- `runs.py`: runs, show, report
- `watch.py`: watch
- `data_dir.py`: backup, restore, forget, index
- `inspect.py`: facets, validate, config, doctor
"""
