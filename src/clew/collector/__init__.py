"""Events received, kept in a log."""
