"""SQL: queries over frames and files, as DuckDB and marimo's SQL cells run them."""
