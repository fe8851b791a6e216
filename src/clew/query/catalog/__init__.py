"""Catalog of jobs, runs, datasets, versions and namespaces, loaded in batches. It serves the Marquez API."""
