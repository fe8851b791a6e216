"""Pipeline: process events into the lake and the index, on Spark.

The stages of a batch, in order:

1. `sources/`: where events are read, as a Spark data source: the event log or a Kafka topic; import of objects
2. `workers.py`: parse events and write Parquet files, in Spark tasks; `worker_reports.py`: what a task returns
3. `ingest.py`: find duplicates, commit the files to the Delta tables, write the index
4. `derive/`: refresh derived tables

`pipeline.py` runs the stages, once or as a stream. `preflight.py` and `checkpoint.py` check and store its state.
`reprocess.py`, `repair.py`, `maintenance.py`, `forget.py`, `backup.py`, `status.py` and `metrics.py` are the other
operations on a lake. `spark/` has the session, Java and DataFrames of lake tables. `locks.py` ensures one pipeline per
lake; `supervisor.py` restarts the pipeline of `clew up`; `submit.py` is the entry point
for spark-submit; `own_lineage.py` reports the runs of the pipeline as OpenLineage events.
"""
