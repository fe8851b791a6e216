"""Spark specifics.

- `session.py`: `SparkSession`, settings, warm-up, error translation
- `java.py`: find a Java 17 or newer
- `worker_daemon.py`: preload modules before Python workers fork; heap of the workers
- `topic_tasks.py`: tasks that read events from Kafka
- `dataframes.py`: lake tables as DataFrames
"""
