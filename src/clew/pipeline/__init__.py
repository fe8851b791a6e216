"""Events into the record: the only part that knows Spark."""
