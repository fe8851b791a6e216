"""Derived tables: state tables merged from events, and public tables derived from them.

- `refresh.py`: process new events and replace the rows of the entities that they touch
- `extract.py`: rows of the state tables from events, in Spark tasks
- `merge.py`: Spark aggregation of the merge specifications
- `scope.py`: read and replace the rows of touched entities
- `runs.py`: runs, inputs and outputs of runs, jobs, job versions, cell executions, operations
- `datasets.py`: datasets, dataset versions, canonical names
- `edges.py`: column, dataset and job edges
- `facets.py`: current facets, tags, owners, results of data quality tests
"""
