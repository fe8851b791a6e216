"""Reports on a whole lake, as Spark jobs: each a question, a DataFrame that answers it, and a plot."""
