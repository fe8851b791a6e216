"""The three streams of events that a session leaves behind."""
