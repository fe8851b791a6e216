"""Sources of events: the event log, or what takes its place, and objects that are imported into it.

- `event_source.py`: what a source must do, and the source of the event log
- `log_source.py`: Spark data source over byte ranges of the event log
- `topic_source.py`: Spark data source over ranges of offsets of a Kafka topic
- `object_import.py`: objects of a bucket into the log
"""
