"""What events change in the index, one module per kind of row."""
