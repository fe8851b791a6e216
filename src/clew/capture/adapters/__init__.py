"""Where code runs in cells: marimo, IPython, and plain scripts."""
