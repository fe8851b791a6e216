"""Commands, one module per group of related commands.

- `capture.py`: run, demo
- `pipeline.py`: pipeline
- `index.py`: index
- `imports.py`: import
- `servers.py`: collect, up, mcp, keys
- `lineage.py`: upstream, downstream, path, impact, search, diff, export
- `runs.py`: runs, show, report
- `watch.py`: watch
- `backup.py`: backup, restore
- `forget.py`: forget
- `inspect.py`: facets, validate, config, doctor
"""
