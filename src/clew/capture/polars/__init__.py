"""The polars backend: eager frames are recorded when created, lazy frames when collected."""
