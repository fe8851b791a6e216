"""Reports on the whole lake, made with Spark: `run.py` writes the tables of `tables.py` as HTML pages (`html.py`)."""
