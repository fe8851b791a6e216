"""What there is: jobs, runs, datasets and their versions as whole documents, many at a time."""
