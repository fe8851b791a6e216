"""Collector: receive events over HTTP and append them to the log.

The steps of a POST, in order:

1. `app.py`: the path of a request, from authentication to the response
2. `request_body.py`: read and decompress the body; spool large bodies to disk
3. `ingest.py`: split the payload into events and check them
4. `group_commit.py`: append to the log on a writer thread, one sync per group of requests
5. `responses.py`: status codes and bodies

`metrics.py` has the Prometheus metrics. `file_import.py` imports NDJSON files and notebook events.
"""
