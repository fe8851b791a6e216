"""Example notebook and the `clew demo` run.

- `orders.py`: the notebook
- `run.py`: capture, pipeline and query of the notebook
"""
