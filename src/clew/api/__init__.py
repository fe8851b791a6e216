"""HTTP API.

- `app.py`: the application: routes, collector dispatch
- `middleware.py`: authentication and error responses
- `metrics.py`: Prometheus metrics of the index
- `v2/`: `/api/v2`
- `marquez/`: `/api/v1`, compatible with Marquez
- `ui_api.py`: JSON of the web UI
- `static_files.py`: files of the web UI, standalone run page
"""
