"""SQL queries over frames and files: DuckDB and marimo's SQL cells."""
