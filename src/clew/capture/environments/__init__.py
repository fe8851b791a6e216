"""Environments that execute cells: marimo, IPython, scripts and Spark sessions.

- `session.py`: `Session`, `Execution` and `Cell`, and the execution context of a thread
- `cell_runner.py`: open a session and run a cell in its context
- `marimo.py`, `ipython.py`, `script.py`: one module per environment; `marimo.py` also parses notebook files
- `spark.py`: OpenLineage listener of Spark sessions
"""
