"""Kafka in the role of the event log. Needs the extra `kafka`.

1. `config.py`: settings of clients, from options and properties files
2. `topics.py`: partitions and offsets of a topic, errors
3. `producer.py`: events of the collector and of notebooks to the topic
4. `consumer.py`: messages of a range of offsets, in a Spark task
"""
