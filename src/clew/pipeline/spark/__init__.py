"""Spark specifics.

- `session.py`: `SparkSession`, settings, warm-up, error translation
- `cluster.py`: masters, settings and executors of a cluster; the check that they share the files of the driver
- `application.py`: master and executors of the running pipeline, for its status
- `java.py`: find a Java 17 or newer
- `worker_daemon.py`: preload modules before Python workers fork; heap of the workers
- `topic_tasks.py`: tasks that read events from Kafka
- `dataframes.py`: lake tables as DataFrames
"""
