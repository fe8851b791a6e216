"""Full-text search of jobs and datasets."""
