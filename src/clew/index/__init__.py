"""What answers are read from: derived from the lake, rebuilt at any time."""
