"""Reports on a lake as Spark jobs: each has a DataFrame and a bar chart, written as an HTML page."""
