"""Environments that run cells: marimo, IPython, plain scripts; and Spark sessions started in cells."""
