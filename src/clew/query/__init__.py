"""Questions and their answers, free of HTTP, terminal and Spark."""
