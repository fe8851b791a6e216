"""Watch: report new failures and schema changes of the index, as lines and to webhooks.

1. `watcher.py`: read changes since the stored position, store them with the new position, and deliver them
2. `store.py`: the position, and the notifications that are not delivered yet
3. `webhook.py`: post a notification, with signature and retry rules
4. `options.py`: kinds, namespaces and webhooks, checked
5. `metrics.py`: Prometheus metrics
"""
