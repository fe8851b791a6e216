"""polars: eager frames as they are made, lazy ones when they are collected."""
